"""Whether a quantile changed between two distributions, and by how much: told by shares below edges, whose errors are
known, and not by the quantiles themselves, whose errors have no one size.

Where hardly anybody is near a quantile, as between two groups of people, two weeks of noise put it into one group and
then into the other. So each side says of every cell how far it contradicts that the quantile lies there: d(cell) is the
number of standard errors by which F(x) - q T, the share below x less q times those who answered, is above 0 at the
cell's lower edge, or below 0 at its upper one. d1**2 + d2**2 contradicts that both quantiles lie in one cell, and the
least of these that they are equal.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy

from hubbub.analysis.arrays import Array, Index
from hubbub.analysis.distribution import Distribution

_LOOK_CLOSER = 0.5  # while the part of the range that matters still shrinks so far


def quantile_change(before: Distribution, after: Distribution, q: float) -> tuple[float, float, float]:
    """The p-value of no change of the q-quantile, two-sided, and the interval of after minus before, of the confidence
    of `after`; nan and infinite ends where either is not known. An interval reaches from edges of cells to edges: that
    of a change may begin at 0, which it then does not hold."""
    if not (0 < q < 1 and all(side.levels.identified and side.total > 0 for side in (before, after))):
        return np.nan, -np.inf, np.inf
    most = furthest(1 - after.confidence)
    edges, (of_before, of_after) = _near(before, after, q, most)
    p_value = float(chance(np.min(of_before + of_after)))
    old, new = np.nonzero(of_before[:, np.newaxis] + of_after <= most)
    return p_value, float((edges[new] - edges[old + 1]).min()), float((edges[new + 1] - edges[old]).max())


def chance(distance: Array | float) -> Array:
    """At most so likely are two equal quantiles so far apart, or farther.

    As x goes up, both F(x) - q T do: the pairs, in standard errors, are a curve that rises through the truth, and the
    distance is that of a pair of normal errors to it. A straight curve (both smooth) makes it chi-square with one
    degree of freedom. It is farthest for a corner: just below the quantile only the one distribution has anybody, and
    just above only the other. Then a quarter of all pairs is nearest to the corner itself, with two degrees of freedom,
    half are nearest to one side, and a quarter is between both sides.
    """
    one, two = scipy.special.erfc(np.sqrt(np.asarray(distance) / 2)), np.exp(-np.asarray(distance) / 2)
    return np.asarray(two / 4 + one / 2 + one**2 / 4)


def furthest(level: float) -> float:
    """The distance that has this chance."""
    return float(scipy.optimize.brentq(lambda distance: float(chance(distance)) - level, 0, 1400))


def _near(before: Distribution, after: Distribution, q: float, most: float) -> tuple[Array, tuple[Array, Array]]:
    """The edges of cells around both quantiles and how far each side contradicts each cell, squared. Of long ranges
    first in coarse cells, which are contradicted the least, then in finer ones of the part that matters."""
    low, high = min(before.low, after.low), max(before.high, after.high)
    sides = before, after
    while True:
        ends = [_between(side, low, high) for side in sides]
        edges = np.unique(np.concatenate([side.edges()[some] for side, some in zip(sides, ends, strict=True)]))
        old, new = (_contradiction(side, q, some, edges) ** 2 for side, some in zip(sides, ends, strict=True))
        # Outside of all that one side allows, both contradict more and more.
        near = np.flatnonzero(np.minimum(old, new) <= most)
        start, stop = edges[near[0]], edges[near[-1] + 1]
        finest = all(b - a <= 1 for some in ends for a, b in pairwise(some.tolist()))
        if finest or stop - start > _LOOK_CLOSER * (high - low):
            return edges, (old, new)
        low, high = start, stop


def _between(side: Distribution, low: float, high: float) -> Index:
    """About 64 edges that reach from one end to the other, as far as the range goes; of a short one all."""
    edges = side.edges()
    first = min(max(int(np.searchsorted(edges, low, side="right")) - 1, 0), side.num_leaves - 1)
    last = max(min(int(np.searchsorted(edges, high, side="left")), side.num_leaves), first + 1)
    step = 1 if last - first <= 128 else (last - first) // 64
    return np.append(np.arange(first, last, step), last)


def _contradiction(side: Distribution, q: float, ends: Index, edges: Array) -> Array:
    """Of each cell: by how many standard errors the quantile is surely elsewhere. What lies beyond the range counts as
    in its first or last cell, as clients take it.

    Plain sums and the rising function both say so: this alone leans into gaps, which contradicts what is true beside
    them, and by those alone the cell that holds the estimate may be contradicted.
    """
    own = side.edges()[ends]
    under = np.clip(np.searchsorted(own, edges[:-1], side="right") - 1, 0, len(own) - 2)
    over = np.clip(np.searchsorted(own, edges[1:], side="left"), 1, len(own) - 1)
    plain, rising = (np.maximum(0, np.maximum(at[under], -at[over])) for at in side.deviations(q, ends))
    return np.minimum(plain, rising)
