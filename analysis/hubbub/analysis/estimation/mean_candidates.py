"""The laws of points at which a mean is tested: those with this mean that are nearest to what was counted.

*Of a population.* Of all laws p with sum p h = 0, h being value - s, the one with the largest sum of w log p, where w
are the shares as counted: p = w / (1 + lambda h) (Owen 1988, empirical likelihood). All points of the range may have a
share, so that where no count reaches far enough an end of the range takes what is missing: that nobody was seen there
excludes no more than the tail of a count of none does. Of two points this is their one law with the mean s.

*Of the installs that reported.* Nobody holds what was not seen, but for rounding and noise: all numbers are taken to be
moved alike, as far as s asks. Where two points have both, as many as possible lie between them, since rounding adds
most then: see `divided`.
"""

from __future__ import annotations

import numpy as np

from hubbub.analysis.arrays import Array

_UNSEEN = 1e-9  # the share that a category without any counts has: what lets an end of the range take what is missing
_TURNS = 50


def tilted(counted: Array, scores: Array) -> Array:
    """Of each row, the law by which scores are 0 on average that is nearest to these shares; see above."""
    w = (counted + _UNSEEN) / (counted + _UNSEEN).sum(axis=1, keepdims=True)
    low, high = -1 / scores.max(axis=1, keepdims=True), -1 / scores.min(axis=1, keepdims=True)
    at = np.zeros_like(low)
    for _ in range(_TURNS):
        each = scores / (1 + at * scores)
        average = (w * each).sum(axis=1, keepdims=True)
        low, high = np.where(average > 0, at, low), np.where(average > 0, high, at)
        newton = at + average / (w * each**2).sum(axis=1, keepdims=True)
        moved = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
        if (np.abs(moved - at) <= 1e-12 * np.abs(at)).all():
            break
        at = moved
    law = w / (1 + at * scores)
    return np.asarray(law / law.sum(axis=1, keepdims=True))


def shifted(counted: Array, scores: Array, points: int) -> Array:
    """Of each row, these shares with all numbers moved by the same part of the range, or to its end, so that scores
    are 0 on average. Categories behind the points stay."""
    share, reach = counted[:, :points], points - 1
    step = scores[:, 1] - scores[:, 0]
    beside = (counted[:, points:] * scores[:, points:]).sum(axis=1)
    wanted = -(beside + share.sum(axis=1) * scores[:, 0]) / step  # the sum of places, in steps
    # Between two whole numbers of steps the sum rises along a line.
    moves = np.arange(-reach, reach + 1)
    sums = share @ np.clip(np.arange(points)[:, np.newaxis] + moves, 0, reach)
    line = np.clip((sums < wanted[:, np.newaxis]).sum(axis=1) - 1, 0, 2 * reach - 1)
    rows = np.arange(len(share))
    low, high = sums[rows, line], sums[rows, line + 1]
    part = np.divide(wanted - low, high - low, out=np.zeros_like(low), where=high > low)
    by = moves[line] + np.clip(part, 0, 1)
    return np.concatenate([_moved(share, by[:, np.newaxis]), counted[:, points:]], axis=1)


def _moved(share: Array, by: Array) -> Array:
    """All numbers that lie on points moved by so many steps, and rounded to points again."""
    points = share.shape[1]
    at = np.clip(np.arange(points) + by, 0, points - 1)
    # A number between two points is rounded to either, the more often the nearer it is.
    near = np.maximum(1 - np.abs(at[:, :, np.newaxis] - np.arange(points)), 0)
    return np.asarray((share[:, np.newaxis] @ near)[:, 0])


def divided(met: Array, turns: int) -> tuple[Array, Array]:
    """Of each gap between two points: the share of all installs that is between them and was rounded down, and up,
    such that the points are met so often and rounding adds most.

    Numbers between two points that were rounded down in l of all cases and up in u add at most l u / (l + u) squared
    steps, where all are the same number. By the derivatives the sum over gaps is largest where u / l is one number in
    every second gap and its inverse in the others; then it is the share at even points over that at odd ones, as long
    as no part comes out below 0. Elsewhere see `_searched`.
    """
    even, odd = met[:, ::2].sum(axis=1), met[:, 1::2].sum(axis=1)
    ratio = np.divide(odd, even, out=np.ones_like(odd), where=even > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        down, up = np.empty_like(met[:, 1:]), np.empty_like(met[:, 1:])
        left = met[:, 0]
        for gap in range(met.shape[1] - 1):
            down[:, gap] = left
            up[:, gap] = left * ratio if gap % 2 == 0 else left / ratio
            left = met[:, gap + 1] - up[:, gap]
        whole = (np.minimum(down, up) >= 0).all(axis=1) & (np.abs(left) < 1e-9)
    if not whole.all():
        down[~whole], up[~whole] = _searched(met[~whole], turns)
    return down, up


def _searched(met: Array, turns: int) -> tuple[Array, Array]:
    """The same, point by point: what one in the middle has is divided as the two other ends of its gaps have it, which
    is best for given ends. Every second point depends on the others only, and is moved at once. Each turn adds to the
    sum; ten come within a few per cent."""
    down, up = met[:, :-1].copy(), met[:, 1:].copy()
    down[:, 1:], up[:, :-1] = met[:, 1:-1] / 2, met[:, 1:-1] / 2
    inner = met.shape[1] - 2
    for _ in range(turns if inner > 0 else 0):
        before = up.copy()
        for first in range(min(inner, 2)):
            gap = np.arange(first, inner, 2)  # the gap before each point
            left, right = down[:, gap], up[:, gap + 1]
            both = left + right
            part = np.divide(left, both, out=np.full_like(left, 0.5), where=both > 0)
            up[:, gap] = met[:, gap + 1] * part
            down[:, gap + 1] = met[:, gap + 1] * (1 - part)
        if np.abs(up - before).max() < 1e-6:
            break
    return down, up


def common_spacing(law: Array, least: float) -> Array:
    """Of each row, the largest number of steps by which all points lie apart that have at least this share: where
    everybody is at one of the two ends, an install moves a mean by the whole range or not at all."""
    found = np.ones(len(law))
    for row, there in enumerate(law >= least):
        places = np.flatnonzero(there)
        if len(places) > 1:
            found[row] = np.gcd.reduce(np.diff(places))
    return found
