"""Things happen as often as behaviour says, in a large crowd evenly, in a small one by chance."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hubbub.protocol.kinds import Mean, String
from hubbub.simulations.people.behaviour import Behaviour
from hubbub.simulations.people.distribution import parse_population
from hubbub.simulations.people.histories import (
    ABSENT,
    AWAY,
    Histories,
    InstallCrowd,
    draw_crowd,
    draw_histories,
    one_crowd,
)
from tests.chance import assert_binomial, power

STRING = String(num_bits=8, num_hashes=1, num_cohorts=4)
FOUR = parse_population(STRING, "zipf:1,4")
NUMBER = parse_population(Mean(low=Fraction(0), high=Fraction(10), absent=Fraction(0)), "uniform:1,2")
SMALL = 16_000
"""Fewer than the most histories there can be: everybody has one of their own."""


def histories(behaviour: Behaviour, installs: int = SMALL, epochs: int = 6, people=FOUR, seed: int = 1) -> Histories:
    return draw_histories(people, behaviour, installs, epochs, np.random.default_rng(seed))


def test_without_any_behaviour_everybody_answers_the_same_for_ever():
    found = histories(Behaviour(), installs=10**9)
    assert len(found.installs) == 4
    assert found.installs.sum() == 10**9
    assert (found.answers == found.answers[:, :1]).all()
    assert_binomial(int(found.installs[0]), 10**9, 12 / 25)


def test_the_same_seed_gives_the_same_histories_and_another_others():
    behaviour = Behaviour(change=0.2, absent=0.1, churn=0.05)
    same, again, other = (histories(behaviour, seed=seed) for seed in (1, 1, 2))
    assert (same.answers == again.answers).all()
    assert same.answers.shape != other.answers.shape or (same.answers != other.answers).any()


@pytest.mark.parametrize("installs", [SMALL, 10**9], ids=["by chance", "evenly"])
def test_answers_are_drawn_anew_as_often_as_behaviour_says(installs):
    """Of those drawn anew some draw the same again: sum of squared shares."""
    found = histories(Behaviour(change=0.3), installs=installs)
    moved = (found.answers[:, 1:] != found.answers[:, :-1]) @ np.ones(5, int)
    chance = 0.3 * (1 - float((FOUR.shares**2).sum()))
    total = int(found.installs.sum()) * 5
    if installs == SMALL:
        assert_binomial(int(moved @ found.installs), total, chance)
        assert power(total, chance, chance + 0.012) > 0.99
    else:  # 16,384 histories: what is rounded to whole ones for each value is below a hundredth
        assert moved @ found.installs / total == pytest.approx(chance, rel=0.02)


def test_in_a_large_crowd_the_truth_is_smooth():
    """Shares stay where the law of large numbers has them, not where 16,384 coins would."""
    found = histories(Behaviour(change=0.1, absent=0.2), installs=10**9, epochs=12)
    for epoch in range(12):
        counts = found.counts(epoch)
        assert counts[None] / 10**9 == pytest.approx(0.2, abs=0.0005)
        assert counts["string 1"] / 10**9 == pytest.approx(0.8 * 12 / 25, abs=0.004)


def test_silence_and_absence_are_as_frequent_as_behaviour_says():
    found = histories(Behaviour(absent=0.2, away=0.3))
    everything = SMALL * 6
    assert_binomial(int((found.answers == AWAY).sum()) + 6 * (SMALL - len(found.installs)), everything, 0.3)
    there = int((found.answers != AWAY).sum())
    assert_binomial(int((found.answers == ABSENT).sum()), there, 0.2)
    assert power(there, 0.2, 0.215) > 0.999


def test_whoever_goes_for_good_is_replaced_by_somebody_new():
    found = histories(Behaviour(churn=0.1))
    there = found.answers != AWAY
    assert (found.installs @ there == SMALL).all(), "the crowd keeps its size"
    assert_binomial(len(found.installs) - SMALL, 5 * SMALL, 0.1)
    starts = there & ~np.pad(there, ((0, 0), (1, 0)))[:, :-1]
    assert (starts.sum(axis=1) == 1).all(), "nobody comes back"


def test_only_those_who_agree_are_among_them():
    found = histories(Behaviour(consent=0.25), installs=100_000)
    assert_binomial(int(found.installs.sum()), 100_000, 0.25)


def test_in_a_list_drift_moves_people_on_to_the_next_value():
    found = histories(Behaviour(drift=0.2))
    steps = np.diff(found.answers, axis=1)
    assert set(np.unique(steps)) == {0, 1}
    could = found.answers[:, :-1] < 3
    assert_binomial(int(steps[could].sum()), int(could.sum()), 0.2)
    assert (np.diff(histories(Behaviour(drift=-0.2)).answers, axis=1) <= 0).all()


def test_numbers_drift_and_swing_by_a_factor():
    grown = histories(Behaviour(drift=0.1), people=NUMBER, epochs=3)
    numbers = np.array(grown.values)[grown.answers]
    assert numbers[:, 2] == pytest.approx(numbers[:, 0] * 1.21)
    swung = histories(Behaviour(season=(4, 0.5)), people=NUMBER, epochs=5)
    numbers = np.array(swung.values)[swung.answers]
    assert numbers[:, 1] == pytest.approx(numbers[:, 0] * 1.5)
    assert numbers[:, 3] == pytest.approx(numbers[:, 0] * 0.5)
    assert numbers[:, 4] == pytest.approx(numbers[:, 0])


def test_in_a_list_a_season_sways_some_who_then_come_back():
    found = histories(Behaviour(season=(4, 0.5)), epochs=5)
    could = found.answers[:, 0] < 3
    swayed = found.answers[could, 2] == found.answers[could, 0] + 1
    assert_binomial(int(swayed.sum()), int(could.sum()), 0.5)
    assert (found.answers[:, 4] == found.answers[:, 0]).all()


def test_a_metric_asked_once_hears_the_first_run_only():
    found = histories(Behaviour(away=0.4, change=0.5)).reporting_once()
    assert ((found.answers != AWAY).sum(axis=1) == 1).all()


def test_counts_are_of_reports():
    found = Histories(("a", "b"), np.array([[0, 1, AWAY], [ABSENT, 1, 1]]), np.array([10, 3]))
    assert found.counts() == {None: 3, "a": 10, "b": 16}
    assert found.counts(0) == {None: 3, "a": 10}
    assert found.split().installs.tolist() == [1] * 13


def test_a_crowd_answers_every_metric_and_metrics_are_independent_of_each_other():
    """Two metrics with the same four values: as many hold the first of both as chance has it, 0.48 squared."""
    people = {"one": (FOUR, Behaviour()), "other": (FOUR, Behaviour())}
    crowd = draw_crowd(people, 20_000, 2, np.random.default_rng(5))
    assert crowd.installs == 20_000
    first, again = crowd.epochs
    assert first == again
    both = sum(a == b == "string 1" for a, b in zip(first["one"], first["other"], strict=True))
    assert_binomial(both, 20_000, (12 / 25) ** 2)
    assert power(20_000, (12 / 25) ** 2, wrong_p=0.26) > 0.999
    assert sorted(crowd.histories["one"].counts()) == sorted(FOUR.values)


def test_an_install_records_its_own_history_of_every_metric():
    one = Histories(("a", "b"), np.array([[0, 1, AWAY], [ABSENT, 1, 1]]), np.array([1, 1]))
    other = Histories((True,), np.array([[0, ABSENT, AWAY], [0, 0, 0]]), np.array([1, 1]))
    crowd = InstallCrowd({"m": one, "n": other})
    assert crowd.of_install(0) == [{"m": "a", "n": True}, {"m": "b", "n": None}, None]
    assert crowd.of_install(1) == [{"m": None, "n": True}, {"m": "b", "n": True}, {"m": "b", "n": True}]
    assert [epoch["m"] for epoch in crowd.epochs] == [["a", None], ["b", "b"], [None, "b"]]


def crowd_of(values: tuple, answers: list[list[int]]) -> InstallCrowd:
    return InstallCrowd({"m": Histories(values, np.array(answers), np.ones(len(answers), int))})


def test_crowds_of_several_segments_become_one_in_which_everybody_keeps_answers_and_segment():
    """Each numbers its values by itself, and one of them is known to both."""
    linux, macos = {"platform": "linux"}, {"platform": "macos"}
    one = crowd_of(("a", "b"), [[0, AWAY], [1, ABSENT]])
    crowd = one_crowd([(linux, one), (macos, crowd_of(("c", "b"), [[1, 0], [ABSENT, 1]]))])
    assert crowd.installs == 4
    assert [crowd.of_install(i) for i in range(4)] == [
        [{"m": "a"}, None],
        [{"m": "b"}, {"m": None}],
        [{"m": "b"}, {"m": "c"}],
        [{"m": None}, {"m": "b"}],
    ]
    assert [crowd.segment_of(i) for i in range(4)] == [linux, linux, macos, macos]
    assert crowd.only("platform", "linux").histories["m"].counts() == one.histories["m"].counts()
    assert crowd.only("platform", "windows").installs == 0
    assert one.segment_of(0) == {}, "nothing was said of it"


def test_a_shuffled_crowd_is_the_same_installs_in_another_order():
    people = {"m": (FOUR, Behaviour(change=0.5))}
    rng = np.random.default_rng(1)
    parts = [({"platform": name}, draw_crowd(people, 200, 3, rng)) for name in ("linux", "macos")]
    crowd = one_crowd(parts)
    shuffled = crowd.shuffled(rng)
    assert shuffled.segments != crowd.segments
    for platform, part in (("linux", parts[0][1]), ("macos", parts[1][1])):
        assert shuffled.only("platform", platform).histories["m"].counts() == part.histories["m"].counts()
    before, after = (sorted(str((c.segment_of(i), c.of_install(i))) for i in range(400)) for c in (crowd, shuffled))
    assert before == after
