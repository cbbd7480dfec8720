"""How far chance may carry a figure from what theory says: ranges with a stated false-alarm rate.

Each function gives the range that a right figure leaves with probability `FALSE_ALARM`. With under a hundred such
figures in all, one whole run in ten thousand raises a false alarm.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from scipy import stats

from hubbub.analysis.arrays import Array

FALSE_ALARM = 1e-6
"""Of each range, both sides together."""

Between = tuple[float, float]


def share(trials: int, p: float, at_most: float | None = None) -> Between:
    """A share of so many independent trials of probability p (or anything from p to `at_most`). Exact, binomial."""
    tail = FALSE_ALARM / 2
    highest = p if at_most is None else at_most
    low = int(stats.binom.ppf(tail, trials, p)) if p > 0 else 0
    while low > 0 and stats.binom.cdf(low - 1, trials, p) > tail:
        low -= 1
    high = int(stats.binom.isf(tail, trials, highest)) if highest < 1 else trials
    while high < trials and stats.binom.sf(high, trials, highest) > tail:
        high += 1
    return low / trials, high / trials


def at_most(trials: int, p: float) -> Between:
    """A share whose probability is p at most."""
    return 0.0, share(trials, p)[1]


def mean_square(expected: float, degrees: float, at_most: float | None = None) -> Between:
    """The mean of squared normal errors whose mean is `expected` (or up to `at_most`): chi-square.

    `degrees` is how many independent errors it is worth: 2 mean**2 / variance for any quadratic form (Satterthwaite).
    """
    tail = FALSE_ALARM / 2
    highest = expected if at_most is None else at_most
    low, high = (float(stats.gamma.ppf(q, degrees / 2) / (degrees / 2)) for q in (tail, 1 - tail))
    return expected * low, highest * high


def mean_square_of_whole_numbers(law: Array, draws: int) -> Between:
    """The mean of so many squared draws, of 0, 1, 2, ... with these probabilities. Exact: their laws are convolved."""
    squares = np.zeros((len(law) - 1) ** 2 + 1)
    squares[np.arange(len(law)) ** 2] = law
    values = np.arange(len(squares))
    expected = float(squares @ values)
    spread = sqrt(float(squares @ values**2) - expected**2)
    # What lies beyond wraps around; sixteen deviations of the sum, and the largest square, are more than enough.
    size = 1 << int(draws * expected + 16 * spread * sqrt(draws) + len(squares)).bit_length()
    whole = np.cumsum(np.maximum(np.fft.irfft(np.fft.rfft(squares, size) ** draws, size), 0))
    low, high = (int(np.searchsorted(whole, at)) for at in (FALSE_ALARM / 2, 1 - FALSE_ALARM / 2))
    return low / draws, (high + 1) / draws


def mean(expected: float, variance: float, at_most: float | None = None) -> Between:
    """A mean of many draws whose expectation is `expected` (or up to `at_most`): normal, with this variance."""
    reach = float(stats.norm.isf(FALSE_ALARM / 2)) * sqrt(variance)
    return expected - reach, (expected if at_most is None else at_most) + reach


def found(powers: Array, repeats: int, likelier: Array | None = None) -> Between:
    """The mean number detected over so many runs, each thing with its own power (or up to `likelier`)."""
    highest = powers if likelier is None else likelier
    low = mean(float(powers.sum()), float(np.sum(powers * (1 - powers))) / repeats)[0]
    return low, mean(float(highest.sum()), float(np.sum(highest * (1 - highest))) / repeats)[1]


def power(shares: Array, std_error_if_none: float, std_error: Array | float, level: float) -> Array:
    """The chance that a one-sided test at this level sees each of these shares."""
    return np.asarray(stats.norm.sf((stats.norm.isf(level) * std_error_if_none - shares) / std_error))
