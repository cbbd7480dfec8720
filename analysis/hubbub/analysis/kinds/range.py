"""Ranges: cells of the range, quantiles, and the whole distribution behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from hubbub.analysis.arrays import Array
from hubbub.analysis.distribution import Distribution
from hubbub.analysis.estimation import misfit
from hubbub.analysis.estimation.cells import finite_population
from hubbub.analysis.estimation.detection import Rule
from hubbub.analysis.estimation.selection import normal_p_value
from hubbub.analysis.estimation.tree import Levels
from hubbub.analysis.kinds.kind import Kind, PlanOption, Pools
from hubbub.analysis.kinds.rows import Columns, assemble, require_same_shape
from hubbub.analysis.kinds.variances import bit_variance, tree_gain
from hubbub.analysis.options import Options
from hubbub.analysis.result import ABSENT, ANSWER, NUMBER, Decoding, Diagnostics
from hubbub.protocol.channel import Noise
from hubbub.protocol.kinds import Range

_MOST_ROWS = 64


def decode_range(pools: Pools, candidates: Sequence[str], options: Options) -> Decoding:
    require_same_shape(pools)
    shape = pools[0].metric.shape
    assert isinstance(shape, Range)
    levels = Levels.of(shape.branching, [pool.cohorts for pool in pools])
    finite = finite_population(pools, options.estimand)
    distribution = Distribution.of(levels, float(shape.low), float(shape.high), finite, options.confidence)
    rows = _rows(distribution, shape.unit, options)
    tests = max(1, sum(role == ANSWER for role in rows.roles))
    return assemble(
        pools,
        options,
        rows,
        diagnostics=_diagnostics(pools, distribution, options),
        noise_floor=_floor(distribution, tests, options) if not options.ranges else np.nan,
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


def _rows(distribution: Distribution, unit: str, options: Options) -> Columns:
    """The ranges asked for, or the finest level of at most 64 cells; `absent`; quantiles of those who answered."""
    cells = list(options.ranges) or _cells(distribution)
    shown = distribution.shares(cells, of="answered" if options.exclude_absent else "all")
    guess = distribution.sums(distribution.best_guess, cells)
    answered = float(distribution.best_guess.sum())
    names = [f"[{low:g}, {high:g}){f' {unit}' if unit else ''}" for low, high in cells]
    absent = _absent(distribution)
    quantiles = distribution.quantiles(list(options.quantiles))
    show_absent = 0 if options.exclude_absent else 1
    return Columns(
        values=[*names, *["absent"] * show_absent, *(f"quantile {q:g}" for q in options.quantiles)],
        roles=[*[ANSWER] * len(cells), *[ABSENT] * show_absent, *[NUMBER] * len(options.quantiles)],
        estimate=np.concatenate([shown.estimate, absent[0][:show_absent], quantiles.estimate]),
        std_error=np.concatenate([shown.std_error, absent[1][:show_absent], quantiles.std_error]),
        low=np.concatenate([shown.low, absent[2][:show_absent], quantiles.low]),
        high=np.concatenate([shown.high, absent[3][:show_absent], quantiles.high]),
        p_value=np.concatenate(
            [
                distribution.p_values(cells),
                normal_p_value(absent[0], absent[1])[:show_absent],
                np.full(len(options.quantiles), np.nan),
            ]
        ),
        best_guess=np.concatenate(
            [
                guess / answered if options.exclude_absent and answered > 0 else guess,
                np.array([max(0.0, 1 - answered)])[:show_absent],
                quantiles.estimate,
            ]
        ),
    )


def _cells(distribution: Distribution) -> list[tuple[float, float]]:
    width = distribution.levels.branching ** _shown_level(distribution.levels.branching, distribution.num_leaves)
    edges = distribution.edges()[:: distribution.num_leaves // width]
    return [(float(a), float(b)) for a, b in pairwise(edges)]


def _shown_level(branching: int, num_leaves: int) -> int:
    """The finest level with at most 64 cells, or the first."""
    level = 1
    while branching ** (level + 1) <= min(_MOST_ROWS, num_leaves):
        level += 1
    return level


def _absent(distribution: Distribution) -> tuple[Array, Array, Array, Array]:
    whole = distribution.shares([(distribution.low, distribution.high)], of="all")
    return 1 - whole.estimate, whole.std_error, 1 - whole.high, 1 - whole.low


def _floor(distribution: Distribution, tests: int, options: Options) -> float:
    """All cells of a level have the same noise but for the shares around them."""
    return distribution.error_if_empty(*_cells(distribution)[0]) * Rule(tests, options.alpha).deviations


def _notes(levels: Levels) -> list[str]:
    if not levels.identified:
        return ["No report came from the finest level: the cells cannot be told apart."]
    empty = [i for i, level in enumerate(levels.levels) if not level.reports]
    return [f"No report came from level{'s' * (len(empty) > 1)} {', '.join(map(str, empty))}."] if empty else []


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
    plan_options=(
        PlanOption("num_leaves", 256, "range (default: 256)"),
        PlanOption("branching", 4, "range (default: 4)"),
    ),
    has_ranges=True,
)
