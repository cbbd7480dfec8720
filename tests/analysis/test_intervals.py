"""Intervals and corrections, against enumeration and definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hubbub.analysis.estimation.guesses import likely_shares, nearest_shares
from hubbub.analysis.estimation.intervals import (
    Variance,
    adjust,
    interval_given_selection,
    ratios,
    score_interval,
)
from tests.chance import assert_binomial, power

numbers = st.floats(-2, 2, allow_nan=False)


@given(numbers, st.floats(1e-6, 1), st.floats(-0.5, 0.5), st.floats(0, 1))
def test_the_ends_of_a_score_interval_are_just_not_surprising(estimate, floor, slope, sampling):
    variance = Variance(np.array([floor]), np.array([slope]), np.array([sampling]))
    (low,), (high,) = score_interval(np.array([estimate]), variance, 0.95)
    assert low <= high
    for end in (low, high):
        spread = floor + slope * end + sampling * end * (1 - end)
        if spread > 0 and variance.at(np.array([estimate]))[0] > 0:
            inside = abs(estimate - end) ** 2
            assert inside == pytest.approx(1.959964**2 * spread, rel=1e-3, abs=1e-9) or not 0 <= end <= 1


def test_for_a_perfect_wire_the_score_interval_is_wilsons():
    variance = Variance(np.zeros(1), np.zeros(1), np.array([1 / 50]))
    low, high = score_interval(np.array([0.1]), variance, 0.95)
    wilson = stats.binomtest(5, 50).proportion_ci(method="wilson")
    assert (low[0], high[0]) == pytest.approx((wilson.low, wilson.high))


def test_a_ratio_to_what_may_be_nothing_has_no_interval():
    found = ratios(np.array([0.1]), 0.01, np.array([0.01]), np.array([0.0]), 0.01, 0.95)
    assert (found.low[0], found.high[0]) == (-np.inf, np.inf)


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


@given(st.lists(st.floats(-1, 2), min_size=1, max_size=30), st.booleans())
def test_the_nearest_shares_are_possible_and_no_possible_ones_are_nearer(estimates, exactly):
    f = np.array(estimates)
    guess = nearest_shares(f, np.ones(len(f)), exactly=exactly)
    assert (guess >= 0).all()
    assert guess.sum() <= 1 + 1e-9
    if exactly:
        assert guess.sum() == pytest.approx(1)
    rng = np.random.default_rng(0)
    others = rng.dirichlet(np.ones(len(f)), 50) * (1 if exactly else rng.uniform(0, 1, (50, 1)))
    nearer = ((others - f) ** 2).sum(axis=1) < ((guess - f) ** 2).sum() - 1e-9
    assert not nearer.any()


def test_shrinking_a_long_list_beats_cutting_it_off():
    rng = np.random.default_rng(9)
    truth = np.concatenate([np.linspace(0.001, 0.02, 50), np.zeros(2_000)])
    errors = {"likely": 0.0, "nearest": 0.0, "unbiased": 0.0}
    for _ in range(20):
        estimate = truth + 0.002 * rng.standard_normal(len(truth))
        variance = np.full(len(truth), 0.002**2)
        errors["unbiased"] += ((estimate - truth) ** 2).sum()
        errors["nearest"] += ((nearest_shares(estimate, variance) - truth) ** 2).sum()
        errors["likely"] += ((likely_shares(estimate, variance, 1.0) - truth) ** 2).sum()
    assert errors["likely"] < errors["nearest"] < errors["unbiased"] / 4
