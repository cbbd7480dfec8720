"""An identity is drawn once, and what it adds to answers is fixed for life and tells nobody who it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from hubbub.client.facts import Facts, read_facts
from hubbub.client.identity import Identity, ensure_identity, known_identity
from hubbub.client.respond import draw_bits, draw_memo
from hubbub.client.state import State
from tests.chance import assert_binomial
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


def test_chance_by_key_is_the_same_again_and_nobody_elses() -> None:
    who, other = Identity(bytes(32), 0), Identity(b"1" * 32, 0)
    assert who.chance(b"x")(200) == who.chance(b"x")(200)
    assert len({who.chance(b"x")(64), who.chance(b"y")(64), other.chance(b"x")(64), who.chance(b"x")(128)[64:]}) == 4


def test_bits_of_chance_by_key_are_even() -> None:
    """Of 2.4 million bits, half are set; a stream that repeats itself or leaves bits out would be far off."""
    drawn = b"".join(Identity(bytes(31) + bytes([i]), 0).chance(b"x")(3000) for i in range(100))
    ones = int.from_bytes(drawn, "little").bit_count()
    assert_binomial(ones, 8 * len(drawn), 0.5)
    assert len({drawn[i : i + 16] for i in range(0, len(drawn), 16)}) == len(drawn) // 16


def test_errors_of_machines_made_from_one_image_do_not_average_out(figure) -> None:
    """40 images, 100 machines each, all of which say yes: with a key each, estimates of one image are off by what 100
    answers leave open; with the key of their image, by what one leaves open."""
    flag = registry(metric("dark_theme", epsilon_one_report=1, epsilon_permanent=1.5))["dark_theme"]
    random = Random(6).randbytes
    q, p = (float(x) for x in flag.noise.composed.probabilities)

    def spread(keys_of_their_own: bool) -> float:
        errors = []
        for _ in range(40):
            key, said = random(32), 0
            for _ in range(100):
                who = Identity(random(32) if keys_of_their_own else key, 0)
                memo = draw_memo(flag, 1, 0, who.chance(b"yes"))
                said += draw_bits(flag, memo, 0, random)
            errors.append((said / 100 - p) / (q - p) - 1)
        return (sum(error * error for error in errors) / len(errors)) ** 0.5

    apart, cloned = spread(True), spread(False)
    figure("standard error of 100 machines with keys of their own, and of one image", f"{apart:.2f}, {cloned:.2f}")
    said_yes, said_no = (float(x) for x in flag.noise.permanent.probabilities)
    one_memo = (said_yes * (1 - said_yes)) ** 0.5 / (said_yes - said_no)
    # A mean of 40 squares is within a factor of 4 of its expectation but once in a million times.
    assert one_memo / 2 < cloned < 2 * one_memo
    assert apart < cloned / 2
