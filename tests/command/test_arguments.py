"""Numbers on the command line: every option of every command reads them in the forms of `hubbub.protocol.arguments`."""

from __future__ import annotations

import importlib
from argparse import Action, ArgumentParser
from pathlib import Path

import pytest

from hubbub.command.main import main
from hubbub.command.table import SUBCOMMANDS
from hubbub.protocol import arguments
from tests.command.test_command import COMMANDS

EXAMPLE = str(Path(__file__).resolve().parents[2] / "examples" / "metrics.toml")
FORMS = {arguments.whole, arguments.number, arguments.share, arguments.exact, arguments.day}


def read_options(name: str) -> list[Action]:
    """The options of a command that argparse reads to something else than a text."""
    parser = ArgumentParser()
    getattr(importlib.import_module(SUBCOMMANDS[name].module), f"add_{name.replace('-', '_')}")(parser)
    return [action for action in parser._actions if action.type not in (None, Path)]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_number_is_read_in_one_of_the_forms(name: str) -> None:
    assert [action.dest for action in read_options(name) if action.type not in FORMS] == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("simulate METRICS --installs inf", "argument --installs: must be a whole number"),
        ("simulate METRICS --epochs 1e400", "argument --epochs: must be a whole number of at most"),
        ("simulate METRICS --start monday", "argument --start: must be a date such as 2026-11-16"),
        ("simulate METRICS --seed -1", "--seed must not be negative, got -1"),
        ("simulate METRICS --season 7,inf", "--season '7,inf': must be a number or percentage"),
        ("audit --trials inf", "argument --trials: must be a whole number"),
        ("audit METRICS --installs 1e400", "argument --installs: must be a whole number of at most"),
        ("plan --epsilon 1/0", "argument --epsilon: must be a number or a fraction"),
        ("plan --installs inf", "argument --installs: must be a whole number"),
        ("sweep --installs 1e5,inf", "--installs '1e5,inf': each must be a whole number"),
        ("sweep --epsilon nan", "--epsilon 'nan': each must be a number"),
        ("label METRICS --installs 0", "--installs must be at least 1, got 0"),
        ("label METRICS --installs 0.5", "argument --installs: must be a whole number"),
    ],
)
def test_a_number_that_is_none_is_answered_in_one_line_that_names_its_option(line: str, said: str, capsys) -> None:
    try:
        status: object = main(line.replace("METRICS", EXAMPLE).split())
    except SystemExit as stopped:
        status = stopped.code
    (answer,) = capsys.readouterr().err.splitlines()
    assert status == 2
    assert answer.startswith(f"hubbub {line.split()[0]}: {said}")


def test_what_plan_takes_simulate_takes(capsys) -> None:
    assert main(["simulate", EXAMPLE, "--metric", "dark_theme", "--installs", "2,000"]) == 0
    grouped = capsys.readouterr().out
    assert main(["simulate", EXAMPLE, "--metric", "dark_theme", "--installs", "2000"]) == 0
    assert capsys.readouterr().out == grouped
