"""The normal test of a value, and what can be said of it because it was detected (see `detection`)."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr

from hubbub.analysis.arrays import Array


def normal_p_value(estimate: Array, std_error: Array) -> Array:
    """One-sided: is there more than nothing? A channel without noise makes any excess certain."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(std_error > 0, estimate / std_error, np.where(estimate > 0, np.inf, -np.inf))
    return np.where(np.isnan(estimate), np.nan, np.asarray(ndtr(-z)))


def interval_given_selection(
    estimate: Array, std_error: Array, threshold: Array, confidence: float
) -> tuple[Array, Array]:
    """Intervals for what is shown only because its estimate passed `threshold`.

    Such an estimate follows the normal law cut at the threshold; the interval holds the true shares under which
    neither tail of that law beyond the estimate is below (1 - confidence) / 2. Ordinary intervals forget the winner's
    curse. The lower end is cut at 0: close to the threshold it would run off to minus infinity. What has no error, as a
    share of few installs that answered may seem to have, is its own interval.
    """
    tail = (1 - confidence) / 2
    scale = np.where(std_error > 0, std_error, 1.0)
    z, cut = estimate / scale, np.minimum(threshold, estimate) / scale
    beyond = np.maximum(z - cut, 1e-9)
    # Far below the cut the law is exponential with rate (cut - mean), which bounds where the lower end can be.
    least = np.stack([cut - np.log(1 / tail) / beyond - 10, z - 10])
    low, high = _solve_truncated(z, cut, np.array([[tail], [1 - tail]]), least, z + 10)
    low, high = (np.where(std_error > 0, end * scale, estimate) for end in (low, high))
    return np.maximum(low, 0), np.maximum(high, 0)


def _solve_truncated(z: Array, cut: Array, probability: Array, low: Array, high: Array) -> Array:
    """The means with P(Z > z | Z > cut) = probability, by bisection: the probability rises with the mean."""
    wanted = np.log(probability)
    for _ in range(80):
        middle = (low + high) / 2
        if ((middle == low) | (middle == high)).all():  # there is no number between
            break
        # In logarithms, because the cut may be far out.
        under = log_ndtr(middle - z) - log_ndtr(middle - cut) < wanted
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return (low + high) / 2
