"""The law of an absent string's score, against a million random strings, exact enumeration and its own formula."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import binom

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.tails import NORMAL, Tail, _added_up, _centred, _cumulants, _variance, score_tail
from tests.chance import binomial_bounds

DRAWS = 1_000_000
KINDS = ["normal", "2 % up by 8", "1 % up by 30", "one up by 30 in each row", "exponential"]


def residuals(kind: str, size: tuple[int, int], seed: int = 7) -> Array:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal(size)
    if kind == "2 % up by 8":
        rows += 8 * (rng.random(size) < 0.02)
    elif kind == "1 % up by 30":
        rows += 30 * (rng.random(size) < 0.01)
    elif kind == "one up by 30 in each row":
        rows[np.arange(size[0]), rng.integers(0, size[1], size[0])] += 30
    elif kind == "exponential":
        rows = rng.exponential(size=size)
    return rows


def all_scores(rows: Array, draws: int) -> tuple[Array, Array]:
    """Every score there can be, in standard deviations, and the probability to reach it."""
    scores = np.zeros(1)
    for row in _centred(rows):
        scores = np.add.outer(scores, [sum(drawn) for drawn in combinations(row, draws)]).ravel()
    z = np.sort(scores) / np.sqrt(_variance(_centred(rows), draws))
    z, first = np.unique(np.round(z, 9), return_index=True)
    return z, 1 - first / len(scores)


@pytest.mark.parametrize("draws", [1, 2])
def test_the_tail_is_that_of_random_strings_on_skewed_residuals(draws):
    """At 1e-2 to 1e-4 the frequency is within 25 % of the probability claimed, beyond chance; the normal law is not."""
    rng = np.random.default_rng(draws)
    rows = rng.standard_normal((64, 128)) + 8 * (rng.random((64, 128)) < 0.02)
    tail = score_tail([(rows, draws)])
    centred = rows - rows.mean(axis=1, keepdims=True)
    score = np.zeros(DRAWS)
    for row in centred:
        first = rng.integers(0, 128, DRAWS)
        score += row[first]
        if draws == 2:
            second = rng.integers(0, 127, DRAWS)
            score += row[second + (second >= first)]
    score /= np.sqrt((centred**2).sum() / 128 * draws * ((128 - draws) / 127 if draws == 2 else 1))
    for p in (1e-2, 1e-3, 1e-4):
        hits = int((score > tail.quantile(p)).sum())
        assert binomial_bounds(DRAWS, 0.75 * p)[0] <= hits <= binomial_bounds(DRAWS, 1.25 * p)[1]
    assert (score > NORMAL.quantile(1e-4)).sum() > binomial_bounds(DRAWS, 1.25e-4)[1]


def test_a_p_value_is_never_smaller_than_the_luckiest_positions():
    rows = np.array([[0.0, 0.1, 0.2, 5.0], [0.3, 0.2, 4.0, 0.1]])
    tail = score_tail([(rows, 1)])
    best = max(sum(pair) for pair in product(*rows))
    assert best == 9.0
    assert np.exp(tail.log_p(np.array([50.0])))[0] == pytest.approx(1 / 16)
    assert tail.quantile(0.01) == np.inf


@pytest.mark.parametrize("draws", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_of_few_cohorts_no_score_is_likelier_than_claimed(kind, draws):
    """All outcomes of 4 cohorts with 6 bits. What is claimed is the probability of a score that is lower by half of the
    rounding at most: on average 4 x draws / 2 steps of the 6,000 from the lowest score to the highest."""
    rows = residuals(kind, (4, 6))
    z, exact = all_scores(rows, draws)
    claimed = np.exp(score_tail([(rows, draws)]).log_p(z))
    assert (claimed >= exact * (1 - 1e-6)).all()
    rounding = 4 * draws * (z[-1] - z[0]) / 6000 * 1.5  # without the ends that two draws cannot reach
    lower = exact[np.searchsorted(z, z - rounding)]
    assert (claimed <= lower * (1 + 1e-6)).all()


@pytest.mark.parametrize("cohorts", [1, 2, 8, 16])
def test_steps_of_the_law_are_not_smoothed_away(cohorts):
    """One cell of 64 stands out in each cohort: how many of them a string hits is binomial."""
    rows = np.zeros((cohorts, 64))
    rows[:, 5] = 1.0
    hits = np.arange(1, cohorts + 1)
    z = (hits - cohorts / 64) / np.sqrt(cohorts * 63 / 64**2)
    claimed = score_tail([(rows, 1)]).log_p(z)
    assert claimed == pytest.approx(binom.logsf(hits - 1, cohorts, 1 / 64), abs=1e-3)


def added_up_without_rounding(rows: Array, draws: int, z: Array) -> Array:
    """log P(score >= z): what every draw is rounded up by falls with the step of the grid, so that two grids tell what
    it would be without."""
    scaled = [(_centred(rows) / np.sqrt(_variance(_centred(rows), draws)), draws)]
    coarse, fine = (Tail(*_added_up(scaled, points)).log_p(z) for points in (8_000, 16_000))
    return 2 * fine - coarse


@pytest.mark.parametrize("draws", [1, 2])
@pytest.mark.parametrize("size", [(8, 64), (16, 32), (16, 128)])
@pytest.mark.parametrize("traces", [0.0, 1.0])
def test_of_few_cohorts_without_a_cell_that_stands_out_the_law_is_that_of_all_outcomes(traces, size, draws):
    """Within 2 %, from 0.1 to 1e-9, also where unknown strings have left traces of a deviation in one cell of
    fifty. Rounded up, as laws with steps are, p would be 1.6 times as large of 16 cohorts with two draws."""
    rows = residuals("normal", size) + traces * (np.random.default_rng(5).random(size) < 0.02)
    tail = score_tail([(rows, draws)])
    z = np.array([tail.quantile(p) for p in (0.1, 1e-2, 1e-4, 1e-6, 1e-9)])
    assert tail.log_p(z) == pytest.approx(added_up_without_rounding(rows, draws, z), abs=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_near_the_rarest_outcome_no_score_is_likelier_than_claimed(seed):
    """Five cohorts of 32 even cells have 3e7 outcomes: where few of them are left, the saddlepoint is too small."""
    rows = np.random.default_rng(seed).uniform(-1, 1, (5, 32))
    tail = score_tail([(rows, 1)])
    z = np.array([tail.quantile(p) for p in (1e-5, 1e-6, 1e-7)])
    assert (tail.log_p(z) >= added_up_without_rounding(rows, 1, z) - 0.001).all()


@pytest.mark.parametrize("draws", [1, 2])
@pytest.mark.parametrize("size", [(8, 64), (24, 64), (64, 128)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_highest_score_there_can_be_is_seen_to_be_rare(kind, size, draws):
    """Its probability is known, or a little less where cells are equal. Chernoff's bound tends to it with the tilt; the
    largest tilt leaves some of what the second highest cells of the rows may do."""
    rows = residuals(kind, size)
    tail = score_tail([(rows, draws)])
    centred = _centred(rows)
    highest = np.sort(centred, axis=1)[:, -draws:].sum() / np.sqrt(_variance(centred, draws))
    assert tail.least <= tail.log_p(np.array([highest]))[0] <= 0.4 * tail.least
    assert tail.quantile(1e-9) < highest


@pytest.mark.parametrize("draws", [1, 2])
@pytest.mark.parametrize("size", [(24, 64), (64, 128), (1024, 32)])
@pytest.mark.parametrize("kind", KINDS)
def test_between_tilts_the_law_is_that_of_the_formula(kind, size, draws):
    """Within 3 %, from half a deviation to 1e-17; straight lines were up to 7 times too small where cells are heavy."""
    rows, tilts = residuals(kind, size), np.geomspace(0.05, 15, 400)
    centred = _centred(rows)
    k0, k1, k2 = _cumulants(centred / np.sqrt(_variance(centred, draws)), draws, tilts)
    r = np.sqrt(2 * (tilts * k1 - k0))
    formula = log_ndtr(-(r + np.log(tilts * np.sqrt(np.maximum(k2, 1e-300)) / r) / r))
    within = (k1 > 0.5) & (formula > np.log(1e-17)) & (k2 > 1e-3)
    assert within.sum() > 50
    claimed = score_tail([(rows, draws)]).log_p(k1)
    assert claimed[within] == pytest.approx(formula[within], abs=0.03)
    assert (claimed <= k0 - tilts * k1 + 0.03).all()  # Chernoff's bound, which the tilts at hand nearly reach


def test_two_draws_from_a_row_with_a_heavy_cell_lose_no_digits():
    """A pair with the heavy cell is e^30 times as likely as others: A^2 - B would be 0 but for rounding."""
    row = _centred(np.array([[0.0, 0.1, -0.1, 0.2, 40.0]]))
    pairs = np.array([sum(pair) for pair in combinations(row[0], 2)])
    k0, k1, k2 = _cumulants(row, 2, np.array([1.0]))[:, 0]
    weights = np.exp(pairs - pairs.max())
    mean = np.average(pairs, weights=weights)
    assert k0 == pytest.approx(np.log(np.mean(weights)) + pairs.max(), rel=1e-12)
    assert k1 == pytest.approx(mean, rel=1e-12)
    assert k2 == pytest.approx(np.average((pairs - mean) ** 2, weights=weights), rel=1e-6)


@pytest.mark.parametrize("size", [(8, 64), (64, 128)])
@pytest.mark.parametrize("kind", KINDS)
def test_no_higher_score_is_likelier_and_quantiles_invert_it(kind, size):
    tail = score_tail([(residuals(kind, size), 1)])
    z = np.linspace(-10, 200, 20_001)
    assert (np.diff(tail.log_p(z)) <= 1e-12).all()
    for p in (0.3, 1e-2, 1e-5, 1e-9, 1e-13):
        assert tail.log_p(np.array([tail.quantile(p)]))[0] == pytest.approx(np.log(p), rel=1e-9)


def test_probability_falls_with_the_score_and_quantiles_invert_it():
    rng = np.random.default_rng(3)
    tail = score_tail([(rng.exponential(size=(8, 32)), 1)])
    z = np.linspace(0, 30, 500)
    assert (np.diff(tail.log_p(z)) <= 1e-12).all()
    for p in (1e-2, 1e-5, 1e-8):
        assert np.exp(tail.log_p(np.array([tail.quantile(p)])))[0] == pytest.approx(p, rel=0.02)


@pytest.mark.parametrize("size", [(8, 64), (64, 128)])
@pytest.mark.parametrize("draws", [1, 2])
def test_a_rough_law_is_the_same_but_for_a_few_per_mille(draws, size):
    rows = residuals("normal", size)
    whole, rough = score_tail([(rows, draws)]), score_tail([(rows, draws)], rough=True)
    z = np.array([whole.quantile(p) for p in (0.1, 1e-2, 1e-4, 1e-6)])
    assert rough.log_p(z) == pytest.approx(whole.log_p(z), abs=0.005)
    assert len(rough.z) < 0.7 * len(whole.z)


def test_a_row_with_no_more_cells_than_draws_adds_nothing():
    """Whatever is drawn, it is all there is."""
    rows, drawn_whole = residuals("normal", (8, 64)), np.array([[3.0, 5.0]])
    assert _variance(_centred(drawn_whole), 2) == 0.0
    z = np.linspace(0, 5, 20)
    both = score_tail([(rows, 1), (drawn_whole, 2)])
    assert both.log_p(z) == pytest.approx(
        score_tail([(rows, 1)]).log_p(z), abs=0.06
    )  # rounded up, as it has a row of few cells


def test_the_grid_of_few_cohorts_has_as_many_points_as_stated_whatever_is_drawn():
    """From the lowest sum of draws to the highest, in steps of equal size."""
    for draws in (1, 3):
        blocks = [(_centred(residuals("exponential", (3, 8), seed)), draws) for seed in (1, 2)]
        z, _ = _added_up(blocks, 1000)
        span = sum(draws * np.ptp(rows, axis=1).sum() for rows, _ in blocks)
        assert np.diff(z) == pytest.approx(np.full(len(z) - 1, span / 1000))
        assert z[-1] == pytest.approx(sum(draws * rows.max(axis=1).sum() for rows, _ in blocks))


def test_residuals_without_any_spread_fall_back_to_the_normal_law():
    assert score_tail([(np.zeros((4, 8)), 1)]) is NORMAL
    assert score_tail([]) is NORMAL


@pytest.mark.parametrize("draws", [1, 2])
def test_variance_and_cumulants_are_those_of_all_outcomes_enumerated(draws):
    """Rows of four cells: every draw of one cell, or of two different ones, is equally likely."""
    rows = _centred(np.array([[0.0, 1.0, 2.0, 5.0], [3.0, -1.0, 0.5, 0.0]]))
    tilts = np.array([0.5, 1.5])
    outcomes = [np.array([sum(pair) for pair in combinations(row, draws)]) for row in rows]
    assert _variance(rows, draws) == pytest.approx(sum(float(np.mean(sums**2)) for sums in outcomes))
    for (k0, k1, k2), tilt in zip(_cumulants(rows, draws, tilts).T, tilts, strict=True):
        weights = [np.exp(tilt * sums) for sums in outcomes]
        means = [float(np.average(sums, weights=weight)) for sums, weight in zip(outcomes, weights, strict=True)]
        assert k0 == pytest.approx(sum(float(np.log(weight.mean())) for weight in weights))
        assert k1 == pytest.approx(sum(means))
        assert k2 == pytest.approx(
            sum(
                float(np.average((sums - mean) ** 2, weights=weight))
                for sums, weight, mean in zip(outcomes, weights, means, strict=True)
            )
        )
