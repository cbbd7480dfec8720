"""The verdicts on chance, judged themselves: by exact sums over the whole law, not by the functions under test."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from tests.chance import SMALLEST_EXPECTED, assert_binomial, assert_uniform, binomial_bounds, power, uniform_power


def law(trials: int, p: Fraction) -> list[Fraction]:
    return [comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)]


CASES = [(1, "1/2"), (7, "1/3"), (50, "1/100"), (200, "1/2"), (400, "19/20"), (333, "999/1000")]


@pytest.mark.parametrize(("trials", "p"), CASES)
@pytest.mark.parametrize("false_alarm", [0.3, 1e-2, 1e-6, 1e-12])
def test_bounds_are_the_narrowest_that_keep_the_false_alarm(trials, p, false_alarm):
    probabilities = law(trials, Fraction(p))
    low, high = binomial_bounds(trials, Fraction(p), false_alarm)
    tail = Fraction(false_alarm) / 2
    assert sum(probabilities[:low]) <= tail < sum(probabilities[: low + 1])
    assert sum(probabilities[high + 1 :]) <= tail < sum(probabilities[high:])


@pytest.mark.parametrize(("trials", "p"), CASES)
def test_power_is_the_exact_mass_outside_the_bounds(trials, p):
    wrong = (Fraction(p) + Fraction(1, 2)) / 2
    low, high = binomial_bounds(trials, Fraction(p), 1e-3)
    probabilities = law(trials, wrong)
    outside = float(sum(probabilities[:low]) + sum(probabilities[high + 1 :]))
    assert power(trials, Fraction(p), wrong, 1e-3) == pytest.approx(outside, rel=1e-9, abs=1e-300)


def test_a_certain_claim_leaves_no_room():
    assert binomial_bounds(1000, 0) == (0, 0)
    assert binomial_bounds(1000, 1) == (1000, 1000)
    assert power(1000, 0, 0.1) > 0.999
    with pytest.raises(AssertionError):
        assert_binomial(1, 1000, 0)


def test_bounds_hold_where_trials_are_many():
    """A thousand million fair coins: 4.89 standard deviations of 15811 either side."""
    low, high = binomial_bounds(10**9, 0.5)
    assert 5 * 10**8 - low == high - 5 * 10**8
    assert 4.89 < (high - 5 * 10**8) / (10**9 / 4) ** 0.5 < 4.90


def test_the_last_count_inside_passes_and_the_next_one_fails():
    low, high = binomial_bounds(10_000, 0.25)
    assert_binomial(low, 10_000, 0.25)
    assert_binomial(high, 10_000, 0.25)
    for outside in (low - 1, high + 1):
        with pytest.raises(AssertionError):
            assert_binomial(outside, 10_000, 0.25)


def test_a_failure_names_n_k_p_hat_what_was_expected_and_the_false_alarm():
    with pytest.raises(AssertionError) as failure:
        assert_binomial(400, 1000, Fraction(1, 2), false_alarm=1e-9)
    for part in ("n = 1000", "k = 400", "p-hat = 0.4", "expected p = 0.5", "k in [404, 596]", "false_alarm = 1e-09"):
        assert part in str(failure.value)


def test_few_trials_have_no_power_and_many_have():
    """The reason for `power`: 100 coins pass at 0.60, 10,000 do not."""
    assert power(100, 0.5, 0.6) < 0.01
    assert power(10_000, 0.5, 0.6) > 0.999


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: assert_binomial(11, 10, 0.5), "successes must be in [0, trials=10], got 11"),
        (lambda: assert_binomial(-1, 10, 0.5), "successes must be in [0, trials=10], got -1"),
        (lambda: binomial_bounds(0, 0.5, 1e-6), "trials must be at least 1, got 0"),
        (lambda: binomial_bounds(5, 1.5, 1e-6), "a probability must be in [0, 1], got 1.5"),
        (lambda: binomial_bounds(5, 0.5, 0), "false_alarm must be above 0 and below 1, got 0"),
        (lambda: power(5, 0.5, -0.1), "a probability must be in [0, 1], got -0.1"),
        (lambda: assert_uniform([100]), "counts must have at least 2 cells, got 1"),
        (lambda: assert_uniform([19, 20]), "counts must expect at least 20 draws a cell, got 39 over 2"),
        (lambda: uniform_power(1000, [0.5, 0.6]), "probabilities must add up to 1, got 1.1"),
    ],
)
def test_a_question_without_sense_is_refused(call, message):
    with pytest.raises(ValueError) as refusal:
        call()
    assert str(refusal.value) == message


def alarms(repeats: int, total: int, weights: list[float], false_alarm: float, seed: int) -> int:
    """How many of so many seeded draws `assert_uniform` refuses."""
    found = 0
    for counts in np.random.default_rng(seed).multinomial(total, weights, size=repeats):
        try:
            assert_uniform(counts, false_alarm)
        except AssertionError:
            found += 1
    return found


def test_even_draws_alarm_as_often_as_stated():
    """With the fewest draws allowed, where the chi-square law is worst: 1 % stated, and 2 % would be noticed."""
    repeats = 10_000
    found = alarms(repeats, total=10 * SMALLEST_EXPECTED, weights=[0.1] * 10, false_alarm=0.01, seed=1)
    assert_binomial(found, repeats, 0.01)
    assert power(repeats, 0.01, wrong_p=0.02) > 0.999


def test_uneven_draws_alarm_as_often_as_their_power_says():
    weights = [0.12] + [0.88 / 9] * 9
    repeats, total = 2000, 2000
    expected = uniform_power(total, weights, false_alarm=0.05)
    assert 0.3 < expected < 0.9
    assert_binomial(alarms(repeats, total, weights, false_alarm=0.05, seed=2), repeats, expected)
    assert power(repeats, expected, wrong_p=expected + 0.1) > 0.999


def test_a_failure_of_evenness_names_the_worst_cell():
    with pytest.raises(AssertionError) as failure:
        assert_uniform([100, 100, 100, 300])
    for part in ("n = 600", "4 cells", "worst cell 3", "k = 300", "p-hat = 0.5", "expected 150", "false_alarm = 1e-06"):
        assert part in str(failure.value)
