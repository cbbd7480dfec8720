"""Every command and every option stands in docs/commands.md, as the command itself tells it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from hubbub.command.table import SUBCOMMANDS

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_what_the_commands_say() -> None:
    spec = importlib.util.spec_from_file_location("command_page", ROOT / "tools" / "command_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert written == module.page(), "run: python tools/command_page.py > docs/commands.md"
    assert all(f"## hubbub {name}\n" in written for name in SUBCOMMANDS)
