"""Closed forms of composition, against figures known from elsewhere and against each other."""

from __future__ import annotations

from math import exp, expm1, log

import pytest

from hubbub.analysis.accounting import composition as c
from hubbub.analysis.accounting.mechanisms import amplified_by_shuffling, gaussian_count


def test_a_year_of_weekly_counts_in_every_currency() -> None:
    """52 counts at delta 1e-9: Gaussian noise of 20 as privacy loss, Renyi and zero-concentrated; Laplace of 10 in the
    best composition, the advanced and the basic one. Each is at least the one before."""
    gaussian = [
        gaussian_count(20).times(52).epsilon(1e-9),
        c.epsilon_of_renyi([52 * each for each in c.gaussian_renyi(20)], 1e-9),
        c.epsilon_of_rho(52 * c.gaussian_rho(20), 1e-9),
    ]
    assert gaussian == pytest.approx([2.054, 2.16, 2.39], rel=0.01)
    laplace = [c.optimal(0.1, 52, 1e-9), c.advanced(0.1, 52, 1e-9), c.basic([(0.1, 0)] * 52)[0]]
    assert laplace == pytest.approx([4.00, 5.19, 5.2], rel=0.01)
    assert gaussian == sorted(gaussian)
    assert laplace == sorted(laplace)


def test_rho_and_renyi_agree_with_opendp() -> None:
    """Figures of opendp 0.16.0, computed once: `then_gaussian(scale=20)` on whole numbers, `make_composition` of 52,
    the `map(1)` of both, and `make_zCDP_to_approxDP` at 1e-9; `then_laplace(scale=10)` composed alike."""
    for times, rho, epsilon in ((1, 0.00125, 0.2751678), (52, 0.065, 2.1611257)):
        assert times * c.gaussian_rho(20) == pytest.approx(rho)
        renyi = c.epsilon_of_renyi([times * each for each in c.gaussian_renyi(20)], 1e-9)
        assert epsilon * (1 - 1e-6) <= renyi <= epsilon * 1.005  # by whole orders, so a hair above
    assert c.basic([(0.1, 0)] * 52)[0] == pytest.approx(5.2)


def test_four_years_of_daily_reports_without_memory_cannot_be_saved() -> None:
    """1460 fresh answers of epsilon 1, at delta 1e-6."""
    assert c.basic([(1.0, 0.0)] * 1460)[0] == pytest.approx(1460)
    assert c.epsilon_of_renyi([1460 * each for each in c.response_renyi(1.0)], 1e-6) == pytest.approx(846, rel=0.002)
    assert c.optimal(1.0, 1460, 1e-6) == pytest.approx(831, rel=0.001)


def test_the_best_composition_of_two_is_that_of_the_theorem() -> None:
    """Kairouz, Oh, Viswanath: at epsilon 0 of two releases, delta is (E^2 - 1) / (1 + E)^2."""
    epsilon = 0.7
    delta = expm1(2 * epsilon) / (1 + exp(epsilon)) ** 2
    assert c.optimal(epsilon, 2, delta * 1.000001) == 0
    assert c.optimal(epsilon, 2, delta * 0.99) > 0
    assert c.optimal(epsilon, 2, 1e-12) == pytest.approx(2 * epsilon, rel=1e-6)


def test_groups_multiply() -> None:
    assert c.group(0.5, 1e-9, 3) == (pytest.approx(1.5), pytest.approx(1e-9 * (1 + exp(0.5) + exp(1.0))))
    assert c.group(0.0, 1e-9, 3) == (0.0, pytest.approx(3e-9))


def test_pure_epsilons_have_a_rho() -> None:
    assert c.epsilon_of_rho(52 * c.pure_rho(0.1), 1e-9) >= c.optimal(0.1, 52, 1e-9)


def test_shuffling_has_the_closed_form_and_its_limit() -> None:
    assert amplified_by_shuffling(1.0, 10**6, 1e-6) == pytest.approx(0.0235, rel=0.01)
    assert [amplified_by_shuffling(e, 10**5, 1e-9) for e in (1, 2, 4)] == pytest.approx(
        [0.087, 0.221, 0.616], rel=0.005
    )
    assert amplified_by_shuffling(8.0, 1000, 1e-9) == 8.0


@pytest.mark.parametrize(
    ("epsilon", "times", "delta", "message"),
    [
        (0.0, 1, 0.1, "epsilon must be above 0, got 0"),
        (1.0, 0, 0.1, "times must be at least 1, got 0"),
        (1.0, 1, 0.0, "delta must be above 0 and below 1, got 0"),
        (1.0, 1, 1.0, "delta must be above 0 and below 1, got 1"),
    ],
)
def test_what_makes_no_sense_is_refused(epsilon: float, times: int, delta: float, message: str) -> None:
    for bound in (c.optimal, c.advanced):
        with pytest.raises(ValueError, match=message):
            bound(epsilon, times, delta)
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        c.group(log(2), 0.1, 0)
