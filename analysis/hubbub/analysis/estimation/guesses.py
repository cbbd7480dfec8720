"""Constrained best guesses: the possible population nearest to the unbiased estimates.

Shares cannot be negative nor add up to more than everyone. Pulling the estimates there cuts their squared error
several times where most answers are rare, and makes them biased: best for reading a table, wrong for intervals, sums
over time and tests, which keep the unbiased ones.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_ENOUGH = 16  # estimates from which the law of true shares can be learnt at all
_CLEAR = 8.0  # standard errors beyond which an estimate needs no help
_BINS = 200
_STEPS = 60

Array = npt.NDArray[np.float64]


def nearest_shares(estimate: Array, variance: Array, total: float = 1.0, exactly: bool = False) -> Array:
    """The shares >= 0 with sum <= `total` (or exactly) at the least squared distance, measured in standard errors.

    By its optimality conditions the solution is max(0, estimate - c variance) with one c for all (for equal variances
    the Norm-Sub of Wang et al. 2020); the sum falls as c grows, piecewise linearly with a kink for each answer.
    """
    known = np.isfinite(estimate) & np.isfinite(variance)
    guess = np.where(known, np.maximum(estimate, 0), 0)
    if not known.any() or (guess.sum() <= total and not exactly):
        return guess
    if total <= 0:
        return np.zeros_like(guess)
    f, v = estimate[known], variance[known]
    v = np.maximum(v, 1e-9 * v.max()) if v.max() > 0 else np.ones_like(v)
    kink = f / v
    order = np.argsort(-kink, kind="stable")
    # With the answers of the i largest kinks kept, sum f - c sum v = total; the right i is the last with c < its kink.
    c = (np.cumsum(f[order]) - total) / np.cumsum(v[order])
    kept = int(np.flatnonzero(c < kink[order])[-1])
    guess[known] = np.maximum(f - c[kept] * v, 0)
    return guess


def likely_shares(estimate: Array, variance: Array, total: float = 1.0, exactly: bool = False) -> Array:
    """The same for long lists, most of which nobody holds: first shrink each estimate to the average of the true
    shares that give such an estimate, then go to the nearest possible population.

    How true shares are spread, in standard errors, is learnt from the list itself: the mixture of points on a grid that
    makes its estimates most likely (Robbins 1956; Kiefer, Wolfowitz 1956), by expectation and maximisation.
    """
    known = np.isfinite(estimate) & np.isfinite(variance) & (variance > 0)
    if known.sum() < _ENOUGH:
        return nearest_shares(estimate, variance, total, exactly)
    std_error = np.sqrt(variance[known])
    z = estimate[known] / std_error
    shrunk = np.where(known, estimate, np.nan)
    # Shrunk, never stretched: the fitted mixture is a few points, and between them its average may jump.
    shrunk[known] = std_error * np.where(z > _CLEAR, z, np.minimum(_average_behind(np.minimum(z, _CLEAR)), z))
    return nearest_shares(shrunk, variance, total, exactly)


def _average_behind(z: Array) -> Array:
    """The average true share behind each estimate, all in standard errors, for estimates up to _CLEAR."""
    edges = np.linspace(min(float(z.min()), -1.0), _CLEAR, _BINS + 1)
    middle = (edges[:-1] + edges[1:]) / 2
    counts = np.histogram(z, edges)[0]
    truth = np.concatenate([[0.0], np.geomspace(0.25, _CLEAR + 2, 40)])
    likelihood = np.exp(-0.5 * (middle[:, np.newaxis] - truth) ** 2)
    mixture = np.full(len(truth), 1 / len(truth))
    for _ in range(_STEPS):
        expected = np.maximum(likelihood @ mixture, 1e-300)
        mixture = mixture * ((counts / expected) @ likelihood) / counts.sum()
    weighted = likelihood * mixture
    behind = (weighted @ truth) / np.maximum(weighted.sum(axis=1), 1e-300)
    return np.asarray(np.interp(z, middle, behind))
