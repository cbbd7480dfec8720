"""Intervals: by scores where the variance depends on the share, by plain errors where it does not, and of ratios."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtri, stdtrit

from hubbub.analysis.arrays import Array, Index, Mask

FEW = 15.0
"""Of a variance in squared steps of the count: below it score intervals hold the truth too rarely."""
_OF_A_STEP = 0.1
"""How far beyond the estimate a score interval begins. Counts come in steps also where they are many, so that coverage
swings by a point or two from truth to truth; this is what lifts its lowest points to 94 %."""


@dataclass(frozen=True, slots=True)
class Variance:
    """Variance of an estimated share as a function of the true share f: floor + slope f + sampling f (1 - f). `step` is
    how far the reports of one install move the estimate."""

    floor: Array
    slope: Array
    sampling: Array
    step: Array | float = 0.0

    def at(self, share: Array) -> Array:
        """At the share nearest to `share` that a population can have."""
        share = np.minimum(np.maximum(share, 0), 1)
        return np.maximum(self.floor + self.slope * share + self.sampling * share * (1 - share), 0)

    def rests_on_few(self, share: Array) -> Mask:
        """Where the count behind an estimate varies by so few steps that it is far from normal."""
        return np.asarray(self.at(share) < FEW * np.asarray(self.step) ** 2)

    def of(self, rows: Index) -> Variance:
        step = np.broadcast_to(self.step, self.floor.shape)
        return Variance(self.floor[rows], self.slope[rows], self.sampling[rows], step[rows])


@dataclass(frozen=True, slots=True)
class RatioVariance:
    """Variance of a share of those who answered, top / bottom, as a function of the true ratio r: Var(top - r bottom) /
    bottom^2, as Fieller's intervals take it (`score_ratios`). It is a polynomial in r: `coefficients` has a line for
    each power, the constant first. `step` is how far the reports of one install move the ratio, at most."""

    coefficients: Array
    step: Array

    @classmethod
    def of_ratios(cls, variance: Callable[[Array], Array], bottom: float, step: Array | float) -> RatioVariance:
        """From Var(top - r bottom), of degree four or less in r, and how far one install moves the top."""
        points, step = np.linspace(0, 1, 5), np.asarray(step)
        with np.errstate(divide="ignore", invalid="ignore"):  # nobody reported, or seems to have answered
            values = np.array([variance(np.full(len(step), r)) for r in points])
            return cls(np.linalg.solve(np.vander(points, increasing=True), values) / bottom**2, step / abs(bottom))

    def at(self, ratio: Array) -> Array:
        """At the ratio nearest to `ratio` that a population can have; infinite where nobody may have answered."""
        powers = np.minimum(np.maximum(ratio, 0), 1) ** np.arange(5)[:, np.newaxis]
        with np.errstate(invalid="ignore"):
            found = (self.coefficients * powers).sum(axis=0)
        return np.where(np.isfinite(found), np.maximum(found, 0), np.inf)

    def of(self, rows: Index) -> RatioVariance:
        return RatioVariance(self.coefficients[:, rows], self.step[rows])


class PlaceVariance(Protocol):
    """The variance of one estimated place from 0 to 1, such as a share, as a function of the true place."""

    @property
    def step(self) -> Array | float: ...

    def at(self, share: Array, /) -> Array: ...


@dataclass(frozen=True, slots=True)
class RowVariances:
    """Variances of rows of different sorts, each in its unit and as a function of the true number: what is estimated is
    a place between two ends, start + span x place, such as a mean in its range. A share lies between 0 and 1."""

    places: tuple[PlaceVariance, ...]
    start: Array
    span: Array

    @property
    def step(self) -> Array:
        return np.asarray(self.span * [float(np.squeeze(place.step)) for place in self.places])

    def at(self, number: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):  # the sum of nobody has no span
            where = (number - self.start) / self.span
            each = [place.at(where[i : i + 1]) for i, place in enumerate(self.places)]
            return np.asarray(self.span**2 * np.concatenate(each))

    def of(self, rows: Index) -> RowVariances:
        return RowVariances(tuple(self.places[i] for i in rows.tolist()), self.start[rows], self.span[rows])


def critical(confidence: float) -> float:
    """How many standard errors a two-sided interval reaches to each side."""
    return exceeded_with((1 - confidence) / 2)


def exceeded_with(p: float) -> float:
    """The number that a standard normal one exceeds with probability p."""
    return -float(ndtri(p))


def score_interval(estimate: Array, variance: Variance, confidence: float) -> tuple[Array, Array]:
    """All true shares f for which the estimate is not surprising: (estimate - f)^2 <= z^2 variance(f) (Wilson 1927), of
    an estimate a tenth of a step lower or higher.

    The variance is taken at f, not at the estimate, which is what keeps the interval true for rare answers. It is not
    cut at 0 and 1: sums and differences of estimates need it whole.
    """
    beyond, z = _OF_A_STEP * np.asarray(variance.step), critical(confidence)
    return _end(estimate - beyond, variance, -z), _end(estimate + beyond, variance, z)


def _end(estimate: Array, variance: Variance, z: float) -> Array:
    """The lower end of an interval, or the upper one, by the sign of z."""
    z2, side = z**2, np.sign(z)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        a = 1 + z2 * variance.sampling
        b = estimate + z2 * (variance.slope + variance.sampling) / 2
        c = estimate**2 - z2 * variance.floor
        root = np.sqrt(b**2 - a * c)
        # An estimate so far outside [0, 1] that no share explains it: say what is known, as if at the nearest share.
        reach = np.sqrt(z2 * variance.at(estimate))
        lost = np.isnan(root) & np.isfinite(reach)
        end = np.where(lost, estimate + side * reach, (b + side * root) / a)
    return np.asarray(np.where(np.isfinite(variance.floor), end, side * np.inf))


def normal_interval(
    estimate: Array, std_error: Array, confidence: float, degrees: float = np.inf, slope: Array | float = 0.0
) -> tuple[Array, Array]:
    """Estimate plus and minus, by Student's law where the spread was itself estimated from few cells.

    With the slope of the variance at the estimate it is a score interval: all f with (estimate - f)^2 <= z^2 (error^2 +
    slope (f - estimate)), whose middle is z^2 slope / 2 above the estimate.
    """
    tail = (1 - confidence) / 2
    times = -float(stdtrit(degrees, tail)) if np.isfinite(degrees) else exceeded_with(tail)
    up = times**2 * slope / 2
    reach = np.hypot(times * std_error, up)
    return estimate + up - reach, estimate + up + reach


@dataclass(frozen=True, slots=True)
class Ratios:
    """Shares of a part of all installs, with their intervals."""

    estimate: Array
    std_error: Array
    low: Array
    high: Array

    def reaching(self, low: Array, high: Array, bottom: float, few: Mask) -> tuple[Array, Array]:
        """The ends, no nearer than those of the top itself over the bottom where `few` counts are behind it."""
        if not bottom > 0:
            return self.low, self.high
        return (
            np.where(few, np.minimum(self.low, low / bottom), self.low),
            np.where(few, np.maximum(self.high, high / bottom), self.high),
        )


def score_ratios(
    top: Array,
    bottom: float | Array,
    variance: Callable[[Array], Array],
    var_bottom: float | Array,
    confidence: float,
) -> Ratios:
    """top / bottom, each with all ratios r for which top - r bottom is not surprising (Fieller 1954). One bottom for
    all, or one for each.

    Its variance is taken where the ratio is r and not where it was estimated: `variance` gives it for a ratio of each
    row (the last axis). Where counts are small the two differ much: nobody counted does not mean nobody there.

    The ends are found by halving, from the plain reach outwards and then inwards, to a billionth of it.
    """
    bottom, var_bottom = np.broadcast_to(bottom, top.shape), np.broadcast_to(var_bottom, top.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(bottom == 0, np.nan, top / bottom)
        std_error = np.sqrt(np.maximum(variance(np.nan_to_num(ratio)), 0)) / np.abs(bottom)
    std_error = np.where(bottom == 0, np.nan, std_error)
    z2 = critical(confidence) ** 2
    open_ended = ~(bottom**2 > z2 * var_bottom)  # the bottom itself may be zero: no ratio can be excluded
    if open_ended.all():
        return Ratios(ratio, std_error, np.full_like(top, -np.inf), np.full_like(top, np.inf))

    def surprising(r: Array) -> Mask:
        return np.asarray((top - r * bottom) ** 2 > z2 * variance(r))

    side = np.array([[-1.0], [1.0]])  # both ends at once: one row each
    centre = np.nan_to_num(ratio)
    step = np.maximum(np.where(np.isfinite(std_error), np.sqrt(z2) * std_error, 0), 1e-6) * np.ones_like(side)
    inside, outside = centre * np.ones_like(side), centre + side * step
    for _ in range(40):  # doubled until it is too far
        far = surprising(outside) | open_ended
        if far.all():
            break
        step = np.where(far, step, 2 * step)
        inside = np.where(far, inside, outside)
        outside = np.where(far, outside, outside + side * step)
    for _ in range(30):
        middle = (inside + outside) / 2
        far = surprising(middle)
        inside, outside = np.where(far, inside, middle), np.where(far, middle, outside)
    low, high = np.where(np.isnan(ratio) | open_ended, side * np.inf, outside)
    return Ratios(ratio, std_error, low, high)


def ratios(
    top: Array,
    bottom: float | Array,
    var_top: Array,
    covariance: Array,
    var_bottom: float | Array,
    confidence: float,
    slopes: tuple[Array, Array] | None = None,
) -> Ratios:
    """top / bottom, each with its interval by Fieller (1954): all ratios r for which top - r bottom is not surprising.
    One bottom for all, or one for each.

    `slopes` say by how much variance and covariance of the top grow with it: they are then taken where the top is
    r bottom. Where the bottom itself may be zero, no ratio can be excluded and the interval is the whole line.
    """
    bottom, var_bottom = np.broadcast_to(bottom, top.shape), np.broadcast_to(var_bottom, top.shape)
    of_variance, of_covariance = slopes or (np.zeros_like(top), np.zeros_like(top))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = top / bottom
        spread = var_top - 2 * ratio * covariance + ratio**2 * var_bottom
        std_error = np.sqrt(np.maximum(spread, 0)) / np.abs(bottom)
        z2 = critical(confidence) ** 2
        # (top - r bottom)^2 = z^2 (var_top - 2 r covariance + r^2 var_bottom); the first two grow with r bottom - top.
        a = bottom**2 - z2 * var_bottom + 2 * z2 * of_covariance * bottom
        b = top * bottom - z2 * covariance + z2 * of_covariance * top + z2 * of_variance * bottom / 2
        c = top**2 - z2 * var_top + z2 * of_variance * top
        root = np.sqrt(np.maximum(b**2 - a * c, 0))
        known = bottom**2 > z2 * var_bottom
        low, high = (np.where(known, (b + side * root) / a, side * np.inf) for side in (-1, 1))
    return Ratios(ratio, std_error, low, high)
