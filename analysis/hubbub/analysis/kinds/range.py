"""Ranges: cells of the range, quantiles, and the whole distribution behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from hubbub.analysis.arrays import Array
from hubbub.analysis.distribution import Distribution
from hubbub.analysis.estimation import misfit
from hubbub.analysis.estimation.cells import PooledTally, finite_population
from hubbub.analysis.estimation.detection import Rule
from hubbub.analysis.estimation.selection import normal_p_value
from hubbub.analysis.estimation.tree import Levels
from hubbub.analysis.kinds.factor import Categories, Factor, some_or_none
from hubbub.analysis.kinds.kind import Kind, PlanOption, Pools
from hubbub.analysis.kinds.rows import Columns, assemble, require_same_shape
from hubbub.analysis.kinds.variances import bit_variance, tree_gain
from hubbub.analysis.options import Options
from hubbub.analysis.result import ABSENT, ANSWER, NUMBER, Decoding, Diagnostics
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
    rows, if_empty = _rows(distribution, shape.unit, options)
    tests = max(1, sum(role == ANSWER for role in rows.roles))
    # All cells of a level have the same noise but for the shares around them.
    floor = np.nan if options.ranges else float(if_empty[0]) * Rule(tests, options.alpha).deviations
    return assemble(
        pools,
        options,
        rows,
        diagnostics=_diagnostics(pools, distribution, options),
        noise_floor=floor,
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


def _rows(distribution: Distribution, unit: str, options: Options) -> tuple[Columns, Array]:
    """The ranges asked for, or the finest level of at most 64 cells; `absent`; quantiles of those who answered. And the
    standard error of each range if it were empty."""
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
            p_value=np.append(tests.p_value[:-1], normal_p_value(absent, shown.std_error[-1:])),
            best_guess=np.append(guess, max(0.0, 1 - answered)),
        )
    return _with_quantiles(cell_rows, distribution, options.quantiles), tests.std_error


def _with_quantiles(rows: Columns, distribution: Distribution, wanted: Sequence[float]) -> Columns:
    if not wanted:
        return rows
    found = distribution.quantiles(list(wanted))
    return Columns(
        values=[*rows.values, *(f"quantile {q:g}" for q in wanted)],
        roles=[*rows.roles, *[NUMBER] * len(wanted)],
        estimate=np.append(rows.estimate, found.estimate),
        std_error=np.append(rows.std_error, found.std_error),
        low=np.append(rows.low, found.low),
        high=np.append(rows.high, found.high),
        p_value=np.append(rows.p_value, np.full(len(wanted), np.nan)),
        best_guess=np.append(rows.best_guess, found.estimate),
    )


def _cells(distribution: Distribution) -> list[tuple[float, float]]:
    width = distribution.levels.branching ** _shown_level(distribution.levels.branching, distribution.num_leaves)
    edges = distribution.edges()[:: distribution.num_leaves // width]
    return [(float(a), float(b)) for a, b in pairwise(edges)]


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
    levels = shape.num_levels
    own = levels * (bit_variance(noise, share) + share * (1 - share))
    return own * tree_gain(shape.branching, levels, level) - share * (1 - share)


def _planned(given: Mapping[str, int], strings: int) -> Range:
    return Range(low=Fraction(0), high=Fraction(1), num_leaves=given["num_leaves"], branching=given["branching"])


RANGE: Kind[Range] = Kind(
    decode=decode_range,
    unit_variance=_unit_variance,
    planned=_planned,
    toml=lambda shape: f"low = 0\nhigh = 1\nnum_leaves = {shape.num_leaves}\nbranching = {shape.branching}",
    tested=lambda shape, candidates: shape.branching ** _shown_level(shape.branching, shape.num_leaves),
    row_variance=_row_variance,
    factor=_factor,
    released=lambda decoding: range(len(decoding.values)),
    plan_options=(
        PlanOption("num_leaves", 256, "range (default: 256)"),
        PlanOption("branching", 4, "range (default: 4)"),
    ),
    has_ranges=True,
)
