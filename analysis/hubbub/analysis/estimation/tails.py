"""How likely an absent string scores as high: the exact law of its score, and its far tail by saddlepoint.

A string that nobody holds has positions independent of all data. So its score is a sum over cohorts of draws from that
cohort's weighted residuals: one draw for one hash, two without replacement for two. Residuals that hold the traces of
unknown strings are skewed, and the normal law is then several times too generous in the tail where thousands of
candidates are judged. The cumulant generating function of the draws is known, so the tail follows by the
formula of Lugannani and Rice in Barndorff-Nielsen's form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from scipy.special import log_ndtr

from hubbub.analysis.arrays import Array

TILTS = np.array([0.7, 1.5, 2.5, 3.5, 4.5, 5.5, 7.0, 10.0, 15.0])
"""Where the law is computed: exponential tilts, in standard deviations; between them its logarithm is smooth."""
FAR_TILTS = TILTS[3:7]
"""Enough to know where the far tail begins."""


@dataclass(frozen=True, slots=True)
class Tail:
    """log P(score > z), for scores in their own standard deviations; exact at the knots, smooth between.

    `least` is the logarithm of the rarest outcome: of few cohorts with few bits even the best position is no miracle.
    """

    knots: Array
    log_tail: Array
    least: float = -np.inf

    def log_p(self, z: Array) -> Array:
        z = np.asarray(z, dtype=np.float64)
        # Interpolated is the departure from the normal law over z^2, which is nearly linear: skewness gives z^3.
        departure = (self.log_tail - log_ndtr(-self.knots)) / self.knots**2
        inside = log_ndtr(-z) + np.maximum(z, 0) ** 2 * np.interp(z, self.knots, departure)
        slope = (self.log_tail[-1] - self.log_tail[-2]) / (self.knots[-1] - self.knots[-2])
        beyond = self.log_tail[-1] + slope * (z - self.knots[-1])
        return np.maximum(np.where(z > self.knots[-1], beyond, inside), self.least)

    def quantile(self, p: float) -> float:
        """The z that an absent string exceeds with probability p."""
        z = np.linspace(0, 2 * self.knots[-1], 2001)
        log_p = self.log_p(z)
        wanted = float(np.log(p))
        if wanted < self.least:
            return np.inf
        if wanted < log_p[-1]:
            slope = (log_p[-1] - log_p[-2]) / (z[-1] - z[-2])
            return float(z[-1] + (wanted - log_p[-1]) / slope)
        return float(np.interp(-wanted, -log_p, z))


_FAR = np.arange(1.0, 38.0)
NORMAL = Tail(_FAR, np.asarray(log_ndtr(-_FAR)))


def score_tail(blocks: Sequence[tuple[Array, int]], tilts: Array = TILTS) -> Tail:
    """The law of the sum over all rows of `draws` draws without replacement from each row. A block is (rows, draws)."""
    blocks = [(_centred(rows), draws) for rows, draws in blocks if rows.size]
    variance = sum(_variance(rows, draws) for rows, draws in blocks)
    if not variance > 0:
        return NORMAL
    least = -float(sum(len(rows) * np.log(comb(rows.shape[1], draws)) for rows, draws in blocks))
    scale = float(np.sqrt(variance))
    total = np.zeros((3, len(tilts)))
    for rows, draws in blocks:
        total += _cumulants(rows / scale, draws, tilts)
    k0, k1, k2 = total
    excess = np.maximum(tilts * k1 - k0, 1e-12)
    r = np.sqrt(2 * excess)
    u = tilts * np.sqrt(np.maximum(k2, 1e-300))
    log_tail = log_ndtr(-(r + np.log(u / r) / r))
    # At the edge of what draws can reach at all the law is a few atoms; keep to the knots where it still falls.
    falling = np.concatenate([[True], (np.diff(k1) > 1e-6) & (np.diff(log_tail) < 0)])
    usable = np.logical_and.accumulate(falling & (k2 > 1e-3))
    if usable.sum() < 2:
        return Tail(NORMAL.knots, NORMAL.log_tail, least)
    return Tail(k1[usable], log_tail[usable], least)


def _centred(rows: Array) -> Array:
    return np.asarray(rows - rows.mean(axis=1, keepdims=True))


def _variance(rows: Array, draws: int) -> float:
    """Of the sum of draws from centred rows: without replacement, or with it where `_cumulants` takes it so."""
    size = rows.shape[1]
    if size <= draws:
        return 0.0
    without = (size - draws) / (size - 1) if draws == 2 else 1.0
    return float((rows**2).sum() / size * draws * without)


def _cumulants(rows: Array, draws: int, tilts: Array) -> Array:
    """K, K' and K'' at each tilt, summed over rows."""
    result = np.empty((3, len(tilts)))
    size = rows.shape[1]
    squared = rows**2
    highest = rows.max(axis=1)
    for i, tilt in enumerate(tilts):
        shift = tilt * highest
        e = np.exp(tilt * rows - shift[:, np.newaxis])
        a0, a1, a2 = e.sum(axis=1), _dots(rows, e), _dots(squared, e)
        if draws == 2:
            # Ordered pairs of different cells: A^2 - B, with A = sum e^(sz) and B = sum e^(2sz).
            e *= e
            f0 = np.maximum(a0**2 - e.sum(axis=1), 1e-300)
            f1 = 2 * a0 * a1 - 2 * _dots(rows, e)
            f2 = 2 * a1**2 + 2 * a0 * a2 - 4 * _dots(squared, e)
            k0, k1 = np.log(f0 / (size * (size - 1))) + 2 * shift, f1 / f0
            k2 = f2 / f0 - k1**2
        else:
            # More than two draws are taken as if with replacement.
            k0, k1 = draws * (np.log(a0 / size) + shift), draws * a1 / a0
            k2 = draws * (a2 / a0 - (a1 / a0) ** 2)
        result[:, i] = k0.sum(), k1.sum(), k2.sum()
    return result


def _dots(a: Array, b: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", a, b))
