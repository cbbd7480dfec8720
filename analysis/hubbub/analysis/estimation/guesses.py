"""Constrained best guesses: the possible population nearest to the unbiased estimates.

Shares cannot be negative nor add up to more than everyone. Pulling the estimates there cuts their squared error
several times where most answers are rare, and makes them biased: best for reading a table, wrong for intervals, sums
over time and tests, which keep the unbiased ones.
"""

from __future__ import annotations

import numpy as np

from hubbub.analysis.arrays import Array, Index, Mask
from hubbub.analysis.estimation.design import Design
from hubbub.analysis.estimation.fit import cell_variance, extra_variance
from hubbub.analysis.estimation.string_screen import HISTOGRAM_EDGES, Crowd, StringEstimates

_ENOUGH = 16  # estimates from which the law of true shares can be learnt at all
_CLEAR = 8.0  # standard errors beyond which an estimate needs no help
_BINS = 200
_LEARNING_STEPS = 60

_MOST_A_CELL = 4  # candidates: with more of them there is little to learn from each other, and much to compute
_JOINT_STEPS = 5
_WORSE = 1.05  # times the noise of the step before: then the steps lead astray, as they may where cells are very few
_NUDGE = 0.02  # standard errors: how far estimates are moved to see how far guesses follow


def nearest_shares(
    estimate: Array, variance: Array, total: float = 1.0, exactly: bool = False, times: Array | None = None
) -> Array:
    """The shares >= 0 with sum <= `total` (or exactly) at the least squared distance, measured in standard errors.
    Each estimate counts so many `times`, once by default.

    By its optimality conditions the solution is max(0, estimate - c variance) with one c for all (for equal variances
    the Norm-Sub of Wang et al. 2020); the sum falls as c grows, piecewise linearly with a kink for each answer.
    """
    known = np.isfinite(estimate) & np.isfinite(variance)
    guess = np.where(known, np.maximum(estimate, 0), 0)
    times = np.ones(len(guess)) if times is None else times
    if not known.any() or ((guess * times).sum() <= total and not exactly):
        return guess
    if total <= 0:
        return np.zeros_like(guess)
    f, v = estimate[known], variance[known]
    v = np.maximum(v, 1e-9 * v.max()) if v.max() > 0 else np.ones_like(v)
    kink = f / v
    order = np.argsort(-kink, kind="stable")
    # With the answers of the i largest kinks kept, sum f - c sum v = total; the right i is the last with c < its kink.
    many = times[known][order]
    c = (np.cumsum(f[order] * many) - total) / np.cumsum(v[order] * many)
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


def guesses_beside(crowd: Crowd, estimate: Array, std_error: Array, total: float) -> tuple[Array, float]:
    """The same for rows beside a crowd of which only the histogram is kept, and what the crowd holds in all: each
    of its members is guessed as the middle of its bin."""
    z = np.minimum(estimate / std_error, _CLEAR)
    counts = crowd.histogram + np.histogram(np.maximum(z, HISTOGRAM_EDGES[0]), HISTOGRAM_EDGES)[0]
    middle, behind = _learnt(counts, HISTOGRAM_EDGES)
    shrunk = np.where(estimate > _CLEAR * std_error, estimate, std_error * np.minimum(np.interp(z, middle, behind), z))
    binned = crowd.typical_error * np.minimum(behind, middle)
    times = np.concatenate([np.ones(len(shrunk)), crowd.histogram])
    variance = np.concatenate([std_error**2, np.full(len(binned), crowd.typical_error**2)])
    # Bins that nobody is in are no estimates.
    all_of_them = np.where(times > 0, np.concatenate([shrunk, binned]), np.nan)
    guess = nearest_shares(all_of_them, variance, total, times=times)
    return guess[: len(shrunk)], float((guess * times)[len(shrunk) :].sum())


def _average_behind(z: Array) -> Array:
    """The average true share behind each estimate, all in standard errors, for estimates up to _CLEAR."""
    edges = np.linspace(min(float(z.min()), -1.0), _CLEAR, _BINS + 1)
    middle, behind = _learnt(np.histogram(z, edges)[0], edges)
    return np.asarray(np.interp(z, middle, behind))


def _learnt(counts: Index, edges: Array) -> tuple[Array, Array]:
    """The middle of each bin, and the average true share behind the estimates in it."""
    middle = (edges[:-1] + edges[1:]) / 2
    truth = np.concatenate([[0.0], np.geomspace(0.25, _CLEAR + 2, 40)])
    likelihood = np.exp(-0.5 * (middle[:, np.newaxis] - truth) ** 2)
    mixture = np.full(len(truth), 1 / len(truth))
    for _ in range(_LEARNING_STEPS):
        expected = np.maximum(likelihood @ mixture, 1e-300)
        mixture = mixture * ((counts / expected) @ likelihood) / counts.sum()
    weighted = likelihood * mixture
    return middle, (weighted @ truth) / np.maximum(weighted.sum(axis=1), 1e-300)


# --- strings, together --------------------------------------------------------------------------------------------


def joint_shares(design: Design, found: StringEstimates, total: float) -> Array:
    """Shares >= 0 with sum <= `total`, each guessed in the light of all the others: nearer to the truth where cells are
    few.

    To an unbiased estimate every string that was not detected is noise. A guess may do better: what the others are
    likely to hold is taken off the cells first; less noise is left, so the guesses improve, and again. This is
    approximate message passing (Donoho, Maleki, Montanari 2009): a step also adds back a part of the residuals the last
    guesses were made from, as large as those guesses follow their own noise. What a guess has taken from the noise
    would otherwise be taken for truth in the next step.
    """
    guess = likely_shares(found.estimate, found.std_error**2, total)
    fit, active = found.fit, design.observed & ~found.excluded
    count, cells = design.num_candidates, int(active.sum())
    # StringEstimates that were all fitted at once have been seen in each other's light already.
    if fit is None or found.excluded.any() or count > _MOST_A_CELL * cells or len(fit.chosen) == count:
        return guess
    echo = _follows(guess, found.estimate, found.std_error, total) / cells * np.where(active, fit.residual, 0.0)
    best, noise = guess, np.inf
    for _ in range(_JOINT_STEPS):
        expected = max(found.answered - float(guess.sum()), 0.0) * design.background + design.scatter(guess)
        variance = cell_variance(design, expected)
        residual = np.where(active, design.share - expected, 0.0) + echo
        before, noise = noise, float((residual**2 / variance)[active].sum())
        if noise > _WORSE * before:
            return best
        best = guess
        estimate, std_error = _on(design, residual, variance, guess, active)
        guess = likely_shares(estimate, std_error**2, total)
        echo = _follows(guess, estimate, std_error, total) / cells * residual
    return guess


def _on(design: Design, residual: Array, variance: Array, guess: Array, active: Mask) -> tuple[Array, Array]:
    """Each string by itself on what all the others leave."""
    tau2 = extra_variance(residual[active], variance[active], 1)
    weight = np.where(active, 1 / (variance + tau2), 0.0)
    own = design.gather(weight)
    norm = own - design.gather_background(weight, own) ** 2 / np.sum(weight * design.background**2)
    known = norm > 1e-9 * max(float(own.max(initial=0)), 1e-300)
    norm = np.where(known, norm, 1.0)
    estimate = np.where(known, guess + design.gather(weight * residual) / norm, np.nan)
    return estimate, np.where(known, 1 / np.sqrt(norm), np.inf)


def _follows(guess: Array, estimate: Array, std_error: Array, total: float) -> float:
    """By how much guesses move with their own estimates, summed. Neighbours are nudged apart: what all of them would do
    together is not asked."""
    known = np.isfinite(estimate) & np.isfinite(std_error)
    nudge = np.where(known, _NUDGE * std_error, 0.0) * np.where(np.arange(len(guess)) % 2, 1.0, -1.0)
    moved = likely_shares(estimate + nudge, std_error**2, total) - guess
    return max(float((moved[known] / nudge[known]).sum()), 0.0)
