"""The distribution behind a `range` metric: shares of any range, the distribution function, quantiles, with intervals.

What a reader asks is a linear form in the leaves of the tree, or a ratio of two; `estimation.tree` has its variance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # its larger parts are loaded where they are asked for: half of a command's start

from hubbub.analysis.arrays import Array, Index
from hubbub.analysis.estimation.detection import Rule
from hubbub.analysis.estimation.intervals import Ratios, RatioVariance, Variance, critical, score_ratios
from hubbub.analysis.estimation.law import Law, interval
from hubbub.analysis.estimation.tree import Levels, Spread
from hubbub.analysis.options import WHOM, Whom
from hubbub.protocol.invalid import Invalid


@dataclass(frozen=True, slots=True)
class Band:
    """Estimates with their intervals, at each of `points`; and their variances, wherever the truth is."""

    points: Array
    estimate: Array
    std_error: Array
    low: Array
    high: Array
    variance: Variance | RatioVariance | None = None


@dataclass(frozen=True, slots=True)
class Tests:
    """Of ranges, each against nobody in it: how likely so large a share then is, its standard error, and its law."""

    p_value: Array
    std_error: Array
    law: Law | None

    def line(self, rule: Rule, first: int) -> float:
        """The share of all installs from which on each of the first so many ranges is detected."""
        if self.law is None:
            return np.inf
        # Their laws differ by who is around them alone: the one with most noise needs the largest share.
        noisiest = np.array([np.argmax(self.std_error[:first])])
        return float(self.law.of_rows(noisiest).line(rule.deviations)[0])


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """The decoded distribution of numbers in [low, high]. Shares are of those who answered unless said otherwise."""

    low: float  # the lower end of the range
    high: float  # its upper end
    levels: Levels  # the counts of each level of the tree, for further questions
    leaves: Array  # the estimated share of all installs in each of evenly wide cells
    finite: float  # what sampling everyone takes off the variances (estimation.cells.finite_population)
    confidence: float  # of all intervals

    @classmethod
    def of(cls, levels: Levels, low: float, high: float, finite: float, confidence: float) -> Distribution:
        """What `decode` makes of the counts of a tree's levels."""
        return cls(low=low, high=high, levels=levels, leaves=levels.leaves(), finite=finite, confidence=confidence)

    @property
    def num_leaves(self) -> int:
        """How many evenly wide cells `leaves` has."""
        return len(self.leaves)

    @property
    def total(self) -> float:
        """The estimated share of installs that answered at all."""
        return float(self.leaves.sum())

    @cached_property
    def best_guess(self) -> Array:
        """The leaves' shares under the nearest distribution function that rises and stays within [0, 1]."""
        guess: Array = np.diff(np.clip(self._rising(), 0, 1), prepend=0)
        return guess

    def _rising(self) -> Array:
        """The nearest distribution function that rises, at the upper edge of each leaf."""
        return np.asarray(scipy.optimize.isotonic_regression(np.cumsum(np.nan_to_num(self.leaves))).x)

    def best_guess_cdf(self) -> Array:
        """The best guess of the share of answers below each edge: it rises from 0 to 1."""
        if not self.total > 0:
            return np.full(self.num_leaves + 1, np.nan)
        # Of those who answered, as many as the counts say: their estimated share of all installs may well be above 1.
        return np.clip(np.concatenate([[0.0], self._rising()]) / self.total, 0, 1)

    def edges(self) -> Array:
        """The num_leaves + 1 ends of the leaves, in the metric's unit."""
        return np.linspace(self.low, self.high, self.num_leaves + 1)

    def leaf_of(self, number: float) -> int:
        """How many leaves lie below a number, which must be an edge between leaves."""
        low, high = self.low, self.high
        place = (number - low) / (high - low) * self.num_leaves
        if not (abs(place - round(place)) < 1e-6 and 0 <= round(place) <= self.num_leaves):
            width = (high - low) / self.num_leaves
            rule = f"{low:g} + i x {width:g} with i <= {self.num_leaves}"
            nearest = low + min(max(round(place), 0), self.num_leaves) * width
            raise Invalid([f"a bound must be an edge, {rule}, got {number:g}; the nearest is {nearest:g}"])
        return round(place)

    def shares(self, ranges: Sequence[tuple[float, float]], *, of: Whom = "answered") -> Band:
        """The shares of numbers in [low, high) for each of `ranges`, of those who `answered` or of `all` installs."""
        queries = self.queries(ranges)
        return self._band(np.array([low for low, _ in ranges]), queries, of, self._law(queries))

    def tested_shares(self, ranges: Sequence[tuple[float, float]], *, of: Whom = "answered") -> tuple[Band, Tests]:
        """The same, and whether anybody is in each range."""
        queries = self.queries(ranges)
        law = self._law(queries)
        variance = None if law is None else law.variance()
        band = self._band(np.array([low for low, _ in ranges]), queries, of, law, variance)
        if law is None or variance is None:
            unknown = np.full(len(ranges), np.nan)
            return band, Tests(unknown, unknown + np.inf, None)
        return band, Tests(law.p_values(queries @ self.leaves), np.sqrt(variance.floor), law)

    def sums(self, leaves: Array, ranges: Sequence[tuple[float, float]]) -> Array:
        """What these leaves hold in each of the ranges."""
        return self.queries(ranges) @ leaves

    def queries(self, ranges: Sequence[tuple[float, float]]) -> Array:
        """A row for each range, 1 over its leaves and 0 elsewhere."""
        queries = np.zeros((len(ranges), self.num_leaves))
        for row, (low, high) in zip(queries, ranges, strict=True):
            row[self.leaf_of(low) : self.leaf_of(high)] = 1
        return queries

    def _law(self, queries: Array) -> Law | None:
        """Of estimated shares of all installs; the others are where the best guess has them. None: not identified."""
        if not self.levels.identified:
            return None
        guess = self.best_guess
        held = queries @ guess
        inside = _within(queries, guess)
        with np.errstate(divide="ignore", invalid="ignore"):
            outside = np.nan_to_num((1 - queries) * guess / (1 - held[:, np.newaxis]), posinf=0.0, neginf=0.0)
        return self.levels.law(queries, inside, np.clip(outside, 0, 1), self.finite)

    def cdf(self, *, of: Whom = "answered", points: int = 256) -> Band:
        """P(number < x) at about so many evenly spaced edges."""
        ends = self._some_edges(points)[1:]
        queries = (np.arange(self.num_leaves) < ends[:, np.newaxis]).astype(np.float64)
        return self._band(self.edges()[ends], queries, of, self._law(queries))

    def quantiles(self, probabilities: Sequence[float]) -> Band:
        """The numbers below which these shares of those who answered lie.

        A cell may hold the quantile unless F(x) - q T, the share below x less q times those who answered, is surely
        above 0 at its lower edge or surely below 0 at its upper one. The interval reaches from the first such cell to
        the last: it is as fine as the tree's leaves, and never finer.
        """
        wrong = [q for q in probabilities if not 0 < q < 1]
        if wrong:
            raise Invalid([f"a quantile must be above 0 and below 1, got {q}" for q in wrong])
        edges, rising = self.edges(), self.best_guess_cdf()
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
        estimate, low_ends, high_ends = np.array(rows).reshape(-1, 3).T
        std_error = (high_ends - low_ends) / (2 * critical(self.confidence))
        return Band(np.array(probabilities), estimate, std_error, low_ends, high_ends)

    def deviations(self, q: float, ends: Index) -> tuple[Array, Array]:
        """F(x) - q T at these edges, in the standard errors it has where it is 0: surely above, the quantile is below.
        By the plain sums, and with F as the nearest rising function, which leans into gaps but has no dips."""
        guess, answered = self.best_guess, float(np.clip(self.total, 0, 1))
        queries = (np.arange(self.num_leaves) < ends[:, np.newaxis]).astype(np.float64)
        # At its own estimate a side with few installs would seem too sure.
        behind = answered * (q * _within(queries, guess) + (1 - q) * _within(1 - queries, guess))
        spread = self.levels.spread(queries, behind, self.finite)
        variance = spread.variance - 2 * q * spread.covariance_with_total + q**2 * self._variance_of_total
        error = np.sqrt(np.maximum(variance, 1e-300))
        plain, rising = (
            np.concatenate([[0.0], below])[ends] - q * self.total for below in (np.cumsum(self.leaves), self._rising())
        )
        return plain / error, rising / error

    @cached_property
    def _variance_of_total(self) -> float:
        return self.levels.spread(np.ones((1, self.num_leaves)), self.best_guess, self.finite).variance_of_total

    def _some_edges(self, number: int) -> Index:
        """About so many edges, evenly spaced, the first and the last among them."""
        step = max(1, self.num_leaves // number)
        return np.append(np.arange(0, self.num_leaves, step), self.num_leaves)

    def _spread_below(self, ends: Index) -> Spread:
        """Of the shares below these edges."""
        queries = (np.arange(self.num_leaves) < ends[:, np.newaxis]).astype(np.float64)
        return self.levels.spread(queries, self.best_guess, self.finite)

    def _plausible(self, q: float, coarse: Index, spread: Spread) -> tuple[int, int]:
        """The first and the last edge of the cells that q may lie in: among coarse cells, then inside by halving.

        F is taken as the nearest rising function: it is nearer to the truth than the plain sums, and a dip of these far
        out in a tail, where F hardly changes, does not stretch the interval to there.
        """
        below = np.concatenate([[0.0], self._rising()]) - q * self.total
        z = critical(self.confidence)

        def deviations(ends: Index, of: Spread) -> Array:
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

    def _band(self, points: Array, queries: Array, of: Whom, law: Law | None, variance: Variance | None = None) -> Band:
        if of not in WHOM:
            raise Invalid([f"of must be 'answered' or 'all', got {of!r}"])
        if law is None:
            unknown = np.full(len(points), np.nan)
            return Band(points, unknown, unknown + np.inf, unknown - np.inf, unknown + np.inf)
        share, variance = queries @ self.leaves, variance or law.variance()
        low, high = interval(share, variance, law.of_rows, self.confidence)
        if of == "all":
            return Band(points, share, np.sqrt(variance.at(share)), low, high, variance)
        among, of_ratios = self._among_answered(queries, share, variance.step)
        ends = among.reaching(low, high, self.total, variance.rests_on_few(share))
        return Band(points, among.estimate, among.std_error, *ends, of_ratios)

    def _among_answered(self, queries: Array, share: Array, step: Array | float) -> tuple[Ratios, RatioVariance]:
        """Fieller's intervals, with the variance where the ratio is the one tested and as many answered as estimated.

        Variances are quadratic in the shares, which are linear in the ratio: three ratios give them all.
        """
        guess, answered = self.best_guess, float(np.clip(self.total, 0, 1))
        inside, outside = _within(queries, guess), _within(1 - queries, guess)
        found = [
            self.levels.spread(queries, answered * (r * inside + (1 - r) * outside), self.finite)
            for r in (0.0, 0.5, 1.0)
        ]
        of_total = self.levels.spread(queries[:1], guess, self.finite).variance_of_total
        own, with_total = (
            _through(*(getattr(each, name) for each in found)) for name in ("variance", "covariance_with_total")
        )

        def variance(ratio: Array) -> Array:
            r = np.clip(ratio, 0, 1)
            return own(r) - 2 * ratio * with_total(r) + ratio**2 * of_total

        of_ratios = RatioVariance.of_ratios(variance, self.total, np.broadcast_to(step, share.shape))
        return score_ratios(share, self.total, variance, of_total, self.confidence), of_ratios


def _within(parts: Array, guess: Array) -> Array:
    """How those of each part are spread over its leaves: as the guess has them, evenly where it has nobody there."""
    held, size = parts @ guess, np.maximum(parts.sum(axis=1, keepdims=True), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(held[:, np.newaxis] > 0, parts * guess / held[:, np.newaxis], parts / size)


def _through(none: Array, half: Array, whole: Array) -> Callable[[Array], Array]:
    """The parabola with these values at 0, 1/2 and 1."""
    slope, bend = 4 * half - 3 * none - whole, none + whole - 2 * half
    return lambda at: np.asarray(none + at * slope + 2 * at**2 * bend)


def _inverse(rising: Array, edges: Array, q: float) -> float:
    """Where a distribution reaches q, with the numbers of a cell spread evenly over it."""
    at = max(1, min(int(np.searchsorted(rising, q, side="left")), len(edges) - 1))
    step = rising[at] - rising[at - 1]
    inside = (q - rising[at - 1]) / step if step > 0 else 1.0
    return float(edges[at - 1] + min(inside, 1.0) * (edges[at] - edges[at - 1]))
