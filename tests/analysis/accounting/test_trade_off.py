"""The curve of smallest error pairs is never above the exact one, and as near to it as a line is wide."""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import pytest
from scipy import stats

from hubbub.analysis.accounting.mechanisms import gaussian_count, laplace_count, randomized_response
from hubbub.analysis.accounting.privacy_loss import PrivacyLoss
from hubbub.analysis.accounting.trade_off import (
    TradeOff,
    lower,
    profile_of,
    pure_profile,
    trade_off,
    trade_off_of,
)

ALARMS = np.concatenate([np.geomspace(1e-9, 0.01, 200), np.linspace(0.01, 1, 1000)])
ROUNDING = 1e-12  # of the exact curves and of ours, added up in another order


def drawn(curve: TradeOff) -> np.ndarray:
    return np.interp(ALARMS, curve.false_alarms, curve.missed)


def exact(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """By Neyman and Pearson: outcomes are taken in the order of their odds, and the last one by a coin."""
    order = np.argsort(np.divide(p, q, out=np.full_like(p, np.inf), where=q > 0))[::-1]
    alarms, found = np.cumsum(q[order]), np.cumsum(p[order])
    # Outcomes without a false alarm come first: of equal alarms the last counts.
    free = float(p[q == 0].sum())
    return np.interp(ALARMS, np.append(0.0, alarms), 1 - np.append(free, found))


def both_ways(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.minimum(exact(p, q), exact(q, p))


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0])
def test_randomised_response_has_its_two_straight_lines(epsilon: float) -> None:
    known = np.maximum.reduce([0 * ALARMS, 1 - exp(epsilon) * ALARMS, (1 - ALARMS) / exp(epsilon)])
    found = drawn(trade_off_of(randomized_response(epsilon)))
    assert np.all(found <= known + ROUNDING)
    assert np.max(known - found) < 1e-5


# With few outcomes the curve has few straight pieces, and a piece between two tangents is cut short.
@pytest.mark.parametrize(("deviation", "times", "near"), [(20, 1, 1e-3), (2, 1, 5e-3), (0.7, 1, 0.02), (3, 2, 5e-3)])
def test_gaussian_counts_are_never_above_the_enumerated_curve(deviation: float, times: int, near: float) -> None:
    x = np.arange(-40 * max(1, int(deviation)), 40 * max(1, int(deviation)) + 2)
    weight = np.exp(-(x**2) / (2 * deviation**2))
    p = weight / weight.sum()
    q = np.roll(p, 1)
    if times == 2:
        p, q = np.outer(p, p).ravel(), np.outer(q, q).ravel()
    known = both_ways(p, q)
    found = drawn(trade_off_of(gaussian_count(deviation).times(times)))
    assert np.all(found <= known + ROUNDING)
    assert np.max(known - found) < near


@pytest.mark.parametrize("times", [4, 52, 365])
def test_many_gaussian_counts_are_as_the_closed_form_says(times: int) -> None:
    """Phi(Phi^-1(1 - alarm) - mu) with mu = sqrt(times) / deviation. At deviation 20 the discrete law is the normal one
    but for less than 1e-15; what is left is the grid and the tangents."""
    known = stats.norm.cdf(stats.norm.isf(ALARMS) - sqrt(times) / 20)
    found = drawn(trade_off_of(gaussian_count(20).times(times)))
    assert np.all(found <= known + 1e-5)  # one count is the coarser, at most by what lies between two whole numbers
    assert np.max(known - found) < 1e-3


def test_any_pair_on_a_coarse_grid_is_never_above_the_exact_curve() -> None:
    """Random pairs, with outcomes that only one of the two has, alone and twice."""
    rng = np.random.default_rng(29)
    for _ in range(15):
        p, q = rng.dirichlet(np.ones(5) / 2), rng.dirichlet(np.ones(5) / 2)
        p[0], q[1] = 0, 0
        p, q = p / p.sum(), q / q.sum()
        for times, one, two in ((1, p, q), (2, np.outer(p, p).ravel(), np.outer(q, q).ravel())):
            known = both_ways(one, two)
            for tangents in (3, 200):
                curve = trade_off(profile_of([PrivacyLoss.of(p, q, 0.3).times(times)]), tangents)
                assert np.all(drawn(curve) <= known + ROUNDING)
            fine = drawn(trade_off_of(PrivacyLoss.of(p, q, 0.002).times(times)))
            hull = trade_off(lambda e, a=one, b=two: max(_delta(a, b, e), _delta(b, a, e)), 2000)
            assert np.max(drawn(hull) - fine) < 0.02


def _delta(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - exp(epsilon) * q, 0).sum())


def test_straight_lines_between_points_of_the_curve_would_be_noticed() -> None:
    """The slip that tangents avoid: chords of a convex curve are above it."""
    mu = sqrt(52) / 20
    few = np.linspace(0, 1, 30)
    chords = np.interp(ALARMS, few, stats.norm.cdf(stats.norm.isf(few) - mu))
    assert np.max(chords - stats.norm.cdf(stats.norm.isf(ALARMS) - mu)) > 1e-3


def test_curves_are_convex_fall_and_mirror_themselves() -> None:
    for loss in (gaussian_count(5).times(8), laplace_count(10).times(52), randomized_response(2.0)):
        curve = trade_off_of(loss)
        even = np.interp(np.linspace(0, 1, 1001), curve.false_alarms, curve.missed)
        assert np.all(np.diff(curve.false_alarms) >= 0)
        assert np.all(np.diff(curve.missed) <= 0)
        assert np.all(np.diff(even, 2) >= -ROUNDING)
        for alarm in (0.001, 0.1, 0.3):
            assert curve.missed_at(curve.missed_at(alarm)) == pytest.approx(alarm, abs=1e-4)


def test_nothing_published_is_blind_guessing_and_a_certain_answer_is_no_privacy() -> None:
    nothing = drawn(trade_off_of(randomized_response(1.0).times(0)))
    assert nothing == pytest.approx(1 - ALARMS, abs=1e-12)
    all_told = PrivacyLoss.of(np.array([1.0, 0.0]), np.array([0.0, 1.0]), 0.1)
    assert drawn(trade_off_of(all_told)) == pytest.approx(0 * ALARMS)


def test_the_least_of_two_profiles_is_above_both_curves() -> None:
    """A pure epsilon from elsewhere caps what a composition tells."""
    loss, cap = gaussian_count(5).times(52), pure_profile(1.0)
    capped, alone = drawn(trade_off(lower(profile_of([loss]), cap))), drawn(trade_off_of(loss))
    response = drawn(trade_off(cap))
    assert np.all(capped >= np.maximum(alone, response) - 1e-3)
    assert response == pytest.approx(drawn(trade_off_of(randomized_response(1.0))), abs=1e-5)


def test_what_is_set_aside_for_the_unknown_is_missed_less_often() -> None:
    loss = randomized_response(1.0)
    with_groups = trade_off(profile_of([loss], weight=0.5, aside=0.01))
    assert with_groups.missed_at(0.0) == pytest.approx(0.99, abs=1e-5)
    middle = (1 - 1 / (1 + exp(1))) - 1 / (1 + exp(1))  # the largest difference of probabilities
    assert float(np.min(with_groups.false_alarms + with_groups.missed)) == pytest.approx(
        1 - 0.01 - middle / 2, abs=1e-6
    )
