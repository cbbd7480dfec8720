"""Intervals of a table of two answers: of its cells and margins, of shares of one answer given the other, of means.

Cells and margins have score intervals, shares of one given the other those of Fieller (1954); in both the variance is
taken where the share is the tested one. What else it depends on, the rest of the table, is taken from a possible table
near the estimate: the rest keeps its proportions while the tested share moves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.intervals import Ratios, Variance, normal_interval, ratios, score_ratios
from hubbub.analysis.estimation.joint_law import Functionals, JointLaw


@dataclass(frozen=True, slots=True)
class Joint:
    """An estimated table with its law. `estimate` is unbiased, `possible` has no negative share and adds up to 1; both
    are (first, second). `finite` is what the sampling of everyone takes off, 0 if a population is meant. `excess` is
    added to the variance of each cell, for what is no noise of the reports: strings that no list has."""

    law: JointLaw
    estimate: Array
    possible: Array
    finite: float
    excess: Array

    def of(self, functionals: Functionals) -> Array:
        return functionals.cells @ self.estimate.ravel()


def cells_of(shape: tuple[int, int]) -> Functionals:
    """Every cell, row by row."""
    rows, columns = np.eye(shape[0]), np.eye(shape[1])
    return Functionals(np.repeat(rows, shape[1], axis=0), np.tile(columns, (shape[0], 1)))


def rows_of(shape: tuple[int, int]) -> Functionals:
    """The margin of the first factor."""
    return Functionals(np.eye(shape[0]), np.ones(shape))


def columns_of(shape: tuple[int, int]) -> Functionals:
    """The margin of the second factor."""
    return Functionals(np.ones((shape[1], shape[0])), np.eye(shape[1]))


def event_variance(joint: Joint, events: Functionals) -> Variance:
    """Of the share of installs in each of some sets of cells, as a function of that share."""
    inside = events.cells
    products, expected = joint.law.products(events, events), joint.law.expectations(events)
    table = joint.possible.ravel()
    within, without = _proportions(table, inside), _proportions(table, 1 - inside)
    all_, none = (np.einsum("nc,nc->n", products, part) for part in (within, without))
    one, zero = (np.einsum("gnc,nc->gn", expected, part) for part in (within, without))
    # The groups' expectations are one f + zero (1 - f); their squares are no error.
    at_one, at_zero, both = ((a * b).sum(axis=0) for a, b in ((one, one), (zero, zero), (one, zero)))
    return Variance(
        floor=none - at_zero + inside @ joint.excess.ravel(),
        slope=all_ - none - (at_one - at_zero),
        sampling=at_one + at_zero - 2 * both - joint.finite,
    )


def covariance(joint: Joint, one: Functionals, other: Functionals) -> Array:
    """Of the estimates of each pair of functionals, at the possible table."""
    table = joint.possible.ravel()
    a, b = one.cells, other.cells
    first, second = (joint.law.expectations(each) @ table for each in (one, other))
    found = joint.law.products(one, other) @ table - (first * second).sum(axis=0)
    found = found + (a * b) @ joint.excess.ravel()
    return np.asarray(found - joint.finite * ((a * b) @ table - (a @ table) * (b @ table)))


def shares_given(joint: Joint, tops: Functionals, bottoms: Functionals, confidence: float) -> Ratios:
    """The share of each set of cells in another one that holds it, with its interval."""
    top, bottom = joint.of(tops), joint.of(bottoms)
    variance = event_variance(joint, bottoms)
    return score_ratios(top, bottom, _ratio_variance(joint, tops, bottoms), variance.at(bottom), confidence)


def means_given(joint: Joint, numbers: Functionals, bottoms: Functionals, confidence: float) -> Ratios:
    """The average of numbers that categories stand for, in sets of cells. Rounding is part of the chance, so that the
    installs that reported are taken as a sample, too."""
    sample = replace(joint, finite=0.0)
    return ratios(joint.of(numbers), joint.of(bottoms), *_spread(sample, numbers, bottoms), confidence)


def _spread(joint: Joint, tops: Functionals, bottoms: Functionals) -> tuple[Array, Array, Array]:
    return covariance(joint, tops, tops), covariance(joint, tops, bottoms), covariance(joint, bottoms, bottoms)


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two shares of the same column, each given another row: how far apart, and how many times as much."""

    difference: float
    std_error: float
    low: float
    high: float
    ratio: float
    ratio_low: float
    ratio_high: float


def contrast(joint: Joint, tops: Functionals, bottoms: Functionals, confidence: float) -> Contrast:
    """Of the first of two shares with the second, both given as in `shares_given`, in different rows or columns."""
    top, bottom = joint.of(tops), joint.of(bottoms)
    shares = top / bottom
    # What a share's estimate strays by is, to first order, that of top - share x bottom, over the bottom.
    by_row = np.array_equal(tops.rows, bottoms.rows)
    moved = (
        Functionals(tops.rows, tops.columns - shares[:, None] * bottoms.columns)
        if by_row
        else Functionals(tops.rows - shares[:, None] * bottoms.rows, tops.columns)
    )
    first, second = (Functionals(moved.rows[[i]], moved.columns[[i]]) for i in (0, 1))
    scale = np.outer(bottom, bottom)
    spread = np.array([[covariance(joint, a, b)[0] for b in (first, second)] for a in (first, second)]) / scale
    difference = float(shares[0] - shares[1])
    std_error = float(np.sqrt(max(spread[0, 0] + spread[1, 1] - 2 * spread[0, 1], 0)))
    low, high = normal_interval(np.array(difference), np.array(std_error), confidence)
    times = ratios(shares[:1], shares[1:], spread[:1, 0], spread[:1, 1], spread[1:, 1], confidence)
    return Contrast(
        difference=difference,
        std_error=std_error,
        low=float(low),
        high=float(high),
        ratio=float(times.estimate[0]),
        ratio_low=float(times.low[0]),
        ratio_high=float(times.high[0]),
    )


def _ratio_variance(joint: Joint, tops: Functionals, bottoms: Functionals) -> Callable[[Array], Array]:
    """Var(top - r bottom) where the share is r: within the bottom the top has r of it and the rest keeps its
    proportions; what is outside of it stays as estimated."""
    law, table = joint.law, joint.possible.ravel()
    top, bottom = tops.cells, bottoms.cells
    size = bottom @ table
    parts = (table * (1 - bottom), _proportions(table, top), _proportions(table, bottom - top))

    def three(values: Array) -> tuple[Array, Array, Array]:
        """Summed outside the bottom, averaged over the top, and over the rest of the bottom."""
        outside, held, rest = (np.einsum("...nc,nc->...n", values, part) for part in parts)
        return outside, held, rest

    squares = [three(law.products(*pair)) for pair in ((tops, tops), (tops, bottoms), (bottoms, bottoms))]
    means = [three(law.expectations(each)) for each in (tops, bottoms)]
    excess = [each @ joint.excess.ravel() for each in (top, bottom)]

    def at(values: tuple[Array, Array, Array], r: Array) -> Array:
        outside, held, rest = values
        return np.asarray(outside + size * (r * held + (1 - r) * rest))

    def variance(ratio: Array) -> Array:
        r = np.clip(ratio, 0, 1)
        of_tops, of_both, of_bottoms = (at(values, r) for values in squares)
        square = of_tops - 2 * ratio * of_both + ratio**2 * of_bottoms
        # A group's expectations, for each of which the axis of groups comes first.
        wide = r[None] if r.ndim == 1 else r[:, None]
        of_top, of_bottom = (at(values, wide) for values in means)
        mean = of_top - (ratio[None] if ratio.ndim == 1 else ratio[:, None]) * of_bottom
        between = (mean**2).sum(axis=0 if r.ndim == 1 else 1)
        added = excess[0] * (1 - 2 * ratio) + ratio**2 * excess[1]
        return np.asarray(square - between + added - joint.finite * size * r * (1 - r))

    return variance


def _proportions(table: Array, of: Array) -> Array:
    """How a table is spread over each of some sets of cells; evenly where it has nothing there."""
    part = table * of
    total, size = part.sum(axis=1, keepdims=True), of.sum(axis=1, keepdims=True)
    return np.where(total > 0, part / np.where(total > 0, total, 1), of / np.maximum(size, 1))
