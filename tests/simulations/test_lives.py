"""Lives happen as often as habits say, in a large crowd evenly, in a small one by chance."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Mean, String
from hubbub.simulations.people.distribution import parse_population
from hubbub.simulations.people.histories import ABSENT, AWAY, Habits, Lives, draw_lives
from tests.chance import assert_binomial, power

STRING = String(num_bits=8, num_hashes=1, num_cohorts=4)
FOUR = parse_population(STRING, "zipf:1,4")
NUMBER = parse_population(Mean(low=Fraction(0), high=Fraction(10), absent=Fraction(0)), "uniform:1,2")
SMALL = 16_000
"""Fewer than the most lives there can be: everybody has an own one."""


def lives(habits: Habits, installs: int = SMALL, epochs: int = 6, people=FOUR, seed: int = 1) -> Lives:
    return draw_lives(people, habits, installs, epochs, np.random.default_rng(seed))


def test_without_habits_everybody_answers_the_same_for_ever():
    found = lives(Habits(), installs=10**9)
    assert len(found.installs) == 4
    assert found.installs.sum() == 10**9
    assert (found.answers == found.answers[:, :1]).all()
    assert_binomial(int(found.installs[0]), 10**9, 12 / 25)


def test_the_same_seed_gives_the_same_lives_and_another_others():
    habits = Habits(change=0.2, absent=0.1, churn=0.05)
    same, again, other = (lives(habits, seed=seed) for seed in (1, 1, 2))
    assert (same.answers == again.answers).all()
    assert same.answers.shape != other.answers.shape or (same.answers != other.answers).any()


@pytest.mark.parametrize("installs", [SMALL, 10**9], ids=["by chance", "evenly"])
def test_answers_are_drawn_anew_as_often_as_habits_say(installs):
    """Of those drawn anew some draw the same again: sum of squared shares."""
    found = lives(Habits(change=0.3), installs=installs)
    moved = (found.answers[:, 1:] != found.answers[:, :-1]) @ np.ones(5, int)
    chance = 0.3 * (1 - float((FOUR.shares**2).sum()))
    total = int(found.installs.sum()) * 5
    if installs == SMALL:
        assert_binomial(int(moved @ found.installs), total, chance)
        assert power(total, chance, chance + 0.012) > 0.99
    else:  # 16,384 lives: what is rounded to whole lives for each value is below a hundredth
        assert moved @ found.installs / total == pytest.approx(chance, rel=0.02)


def test_in_a_large_crowd_the_truth_is_smooth():
    """Shares stay where the law of large numbers has them, not where 16,384 coins would."""
    found = lives(Habits(change=0.1, absent=0.2), installs=10**9, epochs=12)
    for epoch in range(12):
        counts = found.counts(epoch)
        assert counts[None] / 10**9 == pytest.approx(0.2, abs=0.0005)
        assert counts["string 1"] / 10**9 == pytest.approx(0.8 * 12 / 25, abs=0.004)


def test_silence_and_absence_are_as_frequent_as_habits_say():
    found = lives(Habits(absent=0.2, away=0.3))
    everything = SMALL * 6
    assert_binomial(int((found.answers == AWAY).sum()) + 6 * (SMALL - len(found.installs)), everything, 0.3)
    there = int((found.answers != AWAY).sum())
    assert_binomial(int((found.answers == ABSENT).sum()), there, 0.2)
    assert power(there, 0.2, 0.215) > 0.999


def test_whoever_goes_for_good_is_replaced_by_somebody_new():
    found = lives(Habits(churn=0.1))
    there = found.answers != AWAY
    assert (found.installs @ there == SMALL).all(), "the crowd keeps its size"
    assert_binomial(len(found.installs) - SMALL, 5 * SMALL, 0.1)
    starts = there & ~np.pad(there, ((0, 0), (1, 0)))[:, :-1]
    assert (starts.sum(axis=1) == 1).all(), "nobody comes back"


def test_only_those_who_agree_live_here():
    found = lives(Habits(consent=0.25), installs=100_000)
    assert_binomial(int(found.installs.sum()), 100_000, 0.25)


def test_in_a_list_drift_moves_people_on_to_the_next_value():
    found = lives(Habits(drift=0.2))
    steps = np.diff(found.answers, axis=1)
    assert set(np.unique(steps)) == {0, 1}
    could = found.answers[:, :-1] < 3
    assert_binomial(int(steps[could].sum()), int(could.sum()), 0.2)
    assert (np.diff(lives(Habits(drift=-0.2)).answers, axis=1) <= 0).all()


def test_numbers_drift_and_swing_by_a_factor():
    grown = lives(Habits(drift=0.1), people=NUMBER, epochs=3)
    numbers = np.array(grown.values)[grown.answers]
    assert numbers[:, 2] == pytest.approx(numbers[:, 0] * 1.21)
    swung = lives(Habits(season=(4, 0.5)), people=NUMBER, epochs=5)
    numbers = np.array(swung.values)[swung.answers]
    assert numbers[:, 1] == pytest.approx(numbers[:, 0] * 1.5)
    assert numbers[:, 3] == pytest.approx(numbers[:, 0] * 0.5)
    assert numbers[:, 4] == pytest.approx(numbers[:, 0])


def test_in_a_list_a_season_sways_some_who_then_come_back():
    found = lives(Habits(season=(4, 0.5)), epochs=5)
    could = found.answers[:, 0] < 3
    swayed = found.answers[could, 2] == found.answers[could, 0] + 1
    assert_binomial(int(swayed.sum()), int(could.sum()), 0.5)
    assert (found.answers[:, 4] == found.answers[:, 0]).all()


def test_a_metric_asked_once_hears_the_first_run_only():
    found = lives(Habits(away=0.4, change=0.5)).reporting_once()
    assert ((found.answers != AWAY).sum(axis=1) == 1).all()


def test_counts_are_of_reports():
    found = Lives(("a", "b"), np.array([[0, 1, AWAY], [ABSENT, 1, 1]]), np.array([10, 3]))
    assert found.counts() == {None: 3, "a": 10, "b": 16}
    assert found.counts(0) == {None: 3, "a": 10}
    assert found.split().installs.tolist() == [1] * 13


@pytest.mark.parametrize(
    ("habits", "words"),
    [
        ({"change": 1.5}, "change must be in [0, 1], got 1.5"),
        ({"away": 1.0}, "away must be at least 0 and below 1, got 1"),
        ({"consent": 0.0}, "consent must be above 0 and at most 1, got 0"),
        ({"drift": -0.6}, "drift must be in [-0.5, 1], got -0.6"),
        ({"season": (0.5, 0.1)}, "season must be a period of at least 1 epoch and an amount in [0, 1], got 0.5,0.1"),
    ],
)
def test_habits_that_cannot_be_are_refused(habits, words):
    with pytest.raises(Invalid) as refusal:
        Habits(**habits)
    assert str(refusal.value) == words


def test_habits_are_said_in_words():
    assert Habits().words() == "answers that never change"
    assert (
        Habits(change=0.02, season=(7, 0.2), consent=0.3).words()
        == "change 2 %, season of 7 epochs by 20 %, consent 30 %"
    )
