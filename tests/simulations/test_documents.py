"""docs/simulating.md shows what the commands say: every example is run again, digit by digit."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.simulations.command import hubbub

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "simulating.md").read_text(encoding="utf-8")


def shown() -> dict[str, str]:
    """Commands with the output that stands under them."""
    found = {}
    for block in re.findall(r"(?:^ {4}.*\n|^\n)+", PAGE, re.MULTILINE):
        lines = [line[4:] for line in block.strip("\n").splitlines()]
        if lines and lines[0].startswith("$ "):
            found[lines[0][2:]] = "\n".join(lines[1:]).strip("\n")
    return found


def test_the_page_has_its_examples():
    assert len(shown()) == 3


@pytest.mark.parametrize("command", [command for command in shown() if command.startswith("hubbub simulate")])
def test_what_is_shown_is_what_the_command_prints(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    done = hubbub(*shlex.split(command)[1:])
    assert done.stdout.strip("\n") == shown()[command]


@pytest.mark.proof
def test_the_sweep_that_is_shown_is_what_the_command_prints():
    (command,) = (command for command in shown() if command.startswith("hubbub sweep"))
    assert hubbub(*shlex.split(command)[1:]).stdout.strip("\n") == shown()[command]
