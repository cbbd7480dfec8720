"""How rarely two noisy counts differ so much by chance, far out in the tail where many rows or many looks are judged.

Of a channel that seldom turns a 0 into a 1, a thousand reports hold a handful of ones, and their law is skewed. Where
one side is a day and the other a month, the skewness does not cancel, and a normal law is then tens of times too
generous at one in ten thousand. A centred count with variance v that moves in steps of b is at most as skewed as a
Poisson one, whose cumulants are known:

    K(s) = v/b^2 (e^(bs) - 1 - bs)

so the tail of a difference of two follows by saddlepoint (Lugannani and Rice 1980, in Barndorff-Nielsen's form).
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from hubbub.analysis.arrays import Array

_HALVINGS, _STEPS = 12, 4  # halvings come near, and each of Newton's steps then doubles the digits
_NEAR = 0.5  # standard deviations: nearer than that nothing is rare, and the formula divides nothing by nothing


def two_sided_p_value(distance: Array, rises: tuple[Array, Array], falls: tuple[Array, Array]) -> Array:
    """P(two counts differ by `distance` or more), at least what the normal law says; each side is its variance and how
    far one install can move it. A side without steps is normal."""
    both = rises[0] + falls[0]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        normal = 2 * np.asarray(ndtr(-distance / np.sqrt(both)))
        skewed = _tail(distance, rises, falls) + _tail(distance, falls, rises)
        rare = (distance > _NEAR * np.sqrt(both)) & np.isfinite(skewed)
    return np.where(rare, np.maximum(normal, skewed), normal)


def _tail(distance: Array, up: tuple[Array, Array], down: tuple[Array, Array]) -> Array:
    """P(up - down >= distance): `up` is skewed towards it, `down` away from it."""
    (v, b), (w, c) = ((variance, np.maximum(step, 1e-6 * np.sqrt(variance))) for variance, step in (up, down))
    # K'(s) = v/b (e^(bs) - 1) + w/c (1 - e^(-cs)) rises; its first part alone reaches the distance at the upper end.
    low, high = np.zeros_like(distance), np.log1p(distance * b / v) / b
    for _ in range(_HALVINGS):
        s = (low + high) / 2
        short = v / b * np.expm1(b * s) - w / c * np.expm1(-c * s) < distance
        low, high = np.where(short, s, low), np.where(short, high, s)
    s = (low + high) / 2
    for _ in range(_STEPS):
        slope = v / b * np.expm1(b * s) - w / c * np.expm1(-c * s)
        s = np.clip(s - (slope - distance) / (v * np.exp(b * s) + w * np.exp(-c * s)), low, high)
    cumulant = v / b**2 * (np.expm1(b * s) - b * s) + w / c**2 * (np.expm1(-c * s) + c * s)
    spread = v * np.exp(b * s) + w * np.exp(-c * s)
    r, u = np.sqrt(2 * (s * distance - cumulant)), s * np.sqrt(spread)
    return np.asarray(ndtr(-(r + np.log(u / r) / r)))
