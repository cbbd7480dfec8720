"""Ranges: cells of the range, quantiles, and the whole distribution behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np

from hubbub.analysis.arrays import Array
from hubbub.analysis.distribution import Distribution, Tests
from hubbub.analysis.estimation import misfit
from hubbub.analysis.estimation.cells import Cohort, PooledTally, TwoStageNoise, finite_population
from hubbub.analysis.estimation.detection import Rule
from hubbub.analysis.estimation.intervals import RatioVariance, RowVariances, Variance
from hubbub.analysis.estimation.law import Law
from hubbub.analysis.estimation.tree import Levels
from hubbub.analysis.kinds.factor import Categories, Factor, some_or_none
from hubbub.analysis.kinds.kind import Kind, PlanOption, Pools
from hubbub.analysis.kinds.rows import Columns, assemble, require_same_shape, rule_of_answers
from hubbub.analysis.options import Options
from hubbub.analysis.result import ABSENT, ANSWER, NUMBER, QUANTILE, Decoding, Diagnostics
from hubbub.protocol.channel import Noise
from hubbub.protocol.kinds import Range

_MOST_ROWS = 64
_MOST_CATEGORIES = 16  # of a side of a crosstab: finer levels have other installs, whose cells are rarely detected


def decode_range(pools: Pools, candidates: Sequence[str], options: Options) -> Decoding:
    require_same_shape(pools)
    shape = pools[0].metric.shape
    assert isinstance(shape, Range)
    levels = Levels.of(shape.branching, [pool.cohorts for pool in pools])
    finite = finite_population(pools, options.estimand)
    distribution = Distribution.of(levels, float(shape.low), float(shape.high), finite, options.confidence)
    rows, tests = _rows(distribution, shape.unit, options)
    if all(pool.metric.accumulate == "sum" for pool in pools):  # nothing added is 0, which is in the range
        rows = rows.only([i for i, role in enumerate(rows.roles) if role != ABSENT])
    line, whole = np.nan, distribution.total if options.exclude_absent else 1.0
    if not options.ranges:  # cells of a level hardly differ, others may have little in common
        line = tests.line(rule_of_answers(rows.p_value, rows.roles, options), rows.roles.count(ANSWER))
    return assemble(
        pools,
        options,
        rows,
        diagnostics=_diagnostics(pools, distribution, options),
        noise_floor=line / whole if whole > 0 else np.nan,
        notes=_notes(levels),
        distribution=distribution,
        answered_only=options.exclude_absent,
    )


def _diagnostics(pools: Pools, distribution: Distribution, options: Options) -> Diagnostics:
    levels = distribution.levels
    level_p = misfit.of_levels(levels, distribution.leaves, distribution.best_guess)
    # Evenly wide cells are all alike to a forger.
    asked = distribution.queries(options.ranges or _cells(distribution)[:1])
    attack_gain = levels.attack_gain(asked, [pool.cohorts[0].noise for pool in pools])
    return Diagnostics(
        cohort_p=level_p,
        odd_cohorts=misfit.misfitting_cohorts(level_p),
        indistinguishable=(),
        rank=distribution.num_leaves if levels.identified else 0,
        num_columns=distribution.num_leaves,
        attack_radius=options.fake_share * attack_gain,
        fake_share=options.fake_share,
        hidden_heavy_share=0.0,
    )


def _rows(distribution: Distribution, unit: str, options: Options) -> tuple[Columns, Tests]:
    """The ranges asked for, or the finest level of at most 64 cells; `absent`; quantiles of those who answered. And how
    the ranges were tested."""
    cells = list(options.ranges) or _cells(distribution)
    names = [f"[{low:g}, {high:g}){f' {unit}' if unit else ''}" for low, high in cells]
    guess, answered = distribution.sums(distribution.best_guess, cells), float(distribution.best_guess.sum())
    if options.exclude_absent:
        shown, tests = distribution.tested_shares(cells, of="answered")
        cell_rows = Columns(
            values=names,
            roles=[ANSWER] * len(cells),
            estimate=shown.estimate,
            std_error=shown.std_error,
            low=shown.low,
            high=shown.high,
            p_value=tests.p_value,
            best_guess=guess / answered if answered > 0 else guess,
            variance=shown.variance,
        )
    else:
        # Whoever is not in the whole range did not answer.
        shown, tests = distribution.tested_shares([*cells, (distribution.low, distribution.high)], of="all")
        absent = 1 - shown.estimate[-1:]
        cell_rows = Columns(
            values=[*names, "absent"],
            roles=[*[ANSWER] * len(cells), ABSENT],
            estimate=np.append(shown.estimate[:-1], absent),
            std_error=shown.std_error,
            low=np.append(shown.low[:-1], 1 - shown.high[-1]),
            high=np.append(shown.high[:-1], 1 - shown.low[-1]),
            p_value=np.append(tests.p_value[:-1], _nobody_is_absent(tests, shown.estimate)),
            best_guess=np.append(guess, max(0.0, 1 - answered)),
            variance=_with_absent(shown.variance),
        )
    return _with_quantiles(cell_rows, distribution, options.quantiles), tests


def _nobody_is_absent(tests: Tests, estimate: Array) -> Array:
    """The p-value of that; the last row is of all who answered."""
    last = np.array([len(estimate) - 1])
    return estimate[last] * np.nan if tests.law is None else tests.law.of_rows(last).p_values_of_rest(estimate[last])


def _with_absent(variance: Variance | RatioVariance | None) -> Variance | None:
    """The last row is of all who answered: of a share f of absent it is that of the share 1 - f."""
    if not isinstance(variance, Variance):
        return None
    floor, slope = variance.floor.copy(), variance.slope.copy()
    floor[-1], slope[-1] = floor[-1] + slope[-1], -slope[-1]
    return replace(variance, floor=floor, slope=slope)


def _with_quantiles(rows: Columns, distribution: Distribution, wanted: Sequence[float]) -> Columns:
    if not wanted:
        return rows
    found = distribution.quantiles(list(wanted))
    return Columns(
        values=[*rows.values, *(f"{QUANTILE}{q:g}" for q in wanted)],
        roles=[*rows.roles, *[NUMBER] * len(wanted)],
        estimate=np.append(rows.estimate, found.estimate),
        std_error=np.append(rows.std_error, found.std_error),
        low=np.append(rows.low, found.low),
        high=np.append(rows.high, found.high),
        p_value=np.append(rows.p_value, np.full(len(wanted), np.nan)),
        best_guess=np.append(rows.best_guess, found.estimate),
        variance=_with_unknown(rows.variance, len(wanted)),
    )


def _with_unknown(
    variance: Variance | RatioVariance | RowVariances | None, more: int
) -> Variance | RatioVariance | None:
    """And rows that no variance describes: a quantile is known less the fewer are near it, and where that is."""
    unknown = np.full(more, np.nan)
    if isinstance(variance, Variance):
        return Variance(
            floor=np.append(variance.floor, unknown),
            slope=np.append(variance.slope, unknown),
            sampling=np.append(variance.sampling, unknown),
            step=np.append(np.broadcast_to(variance.step, variance.floor.shape), unknown),
        )
    if isinstance(variance, RatioVariance):
        nothing = np.full((len(variance.coefficients), more), np.nan)
        return RatioVariance(np.hstack([variance.coefficients, nothing]), np.append(variance.step, unknown))
    return None


def _cells(distribution: Distribution) -> list[tuple[float, float]]:
    cells = _num_cells(distribution.levels.branching, distribution.num_leaves)
    edges = distribution.edges()[:: distribution.num_leaves // cells]
    return [(float(a), float(b)) for a, b in pairwise(edges)]


def _num_cells(branching: int, num_leaves: int) -> int:
    """How many are shown, and tested."""
    return int(branching ** _shown_level(branching, num_leaves))


def _shown_level(branching: int, num_leaves: int, most: int = _MOST_ROWS) -> int:
    """The finest level with at most so many cells, or the first."""
    level = 1
    while branching ** (level + 1) <= min(most, num_leaves):
        level += 1
    return level


def _notes(levels: Levels) -> list[str]:
    if not levels.identified:
        return ["No report came from the finest level: the cells cannot be told apart."]
    empty = [i for i, level in enumerate(levels.levels) if not level.reports]
    return [f"No report came from level{'s' * (len(empty) > 1)} {', '.join(map(str, empty))}."] if empty else []


def _factor(pool: PooledTally, candidates: Sequence[str], options: Options) -> Factor:
    """The cells of one level, and none of them. Only the installs that are asked about this level say anything."""
    shape, noise = pool.metric.shape, pool.metric.noise
    assert isinstance(shape, Range)
    level = _shown_level(shape.branching, shape.num_leaves, _MOST_CATEGORIES)
    cells = shape.branching**level
    edges = np.linspace(float(shape.low), float(shape.high), cells + 1)
    return Factor(
        categories=Categories(
            name=pool.metric.name,
            values=(*(f"{a:g} to {b:g}" for a, b in pairwise(edges)), "absent"),
            roles=(*[ANSWER] * cells, ABSENT),
            unit=shape.unit,
            natural_order=True,
        ),
        responses=tuple(some_or_none(noise, cells) if c == level - 1 else None for c in range(shape.num_cohorts)),
        notes=(f"Of {pool.metric.name}, the installs count that are asked for one of {cells} cells.",),
    )


def _unit_variance(shape: Range, noise: Noise, share: float, strings: int) -> float:
    return _node_variance(shape, noise, share, shape.num_levels)


def _row_variance(shape: Range, noise: Noise, share: float, strings: int) -> float:
    return _node_variance(shape, noise, share, _shown_level(shape.branching, shape.num_leaves))


def _node_variance(shape: Range, noise: Noise, share: float, level: int) -> float:
    return float(_planned_variance(shape, noise, level).at(np.array([share]))[0])


@lru_cache(maxsize=256)  # quadratic in the share: a search asks for many shares of one shape
def _planned_variance(shape: Range, noise: Noise, level: int) -> Variance:
    return _planned_law(shape, noise, 1.0, level).variance()


def _planned_law(shape: Range, noise: Noise, reports: float, level: int) -> Law:
    """By which `decode` tests the first cell of a level, if every level has its even part of the reports and all
    numbers outside of the cell are equally frequent. How many are near it matters: every count beside the cell and
    above it enters its estimate, with a variance that grows with those in it."""
    levels, installs = shape.num_levels, reports / shape.num_levels
    two_stages = TwoStageNoise.of(noise)
    cohorts = [
        Cohort(noise=two_stages, reports=installs, ones=np.zeros(shape.width(c)), sampling=1 / installs)
        for c in range(levels)
    ]
    width = shape.num_leaves // shape.branching**level
    cell = (np.arange(shape.num_leaves) < width)[np.newaxis].astype(np.float64)
    others = (1 - cell) / (shape.num_leaves - width)
    return Levels.of(shape.branching, [cohorts]).law(cell, cell / width, others, 1 / reports)


@lru_cache(maxsize=256)
def _line(shape: Range, noise: Noise, reports: float, rule: Rule) -> float:
    """The estimate with this p-value, by the law that `decode` has for it: not normal where counts are few."""
    law = _planned_law(shape, noise, reports, _shown_level(shape.branching, shape.num_leaves))
    return float(law.line(rule.deviations)[0])


def _planned(given: Mapping[str, int], strings: int) -> Range:
    return Range(low=Fraction(0), high=Fraction(1), num_leaves=given["num_leaves"], branching=given["branching"])


RANGE: Kind[Range] = Kind(
    decode=decode_range,
    unit_variance=_unit_variance,
    planned=_planned,
    toml=lambda shape: f"low = 0\nhigh = 1\nnum_leaves = {shape.num_leaves}\nbranching = {shape.branching}",
    tested=lambda shape, candidates: _num_cells(shape.branching, shape.num_leaves),
    row_variance=_row_variance,
    line=lambda shape, noise, share, strings, reports, rule: _line(shape, noise, reports, rule),
    factor=_factor,
    released=lambda decoding: range(len(decoding.values)),
    plan_options=(
        PlanOption("num_leaves", 256, "range (default: 256)"),
        PlanOption("branching", 4, "range (default: 4)"),
    ),
    has_ranges=True,
)
