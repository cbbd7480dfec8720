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
import numpy.typing as npt
from scipy.optimize import isotonic_regression

from hubbub.analysis.estimation.cells import Cohort, Wire
from hubbub.analysis.estimation.intervals import critical, ratios
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Range

Array = npt.NDArray[np.float64]
_CHUNK = 4_000_000  # coefficients held at a time


@dataclass(frozen=True, slots=True)
class Spread:
    """Variances of queries, and how they covary with the tree's total."""

    variance: Array
    covariance_with_total: Array
    variance_of_total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The cells of one level; each has variance floor + slope g + sampling g (1 - g) at its true share g."""

    shares: Array
    floor: float
    slope: float
    sampling: float
    reports: float

    @classmethod
    def of(cls, cohorts: Sequence[Cohort]) -> Level:
        """The cohorts that asked this level, one of each definition, weighed by a precision that no share decides."""
        told = [cohort for cohort in cohorts if cohort.reports]
        if not told:
            return cls(shares=np.zeros(len(cohorts[0].ones)), floor=np.inf, slope=0.0, sampling=np.inf, reports=0.0)
        weight = np.array([1 / (cohort.floor or cohort.sampling) for cohort in told])
        weight /= weight.sum()
        floor, slope, sampling = (
            float(np.sum(weight**2 * [getattr(cohort, name) for cohort in told]))
            for name in ("floor", "slope", "sampling")
        )
        return cls(
            shares=np.sum([w * cohort.shares for w, cohort in zip(weight, told, strict=True)], axis=0),
            floor=floor,
            slope=slope,
            sampling=sampling,
            reports=sum(cohort.reports for cohort in told),
        )

    @property
    def precision(self) -> float:
        """Of a cell that nobody is in; a wire that never lies leaves the sampling alone."""
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
        """The least-squares estimate of each leaf."""
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

    def residual_parts(self, level: int) -> tuple[Array, Array]:
        """How much of each direction of a level's counts the fit leaves over, and how many such directions there are.

        Contrasts within families of level j (and, for the first, the total) are told by every level i from j down, with
        precision falling by the branching at each step; what this level contributes is fitted away.
        """
        b = self.branching
        precision = np.array([each.precision for each in self.levels])
        left, count = [], []
        for j in range(level + 1):
            told = precision[j:] / float(b) ** np.arange(len(precision) - j)
            left.append(1 - told[level - j] / told.sum())
            count.append(b if j == 0 else b ** (j + 1) - b**j)
        return np.array(left), np.array(count, dtype=np.float64)

    def spread(self, queries: Array, guess: Array, finite: float) -> Spread:
        """Variances of queries, and covariances with the total, given the shares `guess` of the leaves: the same for
        all queries, or a row for each. `finite` is what the sampling of everyone takes off (see
        `estimate.finite_population`)."""
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
        return total


def _dots(a: Array, b: Array) -> Array:
    """Row by row; a single row stands for all."""
    return np.asarray((a * b).sum(axis=1))


@dataclass(frozen=True, slots=True)
class Band:
    """Estimates with their intervals, at each of `points`."""

    points: Array
    estimate: Array
    std_error: Array
    low: Array
    high: Array


def _inverse(rising: Array, edges: Array, q: float) -> float:
    """Where a distribution reaches q, with the numbers of a cell spread evenly over it."""
    at = max(1, min(int(np.searchsorted(rising, q, side="left")), len(edges) - 1))
    step = rising[at] - rising[at - 1]
    inside = (q - rising[at - 1]) / step if step > 0 else 1.0
    return float(edges[at - 1] + min(inside, 1.0) * (edges[at] - edges[at - 1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The decoded distribution of a `range` metric. Shares are of those who answered unless said otherwise."""

    shape: Range
    levels: Levels
    leaves: Array
    finite: float
    confidence: float

    @classmethod
    def of(cls, shape: Range, definitions: Sequence[Sequence[Cohort]], finite: float, confidence: float) -> Tree:
        """What `decode` makes of the cohorts of each definition, a cohort a level."""
        levels = Levels.of(shape.branching, definitions)
        leaves = levels.leaves() if levels.identified else np.full(shape.num_leaves, np.nan)
        return cls(shape=shape, levels=levels, leaves=leaves, finite=finite, confidence=confidence)

    @property
    def total(self) -> float:
        """The estimated share of installs that answered at all."""
        return float(self.leaves.sum())

    @property
    def best_guess(self) -> Array:
        """The leaves' shares under the nearest distribution function that rises and stays within [0, 1]."""
        guess: Array = np.diff(np.clip(self._rising(), 0, 1), prepend=0)
        return guess

    def _rising(self) -> Array:
        """The nearest distribution function that rises, at the upper edge of each leaf."""
        return np.asarray(isotonic_regression(np.cumsum(np.nan_to_num(self.leaves))).x)

    def distribution(self) -> Array:
        """The best guess of the share of answers below each edge: it rises from 0 to 1."""
        if not self.total > 0:
            return np.full(self.shape.num_leaves + 1, np.nan)
        # Of those who answered, as many as the counts say: their estimated share of all installs may well be above 1.
        return np.clip(np.concatenate([[0.0], self._rising()]) / self.total, 0, 1)

    def edges(self) -> Array:
        """The num_leaves + 1 ends of the leaves, in the metric's unit."""
        return np.linspace(float(self.shape.low), float(self.shape.high), self.shape.num_leaves + 1)

    def leaf_of(self, number: float) -> int:
        """How many leaves lie below a number, which must be an edge between leaves."""
        low, high = float(self.shape.low), float(self.shape.high)
        place = (number - low) / (high - low) * self.shape.num_leaves
        if not (abs(place - round(place)) < 1e-6 and 0 <= round(place) <= self.shape.num_leaves):
            width = (high - low) / self.shape.num_leaves
            rule = f"{low:g} + i x {width:g} with i <= {self.shape.num_leaves}"
            nearest = low + min(max(round(place), 0), self.shape.num_leaves) * width
            raise Invalid([f"a bound must be an edge, {rule}, got {number:g}; the nearest is {nearest:g}"])
        return round(place)

    def shares(self, ranges: list[tuple[float, float]], *, of: str = "answered") -> Band:
        """The shares of numbers in [low, high) for each of `ranges`, of those who `answered` or of `all` installs."""
        return self._band(np.array([low for low, _ in ranges]), self._queries(ranges), of)

    def pull(self, ranges: list[tuple[float, float]], wires: Sequence[Wire]) -> float:
        """How far one fake report of n can move the share of any of these ranges, times n: it picks its level, sets the
        bits that raise the share and leaves out those that lower it, or the other way round."""
        reports = sum(level.reports for level in self.levels.levels)
        most = 0.0
        for level, found in zip(self.levels.levels, self.levels.coefficients(self._queries(ranges)), strict=True):
            if level.reports and self.levels.identified:
                raising, lowering = np.maximum(found, 0).sum(axis=1), np.maximum(-found, 0).sum(axis=1)
                for wire in wires:
                    set_all, set_none = (1 - wire.p_star) / wire.gain, wire.p_star / wire.gain
                    moved = np.maximum(raising * set_all + lowering * set_none, raising * set_none + lowering * set_all)
                    most = max(most, float(moved.max()) * reports / level.reports)
        return most

    def sums(self, leaves: Array, ranges: list[tuple[float, float]]) -> Array:
        """What these leaves hold in each of the ranges."""
        return self._queries(ranges) @ leaves

    def _queries(self, ranges: list[tuple[float, float]]) -> Array:
        queries = np.zeros((len(ranges), self.shape.num_leaves))
        for row, (low, high) in zip(queries, ranges, strict=True):
            row[self.leaf_of(low) : self.leaf_of(high)] = 1
        return queries

    def shares_if_empty(self, ranges: list[tuple[float, float]]) -> Array:
        """The standard error that each range's share would have if nobody were in it: what a test compares with."""
        queries = self._queries(ranges)
        if not self.levels.identified:
            return np.full(len(ranges), np.inf)
        elsewhere = np.where(queries > 0, 0, self.best_guess)
        return np.sqrt(np.maximum(self.levels.spread(queries, elsewhere, self.finite).variance, 0))

    def cdf(self, *, of: str = "answered", points: int = 256) -> Band:
        """P(number < x) at about so many evenly spaced edges."""
        ends = self._some_edges(points)[1:]
        queries = (np.arange(self.shape.num_leaves) < ends[:, np.newaxis]).astype(np.float64)
        return self._band(self.edges()[ends], queries, of)

    def quantiles(self, probabilities: list[float]) -> Band:
        """The numbers below which these shares of those who answered lie.

        A cell may hold the quantile unless F(x) - q T, the share below x less q times those who answered, is surely
        above 0 at its lower edge or surely below 0 at its upper one. The interval reaches from the first such cell to
        the last: it is as fine as the tree's leaves, and never finer.
        """
        wrong = [q for q in probabilities if not 0 < q < 1]
        if wrong:
            raise Invalid([f"a quantile must be above 0 and below 1, got {q}" for q in wrong])
        edges, rising = self.edges(), self.distribution()
        if not self.levels.identified or np.isnan(rising).any():
            unknown = np.full(len(probabilities), np.nan)
            ends = np.full(len(probabilities), edges[0]), np.full(len(probabilities), edges[-1])
            return Band(np.array(probabilities), unknown, unknown + np.inf, *ends)
        coarse = self._some_edges(256)
        spread = self._spread_below(coarse)
        rows = []
        for q in probabilities:
            first, last = self._plausible(q, coarse, spread)
            rows.append((_inverse(rising, edges, q), float(edges[first]), float(edges[last])))
        estimate, low_ends, high_ends = (np.array(column) for column in zip(*rows, strict=True))
        std_error = (high_ends - low_ends) / (2 * critical(self.confidence))
        return Band(np.array(probabilities), estimate, std_error, low_ends, high_ends)

    def _some_edges(self, number: int) -> npt.NDArray[np.int64]:
        """About so many edges, evenly spaced, the first and the last among them."""
        step = max(1, self.shape.num_leaves // number)
        return np.append(np.arange(0, self.shape.num_leaves, step), self.shape.num_leaves)

    def _spread_below(self, ends: npt.NDArray[np.int64]) -> Spread:
        """Of the shares below these edges."""
        queries = (np.arange(self.shape.num_leaves) < ends[:, np.newaxis]).astype(np.float64)
        return self.levels.spread(queries, self.best_guess, self.finite)

    def _plausible(self, q: float, coarse: npt.NDArray[np.int64], spread: Spread) -> tuple[int, int]:
        """The first and the last edge of the cells that q may lie in: among coarse cells, then inside by halving.

        F is taken as the nearest rising function: it is nearer to the truth than the plain sums, and a dip of these far
        out in a tail, where F hardly changes, does not stretch the interval to there.
        """
        below = np.concatenate([[0.0], self._rising()]) - q * self.total
        z = critical(self.confidence)

        def deviations(ends: npt.NDArray[np.int64], of: Spread) -> Array:
            # F(x) - q T is one linear form: its variance needs no delta method.
            variance = of.variance - 2 * q * of.covariance_with_total + q**2 * of.variance_of_total
            return np.asarray(below[ends] / np.sqrt(np.maximum(variance, 1e-300)))

        def halve(surely: int, perhaps: int, sign: int) -> int:
            """The last edge, coming from `perhaps`, at which the sign is not sure."""
            while abs(perhaps - surely) > 1:
                middle = np.array([(surely + perhaps) // 2])
                if sign * deviations(middle, self._spread_below(middle))[0] > z:
                    surely = int(middle[0])
                else:
                    perhaps = int(middle[0])
            return perhaps

        found = deviations(coarse, spread)
        under, above = found < -z, found > z
        kept = np.flatnonzero(~under[1:] & ~above[:-1])
        first, last = int(coarse[kept[0]]), int(coarse[kept[-1] + 1])
        if under[kept[0]]:
            first = halve(first, int(coarse[kept[0] + 1]), -1) - 1
        if above[kept[-1] + 1]:
            last = halve(last, int(coarse[kept[-1]]), 1) + 1
        return first, last

    def _band(self, points: Array, queries: Array, of: str) -> Band:
        if of not in ("answered", "all"):
            raise Invalid([f"of must be 'answered' or 'all', got {of!r}"])
        if not self.levels.identified:
            unknown = np.full(len(points), np.nan)
            return Band(points, unknown, unknown + np.inf, unknown - np.inf, unknown + np.inf)
        spread = self.levels.spread(queries, self.best_guess, self.finite)
        share = queries @ self.leaves
        if of == "all":
            std_error = np.sqrt(np.maximum(spread.variance, 0))
            reach = critical(self.confidence) * std_error
            return Band(points, share, std_error, share - reach, share + reach)
        among = ratios(
            share, self.total, spread.variance, spread.covariance_with_total, spread.variance_of_total, self.confidence
        )
        return Band(points, among.estimate, among.std_error, among.low, among.high)
