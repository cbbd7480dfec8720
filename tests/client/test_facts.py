"""Facts and counts: every fact has its field, and a state that lacks one, or has one more, can be read."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import get_args

import pytest

from hubbub.client.facts import Facts, add_counts, put, read_counts, read_facts
from hubbub.client.state import State
from hubbub.client.vocabulary import FactName


@pytest.fixture
def db(tmp_path: Path):
    state = State(tmp_path)
    with state.transaction() as db:
        yield db
    state.close()


NAMES: tuple[FactName, ...] = get_args(FactName)
NOBODY = {
    "home": None,
    "key": None,
    "number": None,
    "answer": None,
    "agreed": "",
    "answered_at": 0.0,
    "agreed_to": "",
    "fingerprint": "",
    "reserved_for": "",
    "lifetime": None,
    "carried": 0,
    "cohorts": "",
    "samples": "",
    "failures": 0,
    "retry_at": 0.0,
    "plain_in_log": 0,
}


def everything(db: sqlite3.Connection) -> dict[str, object]:
    facts = read_facts(db)
    return {name: getattr(facts, name) for name in NAMES}


def test_a_new_state_has_the_facts_of_nobody(db: sqlite3.Connection) -> None:
    assert everything(db) == {**NOBODY, "home": read_facts(db).home}
    assert read_facts(db).home is not None


def test_a_state_without_any_fact_is_nobodys() -> None:
    facts = Facts({})
    assert tuple(vars(facts)) == NAMES, "the words that type checkers know are those that there are"
    assert {name: getattr(facts, name) for name in NAMES} == NOBODY


@pytest.mark.parametrize("name", NAMES)
def test_a_fact_is_read_as_it_was_written_and_changes_no_other(db: sqlite3.Connection, name: FactName) -> None:
    before = everything(db)
    put(db, name, b"first")
    put(db, name, b"last")
    assert everything(db) == {**before, name: b"last"}


def test_a_fact_that_is_not_known_here_is_left_alone(db: sqlite3.Connection) -> None:
    before = everything(db)
    db.execute("INSERT INTO meta VALUES ('moon', 'full')")
    assert everything(db) == before


def test_counts_add_up_by_name(db: sqlite3.Connection) -> None:
    add_counts(db, {"made": 2, "sent": 1})
    add_counts(db, {"made": 3})
    assert read_counts(db) == {"made": 5, "sent": 1}
