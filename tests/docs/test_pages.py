"""Every command and every line of Python on every page does what the page says."""

from __future__ import annotations

import json
import re
import shutil
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hubbub.command.table import SUBCOMMANDS
from tests.docs.blocks import ROOT, Step, hidden_commands, pages, steps
from tests.docs.marks import marks, pictures
from tests.docs.not_run import NOT_RUN, SMALLER, made_smaller, why_not
from tests.docs.session import Session, failed, matches
from tests.docs.warm import Hubbub

Figure = Callable[[str, object], None]
AGREED = ("docs/commands.md",)
"""Pages that begin on a machine where somebody has agreed to the example's metrics."""
RUN_ONCE: set[str] = set()
"""Long commands that one page has run already."""


@pytest.fixture(scope="module")
def hubbub() -> Iterator[Hubbub]:
    with Hubbub() as warm:
        yield warm


@pytest.mark.parametrize("page", pages())
def test_what_a_page_shows_is_what_happens(page: str, tmp_path: Path, hubbub: Hubbub) -> None:
    todo = [step for step in steps(page) if step.kind != "data"]
    if not any((step.kind == "command" and not why_not(step.text)) or step.kind == "python" for step in todo):
        return
    with Session(tmp_path, hubbub) as session:
        if page in AGREED:
            session.run("hubbub on --app org.example.editor --metrics metrics.toml")
        for step in todo:
            follow(session, step)
        for picture in pictures(page):
            made = session.cwd / picture.name
            assert made.exists(), f"{page} shows {picture.name}, and nothing on it makes it"
            assert marks(made) == marks(picture), f"run: python -m tests.docs.show {page} --pictures"


def follow(session: Session, step: Step) -> None:
    match step.kind:
        case "save":
            session.save(step.language, step.text)
        case "python" if re.search(r"^def test_", step.text, re.MULTILINE):
            session.pytest(step.place, step.text)
        case "python":
            printed = session.python(step.place, step.text)
            if step.shown is not None:
                assert matches(step.shown, printed), _differs(step, printed)
        case "command" if not why_not(step.text):
            command = made_smaller(step.text)
            if command != step.text and command in RUN_ONCE:
                return
            RUN_ONCE.add(command)
            status, printed = session.run(command)
            assert not failed(step.text, status), f"{step.place}: status {status}\n$ {step.text}\n{printed}"
            assert "Traceback" not in printed, f"{step.place}\n{printed}"
            if step.shown is not None and command == step.text:
                assert matches(step.shown, printed), _differs(step, printed)


def _differs(step: Step, printed: str) -> str:
    return f"{step.place}: {step.text}\n--- the page shows\n{step.shown}\n--- it printed\n{printed}"


@pytest.mark.proof
def test_what_takes_minutes_is_run_as_it_stands(tmp_path: Path, hubbub: Hubbub, figure: Figure) -> None:
    """The commands of `SMALLER`, with nothing added: every claim of the example's registry stands, and what is shown is
    what is printed."""
    commands = [step for page in pages() for step in steps(page) if step.kind == "command"]
    shown: dict[str, str | None] = {}
    for step in commands:
        if made_smaller(step.text) != step.text:
            text = re.sub(r"\S*metrics\.toml", "examples/metrics.toml", step.text.partition(" #")[0].rstrip())
            shown[text] = shown.get(text) or step.shown
    assert shown
    with Session(tmp_path, hubbub) as session:
        for command, output in sorted(shown.items()):
            started = time.monotonic()
            status, printed = session.run(command)
            assert status == 0, f"$ {command}\n{printed}"
            assert output is None or matches(output, printed), f"$ {command}\n{printed}"
            figure(command, f"{time.monotonic() - started:.0f} s, status {status}")


@pytest.mark.parametrize("page", pages())
def test_what_a_page_shows_as_toml_or_json_can_be_read(page: str) -> None:
    for step in steps(page):
        if step.kind != "data" or "..." in step.text:
            continue
        if step.language == "toml":
            tomllib.loads(step.text)
        elif step.language == "json":
            json.loads(step.text)


def test_everything_that_is_not_run_is_still_shown_somewhere() -> None:
    shown = [step.text for page in pages() for step in steps(page) if step.kind == "command"]
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for entry in (*NOT_RUN, *SMALLER):
        words = re.findall(r"\w+", entry.command.pattern)
        if (words[0] == "hubbub" and words[1] not in SUBCOMMANDS) or (words[0] == "make" and words[1] not in targets):
            continue  # a command of tomorrow
        assert any(entry.command.match(command) for command in shown), f"{entry.command.pattern}: nothing shows it"


def test_the_list_of_what_is_not_run_stays_short() -> None:
    """One command in four at most, over all pages; a list that grew beyond would no longer be an exception."""
    commands = [step.text for page in pages() for step in steps(page) if step.kind == "command"]
    left_out = [command for command in commands if why_not(command)]
    assert len(left_out) <= len(commands) / 4, left_out


@pytest.mark.parametrize(
    ("shown", "printed", "agree"),
    [
        ("a\nb", "a\nb\n", True),
        ("a\nb", "a\nc\n", False),
        ("a ... c", "a bbb c\n", True),
        ("a ... c", "a bbb d\n", False),
        ("a\n...\nc", "a\nb\nb\nc\n", True),
        ("a\n...", "a\n", True),
        ("a\n...", "b\na\n", False),
        ("", "", True),
        ("", "a\n", False),
        ("1.5", "1x5", False),
    ],
)
def test_dots_stand_for_what_varies_and_nothing_else_does(shown: str, printed: str, agree: bool) -> None:
    assert matches(shown, printed) is agree


def test_a_page_that_shows_something_else_fails(tmp_path: Path, hubbub: Hubbub) -> None:
    with Session(tmp_path, hubbub) as session:
        with pytest.raises(AssertionError, match="the page shows"):
            follow(session, Step("command", "here:1", "hubbub --version", "hubbub 99"))
        with pytest.raises(AssertionError, match="status 2"):
            follow(session, Step("command", "here:2", "hubbub decode no-such-file.json"))
        with pytest.raises(AssertionError, match="NameError"):
            follow(session, Step("python", "here:3", "print(no_such_name)"))


def test_no_command_hides_in_a_block_that_is_not_run() -> None:
    """A plain block is taken for a formula or a drawing unless a line begins with a program of `blocks.PROGRAMS`; one
    that begins with another well-known program must be named there, or the block be called `text`."""
    for page in pages():
        for step in steps(page):
            assert not hidden_commands(step), f"{step.place}: {hidden_commands(step)}"
    assert hidden_commands(Step("data", "here:1", "x = 1\nwget https://telemetry.example.org/\n"))


def test_what_is_a_command_does_not_depend_on_the_programs_of_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libwww-perl has a program called POST, and any machine may have one called `value`."""
    before = [step for page in pages() for step in steps(page)]
    for word in {line.split()[0] for step in before for line in step.text.splitlines() if line.strip()}:
        if "/" not in word:
            (tmp_path / word).write_text("#!/bin/sh\nexit 1\n")
            (tmp_path / word).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("POST")
    assert [step for page in pages() for step in steps(page)] == before
    assert not [step for step in before if hidden_commands(step)]


def test_every_page_is_plain_markdown() -> None:
    assert not [page for page in pages() if re.search(r"^```\{", (ROOT / page).read_text(encoding="utf-8"), re.M)], (
        "a page must read well as plain Markdown: directives belong into docs/conf.py"
    )
