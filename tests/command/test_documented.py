"""Every command and every option stands in docs/commands.md, as the command itself tells it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from hubbub.command.table import SUBCOMMANDS
from tests.command.test_command import hubbub

ROOT = Path(__file__).resolve().parents[2]


def test_the_numbers_of_reports_in_the_readme_are_those_the_planner_gives() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    plans = [line.strip() for line in lines if line.startswith("    hubbub plan ")]
    assert len(plans) == 2
    for line in plans:
        command, _, words = line.partition("#")
        answer = hubbub(*command.split()[1:]).stdout.splitlines()[0]
        assert answer.endswith(f"you need {words.rpartition(': ')[2]}.")


def test_the_page_is_what_the_commands_say() -> None:
    spec = importlib.util.spec_from_file_location("command_page", ROOT / "tools" / "command_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert written == module.page(), "run: python tools/command_page.py > docs/commands.md"
    assert all(f"## hubbub {name}\n" in written for name in SUBCOMMANDS)
