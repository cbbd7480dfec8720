"""Intervals, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hubbub.analysis.estimation.intervals import (
    Variance,
    normal_interval,
    ratios,
    score_interval,
)

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


def test_without_noise_the_score_interval_is_wilsons():
    variance = Variance(np.zeros(1), np.zeros(1), np.array([1 / 50]))
    low, high = score_interval(np.array([0.1]), variance, 0.95)
    wilson = stats.binomtest(5, 50).proportion_ci(method="wilson")
    assert (low[0], high[0]) == pytest.approx((wilson.low, wilson.high))


@given(numbers, st.floats(1e-3, 1), st.floats(-0.5, 0.5))
def test_a_variance_that_grows_is_taken_at_the_ends_of_an_interval(estimate, error, slope):
    ends = normal_interval(np.array([estimate]), np.array([error]), 0.95, slope=np.array([slope]))
    for (end,) in ends:
        spread = error**2 + slope * (end - estimate)
        assert (estimate - end) ** 2 == pytest.approx(1.959964**2 * spread, rel=1e-5, abs=1e-9)


@given(numbers, st.floats(0.5, 2), st.floats(0.02, 0.1), st.floats(0, 0.05), st.floats(0, 2e-3))
def test_variance_and_covariance_that_grow_are_taken_at_the_ratio_tested(top, bottom, var_top, growth, together):
    var_bottom, covariance = 1e-3, together * max(top, 0)
    slopes = np.array([growth]), np.array([together])
    found = ratios(np.array([top]), bottom, np.array([var_top]), np.array([covariance]), var_bottom, 0.95, slopes)
    for r in (found.low[0], found.high[0]):
        more = r * bottom - top
        spread = var_top + growth * more - 2 * r * (covariance + together * more) + r**2 * var_bottom
        if spread > 0:
            assert (top - r * bottom) ** 2 == pytest.approx(1.959964**2 * spread, rel=1e-4, abs=1e-7)


def test_a_ratio_to_what_may_be_nothing_has_no_interval():
    found = ratios(np.array([0.1]), 0.01, np.array([0.01]), np.array([0.0]), 0.01, 0.95)
    assert (found.low[0], found.high[0]) == (-np.inf, np.inf)


@pytest.mark.parametrize(("degrees", "times"), [(3.0, 3.182446), (30.0, 2.042272), (np.inf, 1.959964)])
def test_few_degrees_of_freedom_widen_an_interval_as_students_law_says(degrees, times):
    low, high = normal_interval(np.array([1.0]), np.array([2.0]), 0.95, degrees)
    assert (low[0], high[0]) == pytest.approx((1 - 2 * times, 1 + 2 * times), abs=1e-5)


def test_the_ratio_of_a_thing_to_itself_is_known_exactly():
    found = ratios(np.array([0.4]), 0.4, np.array([1e-4]), np.array([1e-4]), 1e-4, 0.95)
    assert (found.estimate[0], found.std_error[0]) == pytest.approx((1, 0), abs=1e-9)
    assert (found.low[0], found.high[0]) == pytest.approx((1, 1), abs=1e-9)


def test_the_error_of_a_ratio_is_that_of_samples():
    """A hundred thousand pairs that covary: to first order, with errors of a hundredth of the bottom."""
    rng = np.random.default_rng(1)
    covariance = np.array([[1.0, 0.6], [0.6, 0.8]]) * 1e-5
    top, bottom = rng.multivariate_normal([0.3, 0.5], covariance, 100_000).T
    found = ratios(np.array([0.3]), 0.5, covariance[0, :1], covariance[0, 1:], covariance[1, 1], 0.95)
    assert np.std(top / bottom) == pytest.approx(found.std_error[0], rel=5 * np.sqrt(0.5 / 100_000) + 1e-3)


def test_the_ends_of_a_ratio_are_just_not_surprising_and_on_both_sides_of_it():
    """(top - r bottom)^2 = z^2 Var(top - r bottom) at each end (Fieller 1954)."""
    top, bottom, of_top, both, of_bottom = 0.2, 0.5, 9e-4, 2e-4, 4e-4
    found = ratios(np.array([top]), bottom, np.array([of_top]), np.array([both]), of_bottom, 0.95)
    assert found.low[0] < 0.4 < found.high[0]
    for end in (found.low[0], found.high[0]):
        spread = of_top - 2 * end * both + end**2 * of_bottom
        assert (top - end * bottom) ** 2 == pytest.approx(1.959964**2 * spread, rel=1e-5)
