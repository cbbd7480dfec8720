"""Numbers through a tree: any range, the distribution function and quantiles, from levels of unequal size.

Each cohort reports one level of a B-ary tree over the cells of the range; where a metric was redefined, the cohorts of
a level are joined by precision, each with its own noise. Least squares makes parents the sum of
their children in two passes (Hay et al. 2010), here for levels with different numbers of reporters: upwards each node
joins its own count with the sum of its children's, by precision; downwards what a family disagrees with its parent is
shared out evenly. The root is not asked: `absent` is outside the tree, so the tree's total is itself estimated.

A query is a linear form in the leaves. Run through the two passes backwards it becomes its coefficients on the counted
cells, and from these its variance follows exactly, whatever the levels hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.cells import Cohort, TwoStageNoise, shared_sampling
from hubbub.analysis.estimation.crowds import Entries, law_of
from hubbub.analysis.estimation.curves import sums
from hubbub.analysis.estimation.law import Law

_CHUNK = 4_000_000  # coefficients held at a time


@dataclass(frozen=True, slots=True)
class Spread:
    """Variances of queries, and how they covary with the tree's total."""

    variance: Array
    covariance_with_total: Array
    variance_of_total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The cells of one level; each has variance floor + slope g + sampling g (1 - g) at its true share g, and noise on
    the number of reports moves all of them together. `parts` are the cohorts behind it, one of each definition, and
    their weights."""

    parts: tuple[tuple[Cohort, float], ...]
    shares: Array
    floor: float
    slope: float
    sampling: float
    reports: float

    @classmethod
    def of(cls, cohorts: Sequence[Cohort]) -> Level:
        """The cohorts that asked this level, one of each definition, weighed by a precision that no share decides."""
        observed = [cohort for cohort in cohorts if cohort.reports]
        if not observed:
            return cls(
                parts=(), shares=np.zeros(len(cohorts[0].ones)), floor=np.inf, slope=0.0, sampling=np.inf, reports=0.0
            )
        weight = np.array([1 / (cohort.floor or cohort.sampling) for cohort in observed])
        weight /= weight.sum()
        floor = float(np.sum(weight**2 * [cohort.own_floor + cohort.per_count for cohort in observed]))
        slope = float(np.sum(weight**2 * [cohort.own_slope for cohort in observed]))
        return cls(
            parts=tuple(zip(observed, weight.tolist(), strict=True)),
            shares=np.sum([w * cohort.shares for w, cohort in zip(weight, observed, strict=True)], axis=0),
            floor=floor,
            slope=slope,
            sampling=shared_sampling([cohort.sampling for cohort in observed], weight.tolist()),
            reports=sum(cohort.reports for cohort in observed),
        )

    @property
    def precision(self) -> float:
        """Of a cell that nobody is in; a channel without noise leaves the sampling alone."""
        return 1 / (self.floor or self.sampling) if self.reports else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """The least-squares problem of a tree: every level, the coarsest first."""

    branching: int
    levels: tuple[Level, ...]
    own: tuple[float, ...]
    """How much of a node's joined estimate is its own count; the rest comes from its children."""

    @classmethod
    def of(cls, branching: int, definitions: Sequence[Sequence[Cohort]]) -> Levels:
        """From the cohorts of each definition, a cohort a level."""
        levels = tuple(Level.of(cohorts) for cohorts in zip(*definitions, strict=True))
        own: list[float] = []
        below = 0.0
        for level in reversed(levels):
            joined = level.precision + below / branching
            own.append(level.precision / joined if joined else np.nan)
            below = joined
        return cls(branching=branching, levels=levels, own=tuple(reversed(own)))

    @property
    def shares(self) -> tuple[Array, ...]:
        return tuple(level.shares for level in self.levels)

    @property
    def identified(self) -> bool:
        """Whether the leaves are told apart at all: their own level must have been asked."""
        return bool(self.levels[-1].reports)

    def leaves(self) -> Array:
        """The least-squares estimate of each leaf; NaN where they are not identified."""
        if not self.identified:
            return np.full(len(self.shares[-1]), np.nan)
        joined = [self.shares[-1]]
        for share, own in zip(self.shares[-2::-1], self.own[-2::-1], strict=True):
            joined.append(own * share + (1 - own) * joined[-1].reshape(-1, self.branching).sum(axis=1))
        joined.reverse()
        settled = joined[0]
        for family in joined[1:]:
            missing = settled - family.reshape(-1, self.branching).sum(axis=1)
            settled = family + np.repeat(missing / self.branching, self.branching)
        return settled

    def coefficients(self, queries: Array) -> list[Array]:
        """How much each counted cell, level by level, enters each query (rows over leaves)."""
        b = self.branching
        settled, joined = queries, []
        for _ in self.shares[1:]:
            parents = settled.reshape(len(queries), -1, b).sum(axis=2) / b
            joined.append(settled - np.repeat(parents, b, axis=1))
            settled = parents
        joined.append(settled)
        joined.reverse()
        found: list[Array] = []
        carried = np.zeros((len(queries), 0))
        for level, own in enumerate(self.own):
            if level:
                joined[level] = joined[level] + np.repeat(carried, b, axis=1)
            found.append(own * joined[level] if level < len(self.own) - 1 else joined[level])
            carried = (1 - own) * joined[level]
        return found

    def attack_gain(self, queries: Array, noises: Sequence[TwoStageNoise]) -> float:
        """How far one fake report of n can move the answer of any of these queries, times n: it picks its level, sets
        the bits that raise the answer and leaves out those that lower it, or the other way round."""
        reports = sum(level.reports for level in self.levels)
        most = 0.0
        for level, found in zip(self.levels, self.coefficients(queries), strict=True):
            if level.reports and self.identified:
                raising, lowering = np.maximum(found, 0).sum(axis=1), np.maximum(-found, 0).sum(axis=1)
                for noise in noises:
                    set_all, set_none = (1 - noise.p_star) / noise.gain, noise.p_star / noise.gain
                    moved = np.maximum(raising * set_all + lowering * set_none, raising * set_none + lowering * set_all)
                    most = max(most, float(moved.max()) * reports / level.reports)
        return most

    def residual_parts(self, level: int) -> tuple[Array, Array]:
        """How much of each direction of a level's counts the fit leaves over, and how many such directions there are.

        Contrasts within families of level j (and, for the first, the total) are told by every level i from j down, with
        precision falling by the branching at each step; what this level contributes is fitted away.
        """
        b = self.branching
        precision = np.array([each.precision for each in self.levels])
        left, count = [], []
        for j in range(level + 1):
            precisions = precision[j:] / float(b) ** np.arange(len(precision) - j)
            left.append(1 - precisions[level - j] / precisions.sum())
            count.append(b if j == 0 else b ** (j + 1) - b**j)
        return np.array(left), np.array(count, dtype=np.float64)

    def law(self, queries: Array, inside: Array, outside: Array, finite: float) -> Law:
        """Of the estimate of each query that is 1 over some leaves: `inside` and `outside` are the shares of all leaves
        among the installs that are in these, and among the others. Cells with one coefficient act alike."""
        cohorts = [cohort for level in self.levels for cohort, _ in level.parts]
        places = [place for place, level in enumerate(self.levels) for _ in level.parts]
        found: list[Entries] = []
        number = 0
        for level, coefficients in zip(self.levels, self.coefficients(queries), strict=True):
            within, without = (of.reshape(*coefficients.shape, -1).sum(axis=2) for of in (inside, outside))
            for _, weight in level.parts:
                found.append(_alike(coefficients, weight, within, without, number))
                number += 1
        return law_of(cohorts, places, Entries.joined(found), len(queries), finite)

    def spread(self, queries: Array, guess: Array, finite: float) -> Spread:
        """Variances of queries, and covariances with the total, given the shares `guess` of the leaves: the same for
        all queries, or a row for each. `finite` is what the sampling of everyone takes off (see
        `cells.finite_population`)."""
        everyone = np.ones((1, queries.shape[1]))
        of_total = self.coefficients(everyone)
        guesses = np.atleast_2d(guess)
        var_total = self._product(of_total, of_total, everyone, everyone, guesses[:1], finite)
        variance, covariance = np.zeros(len(queries)), np.zeros(len(queries))
        step = max(1, _CHUNK // queries.shape[1])
        for start in range(0, len(queries), step):
            chunk = slice(start, start + step)
            some, behind = queries[chunk], guesses[chunk] if len(guesses) > 1 else guesses
            found = self.coefficients(some)
            variance[chunk] = self._product(found, found, some, some, behind, finite)
            covariance[chunk] = self._product(found, of_total, some, everyone, behind, finite)
        return Spread(variance, covariance, float(var_total[0]))

    def _product(
        self, a: list[Array], b: list[Array], query_a: Array, query_b: Array, guess: Array, finite: float
    ) -> Array:
        """Cov(query a, query b), row by row."""
        total: Array = -finite * (_dots(query_a * query_b, guess) - _dots(query_a, guess) * _dots(query_b, guess))
        for x, y, level in zip(a, b, self.levels, strict=True):
            if level.reports:
                share = guess.reshape(len(guess), x.shape[1], -1).sum(axis=2)
                total = total + _dots(x * y, level.floor + (level.slope + level.sampling) * share)
                total = total - level.sampling * _dots(x, share) * _dots(y, share)
                for cohort, weight in level.parts:
                    if cohort.per_count:
                        ones = cohort.noise.p_star + cohort.noise.gain * share
                        total = total + weight**2 * cohort.per_count * _dots(x, ones) * _dots(y, ones)
        return total


def _alike(coefficients: Array, weight: float, inside: Array, outside: Array, cohort: int) -> Entries:
    """The cells of a level in each row, those with one coefficient as one entry."""
    rounded = np.round(coefficients, 12)
    order = np.argsort(rounded, axis=1)
    rounded, within, without = (np.take_along_axis(each, order, axis=1) for each in (rounded, inside, outside))
    is_new = np.diff(rounded, axis=1, prepend=-np.inf) > 0
    entry = np.cumsum(is_new) - 1
    row, _ = np.nonzero(is_new)
    size = len(row)
    return Entries(
        row=row,
        cohort=np.full(size, cohort),
        bit=np.arange(size) - np.searchsorted(row, row),
        coefficient=weight * rounded[is_new],
        inside=sums(entry, within.ravel(), size),
        outside=sums(entry, without.ravel(), size),
        alike=sums(entry, np.ones(rounded.size), size),
    )


def _dots(a: Array, b: Array) -> Array:
    """Row by row; a single row stands for all."""
    return np.asarray((a * b).sum(axis=1))
