"""For whoever writes a page: follows it as the tests do and prints what each step printed.

python -m tests.docs.show docs/tutorial.md
python -m tests.docs.show docs/analyst.md --pictures      and keeps the pictures it made, for the page to show
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.docs.blocks import steps
from tests.docs.marks import pictures
from tests.docs.not_run import made_smaller, why_not
from tests.docs.session import Session, matches
from tests.docs.warm import Hubbub


def show(page: str, keep_pictures: bool) -> None:
    with Hubbub() as hubbub, tempfile.TemporaryDirectory() as folder, Session(Path(folder), hubbub) as session:
        for step in steps(page):
            printed = ""
            match step.kind:
                case "command" if why := why_not(step.text):
                    printed = f"(not run: {why})"
                case "command":
                    status, printed = session.run(made_smaller(step.text))
                    printed = f"{printed}(status {status})" if status else printed
                case "python":
                    printed = session.python(step.place, step.text)
                case "save":
                    session.save(step.language, step.text)
            if step.kind in ("command", "python"):
                verdict = (
                    "" if step.shown is None else ("  [as shown]" if matches(step.shown, printed) else "  [DIFFERS]")
                )
                print(f"\n--- {step.place}{verdict}\n{step.text.rstrip()}\n{printed}")
        for picture in pictures(page) if keep_pictures else []:
            picture.parent.mkdir(exist_ok=True)
            shutil.copy(session.cwd / picture.name, picture)


if __name__ == "__main__":
    show(sys.argv[1], "--pictures" in sys.argv)
