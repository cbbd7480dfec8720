"""Trees: the two passes are the least-squares solution, and every query's variance is exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hubbub.analysis import decode
from hubbub.analysis.estimation.cells import Cohort, Wire
from hubbub.analysis.estimation.tree import Levels
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Range
from tests.analysis.worlds import define, tally_of, zipf
from tests.chance import assert_binomial, binomial_bounds, power

SHAPE = Range(low=Fraction(0), high=Fraction(16), num_leaves=16, branching=2, unit="s")
METRIC = define(SHAPE, "2", "4")


def uneven_levels(seed: int = 0, metric=METRIC, sizes=(900, 0, 2500, 300)) -> tuple[Cohort, ...]:
    """Four levels, one of them with no reports."""
    rng = np.random.default_rng(seed)
    wire = Wire.of_metric(metric)
    return tuple(
        Cohort(
            wire=wire,
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
    wire = Wire.of_metric(define(Range(low=Fraction(0), high=Fraction(1), num_leaves=size, branching=4)))
    cohorts = tuple(Cohort(wire=wire, reports=n / 6, ones=np.zeros(4**level), sampling=6 / n) for level in range(1, 7))
    ends = np.sort(np.random.default_rng(1).integers(0, size + 1, (1000, 2)), axis=1)
    leaf = np.arange(size)
    queries = ((leaf >= ends[:, :1]) & (leaf < ends[:, 1:])).astype(float)
    relative = queries - queries.mean(axis=1, keepdims=True)  # numbers spread evenly: R - (R's share) x total
    variance = Levels.of(4, [cohorts]).spread(relative, np.zeros(size), 0.0).variance.mean()
    cell = (wire.permanent[0] + wire.instantaneous[0]) / n
    assert variance / cell == pytest.approx(26.6, rel=0.10)


LEAVES = np.arange(64)
SPREADS = {
    "a long tail": zipf(64, 0.7),
    "a sharp end": np.repeat([1.0, 0.0], 32),  # a high quantile is passed within a single cell
    "a bell": np.exp(-(((LEAVES - 20) / 8) ** 2)),
    "two bells": np.exp(-(((LEAVES - 10) / 2) ** 2)) + 0.3 * np.exp(-(((LEAVES - 50) / 4) ** 2)),
}
ASKED = [0.01, 0.1, 0.5, 0.9, 0.99]


def quantile_hits(spread: str, estimand: str, populations: int) -> tuple[int, int]:
    """How many intervals hold the whole cell in which the quantile lies."""
    rng = np.random.default_rng(12)
    shape = Range(low=Fraction(0), high=Fraction(64), num_leaves=64, branching=4)
    metric = define(shape, "2", "4") if spread == "a long tail" else define(shape, "4", "8")
    probability = np.append(0.9 * SPREADS[spread] / SPREADS[spread].sum(), 0.1)
    fixed = (probability * 40_000).astype(int)
    whole = (fixed if estimand == "reporting" else probability)[:64]
    leaves = np.searchsorted(np.cumsum(whole) / whole.sum(), ASKED)
    hits = 0
    for _ in range(populations):
        counts = fixed if estimand == "reporting" else rng.multinomial(40_000, probability)
        found = decode(tally_of(metric, counts, rng), estimand=estimand, quantiles=ASKED)
        low, high = found.low[-len(ASKED) :], found.high[-len(ASKED) :]
        hits += int(((low <= leaves) & (leaves + 1 <= high)).sum())
    return hits, populations * len(ASKED)


@pytest.mark.parametrize("estimand", ["reporting", "population"])
@pytest.mark.parametrize("spread", SPREADS)
def test_quantile_intervals_cover(estimand, spread):
    """Cells are whole, so intervals are too wide rather than too narrow: at least 95 %."""
    hits, trials = quantile_hits(spread, estimand, 80)
    assert hits >= binomial_bounds(trials, 0.95)[0]
    assert power(trials, 0.95, 0.80) > 0.999


@pytest.mark.parametrize(("leaves", "branching"), [(64, 4), (2187, 3)])
@pytest.mark.parametrize("installs", [100, 3_000, 200_000])
def test_a_quantile_lies_in_its_interval_and_quantiles_are_in_order(leaves, branching, installs):
    """Also where noise puts the share of those who answered above 1: they are as many as the counts say."""
    metric = define(Range(low=Fraction(0), high=Fraction(leaves), num_leaves=leaves, branching=branching), "1", "2")
    shares = np.exp(-(((np.arange(leaves) - leaves / 4) / (leaves / 9)) ** 2))
    rng, totals = np.random.default_rng(15), []
    counts = np.append(rng.multinomial(installs, shares / shares.sum()), 0)
    for _ in range(15):
        found = decode(tally_of(metric, counts, rng), quantiles=ASKED)
        totals.append(found.tree.total)
        estimate, low, high = (column[-len(ASKED) :] for column in (found.estimate, found.low, found.high))
        known = np.isfinite(estimate)
        assert (low[known] <= estimate[known]).all()
        assert (estimate[known] <= high[known]).all()
        assert (np.diff(estimate[known]) >= 0).all()
    assert max(totals) > 1


@pytest.mark.proof
@pytest.mark.parametrize("estimand", ["reporting", "population"])
def test_quantile_intervals_cover_over_a_thousand_populations_each(estimand, figure):
    for spread in SPREADS:
        hits, trials = quantile_hits(spread, estimand, 1_000)
        figure(f"coverage of quantiles, {spread}, {estimand}", f"{hits / trials:.4f} of {trials}")
        assert hits >= 0.945 * trials


def test_shares_of_ranges_cover_the_truth():
    rng = np.random.default_rng(13)
    counts = np.append((zipf(16) * 18_000).astype(int), 2_000)
    truth = counts[:16] / counts[:16].sum()
    ranges = [(0, 4), (1, 9), (3, 16), (7, 8)]
    hits = 0
    for _ in range(150):
        tree = decode(tally_of(METRIC, counts, rng)).tree
        band = tree.shares(ranges)
        for (low, high), a, b in zip(ranges, band.low, band.high, strict=True):
            hits += bool(a <= truth[low:high].sum() <= b)
    assert_binomial(hits, 600, 0.95)
    assert power(600, 0.95, 0.85) > 0.999


def test_the_best_guess_is_a_distribution():
    tree = decode(tally_of(METRIC, [0] * 15 + [50, 10], np.random.default_rng(2))).tree
    assert (tree.best_guess >= 0).all()
    assert tree.best_guess.sum() <= 1 + 1e-12


def test_bounds_between_cells_are_refused_in_words():
    tree = decode(tally_of(METRIC, [10] * 17, np.random.default_rng(2))).tree
    with pytest.raises(Invalid, match=r"a bound must be an edge, 0 \+ i x 1 with i <= 16, got 0.5"):
        tree.shares([(0.5, 3)])
    with pytest.raises(Invalid, match="a quantile must be above 0 and below 1, got 1"):
        tree.quantiles([1])
    with pytest.raises(Invalid, match="of must be 'answered' or 'all', got 'some'"):
        tree.cdf(of="some")


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
