"""Best guesses of a list of shares by a prior whose shape the list itself teaches: parametric empirical Bayes.

A guess is here the average of the true share given its estimate, so it minimises the expected squared error. The prior:
an answer is held by nobody with probability 1 - pi, and else its share has a gamma law of shape a, with the mean that
makes all shares add up (Robbins 1956; Morris 1983). pi and a are not chosen: every pair of a grid makes a guess, and
guesses are averaged by how likely each pair makes all the estimates. Small a is a list with a long tail, large a an
even one. A few estimates tell so little of them that it matters what is usual: in a quarter of all lists every answer
is held by somebody, and then a is about 1.5, with a Cauchy law for its logarithm, which gives way to any evidence;
where some are held by nobody, the others may well have equal parts, and any a of the grid is as usual as another.

One gamma law seldom holds for a whole list: a few answers may have nearly everything. So each pair is tried with one
law for all answers, and with laws for all but those that stand apart, which are then as they are. Which do is tried,
too: those more than 8 standard errors up, or 16, 32, up to 512. Of items that can be held together, which nothing makes
add up, those clear of the noise always stand apart. docs/benchmarks.md compares the errors with those of other
libraries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, gammaln, xlogy

from hubbub.analysis.arrays import Array, Index
from hubbub.analysis.estimation.guesses import nearest_shares

ENOUGH = 16
"""Answers from which a prior can be learnt at all; of fewer, the nearest possible population is a better guess."""

_CLEAR = 8.0  # standard errors beyond which a share is hardly known better by knowing the others
_APART = _CLEAR * 2.0 ** np.arange(7)  # standard errors beyond which answers may have no law in common with others
_FARTHER = 6.0  # how far above _CLEAR true shares are looked for: estimates that far below them are one in 1e9
_NARROW = 10.0  # shapes from which a law is narrower than the step from one pi to the next, which moves its middle
_PI_RATIO, _PI_RATIO_OF_NARROW = 2.0, 2**0.25
_SHAPES = np.array([0.15, 0.3, 0.6, 1.2, 2.5, 5, 10, 20, 50, 200, 1000])
_USUAL_SHAPE = 1.5
_ALL_HELD = 0.25  # of all lists: those of which every answer is held by somebody
_MOST_SHRUNK = 2.0  # standard errors, of a share that stands clear
_LEARNT_FROM = 500  # estimates; neighbours are averaged where there are more
_EACH_ITSELF = 200  # of the highest: few, far from each other, and they tell most of the tail
_SURELY = 5.0  # standard errors beyond a sum that can be, where it matters no more how far
_REACH = 7.0  # standard errors from its estimate to which a sum is looked for, at 400 points
_FEW = 0.01  # of everybody: the order of magnitude at which shares that hold no answer begin
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
    if total is not None:
        # By least squares, knowing the sum: it tells most of the answers that the noise makes least certain.
        x = x + std_error**2 / (std_error**2).sum() * (of_all - x.sum())
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
    answers, which makes `most`, and else those who hold none are a few or many, every order of magnitude from _FEW up
    as usual as another. Where the sum of estimates is hardly known, to take it as it is would often leave nothing to
    be shared out."""
    spread = float(np.sqrt((std_error**2).sum()))
    found = float(np.clip(x.sum(), -_SURELY * spread, most + _SURELY * spread))
    sums = np.linspace(max(found - _REACH * spread, 0.0), min(found + _REACH * spread, most), 400)
    # The density of shares u that hold none is 1 / (u + _FEW), which adds up to ln(1 + 1 / _FEW).
    usual = (sums[1] - sums[0]) / (most * (1 + _FEW) - sums) / np.log1p(1 / _FEW)
    weight = np.append(usual, 1.0) * np.exp(-0.5 * ((np.append(sums, most) - found) / spread) ** 2)
    return float(weight @ np.append(sums, most) / weight.sum())


def _possible(shares: Array) -> Array:
    return np.clip(np.nan_to_num(shares, nan=0.0), 0, 1)


@dataclass(frozen=True, slots=True)
class _Priors:
    """Pairs of pi and a, each with the scale of its gamma law and the number of answers `apart`, for which that law
    does not hold: those most standard errors up."""

    pi: Array
    shape: Array
    scale: Array
    apart: Index
    log_weight: Array  # how usual each is, and how likely it makes the clear answers

    @classmethod
    def of(cls, far: Array, reach: Array, size: int, total: float, least: float, numbers: list[int]) -> _Priors:
        """For each of the `numbers` of answers apart. `far` are the clear estimates, the clearest first, out of `size`,
        and `reach` their standard errors; those apart leave the others `least`."""
        grids = [_pis(size, _PI_RATIO if a < _NARROW else _PI_RATIO_OF_NARROW) for a in _SHAPES]
        each = [len(grid) for grid in grids]
        pi, shape, others = np.concatenate(grids), np.repeat(_SHAPES, each), np.repeat(each, each) - 1
        usual = np.where(pi == 1, _ALL_HELD * _held_by_all(shape), (1 - _ALL_HELD) / len(_SHAPES) / others)
        # Densities are in units of those that `_behind` leaves out of a normal law.
        unit = float(np.log(np.sqrt(2 * np.pi) * reach).sum())
        scales, log_weights = [], []
        for apart in numbers:
            left = max(total - float(far[:apart].sum()), least) if apart else total
            scale = left / (size - apart) / (pi * shape)
            drawn = far[apart:]  # over the reach of whose noise the law varies little: so its density there will do
            log_density = (shape - 1) * np.log(drawn).sum() - drawn.sum() / scale
            log_density += len(drawn) * (np.log(pi) - gammaln(shape) - shape * np.log(scale))
            # Those apart may have any share from 0 to all; which answers they are is a draw of so many out of all.
            chance = xlogy(apart, apart / size / total) + (size - apart) * np.log1p(-apart / size)
            scales.append(scale)
            log_weights.append(np.log(usual) + log_density + chance + unit)
        times = len(numbers)
        return cls(
            pi=np.tile(pi, times),
            shape=np.tile(shape, times),
            scale=np.concatenate(scales),
            apart=np.repeat(numbers, len(pi)),
            log_weight=np.concatenate(log_weights),
        )

    def slope(self, far: Array, weight: Array) -> Array:
        """Of the logarithm of the density at the clear answers: of a gamma law (a - 1) / f - 1 / scale, averaged; of a
        law for those apart nothing."""
        total = np.zeros(len(far))
        for apart in np.unique(self.apart):
            of_these = np.where(self.apart == apart, weight, 0.0)
            total[apart:] += of_these @ (self.shape - 1) / far[apart:] - of_these @ (1 / self.scale)
        return total


def _held_by_all(shape: Array) -> Array:
    """How usual each shape is where every answer is held by somebody."""
    density, of_all = (1 / (1 + np.log(shapes / _USUAL_SHAPE) ** 2) for shapes in (shape, _SHAPES))
    return np.asarray(density / of_all.sum())


def _pis(size: int, ratio: float) -> Array:
    """From one answer to all of them."""
    return np.geomspace(1 / size, 1, 2 + int(np.log(size) / np.log(ratio)))


def _numbers_apart(z: Array, together: bool) -> list[int]:
    """How many of the clearest may stand apart, never all. Where answers can be held `together`, nothing makes them add
    up: the clear ones say nothing of others."""
    beyond = [int((z > apart).sum()) for apart in _APART]
    if together:
        return [beyond[0] % len(z)]
    return sorted({number for number in [*beyond, 0] if number < len(z)})


def _average_behind(x: Array, std_error: Array, total: float, together: bool) -> Array:
    """The average true share behind each estimate."""
    z = x / std_error
    clearest = np.argsort(-z, kind="stable")
    clear, near = np.split(clearest, [int((z > _CLEAR).sum())])
    # What those apart seem to leave can be negative: it is taken for at least a tenth of what noise could hide.
    least = 0.1 * float(std_error.mean()) * np.sqrt(len(x))
    far, reach = x[clear], std_error[clear]
    priors = _Priors.of(far, reach, len(x), total, least, _numbers_apart(z, together))
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
    guess[clear] += reach * np.clip(reach * priors.slope(far, weight), -_MOST_SHRUNK, _MOST_SHRUNK)
    return guess


def _grouped(x: Array, std_error: Array) -> tuple[Array, Array, Array]:
    """Estimates as they are if they are few; of many the highest, averages of neighbours among the others and how many
    they are: enough to learn which prior holds."""
    if len(x) <= _LEARNT_FROM:
        return x, std_error, np.ones(len(x))
    order = np.argsort(x, kind="stable")
    others = np.linspace(0, len(x) - _EACH_ITSELF, _LEARNT_FROM - _EACH_ITSELF, endpoint=False).astype(np.int64)
    starts = np.append(others, np.arange(len(x) - _EACH_ITSELF, len(x)))
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
