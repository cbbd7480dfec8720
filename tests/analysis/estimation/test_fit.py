"""Weights of a fit: the variance that cells' own noise does not explain, and the cells that no candidate explains."""

from __future__ import annotations

import numpy as np
import pytest

from hubbub.analysis.estimation.cells import pool
from hubbub.analysis.estimation.fit import (
    Fit,
    Weights,
    cell_variance,
    even_weights,
    extra_variance,
    outlier_cells,
    reweigh,
    settle,
    solve,
)
from hubbub.analysis.estimation.hashing import digests
from hubbub.analysis.kinds.string import string_design
from hubbub.protocol.kinds import String
from tests.analysis.worlds import Strings, define, tally_of


@pytest.mark.parametrize("fitted", [1, 10, 60])
def test_the_extra_variance_leaves_one_square_for_each_cell_not_fitted(fitted):
    rng = np.random.default_rng(1)
    variance = rng.uniform(0.5, 2, 100)
    residual = rng.standard_normal(100) * np.sqrt(variance + 3)
    tau2 = extra_variance(residual, variance, fitted)
    assert float((residual**2 / (variance + tau2)).sum()) == pytest.approx(100 - fitted, rel=1e-6)


def test_residuals_that_their_noise_explains_have_no_extra_variance():
    variance = np.ones(100)
    assert extra_variance(np.full(100, 0.9), variance, 1) == 0.0
    assert extra_variance(np.full(100, 9.0), variance, 100) == 0.0, "with as many unknowns as cells nothing is left"


STRINGS = Strings.of(define(String(num_bits=64, num_hashes=1, num_cohorts=16)), 1)
DESIGN = string_design([pool(tally_of(STRINGS.metric, [16_000], np.random.default_rng(2), STRINGS.where))], digests([]))
SIZE = 64 * 16


def fit_with(standard: np.ndarray) -> Fit:
    """A fit of no candidate whose residuals are these, in the cells' own deviations."""
    expected = np.zeros(SIZE)
    return Fit(
        chosen=np.zeros(0, dtype=np.int64),
        other=0.0,
        shares=np.zeros(0),
        covariance=np.zeros((1, 1)),
        residual=standard * np.sqrt(cell_variance(DESIGN, expected)),
        expected=expected,
        weights=even_weights(DESIGN, np.zeros(SIZE, dtype=bool)),
    )


def residuals(outliers: int, height: float) -> np.ndarray:
    """Evenly from -3 to 3, whose median deviation is 1.5 and so 2.22 robust ones; and so many cells up there."""
    return np.concatenate([np.full(outliers, height), np.linspace(-3, 3, SIZE - outliers)])


def test_cells_more_than_four_robust_deviations_up_are_excluded():
    """Four times 1.4826 times the median deviation of 1.5 is 8.9."""
    out, shrinkage = outlier_cells(DESIGN, fit_with(residuals(12, 9.3)))
    assert np.flatnonzero(out).tolist() == list(range(12))
    # The density of residuals at the cut c, from those within a quarter of it: c p(c) = (12 / 1024) / 0.5.
    assert shrinkage == pytest.approx(1 - (12 / 1024 / 0.5) / (1 - 12 / 1024))
    out, shrinkage = outlier_cells(DESIGN, fit_with(residuals(12, 8.4)))
    assert not out.any()
    assert shrinkage == 1.0


def test_a_few_cells_are_chance_and_low_ones_are_nobodys_string():
    assert not outlier_cells(DESIGN, fit_with(residuals(7, 20.0)))[0].any()
    assert outlier_cells(DESIGN, fit_with(residuals(8, 20.0)))[0].sum() == 8
    assert not outlier_cells(DESIGN, fit_with(residuals(20, -20.0)))[0].any()


def test_a_tail_is_no_exception():
    """Where many residuals lie about the cut, rejecting beyond it would shrink every share: nothing is excluded."""
    heavy = np.random.default_rng(3).standard_t(1.5, SIZE) * 2
    standard = np.sort(heavy)
    assert (standard > 4 * 1.4826 * np.median(np.abs(standard - np.median(standard)))).sum() > 8
    out, shrinkage = outlier_cells(DESIGN, fit_with(standard))
    assert not out.any()
    assert shrinkage == 1.0


def test_a_fit_settles_at_the_weights_that_it_implies():
    """A third of the installs hold strings that are not fitted, so that the first weights are far from the last."""
    strings = Strings.of(define(String(num_bits=64, num_hashes=1, num_cohorts=16)), 40)
    held = [4_000] * 2 + [200] * 38 + [4_000]
    pooled = [pool(tally_of(strings.metric, held, np.random.default_rng(4), strings.where))]
    design, chosen = string_design(pooled, digests(["text 0", "text 1"])), np.arange(2)
    nothing = np.zeros(len(design.share), dtype=bool)
    first = solve(design, chosen, even_weights(design, nothing))
    second = solve(design, chosen, reweigh(design, first, nothing))
    settled = settle(design, chosen, even_weights(design, nothing), nothing)
    assert settled.shares == pytest.approx(second.shares, rel=1e-12)
    assert settled.weights.tau2 == pytest.approx(second.weights.tau2, rel=1e-12)
    assert first.weights.tau2 != settled.weights.tau2 > 0


def test_without_cells_nothing_stands_for_strings_that_are_not_fitted():
    assert Weights(cells=np.zeros(3), tau2=2.0).unfitted == 0.0
    assert Weights(cells=np.array([0.0, 0.25]), tau2=2.0).unfitted == 0.5
