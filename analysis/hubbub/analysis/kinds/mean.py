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

from hubbub.analysis.estimation.answered_mean import answered_mean
from hubbub.analysis.estimation.cells import Cohort, PooledTally, TwoStageNoise
from hubbub.analysis.estimation.detection import Rule
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


def unit_variance(shape: Mean, noise: Noise, share: float, strings: int) -> float:
    """Of a population that all holds one number, so far from the middle of the range. Scores of points add up to 0, and
    a report names one category: (p* sum v^2 + (q* - p*) E[v^2])/(q* - p*)^2 - t^2."""
    p, gain = float(noise.p_star), float(noise.q_star - noise.p_star)
    points = np.linspace(-0.5, 0.5, shape.points)
    number = min(share, 0.5)
    right = int(np.searchsorted(points[1:-1], number)) + 1
    low, high = float(points[right - 1]), float(points[right])
    square = low**2 + (low + high) * (number - low)  # E[v^2] of a number that is rounded to one of these two
    return (p * float(points @ points) + gain * square) / gain**2 - number**2


def _worst_variance(shape: Mean, noise: Noise) -> float:
    """The same of a number anywhere in the range: between two points it is a parabola, whose top may be outside."""
    points, gain = np.linspace(-0.5, 0.5, shape.points), float(noise.q_star - noise.p_star)
    top = np.clip((points[1:] + points[:-1]) / 2 / gain, points[:-1], points[1:])
    return max(unit_variance(shape, noise, abs(number), 0) for number in top.tolist())


def line(shape: Mean, noise: Noise, share: float, strings: int, reports: float, rule: Rule) -> float:
    """The distance from which on the interval leaves the middle out. Of two points it is a score interval, with the
    variance at the number compared with; of more it is as long below its estimate as `decode` makes it of the counts
    that are expected."""
    if shape.points == 2 and shape.absent != "apart":
        return rule.deviations * float(np.sqrt(unit_variance(shape, noise, 0.0, strings) / reports))
    place = np.clip(0.5 + share, 0, 1) * (shape.points - 1)
    categories = shape.points + (shape.absent == "apart")  # silence is the last, of nobody
    held = np.maximum(1 - np.abs(np.arange(categories) - place), 0)
    cohort = Cohort(
        noise=TwoStageNoise.of(noise),
        reports=reports,
        ones=reports * (float(noise.p_star) + float(noise.q_star - noise.p_star) * held),
        sampling=1 / reports,
        one_hot=True,
    )
    interval_of = answered_mean if shape.absent == "apart" else grid_mean
    found = interval_of([cohort], shape.points, "reporting", 1 - rule.sides * rule.level)
    return found.place - found.low


def where_planned(sketch: Sketch[Mean]) -> list[str]:
    """How much more it may take elsewhere: E[v^2] is 1/4 at most, and rounding adds a quarter of a squared step."""
    noise, points = sketch.noise, sketch.shape.points
    p, gain = float(noise.p_star), float(noise.q_star - noise.p_star)
    squares = float((np.linspace(-0.5, 0.5, points) ** 2).sum())
    most = (p * squares + (gain - gain**2) / 4) / gain**2 + 1 / (2 * (points - 1)) ** 2
    times = most / unit_variance(sketch.shape, noise, 0.0, 0)
    return [
        "Planned where all hold the same number, close to the middle of the range, with which it is compared; "
        f"of others up to {np.ceil(10 * times) / 10:g} times as many reports may be needed."
    ]


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
        f"max_values = {points} kept answers, epsilon {points * sketch.epsilon_permanent:g} in a life.",
        *where_planned(sketch),
    ]


MEAN: Kind[Mean] = Kind(
    decode=decode_mean,
    unit_variance=unit_variance,
    worst_variance=_worst_variance,
    line=line,
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
        most=0.5,
        counts_holders=False,
        sides=2,
    ),
)
