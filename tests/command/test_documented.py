"""Every command and every option stands in docs/commands.md, as the command itself tells it."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from hubbub.command.table import SUBCOMMANDS
from tests.systems import needs_locks

ROOT = Path(__file__).resolve().parents[2]


@needs_locks
def test_the_page_is_what_the_commands_say(capsys: pytest.CaptureFixture[str]) -> None:
    written = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    runpy.run_path(str(ROOT / "tools" / "command_page.py"), run_name="__main__")
    assert written == capsys.readouterr().out, "run: python tools/command_page.py > docs/commands.md"
    assert all(f"## hubbub {name}\n" in written for name in SUBCOMMANDS)
