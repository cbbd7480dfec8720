"""Facts and counts: every fact has its field, and a state that lacks one, or has one more, can be read."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import get_args

import pytest

from hubbub.client.facts import FactName, Facts, add_counts, put, read_counts, read_facts
from hubbub.client.state import State


@pytest.fixture
def db(tmp_path: Path):
    state = State(tmp_path)
    with state.transaction() as db:
        yield db
    state.close()


def test_every_fact_that_can_be_written_can_be_read() -> None:
    assert get_args(FactName) == Facts._fields


def test_a_new_state_has_the_facts_of_nobody(db: sqlite3.Connection) -> None:
    found = read_facts(db)
    assert found.home is not None
    assert found._replace(home=None) == Facts()


@pytest.mark.parametrize("name", Facts._fields)
def test_a_fact_is_read_as_it_was_written_and_changes_no_other(db: sqlite3.Connection, name: FactName) -> None:
    before = read_facts(db)
    put(db, name, b"first")
    put(db, name, b"last")
    assert read_facts(db) == before._replace(**{name: b"last"})


def test_a_fact_that_is_not_known_here_is_left_alone(db: sqlite3.Connection) -> None:
    before = read_facts(db)
    db.execute("INSERT INTO meta VALUES ('moon', 'full')")
    assert read_facts(db) == before


def test_counts_add_up_by_name(db: sqlite3.Connection) -> None:
    add_counts(db, {"made": 2, "sent": 1})
    add_counts(db, {"made": 3})
    assert read_counts(db) == {"made": 5, "sent": 1}
