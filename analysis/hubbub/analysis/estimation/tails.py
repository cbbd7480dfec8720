"""How likely an absent string scores as high: the exact law of its score, and its far tail by saddlepoint.

A string that nobody holds has positions independent of all data. So its score is a sum over cohorts of draws from that
cohort's weighted residuals: one draw for one hash, two without replacement for two. Residuals that hold the traces of
unknown strings are skewed, and the normal law is then several times too generous in the tail where thousands of
candidates are judged.

Its cumulant generating function K is known, so that the tail follows by the formula of Lugannani and Rice in
Barndorff-Nielsen's form (`_by_saddlepoint`), and by Chernoff's bound where that is less. Of few cohorts with cells that
stand out the law has steps, which that formula smooths away: it is added up, draw by draw, on a fine grid
(`_added_up`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
import scipy  # its larger parts are loaded where they are asked for: half of a command's start
from scipy.special import log_ndtr

from hubbub.analysis.arrays import Array

TILTS = np.concatenate([np.arange(0.25, 4, 0.25), np.arange(4, 8, 0.5), [9, 11, 14, 18]])
"""Where K is computed, per standard deviation of the score. The more skewed the law, the smaller the tilts that matter:
of normal residuals p = 1e-8 is at 5.5, of eight cohorts with a cell of thirty deviations each at 1.5."""

_FEW_ROWS = 16
"""The law of so few cohorts is added up unless it is smooth: a cell that stands out in each makes steps of it, at which
the saddlepoint is up to four times too small. The more there are, the more such steps are blurred."""
_SMOOTH, _SMOOTH_AT, _RARE = 4.0, 4.0, -30.0
"""A law is smooth if at a tilt of 4, which is where p = 3e-5 of normal residuals, no cohort has its weight on fewer
than four cells, and if the rarest outcome, whose logarithm this is, is far beyond what is asked for. The saddlepoint is
then within 2 % of what is added up without rounding, and rounding up would make p up to 1.6 times too large."""
_GRID = 6000  # points from the lowest score to the highest: adding up takes half their number squared, some 2 ms
_AT_ONCE = 100_000  # cells times tilts of which exponentials are taken at once
_BETWEEN = 32  # points between two tilts in the table of a law
_BELOW = np.arange(-8, 0, 0.05)
_BOUND_AT = np.array([3.0, 6.0, 12.0, 24.0])


@dataclass(frozen=True, slots=True)
class Tail:
    """log P(score >= z), for scores in their own standard deviations: a table with straight lines between its points,
    and one with the slope `falls` behind the last.

    `least` is the logarithm of the rarest outcome: of few cohorts with few bits even the best position is no miracle.
    """

    z: Array
    log_tail: Array
    falls: float = float(TILTS[-1])
    least: float = -np.inf

    def log_p(self, z: Array) -> Array:
        inside = np.interp(z, self.z, self.log_tail)
        return np.asarray(np.maximum(inside - self.falls * np.maximum(z - self.z[-1], 0), self.least))

    def quantile(self, p: float) -> float:
        """The z that an absent string reaches with probability p."""
        wanted = float(np.log(p))
        if wanted < self.least:
            return np.inf
        beyond = max(float(self.log_tail[-1]) - wanted, 0) / self.falls
        return float(np.interp(-wanted, -self.log_tail, self.z)) + beyond


def _normal() -> Tail:
    z = np.linspace(_BELOW[0], 38, 2000)
    return Tail(z, np.asarray(log_ndtr(-z)), falls=38.0)


NORMAL = _normal()


def score_tail(
    blocks: Sequence[tuple[Array, int]], *, rough: bool = False, times: float = 1.0, points: int = _GRID
) -> Tail:
    """The law of the sum over all rows of `draws` draws without replacement from each row. A block is (rows, draws).

    A `rough` one takes half of the time where the saddlepoint gives it, for thresholds on the way to the last look: p
    is then the same but for a few per mille. Of cohorts that are only planned some rows stand for all: each is there so
    many `times`. Where it is added up, that is on so many `points`.
    """
    scaled = _scaled(blocks, times)
    if not scaled:
        return NORMAL
    cohorts = sum(len(rows) for rows, _ in scaled)  # none is left where all cells of each are alike but for rounding
    least = _rarest(blocks, times)
    is_smooth = least < _RARE and _are_smooth(scaled)
    if is_smooth or times * cohorts > _FEW_ROWS:
        z, log_tail = _by_saddlepoint(scaled, TILTS[::2] if rough else TILTS, times)
    else:
        z, log_tail = _added_up(scaled, points)
    return Tail(z, log_tail, least=least)


def standard_scores(blocks: Sequence[tuple[Array, int]], scores: Array) -> Array:
    """Sums of such draws from their mean and in their standard deviations, as `score_tail` has them."""
    mean = sum(draws * float(rows.mean(axis=1).sum()) for rows, draws in blocks if rows.size)
    variance = sum(_variance(_centred(rows), draws) for rows, draws in blocks if rows.size)
    return np.asarray((scores - mean) / np.sqrt(variance) if variance > 0 else 0 * scores)


def at_most_so_likely(blocks: Sequence[tuple[Array, int]], z: Array) -> Array:
    """No less than P(score >= z): the best of a few of Chernoff's bounds, draws taken as if with replacement."""
    exponent = -_BOUND_AT * z[:, np.newaxis]
    for cells, draws in _scaled(blocks):
        tilted = _BOUND_AT[:, np.newaxis, np.newaxis] * cells
        top = tilted.max(axis=2, keepdims=True)
        of_each = top[:, :, 0] + np.log(np.exp(tilted - top).mean(axis=2))
        exponent = exponent + draws * of_each.sum(axis=1)
    return np.asarray(np.exp(np.minimum(exponent.min(axis=1), 0)))


def is_smooth(blocks: Sequence[tuple[Array, int]]) -> bool:
    """Whether the law of such a sum has the saddlepoint's tail."""
    return _rarest(blocks) < _RARE and _are_smooth(_scaled(blocks))


def _are_smooth(scaled: Sequence[tuple[Array, int]]) -> bool:
    return any(len(rows) for rows, _ in scaled) and all(_is_smooth(rows) for rows, _ in scaled)


def _rarest(blocks: Sequence[tuple[Array, int]], times: float = 1.0) -> float:
    """The logarithm of the rarest outcome's probability."""
    return -times * float(sum(len(rows) * np.log(comb(rows.shape[1], draws)) for rows, draws in blocks if rows.size))


def _scaled(blocks: Sequence[tuple[Array, int]], times: float = 1.0) -> list[tuple[Array, int]]:
    """Cells from the mean of their row, in standard deviations of the score; empty where it has none. Cohorts without
    reports have cells of zero, which add nothing and are left out."""
    centred = [(_centred(rows), draws) for rows, draws in blocks if rows.size]
    variance = times * sum(_variance(rows, draws) for rows, draws in centred)
    if not variance > 0:
        return []
    scale = float(np.sqrt(variance))
    return [(rows[np.ptp(rows, axis=1) > 0] / scale, draws) for rows, draws in centred]


def _is_smooth(rows: Array) -> bool:
    """Whether no row has its weight on few cells, tilted as far as matters; by the inverse of the sum of squared
    weights, which is the number of cells where they are alike."""
    weight = np.exp(_SMOOTH_AT * (rows - rows.max(axis=1, keepdims=True)))
    return bool((weight.sum(axis=1) ** 2 >= _SMOOTH * (weight**2).sum(axis=1)).all())


def _centred(rows: Array) -> Array:
    return np.asarray(rows - rows.mean(axis=1, keepdims=True))


def _variance(rows: Array, draws: int) -> float:
    """Of the sum of draws from centred rows: without replacement, or with it where `_cumulants` takes it so."""
    size = rows.shape[1]
    if size <= draws:
        return 0.0
    without = (size - draws) / (size - 1) if draws == 2 else 1.0
    return float((rows**2).sum() / size * draws * without)


# --- few cohorts --------------------------------------------------------------------------------------------------


def _added_up(blocks: Sequence[tuple[Array, int]], points: int = _GRID) -> tuple[Array, Array]:
    """Scores, and log P(score >= z) with every draw rounded up to the next point of a grid, on which the highest cell
    of each row lies: never too small, and as large as for a score of half a step less for each draw. All terms are
    positive, so that no digits are lost far out."""
    step = sum(draws * float(np.ptp(rows, axis=1).sum()) for rows, draws in blocks) / points
    law, highest = np.ones(1), 0.0
    for rows, draws in blocks:
        for row in rows:
            # What lies on a point but for its last digits is not moved.
            below = np.floor((row.max() - row) / step + 1e-6).astype(np.int64)
            law = np.convolve(law, _drawn(np.bincount(below.max() - below).astype(np.float64), draws))
            highest += draws * float(row.max())
    tail = np.cumsum(law[::-1])[::-1]
    z = highest - step * np.arange(len(law), dtype=np.float64)[::-1]
    possible = tail > 0
    # Between two points P is that of the higher one, and a line from one to the next is above it.
    return np.asarray(z[possible]), np.asarray(np.minimum(np.log(tail[possible]), 0))


def _drawn(cells: Array, draws: int) -> Array:
    """The law of the sum of draws from a row, of which so many cells have each value."""
    size = cells.sum()
    if draws == 2:
        pairs = np.convolve(cells, cells)
        pairs[::2] -= cells  # no cell is drawn twice; whole numbers, of which none is rounded
        return np.asarray(pairs / (size * (size - 1)))
    law = np.ones(1)
    for _ in range(draws):
        law = np.convolve(law, cells / size)
    return law


# --- many cohorts -------------------------------------------------------------------------------------------------


def _by_saddlepoint(blocks: Sequence[tuple[Array, int]], at: Array = TILTS, times: float = 1.0) -> tuple[Array, Array]:
    """Scores, and log P(score >= z) by the formula of Lugannani and Rice, where z = K'(t), r^2 / 2 = t z - K(t) and
    u = t sqrt(K''(t)): the normal tail at r + log(u / r) / r (Barndorff-Nielsen 1986).

    Between tilts r^2 / 2 is a cubic in z, whose slope is t, and the second term is monotone. Nearer to the largest
    score than the largest tilt, and where the formula fails because few outcomes are left, Chernoff's bound
    log P <= K(t) - t z is all there is. It holds for every t >= 0; the best of the tilts at hand is taken. The formula
    must not be continued by a line instead: the tail of residuals with heavy cells is not log-concave, and a secant of
    it bounds nothing.
    """
    k0, k1, k2 = times * np.sum([_cumulants(rows, draws, at) for rows, draws in blocks], axis=0)
    # At the edge K' rises no more within rounding; such tilts still serve for the bound.
    knot = np.diff(np.maximum.accumulate(np.concatenate([[0.0], k1]))) > 1e-9
    knots, tilts = np.concatenate([[0.0], k1[knot]]), np.concatenate([[0.0], at[knot]])
    half = np.maximum(tilts * knots - np.concatenate([[0.0], k0[knot]]), 0)
    r, u = np.sqrt(2 * half[1:]), tilts[1:] * np.sqrt(np.maximum(k2[knot], 1e-300))
    # A score of 0 has 1/2, as in the normal law.
    second = scipy.interpolate.PchipInterpolator(knots, np.concatenate([[0.0], np.log(u / r) / r]))
    places = np.arange((len(knots) - 1) * _BETWEEN + 1) / _BETWEEN
    z = np.interp(places, np.arange(len(knots)), knots)
    root = np.sqrt(2 * np.maximum(scipy.interpolate.CubicHermiteSpline(knots, half, tilts)(z), 0))
    bound = np.min(k0[:, np.newaxis] - at[:, np.newaxis] * z, axis=0)
    log_tail = np.minimum(log_ndtr(-(root + second(z))), np.minimum(bound, 0))
    return np.concatenate([_BELOW, z]), np.minimum.accumulate(np.concatenate([log_ndtr(-_BELOW), log_tail]))


def _cumulants(rows: Array, draws: int, tilts: Array) -> Array:
    """K, K' and K'' at each tilt, summed over rows. More than two draws are taken as if with replacement, of which K is
    larger (Hoeffding 1963). Some tilts are computed at a time: as many as fit into the processor's memory."""
    parts = np.array_split(tilts, min(len(tilts), 1 + rows.size * len(tilts) // _AT_ONCE))
    return np.concatenate([_cumulants_at(rows, draws, part) for part in parts], axis=1)


def _cumulants_at(rows: Array, draws: int, tilts: Array) -> Array:
    size = rows.shape[1]
    squared = rows**2
    top = rows.argmax(axis=1)
    x = rows[np.arange(len(rows)), top]
    tilt = tilts[:, np.newaxis]
    e = np.exp(tilt[:, :, np.newaxis] * (rows - x[:, np.newaxis]))  # by tilt, row and cell
    if draws == 2:
        # Ordered pairs of different cells: A^2 - B, with A = sum e^(sz) and B = sum e^(2sz). The highest cell, which
        # has e = 1, is paired by itself: A^2 and B would be the same to the last digit where it is far up.
        e[:, np.arange(len(rows)), top] = 0
        a0, a1, a2 = e.sum(axis=2), _dots(rows, e), _dots(squared, e)
        e *= e
        f0 = np.maximum(2 * a0 + a0**2 - e.sum(axis=2), 1e-300)
        f1 = 2 * (x * a0 + a1) + 2 * a0 * a1 - 2 * _dots(rows, e)
        f2 = 2 * (x**2 * a0 + 2 * x * a1 + a2) + 2 * a1**2 + 2 * a0 * a2 - 4 * _dots(squared, e)
        k0, k1 = np.log(f0 / (size * (size - 1))) + 2 * tilt * x, f1 / f0
        k2 = f2 / f0 - k1**2
    else:
        a0, a1, a2 = e.sum(axis=2), _dots(rows, e), _dots(squared, e)
        k0, k1 = draws * (np.log(a0 / size) + tilt * x), draws * a1 / a0
        k2 = draws * (a2 / a0 - (a1 / a0) ** 2)
    return np.array([k0.sum(axis=1), k1.sum(axis=1), k2.sum(axis=1)])


def _dots(cells: Array, weights: Array) -> Array:
    return np.asarray(np.einsum("ij,tij->ti", cells, weights))
