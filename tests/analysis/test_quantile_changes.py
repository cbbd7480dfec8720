"""Whether a quantile changed, also where hardly anybody is near it."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hubbub.analysis import Options, compare, decode
from hubbub.analysis.alerts import alerts
from hubbub.analysis.quantile_changes import chance, furthest, quantile_change
from hubbub.analysis.result import Decoding
from hubbub.protocol.kinds import Range
from tests.analysis.worlds import define, tally_of
from tests.chance import assert_binomial, power

LEAVES = np.arange(64)


def among(*leaves: int) -> np.ndarray:
    """Everybody in these leaves, evenly."""
    return np.isin(LEAVES, leaves) / len(leaves)


def bell(middle: float) -> np.ndarray:
    shares = np.exp(-(((LEAVES - middle) / 8) ** 2))
    return shares / shares.sum()


TWO_GROUPS = among(2, 3, 58, 59)
SAME = {  # both sides, and a quantile that they share
    "two groups": (TWO_GROUPS, TWO_GROUPS, 0.5),
    "two groups close by": (among(20, 23), among(20, 23), 0.5),
    "a small group far below": (0.1 * among(2) + 0.9 * among(59),) * 2 + (0.1,),
    "a small group far above": (0.9 * among(2) + 0.1 * among(59),) * 2 + (0.9,),
    "a bell": (bell(20), bell(20), 0.5),
    "a bell, one in ten": (bell(20), bell(20), 0.1),
    "a bell, nine in ten": (bell(20), bell(20), 0.9),
    "evenly": (np.full(64, 1 / 64), np.full(64, 1 / 64), 0.5),
    "one heavy leaf": (0.8 * among(20) + 0.2 / 64,) * 2 + (0.5,),
    "a corner": (among(19, 60), among(3, 20), 0.5),  # 20 is a median of both, and nothing else is
}


def side(
    shares: np.ndarray, installs: int, rng: np.random.Generator, epsilon: str = "6", q: float = 0.5, high: int = 64
) -> Decoding:
    """Drawn from these shares of leaves; two rows and a quantile."""
    shape = Range(low=Fraction(0), high=Fraction(high), num_leaves=len(shares), branching=4)
    one_report = "4" if epsilon == "6" else epsilon
    counts = np.append(rng.multinomial(installs, shares), 0)
    halves = ((0.0, high / 2), (high / 2, float(high)))
    options = Options(estimand="population", quantiles=(q,), ranges=halves)
    return decode(tally_of(define(shape, one_report, epsilon), counts, rng), options=options)


def false_changes(world: str, installs: tuple[int, int], epsilon: str, populations: int) -> tuple[int, int]:
    """How often a quantile that both sides share is said to have changed, and how often the interval holds 0."""
    before, after, q = SAME[world]
    rng = np.random.default_rng([31, *installs, *epsilon.encode(), *world.encode()])
    changed = held = 0
    for _ in range(populations):
        found = compare(side(before, installs[0], rng, epsilon, q), side(after, installs[1], rng, epsilon, q))
        changed += bool(found.p_value[-1] <= 0.05)
        held += bool(found.low[-1] <= 0 <= found.high[-1])
    return changed, held


@pytest.mark.parametrize("world", ["two groups", "a bell", "one heavy leaf"])
def test_a_quantile_that_is_the_same_is_said_to_have_changed_no_more_often_than_promised(world) -> None:
    """Half of all in leaves 2 and 3, half in 58 and 59: the median is in either, and moved by 56 from week to week. By
    a normal law of medians that was a change in .41 of comparisons."""
    populations = 60
    changed, held = false_changes(world, (20_000, 20_000), "6", populations)
    assert_binomial(max(changed, 3), populations, 0.05)
    assert_binomial(min(held, 57), populations, 0.95)
    assert power(populations, 0.05, 0.41) > 0.99


@pytest.mark.proof
@pytest.mark.parametrize("world", SAME)
@pytest.mark.parametrize("epsilon", ["1", "8"])
@pytest.mark.parametrize("installs", [(1_000, 1_000), (20_000, 20_000), (28_000, 1_000)])
def test_no_change_of_a_quantile_is_seen_where_there_is_none(world, epsilon, installs, figure) -> None:
    populations = 500
    changed, held = false_changes(world, installs, epsilon, populations)
    figure(
        f"no change of a quantile, {world}, {installs[0]} against {installs[1]}, epsilon {epsilon}",
        f"said to have changed {changed / populations:.3f}, interval holds none {held / populations:.3f}",
    )
    assert_binomial(max(changed, 25), populations, 0.05)
    assert_binomial(min(held, 475), populations, 0.95)
    assert power(populations, 0.05, 0.15) > 0.99


@pytest.mark.proof
def test_few_installs_show_no_change_of_a_quantile(figure) -> None:
    """20 against 560, two of the 20 below. With a side's variance at its own estimate: .09."""
    populations = 2_500
    changed, _ = false_changes("a bell, one in ten", (560, 20), "8", populations)
    figure("no change of a low quantile, 560 against 20", f"said to have changed {changed / populations:.3f}")
    assert_binomial(max(changed, 125), populations, 0.05)
    assert power(populations, 0.05, 0.09) > 0.99


def test_two_groups_raise_no_alert_and_a_share_that_moved_does() -> None:
    rng = np.random.default_rng(32)
    weeks = [side(TWO_GROUPS, 20_000, rng) for _ in range(12)]
    medians = [float(week.estimate[-1]) for week in weeks]
    assert min(medians) < 5 < 58 < max(medians)
    found = [compare(weeks[0], week) for week in weeks[1:]]
    assert [alert.row for one in found for alert in alerts([one], {"asked": 53})] == []
    lower, upper = (part * among(2, 3) + (1 - part) * among(58, 59) for part in (0.6, 0.4))
    moved = compare(side(lower, 20_000, rng), side(upper, 20_000, rng))
    rows = [moved.values[alert.row] for alert in alerts([moved], {"asked": 53})]
    assert rows == ["[0, 32)", "[32, 64)", "quantile 0.5"]


def test_a_quantile_that_moved_is_seen_and_the_interval_says_how_far() -> None:
    rng = np.random.default_rng(33)
    hits = 0
    for _ in range(30):
        found = compare(side(bell(20), 20_000, rng), side(bell(23), 20_000, rng))
        assert found.p_value[-1] < 1e-6
        assert found.low[-1] <= found.difference[-1] <= found.high[-1]
        assert found.std_error[-1] == pytest.approx((found.high[-1] - found.low[-1]) / 3.92, rel=1e-3)
        hits += bool(found.low[-1] <= 3 <= found.high[-1])
    assert hits >= 27


def test_ranges_of_two_definitions_are_compared_where_they_overlap() -> None:
    """The wider one has cells of its own; of leaves half as wide the finer one."""
    rng = np.random.default_rng(34)
    wider, finer = np.append(bell(20), np.zeros(192)), np.repeat(np.append(bell(20), np.zeros(64)), 2) / 2
    ours = side(bell(20), 20_000, rng)
    for other in (side(wider, 20_000, rng, high=256), side(finer, 20_000, rng, high=128)):
        found = compare(ours, other)
        assert found.p_value[-1] > 0.01
        assert -4 < found.low[-1] <= 0 <= found.high[-1] < 4
    assert compare(ours, side(np.roll(wider, 6), 20_000, rng, high=256)).p_value[-1] < 1e-6


def test_of_many_leaves_the_coarse_look_finds_what_a_look_at_every_leaf_does() -> None:
    rng, leaves = np.random.default_rng(35), 4_096
    shares = np.exp(-(((np.arange(leaves) - 1_400) / 300) ** 2))
    shares /= shares.sum()
    sides = [side(np.roll(shares, by), 100_000, rng, high=64) for by in (0, 20)]
    before, after = (found.distribution for found in sides)
    p_value, low, high = quantile_change(before, after, 0.5)
    edges = np.arange(1_250, 1_601)  # both medians are in there
    of_before, of_after = (
        np.min([np.maximum(0, np.maximum(at[:-1], -at[1:])) for at in one.deviations(0.5, edges)], axis=0)
        for one in (before, after)
    )
    least = float(chance((of_before**2 + of_after**2).min()))
    assert least <= p_value <= 1.5 * least
    assert low <= 20 / 64 <= high
    assert high - low < 80 / 64


def test_what_nobody_reported_has_no_change() -> None:
    rng = np.random.default_rng(36)
    found = compare(side(bell(20), 0, rng), side(bell(20), 2_000, rng))
    assert np.isnan(found.p_value[-1])
    assert (found.low[-1], found.high[-1]) == (-np.inf, np.inf)
    assert not found.tested[-1]


def test_no_curve_that_rises_is_farther_from_normal_pairs_than_a_corner() -> None:
    """The law is that of the corner; a straight line, and curves with steps, are nearer."""
    rng = np.random.default_rng(37)
    pairs, most = rng.normal(size=(2, 40_000)), furthest(0.05)
    assert chance(furthest(1e-4)) == pytest.approx(1e-4)
    corner = [(-40.0, 0.0), (0.0, 0.0), (0.0, 40.0)]
    beyond = [int((_distance(pairs, corner) > most).sum())]
    assert_binomial(beyond[0], 40_000, 0.05)
    for _ in range(60):
        up, down = (np.cumsum(rng.exponential(1, (6, 2)) * rng.integers(0, 2, (6, 2)), axis=0) for _ in range(2))
        curve = [(-40.0, -40.0), *map(tuple, -down[::-1]), (0.0, 0.0), *map(tuple, up), (40.0, 40.0)]
        beyond.append(int((_distance(pairs, curve) > most).sum()))
    assert max(beyond) == beyond[0]
    assert min(beyond) < 0.04 * 40_000


def _distance(pairs: np.ndarray, curve: list[tuple[float, ...]]) -> np.ndarray:
    """Squared, of each pair to the nearest point."""
    least = np.full(pairs.shape[1], np.inf)
    for start, end in pairwise(curve):
        step = np.subtract(end, start)
        along = pairs - np.reshape(start, (2, 1))
        length = float(step @ step)
        if length:
            along = along - np.clip(step @ along / length, 0, 1) * step[:, np.newaxis]
        least = np.minimum(least, (along**2).sum(axis=0))
    return least
