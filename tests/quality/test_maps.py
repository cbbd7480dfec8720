"""Whoever opens a folder finds the way: its README names every module in it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.conftest import LONG_FILES

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("client", "collector", "analysis", "simulations")


def named_in(readme: str) -> Counter[str]:
    """The words of code that may be modules: `cells.py`, `estimation/cells`, in a line or in a block."""
    blocks = "\n".join(line for line in readme.splitlines() if line.startswith("    "))
    words = [word for quoted in re.findall(r"`([^`\n]+)`", readme) for word in re.findall(r"[\w/]+", quoted)]
    words += re.findall(r"[\w/]+(?=\.py\b)", blocks)
    return Counter(word.rpartition("/")[2] for word in words)


def test_every_module_is_named_in_the_readme_of_its_folder() -> None:
    """Modules that share a name, such as run.py, are named once each."""
    missing = []
    for folder in FOLDERS:
        named = named_in((ROOT / folder / "README.md").read_text(encoding="utf-8"))
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.stem.startswith("__"):
                named[path.stem] -= 1
                if named[path.stem] < 0:
                    missing.append(path.relative_to(ROOT).as_posix())
    assert not missing, "name these in the README.md of their top-level folder:\n" + "\n".join(missing)


def test_a_module_that_no_readme_names_is_noticed() -> None:
    assert named_in("`cells.py`, `estimation/fit`\n\n    wire.py   bytes\n") >= Counter(["cells", "fit", "wire"])
    assert named_in("cells is a word of prose")["cells"] == 0


def test_the_files_that_are_tested_first_are_there() -> None:
    assert [name for name in LONG_FILES if not (ROOT / "tests" / f"{name}.py").exists()] == []
