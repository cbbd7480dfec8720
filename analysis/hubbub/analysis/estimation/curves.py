"""Cumulant generating functions of the estimates of a law, at any tilt and any true share.

They are built the way a report is: a report shows a bit with probability q or p, a memo has it with a1 or a0, an
install sets it or not, and crowds of installs are independent. A search asks for them again and again, so what neither
tilt nor share changes is worked out once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hubbub.analysis.arrays import Array, Index, Mask

Curve = tuple[Array, Array, Array]
"""The logarithm of a moment generating function at a tilt, and its first two derivatives there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """How the reports of installs move the estimates of some rows.

    Rows rest on crowds of installs, crowds on bits, and bits on cells: one for each definition that asks. Arrays are of
    one of these four. `inside` and `outside` are the probabilities that an install inside or outside the row sets the
    bit (or one of several bits that act alike); `move` is how far a one moves the estimate.
    """

    offset: Array  # of each row: what is taken off the moves' sum to make the estimate
    step: Array  # how far one install can move the estimate
    fixed: Array  # the part of the variance of sampling insiders that is not there
    added: Array  # the variance by noise on counts where no install, half of them and all are inside
    row: Index  # of each crowd
    installs: Array
    crowd: Index  # of each bit
    inside: Array
    outside: Array
    bit: Index  # of each cell
    alike: Array  # how many cells are like this one
    a1: Array
    a0: Array
    q: Array
    p: Array
    asked: Array  # how many reports an install sends
    move: Array


class Curves:
    """Of each row: the sum of all its moves."""

    def __init__(self, law: Moves) -> None:
        self._law = law
        self._rows, self._crowds, self._bits = len(law.step), len(law.row), len(law.crowd)
        self._row_of_cell = law.row[law.crowd][law.bit]
        self._crowd_of_cell = law.crowd[law.bit]
        self._fixed, self._squared_move = law.fixed[law.row], law.move**2
        self._one_report, self._each_alone = bool((law.asked == 1).all()), bool((law.alike == 1).all())
        self._cell_is_bit, self._cell_is_crowd, self._bit_is_crowd = (
            np.array_equal(group, np.arange(size))
            for group, size in (
                (law.bit, self._bits),
                (self._crowd_of_cell, self._crowds),
                (law.crowd, self._crowds),
            )
        )
        self._set_nothing = [
            np.maximum(1 - self._by_crowd(probability), 0) for probability in (law.inside, law.outside)
        ]

    def __call__(self, tilt: Array, share: Array) -> tuple[Curve, Array]:
        """At one tilt and one true share for each row; and the slope of the logarithm in the share."""
        law = self._law
        if_set, if_not = self._cells(tilt[self._row_of_cell])
        alike = if_not if self._each_alone else _times(law.alike, if_not)
        background = alike if self._cell_is_crowd else _summed(self._crowd_of_cell, alike, self._crowds)
        excess = _less(if_set, if_not)
        excess = excess if self._cell_is_bit else _summed(law.bit, excess, self._bits)
        within, without = self._any_bit(excess)
        # Of insiders and outsiders the fewer are binomial, as many as expected and with the variance that is left: one
        # install each for sure where nothing is sampled, any of all where everything is; else nearly
        # hypergeometric, with the same mean and variance.
        f, fixed = share[law.row], self._fixed
        is_few = f <= 0.5
        fewer = np.where(is_few, f, 1 - f)
        ours, theirs = _chosen(is_few, within, without), _chosen(is_few, without, within)
        chance = np.maximum(fewer + fixed * (1 - fewer), 1e-100)
        of_all = np.where(fixed > 0, fewer / chance, 1)
        drawn = _less(_either(chance, ours, theirs), theirs)
        k0, k1, k2 = (
            sums(law.row, law.installs * (b + o + of_all * d), self._rows)
            for b, o, d in zip(background, theirs, drawn, strict=True)
        )
        apart = np.exp(ours[0] - theirs[0] - drawn[0]) - np.exp(-drawn[0])
        slope = fixed / chance**2 * drawn[0] + of_all * (1 - fixed) * apart
        return (k0, k1, k2), sums(law.row, law.installs * np.where(is_few, slope, -slope), self._rows)

    def _cells(self, tilt: Array) -> tuple[Curve, Curve]:
        """What the reports of one install add in each cell: if its mask has the bit, and if not."""
        law = self._law
        moved = np.exp(law.move * tilt)
        said, unsaid = self._reports(law.q, moved), self._reports(law.p, moved)
        odds, (_, apart, wider) = np.exp(said[0] - unsaid[0]), _less(said, unsaid)
        squared = apart**2

        def memo(probability: Array) -> Curve:
            """The one with this probability, the other otherwise."""
            ratio = probability * odds
            total = 1 - probability + ratio
            posterior = ratio / total
            return (
                unsaid[0] + np.log(total),
                unsaid[1] + posterior * apart,
                unsaid[2] + posterior * wider + posterior * (1 - posterior) * squared,
            )

        return memo(law.a1), memo(law.a0)

    def _reports(self, probability: Array, moved: Array) -> Curve:
        """Reports that move the estimate with this probability each."""
        likely = probability * moved
        total = 1 - probability + likely
        shown = likely / total
        found = np.log(total), self._law.move * shown, self._squared_move * shown * (1 - shown)
        return found if self._one_report else _times(self._law.asked, found)

    def _any_bit(self, excess: Curve) -> tuple[Curve, Curve]:
        """What a bit that an install sets adds, if it is inside and if it is outside: of its crowd's bits one, each
        with its probability, or none."""
        raised, square = np.exp(excess[0]), excess[2] + excess[1] ** 2

        def any_of(probability: Array, nothing: Array) -> Curve:
            weight = probability * raised
            total = nothing + self._by_crowd(weight)
            first = self._by_crowd(weight * excess[1]) / total
            second = self._by_crowd(weight * square) / total
            return np.log(total), first, second - first**2

        return any_of(self._law.inside, self._set_nothing[0]), any_of(self._law.outside, self._set_nothing[1])

    def _by_crowd(self, of_bits: Array) -> Array:
        return of_bits if self._bit_is_crowd else sums(self._law.crowd, of_bits, self._crowds)


def sums(group: Index, values: Array, size: int) -> Array:
    """For each group, the sum of its values."""
    return np.asarray(np.bincount(group, weights=values, minlength=size), dtype=np.float64)


def _either(probability: Array, one: Curve, other: Curve) -> Curve:
    """The one with this probability, the other otherwise."""
    ratio = probability * np.exp(one[0] - other[0])
    total = 1 - probability + ratio
    posterior = ratio / total
    apart = one[1] - other[1]
    return (
        other[0] + np.log(total),
        other[1] + posterior * apart,
        other[2] + posterior * (one[2] - other[2]) + posterior * (1 - posterior) * apart**2,
    )


def _times(factor: Array, curve: Curve) -> Curve:
    return factor * curve[0], factor * curve[1], factor * curve[2]


def _chosen(first: Mask, one: Curve, other: Curve) -> Curve:
    return np.where(first, one[0], other[0]), np.where(first, one[1], other[1]), np.where(first, one[2], other[2])


def _less(one: Curve, other: Curve) -> Curve:
    return one[0] - other[0], one[1] - other[1], one[2] - other[2]


def _summed(group: Index, curve: Curve, size: int) -> Curve:
    return sums(group, curve[0], size), sums(group, curve[1], size), sums(group, curve[2], size)
