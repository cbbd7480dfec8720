"""An identity is drawn once, and what it adds to answers is fixed for life and tells nobody who it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from hubbub.client.facts import Facts, read_facts
from hubbub.client.identity import Identity, ensure_identity, known_identity
from hubbub.client.state import State
from tests.client.registries import metric, registry

ASKS = registry(metric("page", "string", num_cohorts=64), metric("time", "mean"), metric("size", "mean", high=100))


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    state = State(tmp_path)
    yield state
    state.close()


def test_an_install_that_never_reported_has_none() -> None:
    assert known_identity(Facts({})) is None


def test_an_identity_is_drawn_once_and_found_again(state: State) -> None:
    with state.transaction() as db:
        drawn = ensure_identity(db, read_facts(db), Random(1).randbytes)
    with state.transaction() as db:
        assert known_identity(read_facts(db)) == drawn
        assert ensure_identity(db, read_facts(db), Random(2).randbytes) == drawn


def test_key_and_number_are_as_large_as_they_should_be(state: State) -> None:
    with state.transaction() as db:
        drawn = ensure_identity(db, read_facts(db), lambda size: b"\xff" * size)
    assert drawn == Identity(b"\xff" * 32, 2**62 - 1)  # as large as SQLite keeps without rounding, and never negative


def test_the_number_places_an_install_in_cohorts() -> None:
    """As pieces of a line, 64 of them here: the first number of a piece, and the last of the one before."""
    assert [Identity(bytes(32), 5 * 2**56 - less).cohort(ASKS["page"]) for less in (0, 1)] == [5, 4]


def test_dithers_differ_between_metrics_and_installs_and_fill_64_bits() -> None:
    one, other = Identity(bytes(32), 0), Identity(bytes(31) + b"1", 0)
    dithers = {who.dither(ASKS[name]) for who in (one, other) for name in ("time", "size")}
    assert len(dithers) == 4
    assert one.dither(ASKS["time"]) == one.dither(ASKS["time"])
    assert max(dither.bit_length() for dither in dithers) > 56  # of four, all below 2**56 with chance 2**-32


def test_hashes_for_two_purposes_have_nothing_in_common() -> None:
    who = Identity(bytes(32), 0)
    assert who.keyed(b"memo", b"x") != who.keyed(b"overflow", b"x")
    assert who.keyed(b"memo", b"x") != Identity(b"1" * 32, 0).keyed(b"memo", b"x")
