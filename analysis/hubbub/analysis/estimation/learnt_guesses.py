"""Best guesses of a list of shares by a prior whose shape the list itself teaches: parametric empirical Bayes.

A guess is here the average of the true share given its estimate, so it minimises the expected squared error. The prior:
an answer is held by nobody with probability 1 - pi, and else its share has a gamma law of shape a, with the mean that
makes all shares add up (Robbins 1956; Morris 1983). pi and a are not chosen: every pair of a grid makes a guess, and
guesses are averaged by how likely each pair makes all the estimates. Small a is a list with a long tail, large a an
even one. A few estimates tell so little of them that it matters what is usual: every answer is held by somebody in half
of all lists, and a is about 1.5, with a Cauchy law for its logarithm, which gives way to any evidence. Each pair is
tried in two forms: one law for all answers, or for all but those that stand clear of the noise, which are then as they
are; of items that can be held together, which nothing makes add up, in the second form alone. docs/benchmarks.md
compares the errors with those of other libraries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, gammaln, ndtr

from hubbub.analysis.arrays import Array, Mask
from hubbub.analysis.estimation.guesses import nearest_shares

ENOUGH = 16
"""Answers from which a prior can be learnt at all; of fewer, the nearest possible population is a better guess."""

_CLEAR = 8.0  # standard errors beyond which a share is hardly known better by knowing the others
_FARTHER = 6.0  # how far above _CLEAR true shares are looked for: estimates that far below them are one in 1e9
_NARROW = 10.0  # shapes from which a law is narrower than the step from one pi to the next, which moves its middle
_PI_RATIO, _PI_RATIO_OF_NARROW = 2.0, 2**0.25
_SHAPES = np.array([0.15, 0.3, 0.6, 1.2, 2.5, 5, 10, 20, 50, 200, 1000])
_USUAL_SHAPE = 1.5
_MOST_SHRUNK = 2.0  # standard errors, of a share that stands clear
_LEARNT_FROM = 1_000  # estimates; neighbours are averaged where there are more
_SURELY = 5.0  # standard errors beyond a sum that can be, where it matters no more how far
_NEGLIGIBLE = 1e-6  # of the most likely prior's weight
_AT_ONCE = 10_000  # rows: as many as fit into memory with all points of the grid


def learnt_shares(estimate: Array, variance: Array, total: float | None = 1.0, exactly: bool = False) -> Array:
    """Shares >= 0 whose sum is `total`, or not more than it unless `exactly`; with None, the sum is free and each share
    is at most 1, as for items that can be held together."""
    known = np.isfinite(estimate) & np.isfinite(variance) & (variance > 0)
    most = 1.0 if total is None else total
    if known.sum() < ENOUGH or most <= 0:
        return _possible(estimate) if total is None else nearest_shares(estimate, variance, most, exactly)
    x, std_error = estimate[known], np.sqrt(variance[known])
    of_all = most if exactly else max(float(x.sum()), 0.0) if total is None else _likely_sum(x, std_error, most)
    guess, spread = np.where(known, 0.0, np.nan), np.where(known, variance, np.inf)
    if of_all > 0:
        guess[known] = _average_behind(x, std_error, of_all, total is None)
    if total is None:
        return _possible(guess)
    # What the guesses miss of a known sum is noise of each share, and a bias that all of them share: so it is taken
    # from answers by their standard errors, which lie between variances and evenly. A sum that was itself estimated is
    # noise of the largest shares above all: made to add up to it, answers that nobody holds would get a part of that.
    # So only what is beyond all installs is taken off, which is noise alone, and goes by variances.
    return nearest_shares(guess, np.sqrt(spread) if exactly else spread, most, exactly)


def _likely_sum(x: Array, std_error: Array, most: float) -> float:
    """What the shares behind these estimates come to, on average: in half of all lists everybody holds one of the
    answers, which makes `most`, and else any sum from nothing to that is equally usual. Where the sum of estimates is
    hardly known, to take it as it is would often leave nothing to be shared out."""
    spread = float(np.sqrt((std_error**2).sum()))
    found = float(np.clip(x.sum(), -_SURELY * spread, most + _SURELY * spread))
    low, high = -found / spread, (most - found) / spread
    reached = float(ndtr(high) - ndtr(low))
    at_low, at_high = (float(np.exp(-0.5 * end**2) / np.sqrt(2 * np.pi)) for end in (low, high))
    between = found + spread * (at_low - at_high) / reached
    of_everybody = at_high / (at_high + spread * reached / most)
    return of_everybody * most + (1 - of_everybody) * between


def _possible(shares: Array) -> Array:
    return np.clip(np.nan_to_num(shares, nan=0.0), 0, 1)


@dataclass(frozen=True, slots=True)
class _Priors:
    """Pairs of pi and a, each with the scale of its gamma law; `for_all` is 0 where clear answers are left out."""

    pi: Array
    shape: Array
    scale: Array
    for_all: Array
    log_weight: Array  # how usual each is, and how likely it makes the clear answers

    @classmethod
    def of(cls, x: Array, std_error: Array, clear: Mask, total: float, together: bool) -> _Priors:
        """Where answers can be held `together`, nothing makes them add up: the clear ones say nothing of others."""
        size, apart = len(x), int(clear.sum())
        grids = [_pis(size, _PI_RATIO if a < _NARROW else _PI_RATIO_OF_NARROW) for a in _SHAPES]
        each = [len(grid) for grid in grids]
        pi, shape, others = np.concatenate(grids), np.repeat(_SHAPES, each), np.repeat(each, each) - 1
        scale = total / size / (pi * shape)
        # Densities are in units of those that `_behind` leaves out of a normal law.
        unit = np.log(np.sqrt(2 * np.pi) * std_error[clear]).sum()
        far = x[clear][:, np.newaxis]
        usual = np.log(np.where(pi == 1, 0.5, 0.5 / others)) - np.log1p(np.log(shape / _USUAL_SHAPE) ** 2)
        log_density = np.log(pi) + (shape - 1) * np.log(far) - far / scale - gammaln(shape) - shape * np.log(scale)
        one_law = cls(pi, shape, scale, np.ones_like(pi), log_density.sum(axis=0) + unit + usual)
        if not 0 < apart < size:
            return one_law
        least = 0.1 * float(std_error[~clear].mean()) * np.sqrt(size)
        rest = max(total - float(x[clear].sum()), least) / (size - apart)
        two_laws = rest / (pi * shape)
        if together:
            return cls(pi, shape, two_laws, np.zeros_like(pi), usual)
        # Those apart may have any share from 0 to all; which answers they are is a draw of so many out of all.
        chance = apart * np.log(apart / size / total) + (size - apart) * np.log1p(-apart / size)
        return cls(
            np.tile(pi, 2),
            np.tile(shape, 2),
            np.concatenate([scale, two_laws]),
            np.repeat([1.0, 0.0], len(pi)),
            np.concatenate([one_law.log_weight, chance + unit + usual]),
        )


def _pis(size: int, ratio: float) -> Array:
    """From one answer to all of them."""
    return np.geomspace(1 / size, 1, 2 + int(np.log(size) / np.log(ratio)))


def _average_behind(x: Array, std_error: Array, total: float, together: bool) -> Array:
    """The average true share behind each estimate."""
    clear = x > _CLEAR * std_error
    near = np.flatnonzero(~clear)
    priors = _Priors.of(x, std_error, clear, total, together)
    log_likelihood = priors.log_weight
    if len(near):
        points, masses = _discrete(priors, std_error[near])
        among, spread, size = _grouped(x[near], std_error[near])
        log_likelihood = log_likelihood + size @ np.log(_behind(among, spread, priors.pi, points, masses)[0])
    weight = np.exp(log_likelihood - log_likelihood.max())
    weight /= weight.sum()
    guess = x.copy()
    told = np.flatnonzero(weight > _NEGLIGIBLE * weight.max())
    for start in range(0, len(near), _AT_ONCE):
        rows = near[start : start + _AT_ONCE]
        expected, shares = _behind(x[rows], std_error[rows], priors.pi[told], points, masses[told])
        guess[rows] = (shares / expected) @ weight[told] / weight[told].sum()
    # Far from the noise a prior is straight over the reach of an estimate: variance x slope of its logarithm moves it.
    far, reach = x[clear], std_error[clear]
    slope = ((priors.shape - 1) / far[:, np.newaxis] - 1 / priors.scale) * priors.for_all
    guess[clear] += reach * np.clip(reach * (slope @ weight), -_MOST_SHRUNK, _MOST_SHRUNK)
    return guess


def _grouped(x: Array, std_error: Array) -> tuple[Array, Array, Array]:
    """Estimates as they are if they are few; of many, averages of neighbours and how many they are: enough to learn
    which prior holds."""
    if len(x) <= _LEARNT_FROM:
        return x, std_error, np.ones(len(x))
    order = np.argsort(x, kind="stable")
    starts = np.linspace(0, len(x), _LEARNT_FROM, endpoint=False).astype(np.int64)
    size = np.diff(np.append(starts, len(x))).astype(np.float64)
    return np.add.reduceat(x[order], starts) / size, np.add.reduceat(std_error[order], starts) / size, size


def _discrete(priors: _Priors, std_error: Array) -> tuple[Array, Array]:
    """Points, dense where the noise can tell them apart, and how much of each gamma law lies around each."""
    widest = float(std_error.max())
    step = max(float(std_error.min()), widest / 20)
    fine = np.geomspace(0.02, 0.98, 24) * step
    points = np.concatenate([fine, np.arange(1, (_CLEAR + _FARTHER) * widest / step, 0.2) * step])
    edges = np.concatenate([[0.0], (points[1:] + points[:-1]) / 2, [1.5 * points[-1]]])
    below = gammainc(priors.shape[:, np.newaxis], edges / priors.scale[:, np.newaxis])
    return points, np.diff(below, axis=1)


def _behind(x: Array, std_error: Array, pi: Array, points: Array, masses: Array) -> tuple[Array, Array]:
    """For each estimate and prior: how likely it is, and that times the true share, each averaged over true shares."""
    z = (x[:, np.newaxis] - points) / std_error[:, np.newaxis]
    likelihood = np.exp(-0.5 * z**2)
    nobody = np.exp(-0.5 * (x / std_error) ** 2)[:, np.newaxis]
    expected = np.maximum((1 - pi) * nobody + pi * (likelihood @ masses.T), 1e-300)
    return expected, pi * (likelihood @ (masses * points).T)
