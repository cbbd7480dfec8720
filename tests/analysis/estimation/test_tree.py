"""Trees: the two passes are the least-squares solution, and every query's variance is exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hubbub.analysis import decode
from hubbub.analysis.estimation.cells import Cohort, TwoStageNoise
from hubbub.analysis.estimation.tree import Levels
from hubbub.protocol.kinds import Range
from tests.analysis.worlds import define, tally_of, zipf
from tests.chance import assert_binomial

SHAPE = Range(low=Fraction(0), high=Fraction(16), num_leaves=16, branching=2, unit="s")
METRIC = define(SHAPE, "2", "4")


def uneven_levels(seed: int = 0, metric=METRIC, sizes=(900, 0, 2500, 300)) -> tuple[Cohort, ...]:
    """Four levels, one of them with no reports."""
    rng = np.random.default_rng(seed)
    noise = TwoStageNoise.of(metric.noise)
    return tuple(
        Cohort(
            noise=noise,
            reports=float(n),
            ones=rng.binomial(n, 0.3, 2 ** (level + 1)).astype(float),
            sampling=1 / n if n else np.inf,
        )
        for level, n in enumerate(sizes)
    )


def explicit(cohorts: tuple[Cohort, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The whole design over the leaves, the right side, and the weights, for levels that reported."""
    rows, right, weights = [], [], []
    for cohort in cohorts:
        width = len(cohort.ones)
        if cohort.reports:
            for node in range(width):
                row = np.zeros(16)
                row[node * 16 // width : (node + 1) * 16 // width] = 1
                rows.append(row)
                right.append(cohort.shares[node])
                weights.append(1 / cohort.floor)
    return np.array(rows), np.array(right), np.array(weights)


def test_two_passes_solve_the_whole_least_squares_problem():
    cohorts = uneven_levels()
    design, right, weights = explicit(cohorts)
    root = np.sqrt(weights)
    solution = np.linalg.lstsq(design * root[:, np.newaxis], right * root, rcond=None)[0]
    assert Levels.of(2, [cohorts]).leaves() == pytest.approx(solution)


def test_levels_of_two_definitions_solve_the_problem_of_both():
    """The same numbers asked twice, with different noise and crowds: all cells in one explicit design."""
    first, second = uneven_levels(0), uneven_levels(1, define(SHAPE, "1", "2"), (200, 400, 0, 700))
    design, right, weights = (np.concatenate(parts) for parts in zip(explicit(first), explicit(second), strict=True))
    covariance = np.linalg.inv((design.T * weights) @ design)
    levels = Levels.of(2, [first, second])
    assert levels.leaves() == pytest.approx(covariance @ (design.T @ (weights * right)))
    query = np.array([1.0] * 5 + [0.0] * 11)
    spread = levels.spread(query[np.newaxis], np.zeros(16), 0.0)
    assert spread.variance[0] == pytest.approx(float(query @ covariance @ query))


def test_the_coefficients_of_a_query_give_its_estimate_and_its_variance():
    cohorts = uneven_levels()
    levels = Levels.of(2, [cohorts])
    query = np.array([[0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0.5]])
    found = levels.coefficients(query)
    estimate = sum(float(c[0] @ cohort.shares) for c, cohort in zip(found, cohorts, strict=True) if cohort.reports)
    assert estimate == pytest.approx(float(query[0] @ levels.leaves()))
    design, _, weights = explicit(cohorts)
    covariance = np.linalg.inv((design.T * weights) @ design)
    spread = levels.spread(query, np.zeros(16), 0.0)
    assert spread.variance[0] == pytest.approx(float(query[0] @ covariance @ query[0]))
    assert spread.covariance_with_total[0] == pytest.approx(float((query[0] @ covariance).sum()))
    assert spread.variance_of_total == pytest.approx(float(covariance.sum()))


def test_any_range_of_a_large_tree_has_the_variance_of_the_literature():
    """D = 4096, B = 4, in units of the variance that a cell would have if everyone reported cells: 26.6 on average
    over ranges, of those who answered (Cormode, Kulkarni, Srivastava 2019; Hay et al. 2010)."""
    size, n = 4096, 1e6
    noise = TwoStageNoise.of(define(Range(low=Fraction(0), high=Fraction(1), num_leaves=size, branching=4)).noise)
    cohorts = tuple(
        Cohort(noise=noise, reports=n / 6, ones=np.zeros(4**level), sampling=6 / n) for level in range(1, 7)
    )
    ends = np.sort(np.random.default_rng(1).integers(0, size + 1, (1000, 2)), axis=1)
    leaf = np.arange(size)
    queries = ((leaf >= ends[:, :1]) & (leaf < ends[:, 1:])).astype(float)
    relative = queries - queries.mean(axis=1, keepdims=True)  # numbers spread evenly: R - (R's share) x total
    variance = Levels.of(4, [cohorts]).spread(relative, np.zeros(size), 0.0).variance.mean()
    cell = (noise.permanent[0] + noise.instantaneous[0]) / n
    assert variance / cell == pytest.approx(26.6, rel=0.10)


def test_a_level_that_was_tampered_with_sticks_out_and_honest_ones_do_not():
    rng = np.random.default_rng(5)
    counts = np.append((zipf(16) * 90_000).astype(int), 10_000)
    alarms = 0
    for _ in range(25):
        tally = tally_of(METRIC, counts, rng)
        alarms += bool(decode(tally).diagnostics.odd_cohorts)
        rows = [list(row) for row in tally.epochs[0].bit_counts]
        rows[2][3] += 2_000
        broken = type(tally)(METRIC, {0: type(tally.epochs[0])(tally.epochs[0].num_reports, tuple(map(tuple, rows)))})
        assert 2 in decode(broken).diagnostics.odd_cohorts
    assert_binomial(alarms, 25, 0.001)


def test_without_the_finest_level_nothing_is_claimed():
    tally = tally_of(METRIC, [100] * 17, np.random.default_rng(6))
    counts = tally.epochs[0]
    empty = type(counts)((*counts.num_reports[:3], 0), (*counts.bit_counts[:3], (0,) * 16))
    decoding = decode(type(tally)(METRIC, {0: empty}))
    assert np.isnan(decoding.estimate).all()
    assert "No report came from the finest level: the cells cannot be told apart." in decoding.notes
