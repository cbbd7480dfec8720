"""What made-up people answer of a cross: it is what the same people answer of its factors."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hubbub.analysis.arrays import Array
from hubbub.protocol.encoding import ABSENT as SILENCE
from hubbub.protocol.kinds import Choice, Cross, Flag, Mean
from hubbub.protocol.shape import Factor
from hubbub.simulations.kinds import kind_of
from hubbub.simulations.people.behaviour import Behaviour
from hubbub.simulations.people.crosses import crossed_installs, draw_crossed
from hubbub.simulations.people.distribution import Distribution, weighted_values
from hubbub.simulations.people.histories import ABSENT, AWAY, MOST_HISTORIES, Histories
from tests.chance import assert_binomial, power

OS = Factor(name="os", shape=Choice(choices=("linux", "macos"), absent=None))
CRASHED = Factor(name="crashed", shape=Flag())
START = Factor(name="start", shape=Mean(low=Fraction(0), high=Fraction(4), absent=Fraction(4), points=3))
SYSTEMS = weighted_values(["linux", "macos"], [3, 1], "", numeric=False)
CRASHES = weighted_values([True, False], [1, 4], "", numeric=False)
SECONDS = weighted_values([0.5, 3.0], [1, 1], "", numeric=True)
NEVER = Behaviour()


def drawn(
    shape: Cross,
    people: tuple[Distribution, Distribution],
    behaviours: tuple[Behaviour, Behaviour] = (NEVER, NEVER),
    installs: int = 10_000,
    epochs: int = 1,
) -> Histories:
    pairs = tuple(zip(people, behaviours, strict=True))
    return draw_crossed(shape, (pairs[0], pairs[1]), installs, epochs, np.random.default_rng(5))


def shares(shape: Cross, histories: Histories) -> Array:
    found = kind_of(shape).shares(histories.counts(), shape.categories)
    return np.array([found.get(name, 0.0) for name in shape.answers])


@pytest.mark.parametrize("installs", [10_000, 300_000, 3_000_000_000])
def test_the_two_answers_of_a_person_are_independent_and_each_is_as_common_as_its_people_say(installs: int) -> None:
    """False alarm 1e-6 in each of six cells; with 300,000 installs, one off by an eighth would show."""
    shape = Cross(factors=(OS, CRASHED))
    found = drawn(shape, (SYSTEMS, CRASHES), (Behaviour(absent=0.1), NEVER), installs)
    assert int(found.installs.sum()) == installs
    counts = np.round(shares(shape, found) * installs).astype(int)
    expected = np.outer([0.9 * 0.75, 0.9 * 0.25, 0.1], [0.8, 0.2]).ravel()
    for number, share in zip(counts.tolist(), expected.tolist(), strict=True):
        assert_binomial(number, installs, share)
    assert power(300_000, 0.02, 0.0225) > 0.99


def test_numbers_are_rounded_by_one_dither_for_each_install_and_on_average_to_themselves() -> None:
    """Half a second of four, three points: three in four are rounded down to 0, the others up to 2, on every day alike;
    3 goes to 2 or 4."""
    shape = Cross(factors=(CRASHED, START))
    found = drawn(shape, (CRASHES, SECONDS), installs=MOST_HISTORIES, epochs=4)
    assert (found.answers == found.answers[:, :1]).all()
    expected = np.outer([0.8, 0.2], [0.375, 0.375, 0.25]).ravel()
    for number, share in zip((shares(shape, found) * MOST_HISTORIES).round().astype(int), expected, strict=True):
        assert_binomial(int(number), MOST_HISTORIES, float(share))


def test_whoever_is_away_answers_neither_and_whoever_leaves_is_somebody_else() -> None:
    shape = Cross(factors=(OS, CRASHED))
    moving = Behaviour(change=0.3, away=0.2, churn=0.1)
    found = drawn(shape, (SYSTEMS, CRASHES), (moving, moving), installs=4_000, epochs=6)
    away = float((found.installs[:, np.newaxis] * (found.answers == AWAY)).sum())
    assert away / float(found.installs.sum() * 6) > 0.2
    assert int(found.installs.sum()) > 5_000  # those who left, and those who came
    assert found.answers.max() < 6


@pytest.mark.parametrize("installs", [5_000, 10_000_000])
def test_a_moving_crowd_of_any_size_has_few_histories_and_all_its_installs(installs: int) -> None:
    shape = Cross(factors=(OS, START))
    behaviours = (Behaviour(change=0.2), Behaviour(change=0.5, absent=0.1))
    found = drawn(shape, (SYSTEMS, SECONDS), behaviours, installs, epochs=8)
    assert int(found.installs.sum()) == installs
    assert len(found.installs) <= MOST_HISTORIES
    assert shares(shape, found) == pytest.approx(np.outer([0.75, 0.25, 0.0], [0.3375, 0.3375, 0.325]).ravel(), abs=0.02)


def test_installs_that_are_known_one_by_one_keep_what_their_clients_will_round() -> None:
    systems = Histories(("linux", "macos"), np.array([[0, 1], [1, ABSENT], [0, AWAY]]), np.ones(3, int))
    seconds = Histories((0.5, 4.0), np.array([[0, 0], [ABSENT, 1], [1, AWAY]]), np.ones(3, int))
    shape = Cross(factors=(OS, START))
    found = crossed_installs(shape, systems, seconds)
    values = [[None if a == AWAY else found.values[a] for a in row] for row in found.answers]
    assert values == [[(0, 0.25), (1, 0.25)], [(1, 2.0), (2, 2.0)], [(0, 2.0), None]]
    counted = kind_of(shape).shares(found.counts(), shape.categories)
    assert counted == pytest.approx(
        {
            "linux · 0": 0.75 / 5,
            "linux · 2": 0.25 / 5,
            "macos · 0": 0.75 / 5,
            "macos · 2": 0.25 / 5,
            "macos · 4": 1 / 5,
            "absent · 4": 1 / 5,
            "linux · 4": 1 / 5,
        }
    )
    assert kind_of(shape).row_of(None, 9) == shape.answers[shape.encode(SILENCE, 0).mask.bit_length() - 1]
