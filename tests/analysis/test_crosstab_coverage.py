"""Intervals of a crosstab hold the truth as often as they say, and its test of independence errs as often as it says.

Coverage of each cell is a count over populations, judged by exact binomial bounds at a false alarm of 1e-6. Of 2,000
populations, intervals of one of 64 cells that held the truth in 90.5 % of them would be noticed with probability above
0.98, of 150 those of one of four that held it in 70 %; a test that errs in 9 % instead of 5 % with probability above
0.98 (2,000), 23 % (150).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from hubbub.analysis import Options, decode
from hubbub.analysis.arrays import Array
from hubbub.analysis.crosstab_result import JointShares
from hubbub.analysis.options import Estimand
from hubbub.protocol.pair import Pair
from tests.analysis.joint_worlds import drawn, pair_of, table
from tests.chance import FALSE_ALARM, binomial_bounds, power

QUICK, FULL = 150, 2_000


@dataclass(frozen=True)
class Held:
    """In how many populations each interval held the truth, and how often independence was refuted."""

    cells: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]  # given the first factor
    columns: npt.NDArray[np.int64]  # given the second
    margins: npt.NDArray[np.int64]
    refuted: int


def held(
    pair: Pair, shares: Array, installs: int, populations: int, estimand: Estimand, seed: int, epochs: int = 1
) -> Held:
    rng = np.random.default_rng(seed)
    options = Options(estimand=estimand)
    kept = np.rint(shares * installs).astype(np.int64)
    found = [np.zeros(size, dtype=np.int64) for size in (shares.shape, shares.shape, shares.shape, shares.shape[:1])]
    refuted = 0
    for _ in range(populations):
        # Of a population the installs are a sample; the installs that reported are what they are.
        cells = rng.multinomial(installs, shares.ravel()).reshape(shares.shape) if estimand == "population" else kept
        truth = shares if estimand == "population" else kept / kept.sum()
        result = decode(drawn(pair, cells, rng, range(2950, 2950 + epochs)), options=options)
        rows, columns = truth.sum(axis=1, keepdims=True), truth.sum(axis=0, keepdims=True)
        found[0] += _holds(result.cells, truth)
        found[1] += _holds(result.given[0].shares, truth / rows)
        found[2] += _holds(result.given[1].shares, truth / columns)
        found[3] += _holds(result.margins[0], rows[:, 0])
        refuted += result.independence.p_value < 0.05
    return Held(*found, refuted=refuted)


def _holds(shares: JointShares, truth: Array) -> npt.NDArray[np.bool_]:
    return np.asarray((shares.low <= truth) & (truth <= shares.high))


def assert_nominal(counts: npt.NDArray[np.int64], populations: int, wanted: float = 0.95) -> None:
    """The false alarm is shared by all cells; they are not independent, which Bonferroni's bound does not need."""
    low, high = binomial_bounds(populations, wanted, FALSE_ALARM / counts.size)
    assert low <= counts.min(), f"{counts.min()} of {populations} hold the truth, not {low}: {counts}"
    assert counts.max() <= high, f"{counts.max()} of {populations} hold the truth, more than {high}: {counts}"


def assert_all_nominal(found: Held, populations: int) -> None:
    for counts in (found.cells, found.rows, found.columns, found.margins):
        assert_nominal(counts, populations)


def test_the_bounds_of_these_tests_notice_what_they_say() -> None:
    assert power(FULL, 0.95, 0.905, FALSE_ALARM / 64) > 0.98
    assert power(QUICK, 0.95, 0.70, FALSE_ALARM / 4) > 0.98
    assert power(FULL, 0.05, 0.09) > 0.98
    assert power(QUICK, 0.05, 0.23) > 0.98


@pytest.mark.parametrize("estimand", ["population", "reporting"])
def test_intervals_of_two_flags_hold_the_truth(estimand: Estimand) -> None:
    found = held(pair_of(2, 2, 1), table(2, 2, 0.2), 3_000, QUICK, estimand, seed=2)
    assert_all_nominal(found, QUICK)


def test_independent_answers_are_rarely_called_related() -> None:
    found = held(pair_of(3, 4, 2), table(3, 4), 2_000, QUICK, "population", seed=3)
    assert_nominal(np.array([QUICK - found.refuted]), QUICK)
    assert_all_nominal(found, QUICK)


def test_epochs_of_the_same_installs_are_pooled_without_forgetting_what_is_kept() -> None:
    """Without the kept part of the noise, intervals of ten epochs would be far too short: most would miss."""
    found = held(pair_of(2, 2, 1, kept=1.5), table(2, 2, 0.2), 2_000, QUICK, "reporting", seed=4, epochs=10)
    assert_all_nominal(found, QUICK)


@pytest.mark.proof
@pytest.mark.parametrize("estimand", ["population", "reporting"])
@pytest.mark.parametrize(
    ("first", "second", "epsilon", "installs", "relation"),
    [
        (2, 2, 1, 3_000, 0.2),
        (2, 2, 4, 400, 0.2),
        (2, 5, 2, 2_000, 0.1),
        (4, 4, 1, 20_000, 0.1),
        (4, 4, 4, 1_500, 0.2),
        (8, 8, 1, 50_000, 0.1),
        (8, 8, 2, 20_000, 0.2),
        (8, 8, 4, 6_000, 0.2),
        # Bits: of fewer installs the rarest categories are not surely there, and any share is possible.
        (12, 3, 1, 100_000, 0.2),
    ],
)
def test_intervals_hold_the_truth_in_2000_populations(
    first: int, second: int, epsilon: int, installs: int, relation: float, estimand: Estimand
) -> None:
    shares = table(first, second, relation)
    found = held(pair_of(first, second, epsilon), shares, installs, FULL, estimand, seed=first * second + epsilon)
    for name, counts in (("cells", found.cells), ("given", found.rows), ("given", found.columns)):
        part = counts / FULL
        print(f"{first} x {second}, epsilon {epsilon}, {estimand}, {name}: {part.min():.3f} to {part.max():.3f}")
    assert_all_nominal(found, FULL)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("first", "second", "epsilon", "installs"),
    [(2, 2, 1, 3_000), (2, 2, 4, 500), (4, 4, 1, 10_000), (4, 4, 4, 2_000), (8, 8, 1, 30_000), (8, 8, 4, 6_000)],
)
def test_independence_is_refuted_as_rarely_as_stated_in_2000_populations(
    first: int, second: int, epsilon: int, installs: int
) -> None:
    found = held(pair_of(first, second, epsilon), table(first, second), installs, FULL, "population", seed=first)
    print(f"{first} x {second}, epsilon {epsilon}: refuted in {found.refuted / FULL:.3f}")
    assert_nominal(np.array([FULL - found.refuted]), FULL)


def test_a_relation_of_the_stated_strength_is_detected_nine_times_in_ten() -> None:
    """The power that a crosstab states, at the strength that it states: of 150 populations as many as Binomial(0.9)
    plausibly gives; a test that saw 0.65 would be noticed with probability above 0.98."""
    pair, installs, rng = pair_of(2, 2, 1), 20_000, np.random.default_rng(5)
    margins = np.array([0.7, 0.3]), np.array([0.6, 0.4])
    independent = np.outer(*margins)
    sure = decode(drawn(pair, np.rint(independent * installs), rng), options=Options(estimand="population"))
    # Cramer's V of a 2 x 2 table is |D| / sqrt(a (1 - a) b (1 - b)).
    apart = sure.independence.detectable * np.sqrt(np.prod([margin.prod() for margin in margins]))
    related = independent + apart * np.array([[1, -1], [-1, 1]])
    found = held(pair, related, installs, QUICK, "population", seed=6)
    low, high = binomial_bounds(QUICK, 0.9)
    assert low <= found.refuted <= high
    assert power(QUICK, 0.9, 0.65) > 0.98
