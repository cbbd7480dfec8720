"""Means and sums of numbers that arrive as one of a few points of their range.

Rounding to a point is random (alpha-point rounding, Ding, Kulkarni, Yekhanin 2017), and so that the points' average is
that of the numbers. How far the numbers themselves spread between two points cannot be seen. For a sample of a
population that does not matter: points are a sample, too. Of the installs that reported the interval allows for the
most that rounding can have added, given how often each point was met: exact where all hold the same number in the
middle between two points, and on the careful side elsewhere. With two points both are the binomial interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from hubbub.analysis.estimation.cells import PooledTally
from hubbub.analysis.estimation.grid import GridMean, grid_mean
from hubbub.analysis.estimation.intervals import RowVariances
from hubbub.analysis.estimation.shares import shares
from hubbub.analysis.kinds.factor import Factor, categories_of, one_bit, one_of
from hubbub.analysis.kinds.kind import Goal, Kind, PlanOption, Pools, Sketch
from hubbub.analysis.kinds.rows import (
    Columns,
    assemble,
    average_installs,
    cohorts_of,
    counted,
    places_of,
    require_same_shape,
)
from hubbub.analysis.options import Options
from hubbub.analysis.result import NUMBER, Decoding, Diagnostics
from hubbub.protocol.channel import Noise
from hubbub.protocol.kinds import Mean

_MOST_TRIED = 20  # points: more are best from an epsilon of 9 on


def decode_mean(pools: Pools, candidates: Sequence[str], options: Options) -> Decoding:
    require_same_shape(pools)
    shape = pools[0].metric.shape
    assert isinstance(shape, Mean)
    found = _of_points(pools, shape, options) if shape.points > 2 else _of_ends(pools, options)
    low_end, span = float(shape.low), float(shape.high - shape.low)
    # The mean, and the sum over the installs of an average epoch.
    factor = np.array([1.0, average_installs(pools)])
    with np.errstate(invalid="ignore"):  # the sum of nobody
        std_error = factor * span * found.std_error
    rows = Columns(
        values=["mean", "sum"],
        roles=[NUMBER, NUMBER],
        estimate=factor * (low_end + span * found.place),
        std_error=std_error,
        low=factor * (low_end + span * np.clip(found.low, 0, 1)),
        high=factor * (low_end + span * np.clip(found.high, 0, 1)),
        p_value=np.full(2, np.nan),
        best_guess=factor * (low_end + span * np.clip(found.place, 0, 1)),
        variance=RowVariances((found.variance,) * 2, start=factor * low_end, span=factor * span),
    )
    rows = counted(rows, 1, pools, options)
    gain = min(pool.cohorts[0].noise.gain for pool in pools)
    return assemble(
        pools,
        options,
        rows,
        diagnostics=Diagnostics(
            cohort_p=np.full(len(pools), np.nan),
            odd_cohorts=(),
            indistinguishable=(),
            rank=1,
            num_columns=1,
            # A fake report moves the share of one end to the other: by 1 / gain of the range.
            attack_radius=options.fake_share * span / gain,
            fake_share=options.fake_share,
            hidden_heavy_share=0.0,
        ),
        noise_floor=float("nan"),
        notes=_notes(shape, options, found),
    )


def _of_ends(pools: Pools, options: Options) -> GridMean:
    """Of two points: the share of those at the high end is the place in the range."""
    found = shares(cohorts_of(pools), [[0] for _ in pools], 1, finite=0.0, places=places_of(pools))
    low, high = found.interval(options.confidence)
    place, error = float(found.estimate[0]), float(found.std_error[0])
    return GridMean(
        place=place,
        std_error=error,
        low=float(low[0]),
        high=float(high[0]),
        too_wide=np.inf,
        variance=found.variance,
    )


def _of_points(pools: Pools, shape: Mean, options: Options) -> GridMean:
    # Where some of the installs were asked, they are a sample of the others.
    estimand = "population" if any(pool.asked < 1 for pool in pools) else options.estimand
    return grid_mean(cohorts_of(pools), shape.points, estimand, options.confidence)


def _notes(shape: Mean, options: Options, found: GridMean) -> list[str]:
    assert shape.absent != "apart"
    return [
        f"An install that recorded nothing counts as {float(shape.absent):g}.",
        *rounding_notes(shape, options, found),
    ]


def rounding_notes(shape: Mean, options: Options, found: GridMean) -> list[str]:
    """How much wider than needed an interval may be because rounding hides how far numbers spread."""
    notes = []
    if options.estimand == "reporting" and shape.points == 2:
        notes.append("The interval is exact if all installs hold the same number, and wider than needed otherwise.")
    elif found.few:
        notes.append(
            "Few installs are behind this mean: the interval is that of the law of their counts, which allows for "
            "numbers that nobody happened to name, and holds the truth rather more often than stated."
        )
    elif options.estimand == "reporting" and np.isfinite(found.too_wide):
        most = np.ceil(100 * found.too_wide) / 100
        notes.append(f"The interval allows for the most that rounding can add; it is at most {most:g} times too wide.")
    return notes


def _factor(pool: PooledTally, candidates: Sequence[str], options: Options) -> Factor:
    """Its points: the average of their numbers is that of the numbers that were rounded to them."""
    shape, noise = pool.metric.shape, pool.metric.noise
    assert isinstance(shape, Mean)
    return Factor(
        categories=categories_of(pool.metric),
        responses=(one_bit(noise) if shape.points == 2 else one_of(noise, shape.points),),
        notes=(
            f"{pool.metric.name} is known by points to which numbers were rounded by chance: the averages are those of "
            "the numbers, the shares those of the points.",
        ),
    )


def _unit_variance(shape: Mean, noise: Noise, share: float, strings: int) -> float:
    """Of a population, where all hold the same number, at the worst place in the range."""
    q, p = float(noise.q_star), float(noise.p_star)
    if shape.points == 2:
        ones = (p + q) / 2
        return ones * (1 - ones) / (q - p) ** 2
    points = np.linspace(-0.5, 0.5, shape.points)
    middle = (points[1:] + points[:-1]) / 2
    t = np.clip(middle / (q - p), points[:-1], points[1:])
    square = points[:-1] ** 2 + 2 * middle * (t - points[:-1])
    return float(np.max((p * (points**2).sum() + (q - p) * square) / (q - p) ** 2 - t**2))


def _planned(given: Mapping[str, int], strings: int) -> Mean:
    return Mean(low=Fraction(0), high=Fraction(1), absent=Fraction(0), points=given.get("points", 2))


def alternatives(shape: Mean, given: Mapping[str, int]) -> list[Mean]:
    """The same mean with as many points as there may be."""
    return [shape] if "points" in given else [shape.replace(points=points) for points in range(2, _MOST_TRIED + 1)]


def _remarks(sketch: Sketch[Mean]) -> list[str]:
    points = sketch.shape.points
    if points == 2:
        return ["points = 2: one bit, which end of the range."]
    return [
        f"points = {points}: a number is rounded to one of {points}; one that moves over all of them needs "
        f"max_values = {points} kept answers, epsilon {points * sketch.epsilon_permanent:g} in a life."
    ]


MEAN: Kind[Mean] = Kind(
    decode=decode_mean,
    unit_variance=_unit_variance,
    planned=_planned,
    alternatives=alternatives,
    plan_options=(PlanOption("points", None, "mean (default: as many as are best)"),),
    plan_remarks=_remarks,
    slots=lambda shape: shape.points,
    factor=_factor,
    silent_as=lambda shape: f'{float(shape.absent):g} (absent = "apart" in metrics.toml tells them apart)',
    toml=lambda shape: f"low = 0\nhigh = 1\nabsent = 0\npoints = {shape.points}",
    released=lambda decoding: [0],  # not the sum: it rests on the number of installs, too
    goal=Goal(
        what="a difference",
        of="of the range",
        by="a difference as a share of the range",
        none=0.5,
        counts_holders=False,
        sides=2,
    ),
)
