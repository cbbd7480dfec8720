"""Intervals of what passed a test, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hubbub.analysis.estimation.selection import interval_given_selection
from tests.chance import assert_binomial, power


def test_selected_values_keep_their_coverage_though_plain_intervals_lose_it():
    rng = np.random.default_rng(6)
    truth = rng.uniform(1, 4, 200_000)
    drawn = truth + rng.standard_normal(len(truth))
    chosen = np.flatnonzero(drawn > 3.5)[:20_000]
    ones = np.ones(len(chosen))
    low, high = interval_given_selection(drawn[chosen], ones, 3.5 * ones, 0.95)
    hits = int(((low <= truth[chosen]) & (truth[chosen] <= high)).sum())
    plain = int((np.abs(drawn[chosen] - truth[chosen]) < 1.959964).sum())
    assert_binomial(hits, len(chosen), 0.95)
    assert plain < 0.935 * len(chosen)
    assert power(len(chosen), 0.95, 0.935) > 0.999


def test_an_interval_after_selection_stays_among_possible_shares():
    """Just beyond the threshold the normal law cut there says nothing of how small the share may be: the ends run off
    to minus infinity, and are cut at 0. Far beyond it the interval is the plain one."""
    estimate, ones = np.array([5.001, 5.3, 30.0]), np.ones(3)
    low, high = interval_given_selection(estimate, ones, 5 * ones, 0.95)
    assert low[:2].tolist() == [0.0, 0.0]
    assert high[0] == 0.0
    assert 0 < high[1] < 5.3 + 1.96
    assert (low[2], high[2]) == pytest.approx((30 - 1.959964, 30 + 1.959964), abs=1e-5)


def test_ends_that_are_not_cut_solve_the_equation_of_the_cut_law():
    """P(Z > z | Z > cut) under each end's mean is (1 - confidence) / 2 or its complement."""
    z, cut, error = 6.2, 4.0, 0.01
    low, high = interval_given_selection(np.array([z * error]), np.array([error]), np.array([cut * error]), 0.9)
    tails = [stats.norm.sf(z - mean) / stats.norm.sf(cut - mean) for mean in (low[0] / error, high[0] / error)]
    assert tails == pytest.approx([0.05, 0.95], rel=1e-6)


def test_what_has_no_error_is_its_own_interval() -> None:
    """As a share of those who answered can seem to have, where a dozen installs did."""
    low, high = interval_given_selection(np.array([0.4, 0.4]), np.array([0.0, 0.1]), np.array([0.2, 0.2]), 0.95)
    assert (low[0], high[0]) == (0.4, 0.4)
    assert low[1] < 0.4 < high[1]
