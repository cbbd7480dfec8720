"""Corrections for many tests, and intervals of what passed one, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hubbub.analysis.estimation.selection import adjust, interval_given_selection
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


def test_bonferroni_and_benjamini_hochberg_are_as_defined():
    p = np.array([0.001, np.nan, 0.04, 0.02, 0.5])
    assert adjust(p, "bonferroni")[[0, 2, 3, 4]] == pytest.approx([0.004, 0.16, 0.08, 1.0])
    known = p[[0, 2, 3, 4]]
    assert adjust(p, "benjamini-hochberg")[[0, 2, 3, 4]] == pytest.approx(stats.false_discovery_control(known))
    assert np.isnan(adjust(p, "bonferroni")[1])
