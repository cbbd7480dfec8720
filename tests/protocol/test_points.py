"""Means on a grid: rounded to one of a few points, sent as one of k; as many points as are best at the epsilon."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protocol.encoding import ABSENT
from hubbub.protocol.epsilon import exp_below
from hubbub.protocol.kinds import Mean
from hubbub.protocol.kinds.mean import MOST_POINTS, best_points, worst_variance
from hubbub.protocol.lint import warnings
from tests.protocol.toml import registry

F = Fraction
TABLE = [
    # epsilon, points, n Var on [-1, 1] at worst, one bit's, Laplace's 8 / epsilon**2
    ("1", 2, 4.683, 4.683, 8.0),
    ("1.5", 3, 1.936, 2.479, 3.56),
    ("2", 3, 1.000, 1.724, 2.0),
    ("3", 4, 0.388, 1.221, 0.889),
    ("4", 5, 0.177, 1.076, 0.5),
]


@pytest.mark.parametrize(("epsilon", "points", "variance", "one_bit", "laplace"), TABLE)
def test_the_best_number_of_points_has_the_least_variance(epsilon, points, variance, one_bit, laplace) -> None:
    odds = exp_below(F(epsilon))
    assert best_points(F(epsilon)) == points
    assert float(worst_variance(points, odds)) == pytest.approx(variance, abs=5e-4)
    assert float(worst_variance(2, odds)) == pytest.approx(one_bit, abs=5e-4)
    assert float(worst_variance(2, odds)) == pytest.approx(((exp(F(epsilon)) + 1) / (exp(F(epsilon)) - 1)) ** 2)
    assert variance <= one_bit < laplace or variance < laplace == pytest.approx(8 / float(epsilon) ** 2, abs=5e-3)
    assert points == min(range(2, MOST_POINTS + 1), key=lambda number: worst_variance(number, odds))


@pytest.mark.parametrize("points", [2, 3, 5, 8])
def test_the_variance_is_that_of_the_worst_number_by_trying_many(points: int) -> None:
    """n Var of the estimate from one report of a number that everybody holds, from the law of what arrives."""
    odds, v = 7.5, np.linspace(-1, 1, points)
    a, b = odds / (odds + points - 1), 1 / (odds + points - 1)
    worst = 0.0
    for t in np.linspace(-1, 1, 4001):
        place = (t + 1) / 2 * (points - 1)
        below = min(int(place), points - 2)
        rounded = np.zeros(points)
        rounded[below], rounded[below + 1] = 1 - (place - below), place - below
        arrives = b + (a - b) * rounded
        score = (v - b * v.sum()) / (a - b)
        assert arrives @ score == pytest.approx(t, abs=1e-12)
        worst = max(worst, arrives @ score**2 - t**2)
    assert float(worst_variance(points, F("7.5"))) == pytest.approx(worst, rel=1e-5)


def test_the_channel_of_a_registry_reaches_that_variance() -> None:
    for epsilon, points, variance, *_ in TABLE[1:]:
        terms = {"epsilon_permanent": "8", "max_values": str(points), "lifetime_epsilon": "50"}
        metric = registry("mean", epsilon_one_report=epsilon, **terms)["it"]
        assert metric.shape.points == points
        a, b = (float(p) for p in metric.noise.composed.probabilities)
        assert float(worst_variance(points, F(a / b))) == pytest.approx(variance, rel=2e-3)


@given(
    number=st.fractions(min_value=-2, max_value=12, max_denominator=1000),
    dither=st.integers(0, 2**64 - 1),
    points=st.integers(2, 64),
)
def test_a_number_is_rounded_to_a_point_beside_it(number: Fraction, dither: int, points: int) -> None:
    shape = Mean(low=F(-1, 3), high=F(10), absent=F(0), points=points)
    encoded = shape.encode(number, 0, dither)
    inside = min(max(number, shape.low), shape.high)
    place = (inside - shape.low) / (shape.high - shape.low) * (points - 1)
    point = (place + F(dither, 2**64)) // 1
    assert encoded.mask == (point if points == 2 else 1 << point)
    assert encoded.clamped == (inside != number)
    assert abs(point - place) < 1


def test_over_all_dithers_the_points_average_to_the_number() -> None:
    shape = Mean(low=F(0), high=F(4), absent=F(1), points=5)
    for number in (F(0), F(1, 3), F(5, 2), F(4), ABSENT):
        masks = [shape.encode(number, 0, dither << 54).mask for dither in range(1024)]
        average = F(sum(mask.bit_length() - 1 for mask in masks), 1024)
        assert abs(average - (1 if number is ABSENT else number)) <= F(1, 1024)


def test_two_points_said_or_not_are_the_bit_that_they_were() -> None:
    said, left_out = registry("mean", points="2")["it"], registry("mean")["it"]
    assert said.metric_hash == left_out.metric_hash
    assert "points" not in said.to_json()["shape"]
    clearer = {"epsilon_one_report": "2", "epsilon_permanent": "4", "max_values": "3", "lifetime_epsilon": "50"}
    assert registry("mean", points="2", **{**clearer, "max_values": "2"})["it"].shape.width(0) == 1
    assert registry("mean", **clearer)["it"].shape.points == 3
    assert registry("mean", points="3", **clearer)["it"].metric_hash == registry("mean", **clearer)["it"].metric_hash


def test_that_slots_leave_fewer_points_than_are_best_is_said_by_check() -> None:
    """At epsilon 4 one bit has n Var 1.08 where numbers are in the middle, and five points 0.17."""
    clearer = {"epsilon_one_report": "4", "epsilon_permanent": "4", "lifetime_epsilon": "50"}
    (doubt,) = warnings(registry("mean", max_values="2", **clearer), date(2026, 11, 17))
    assert doubt == (
        "[metrics.it] max_values is 2 and so points 2: max_values = 5 gives as many points as are best at this "
        "epsilon, and intervals up to 59 % narrower, for a lifetime epsilon of 20 instead of 8"
    )
    assert round(1 - (0.177 / 1.076) ** 0.5, 2) == 0.59, "the figures above"
    apart = {**clearer, "absent": '"apart"', "max_values": "3"}
    (doubt,) = warnings(registry("mean", **apart), date(2026, 11, 17))
    assert "max_values is 3 and so points 2 with absence apart: max_values = 6 gives" in doubt
    for fine in ({"max_values": "5"}, {"max_values": "2", "points": "2"}, {"epsilon_one_report": "1"}):
        assert not warnings(registry("mean", **{**clearer, "max_values": "2", **fine}), date(2026, 11, 17))


def test_more_points_than_slots_is_said_by_check() -> None:
    clearer = {"epsilon_one_report": "2", "epsilon_permanent": "4", "lifetime_epsilon": "50"}
    (doubt,) = warnings(registry("mean", points="3", **clearer), date(2026, 11, 17))
    assert doubt == (
        "[metrics.it] max_values is 2 and points 3: a number that moves over more of them repeats older answers, which "
        "no interval knows of"
    )
    assert not warnings(registry("mean", max_values="3", **clearer), date(2026, 11, 17))
    assert not warnings(registry("mean", points="2", **clearer), date(2026, 11, 17))
    once = {**clearer, "every": '"once"', "max_values": "1"}
    assert not warnings(registry("mean", **once), date(2026, 11, 17))


@pytest.mark.parametrize(("max_values", "points"), [("1", 5), ("2", 2), ("3", 3), ("5", 5)])
def test_points_that_are_left_out_are_no_more_than_answers_that_are_kept(max_values, points) -> None:
    terms = {"epsilon_one_report": "4", "epsilon_permanent": "5", "lifetime_epsilon": "50", "max_values": max_values}
    assert registry("mean", **terms)["it"].shape.points == points
