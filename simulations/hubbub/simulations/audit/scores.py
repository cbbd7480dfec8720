"""Which of two values a transcript favours, as a whole number, and the exact law of that number.

Two masks of one install differ at a few positions; everywhere else a transcript is equally likely under both. So the
log-likelihood ratio of a transcript is a sum over those positions. Rounded to 1/1024 per position it is a *score*: a
whole number whose law under either value follows by convolution, exactly, for any number of hashes and reports. Every
event of an audit is "the score reaches a threshold"; the threshold is chosen before anything is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, log

import numpy as np
import numpy.typing as npt

from hubbub.protocol.channel import BitChannel, KaryChannel, Noise, SubsetChannel
from hubbub.simulations.audit.evidence import Chances, about_expected

Counts = npt.NDArray[np.int64]
"""Rows are trials; columns the positions where the two masks differ: first the lost ones, then the gained."""

SCALE = 1024
MEMO = 0
"""In place of a number of reports: the memo itself is seen."""

ENOUGH = 20
"""How often an event must be expected to happen to the value it speaks for."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreLaw:
    """The law of a score under both values, and the table that gives the score of what was seen."""

    lost: int
    gained: int
    scores: npt.NDArray[np.int64]
    one: npt.NDArray[np.float64]
    other: npt.NDArray[np.float64]
    table: npt.NDArray[np.int64]

    def of(self, counts: Counts) -> npt.NDArray[np.int64]:
        """The score of each row of counts."""
        if self.table.ndim == 2:  # categories: how often the one was named, how often the other
            return np.asarray(self.table[counts[:, 0], counts[:, 1]])
        per_position = self.table[counts]
        return np.asarray(per_position[:, : self.lost].sum(axis=1) - per_position[:, self.lost :].sum(axis=1))

    def reaches(self, threshold: int) -> Chances:
        """The chances of a score at or above the threshold."""
        there = self.scores >= threshold
        return Chances(float(min(1.0, self.one[there].sum())), float(min(1.0, self.other[there].sum())))

    def reversed(self) -> ScoreLaw:
        """The same, in favour of the other value."""
        return ScoreLaw(self.lost, self.gained, -self.scores[::-1], self.other[::-1], self.one[::-1], -self.table)

    def sharpest(self, trials: int, alpha: float) -> int:
        """The threshold from which the largest bound is to be expected in so many trials of each value."""
        one = np.cumsum(self.one[::-1])[::-1]
        other = np.cumsum(self.other[::-1])[::-1]
        bounds = about_expected(np.minimum(one, 1.0), np.minimum(other, 1.0), trials, alpha)
        return int(self.scores[most_promising(self.scores, one, bounds, trials)])


def score_law(noise: Noise, lost: int, gained: int, reports: int) -> ScoreLaw:
    """For two masks that differ in so many bits, seen through the memo (`reports = MEMO`) or so many reports of it."""
    match noise.permanent, noise.instantaneous:
        case BitChannel() as permanent, BitChannel() as instantaneous:
            return _of_bits(permanent, instantaneous, lost, gained, reports)
        case KaryChannel() as permanent, KaryChannel() as instantaneous:
            return _of_categories(permanent, instantaneous, reports)
        case SubsetChannel() as permanent, _:
            return _of_subsets(permanent, max(reports, 1))
    raise AssertionError("unreachable: both stages are of one sort")


def most_promising(
    scores: npt.NDArray[np.int64], chances: npt.NDArray[np.float64], bounds: npt.NDArray[np.float64], trials: int
) -> int:
    """Where the largest bound is, among events that speak for the value and are not too rare to be relied on."""
    usable = (scores > 0) & (chances * trials >= ENOUGH)
    return int(np.argmax(np.where(usable, bounds, -np.inf))) if usable.any() else len(scores) - 1


def _of_bits(permanent: BitChannel, instantaneous: BitChannel, lost: int, gained: int, reports: int) -> ScoreLaw:
    a1, a0 = (float(p) for p in permanent.probabilities)
    if reports == MEMO:
        has, lacks = np.array([1 - a1, a1]), np.array([1 - a0, a0])
    else:
        q, p = (float(p) for p in instantaneous.probabilities)
        ones = np.arange(reports + 1)
        ways = np.array([comb(reports, int(c)) for c in ones])
        if_set, if_not = (ways * rate**ones * (1 - rate) ** (reports - ones) for rate in (q, p))
        has, lacks = a1 * if_set + (1 - a1) * if_not, a0 * if_set + (1 - a0) * if_not
    table = np.array([_score(x, y) for x, y in zip(has, lacks, strict=True)], dtype=np.int64)
    scores, one, other = np.zeros(1, dtype=np.int64), np.ones(1), np.ones(1)
    for _ in range(lost):
        scores, one, other = _sum(scores, one, other, table, has, lacks)
    for _ in range(gained):
        scores, one, other = _sum(scores, one, other, -table, lacks, has)
    return ScoreLaw(lost, gained, scores, one, other, table)


def _of_categories(permanent: KaryChannel, instantaneous: KaryChannel, reports: int) -> ScoreLaw:
    """What counts is how often the one category was named and how often the other: three outcomes, all others alike."""
    a, b = (float(p) for p in permanent.probabilities)
    rest = (permanent.categories - 2) * b
    a2, b2 = (1.0, 0.0) if reports == MEMO else (float(p) for p in instantaneous.probabilities)
    total = max(reports, 1)
    named = [(i, j) for i in range(total + 1) for j in range(total + 1 - i)]

    def chance(i: int, j: int, u: float, v: float) -> float:
        left = total - i - j
        return comb(total, i) * comb(total - i, j) * u**i * v**j * max(0.0, 1 - u - v) ** left

    table = np.zeros((total + 1, total + 1), dtype=np.int64)
    found: list[tuple[int, float, float]] = []
    for i, j in named:
        memo_one, memo_other, memo_rest = chance(i, j, a2, b2), chance(i, j, b2, a2), chance(i, j, b2, b2)
        if_one = a * memo_one + b * memo_other + rest * memo_rest
        if_other = b * memo_one + a * memo_other + rest * memo_rest
        table[i, j] = _score(if_one, if_other)
        found.append((int(table[i, j]), if_one, if_other))
    scores, one, other = _grouped(*(np.array(column) for column in zip(*found, strict=True)))
    return ScoreLaw(1, 1, scores, one, other, table)


def _of_subsets(channel: SubsetChannel, reports: int) -> ScoreLaw:
    """What counts is which of the two categories the subset holds; every report shows the same one."""
    (q, p), (both, _) = channel.probabilities, channel.pairs
    laws = {(1, 1): (both, both), (1, 0): (q - both, p - both), (0, 1): (p - both, q - both)}
    laws[0, 0] = (1 - q - p + both,) * 2
    table = np.zeros((reports + 1, reports + 1), dtype=np.int64)
    found: list[tuple[int, float, float]] = []
    for (i, j), (one, other) in laws.items():
        table[i * reports, j * reports] = _score(float(one), float(other))
        found.append((int(table[i * reports, j * reports]), float(one), float(other)))
    scores, ones, others = _grouped(*(np.array(column) for column in zip(*found, strict=True)))
    return ScoreLaw(1, 1, scores, ones, others, table)


def _score(one: float, other: float) -> int:
    return round(SCALE * log(one / other)) if one > 0 and other > 0 else 0


def _sum(
    scores: npt.NDArray[np.int64],
    one: npt.NDArray[np.float64],
    other: npt.NDArray[np.float64],
    table: npt.NDArray[np.int64],
    has: npt.NDArray[np.float64],
    lacks: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The law of a score with one more position."""
    return _grouped(
        np.add.outer(scores, table).ravel(),
        np.multiply.outer(one, has).ravel(),
        np.multiply.outer(other, lacks).ravel(),
    )


def _grouped(
    scores: npt.NDArray[np.int64], one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    distinct, where = np.unique(scores, return_inverse=True)
    of_one, of_other = (np.asarray(np.bincount(where, weights=w), dtype=np.float64) for w in (one, other))
    return distinct, of_one, of_other
