"""The distribution behind a range: quantiles, shares of any range and the guess, against known populations."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hubbub.analysis import Options, decode
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Range
from tests.analysis.worlds import define, tally_of, zipf
from tests.chance import assert_binomial, binomial_bounds, power

SHAPE = Range(low=Fraction(0), high=Fraction(16), num_leaves=16, branching=2, unit="s")
METRIC = define(SHAPE, "2", "4")

LEAVES = np.arange(64)
SPREADS = {
    "a long tail": zipf(64, 0.7),
    "a sharp end": np.repeat([1.0, 0.0], 32),  # a high quantile is passed within a single cell
    "a bell": np.exp(-(((LEAVES - 20) / 8) ** 2)),
    "two bells": np.exp(-(((LEAVES - 10) / 2) ** 2)) + 0.3 * np.exp(-(((LEAVES - 50) / 4) ** 2)),
}
ASKED = (0.01, 0.1, 0.5, 0.9, 0.99)


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
        found = decode(tally_of(metric, counts, rng), options=Options(estimand=estimand, quantiles=ASKED))
        low, high = found.low[-len(ASKED) :], found.high[-len(ASKED) :]
        hits += int(((low <= leaves) & (leaves + 1 <= high)).sum())
    return hits, populations * len(ASKED)


@pytest.mark.parametrize(("spread", "estimand"), [*zip(SPREADS, ["reporting", "population"] * 2, strict=True)])
def test_quantile_intervals_cover(spread, estimand):
    """Cells are whole, so intervals are too wide rather than too narrow: at least 95 %. (The proof has all.)"""
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
        found = decode(tally_of(metric, counts, rng), options=Options(quantiles=ASKED))
        totals.append(found.distribution.total)
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
        distribution = decode(tally_of(METRIC, counts, rng)).distribution
        band = distribution.shares(ranges)
        for (low, high), a, b in zip(ranges, band.low, band.high, strict=True):
            hits += bool(a <= truth[low:high].sum() <= b)
    assert_binomial(hits, 600, 0.95)
    assert power(600, 0.95, 0.85) > 0.999


def test_the_best_guess_is_a_distribution():
    distribution = decode(tally_of(METRIC, [0] * 15 + [50, 10], np.random.default_rng(2))).distribution
    assert (distribution.best_guess >= 0).all()
    assert distribution.best_guess.sum() <= 1 + 1e-12


def test_bounds_between_cells_are_refused_in_words():
    distribution = decode(tally_of(METRIC, [10] * 17, np.random.default_rng(2))).distribution
    with pytest.raises(Invalid, match=r"a bound must be an edge, 0 \+ i x 1 with i <= 16, got 0.5"):
        distribution.shares([(0.5, 3)])
    with pytest.raises(Invalid, match="a quantile must be above 0 and below 1, got 1"):
        distribution.quantiles([1])
    with pytest.raises(Invalid, match="of must be 'answered' or 'all', got 'some'"):
        distribution.cdf(of="some")


def test_quantile_intervals_are_the_cells_that_one_linear_form_leaves():
    """F(x) - q T is one query of the leaves: 1 - q below x and -q above. Its own variance, edge by edge, says in which
    cells the quantile may lie; the interval reaches from the first to the last of them."""
    rng = np.random.default_rng(16)
    found = decode(tally_of(METRIC, np.append((zipf(16, 0.5) * 3_000).astype(int), 500), rng)).distribution
    below = np.concatenate([[0.0], np.cumsum(found.best_guess)])
    assert below[-1] < 1, "or the guess would be cut, and the sums with it"
    for q in (0.1, 0.5, 0.8):
        forms = (np.arange(16) < np.arange(17)[:, np.newaxis]) - q
        spread = found.levels.spread(forms, found.best_guess, found.finite).variance
        deviations = (below - q * found.total) / np.sqrt(spread)
        kept = [i for i in range(16) if deviations[i + 1] >= -1.959964 and deviations[i] <= 1.959964]
        band = found.quantiles([q])
        assert (band.low[0], band.high[0]) == (kept[0], kept[-1] + 1)
        assert 1 < band.high[0] - band.low[0] < 16


def test_a_range_is_tested_against_nobody_in_it_and_everyone_else_where_they_are():
    """Half of all hold one number. Whether anybody does is asked with the noise there would be if nobody did."""
    counts = np.array([0] * 8 + [10_000] + [0] * 7 + [10_000])
    options = Options(ranges=((8, 9),))
    found = decode(tally_of(METRIC, counts, np.random.default_rng(17)), options=options)
    guess = np.where(np.arange(16) == 8, 0.0, found.distribution.best_guess)
    guess /= 1 - found.distribution.best_guess[8]
    query = (np.arange(16) == 8).astype(float)[np.newaxis]
    spread = found.distribution.levels.spread(query, guess, found.distribution.finite)
    error = found.distribution.tested_shares([(8, 9)])[1].std_error[0]
    assert error == pytest.approx(np.sqrt(spread.variance[0]))
    assert error < 0.95 * found.std_error[0], "or the test could not tell the two"


def test_no_quantiles_are_no_rows():
    found = decode(tally_of(METRIC, [100] * 17, np.random.default_rng(18)), options=Options(quantiles=()))
    assert "number" not in found.roles
