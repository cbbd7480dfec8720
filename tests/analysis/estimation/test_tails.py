"""The law of an absent string's score, against two million random strings and exact enumeration."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from hubbub.analysis.estimation.tails import NORMAL, _centred, _cumulants, _variance, score_tail
from tests.chance import binomial_bounds

DRAWS = 1_000_000


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


def test_probability_falls_with_the_score_and_quantiles_invert_it():
    rng = np.random.default_rng(3)
    tail = score_tail([(rng.exponential(size=(8, 32)), 1)])
    z = np.linspace(0, 30, 500)
    assert (np.diff(tail.log_p(z)) <= 1e-12).all()
    for p in (1e-2, 1e-5, 1e-8):
        assert np.exp(tail.log_p(np.array([tail.quantile(p)])))[0] == pytest.approx(p, rel=0.02)


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
