"""Means of numbers where that nothing was recorded is asked apart: the mean of those who answered, the sum over all
installs, and the share of those who did not answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from hubbub.analysis.estimation.answered_mean import answered_mean
from hubbub.analysis.estimation.cells import finite_population
from hubbub.analysis.estimation.grid import GridMean, mean_of_places
from hubbub.analysis.estimation.intervals import RowVariances
from hubbub.analysis.estimation.shares import Shares, shares
from hubbub.analysis.kinds.kind import Kind, Pools, Sketch
from hubbub.analysis.kinds.mean import MEAN, alternatives, rounding_notes, where_planned
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
from hubbub.analysis.result import ABSENT, NUMBER, Decoding, Diagnostics
from hubbub.protocol.channel import Noise
from hubbub.protocol.kinds import Mean


def decode_mean_apart(pools: Pools, candidates: Sequence[str], options: Options) -> Decoding:
    require_same_shape(pools)
    shape = pools[0].metric.shape
    assert isinstance(shape, Mean)
    cohorts = cohorts_of(pools)
    # Where some of the installs were asked, they are a sample of the others.
    estimand = "population" if any(pool.asked < 1 for pool in pools) else options.estimand
    mean = answered_mean(cohorts, shape.points, estimand, options.confidence)
    # Of a sum silence is 0, so that it is the mean of a range that holds 0, times the installs.
    low, high = min(shape.low, Fraction(0)), max(shape.high, Fraction(0))
    points = [shape.low + (shape.high - shape.low) * Fraction(j, shape.points - 1) for j in range(shape.points)]
    places = np.array([float((x - low) / (high - low)) for x in (*points, Fraction(0))])
    total = mean_of_places(cohorts, places, shape.points, estimand, options.confidence)
    silent = shares(
        cohorts,
        [range(shape.points + 1)] * len(pools),
        shape.points + 1,
        finite_population(pools, options.estimand),
        places_of(pools),
    )
    installs = average_installs(pools)
    rows = _rows(
        [
            ("mean", 1.0, float(shape.low), float(shape.high), mean),
            ("sum", installs, float(low), float(high), total),
        ],
        silent,
        options,
    )
    rows = counted(rows, 1, pools, options)
    gain = min(pool.cohorts[0].noise.gain for pool in pools)
    answered = 1 - float(np.clip(silent.estimate[-1], 0, 1)) if np.isfinite(silent.estimate[-1]) else 0.0
    return assemble(
        pools,
        options,
        rows,
        diagnostics=Diagnostics(
            cohort_p=np.full(len(pools), np.nan),
            odd_cohorts=(),
            indistinguishable=(),
            rank=shape.points,
            num_columns=shape.points,
            # A fake report moves the share of one end to the other, of those who answered.
            attack_radius=options.fake_share * float(shape.high - shape.low) / (gain * max(answered, 1e-9)),
            fake_share=options.fake_share,
            hidden_heavy_share=0.0,
        ),
        noise_floor=float("nan"),
        notes=[
            "The mean is of the installs that answered; the sum is over all, those that recorded nothing adding 0.",
            *rounding_notes(shape, options, mean),
        ],
        answered_only=options.exclude_absent,
    )


def _rows(numbers: Sequence[tuple[str, float, float, float, GridMean]], silent: Shares, options: Options) -> Columns:
    """Each number by its name, what it is multiplied with, the ends of its range, and where it lies between; then the
    share of silence, unless only those who answered are asked for."""
    estimate, std_error, low, high, best = [], [], [], [], []
    for _, factor, start, end, found in numbers:
        ends = np.clip([found.low, found.high, found.place], 0, 1)
        with np.errstate(invalid="ignore"):  # the sum of nobody
            estimate.append(factor * (start + (end - start) * found.place))
            std_error.append(factor * (end - start) * np.float64(found.std_error))
            low_end, high_end, guess = factor * (start + (end - start) * ends)
        low.append(low_end)
        high.append(high_end)
        best.append(guess)
    variance = RowVariances(
        tuple(found.variance for *_, found in numbers),
        start=np.array([factor * start for _, factor, start, _, _ in numbers]),
        span=np.array([factor * (end - start) for _, factor, start, end, _ in numbers]),
    )
    rows = Columns(
        values=[name for name, *_ in numbers],
        roles=[NUMBER] * len(numbers),
        estimate=np.array(estimate),
        std_error=np.array(std_error),
        low=np.array(low),
        high=np.array(high),
        p_value=np.full(len(numbers), np.nan),
        best_guess=np.array(best),
        variance=variance,
    )
    if options.exclude_absent:
        return rows
    silent_low, silent_high = silent.interval(options.confidence)
    return replace(
        rows,
        values=[*rows.values, "absent"],
        roles=[*rows.roles, ABSENT],
        estimate=np.append(rows.estimate, silent.estimate[-1]),
        std_error=np.append(rows.std_error, silent.std_error[-1]),
        low=np.append(rows.low, silent_low[-1]),
        high=np.append(rows.high, silent_high[-1]),
        p_value=np.append(rows.p_value, silent.p_value[-1]),
        best_guess=np.append(rows.best_guess, np.clip(silent.estimate[-1], 0, 1)),
        variance=RowVariances(
            (*variance.places, silent.variance.of(np.array([-1]))),
            start=np.append(variance.start, 0.0),
            span=np.append(variance.span, 1.0),
        ),
    )


def _worst_variance(shape: Mean, noise: Noise) -> float:
    """Of a population in which all answer with the same number, at the worst place in the range: as
    `protocol.kinds.mean.worst_variance` has it, in units of the range."""
    q, p = float(noise.q_star), float(noise.p_star)
    points, k = np.linspace(-0.5, 0.5, shape.points), q - p
    left, right = points[:-1], points[1:]
    quadratic = p * shape.points - k
    top = np.clip(k * (left + right) / 2 / -quadratic, left, right) if quadratic < 0 else left
    tried = np.stack([left, right, top])
    off = p * ((points**2).sum() + shape.points * tried**2) + k * (tried - left) * (right - tried)
    return float(np.max(off)) / k**2


def _planned(given: Mapping[str, int], strings: int) -> Mean:
    return Mean(low=Fraction(0), high=Fraction(1), absent="apart", points=given.get("points", 2))


def _remarks(sketch: Sketch[Mean]) -> list[str]:
    points, slots = sketch.shape.points, sketch.shape.num_masks
    return [
        f"points = {points}: a number is rounded to one of {points}; one that moves over all of them, and is missing "
        f"at times, needs max_values = {slots} kept answers, epsilon {slots * sketch.epsilon_permanent:g} in a life.",
        *where_planned(sketch),
        "That is where all answer: where a share A does, up to 1/A^2 times as many reports are needed.",
    ]


MEAN_APART: Kind[Mean] = replace(
    MEAN,
    decode=decode_mean_apart,
    worst_variance=_worst_variance,
    planned=_planned,
    alternatives=alternatives,
    plan_options=(),  # `points` is that of a mean
    plan_remarks=_remarks,
    slots=lambda shape: shape.num_masks,
    silent_as=lambda shape: "",
    released=lambda decoding: [i for i, value in enumerate(decoding.values) if value != "sum"],
    toml=lambda shape: f'low = 0\nhigh = 1\nabsent = "apart"\npoints = {shape.points}',
)
