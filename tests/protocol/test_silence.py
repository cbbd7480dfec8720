"""An epoch without a record takes a slot where it is an answer of its own; whoever forgets that is warned."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from hubbub.client import Client
from hubbub.protocol.encoding import ABSENT
from hubbub.protocol.lint import warnings
from hubbub.protocol.registry import Registry
from tests import forked
from tests.registry_head import head

TODAY = date(2026, 11, 17)
CHOICE = 'kind = "choice"\nchoices = ["a", "b", "c"]'
STRING = 'kind = "string"\nnum_bits = 8\nnum_hashes = 1\nnum_cohorts = 2'
FOR_EVER = (
    "[metrics.it] max_values is 1 and a week without a record is an answer, too, and takes it: whoever records nothing "
    "in the first week says nothing for ever; max_values = 2 has room for both"
)
ONE_OF_THEM = (
    "[metrics.it] max_values is 3, as many as there are choices, and a week without a record is an answer, too, and "
    "takes one of them: somebody who gives all of them and skips a week repeats an older answer; name one of the "
    "choices as absent, or set max_values = 4"
)


def source(kind: str, max_values: int, every: str = "week") -> str:
    terms = f'why = "w"\nowner = "o"\nexpires = 2028-01-01\nevery = "{every}"\nmax_values = {max_values}\n'
    epsilons = "epsilon_one_report = 1\nepsilon_permanent = 2\n"
    return f"{head('org.example.x', 20)}[metrics.it]\n{kind}\n{terms}{epsilons}"


@pytest.mark.parametrize(
    ("kind", "max_values", "said"),
    [
        (CHOICE, 1, (FOR_EVER,)),
        (CHOICE, 2, ()),
        (CHOICE, 3, (ONE_OF_THEM,)),
        (CHOICE, 4, ()),
        (CHOICE + '\nabsent = "a"', 1, ()),
        (CHOICE + '\nabsent = "a"', 3, ()),
        (STRING, 1, (FOR_EVER,)),
        (STRING, 2, ()),
        ('kind = "flag"', 1, ()),
        ('kind = "mean"\nlow = 0\nhigh = 1\nabsent = 0', 1, ()),
    ],
)
def test_a_slot_for_silence_is_missed_in_words(kind: str, max_values: int, said: tuple[str, ...]) -> None:
    assert warnings(Registry.parse(source(kind, max_values)), TODAY) == said


@pytest.mark.parametrize("kind", [CHOICE, CHOICE + '\nabsent = "a"', STRING, 'kind = "flag"'])
def test_silence_is_an_answer_where_no_record_gives_its_mask(kind: str) -> None:
    shape = Registry.parse(source(kind, 1))["it"].shape
    values = {"choice": ["a", "b", "c"], "string": [str(n) for n in range(50)], "flag": [True, False]}[shape.kind]
    recorded = {shape.encode(value, 0).mask for value in values}
    assert shape.silence_is_an_answer == (shape.encode(ABSENT, 0).mask not in recorded)


def test_it_is_said_by_check_by_plan_and_to_a_developer_at_load(tmp_path: Path, caplog) -> None:
    (tmp_path / "metrics.toml").write_text(source(CHOICE, 3))
    for command in (["check"], ["plan", "--installs", "1000"]):
        done = forked.run([*command, "metrics.toml"], ("hubbub.analysis.commands.plan",), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert ONE_OF_THEM in " ".join(done.stdout.split()), command
    Client(tmp_path / "metrics.toml").close()
    assert not caplog.records  # people who use the app are told nothing
    Client(tmp_path / "metrics.toml", strict=True).close()
    assert [record.message for record in caplog.records] == [ONE_OF_THEM]
