"""Decoding a `range`: cells of the range, quantiles, and the whole distribution behind them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy import stats

from hubbub.analysis.estimation.cells import Pool
from hubbub.analysis.estimation.intervals import exceeded_with, normal_interval
from hubbub.analysis.estimation.shares import finite_population, normal_p_value
from hubbub.analysis.estimation.tree import Tree
from hubbub.analysis.kinds.categorical import odd_ones
from hubbub.analysis.kinds.rows import Columns, assemble, require_same_shape
from hubbub.analysis.options import Options
from hubbub.analysis.result import ABSENT, ANSWER, NUMBER, Array, Decoding, Diagnostics
from hubbub.protocol.kinds import Range

_MOST_ROWS = 64


def decode_distribution(pools: Sequence[Pool], options: Options) -> Decoding:
    require_same_shape(pools)
    shape = pools[0].metric.shape
    assert isinstance(shape, Range)
    definitions = [pool.cohorts for pool in pools]
    tree = Tree.of(shape, definitions, finite_population(pools, options.estimand), options.confidence)
    rows = _rows(tree, options)
    # Evenly wide cells are all alike to a forger.
    pull = tree.pull(list(options.ranges) or _cells(tree)[:1], [pool.cohorts[0].wire for pool in pools])
    levels = _level_p_values(tree)
    tests = max(1, sum(role == ANSWER for role in rows.roles))
    return assemble(
        pools,
        options,
        rows,
        diagnostics=Diagnostics(
            cohort_p=levels,
            odd_cohorts=odd_ones(levels),
            indistinguishable=(),
            rank=shape.num_leaves if tree.levels.identified else 0,
            num_columns=shape.num_leaves,
            attack_radius=options.fake_share * pull,
            fake_share=options.fake_share,
            hidden_heavy_share=0.0,
        ),
        noise_floor=_floor(tree, tests, options) if not options.ranges else np.nan,
        notes=_notes(tree),
        tree=tree,
        answered_only=options.exclude_absent,
    )


def _rows(tree: Tree, options: Options) -> Columns:
    """The ranges asked for, or the finest level of at most 64 cells; `absent`; quantiles of those who answered."""
    cells = list(options.ranges) or _cells(tree)
    of = "answered" if options.exclude_absent else "all"
    shown = tree.shares(cells, of=of)
    null = tree.shares_if_empty(cells)
    guess = tree.sums(tree.best_guess, cells)
    answered = float(tree.best_guess.sum())
    unit = f" {tree.shape.unit}" if tree.shape.unit else ""
    names = [f"[{low:g}, {high:g}){unit}" for low, high in cells]
    absent = _absent(tree, options)
    quantiles = tree.quantiles(list(options.quantiles))
    show_absent = 0 if options.exclude_absent else 1
    every = tree.sums(tree.leaves, cells)
    return Columns(
        values=[*names, *["absent"] * show_absent, *(f"quantile {q:g}" for q in options.quantiles)],
        roles=[*[ANSWER] * len(cells), *[ABSENT] * show_absent, *[NUMBER] * len(options.quantiles)],
        estimate=np.concatenate([shown.estimate, absent[0][:show_absent], quantiles.estimate]),
        std_error=np.concatenate([shown.std_error, absent[1][:show_absent], quantiles.std_error]),
        low=np.concatenate([shown.low, absent[2][:show_absent], quantiles.low]),
        high=np.concatenate([shown.high, absent[3][:show_absent], quantiles.high]),
        p_value=np.concatenate(
            [
                normal_p_value(every, null),
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


def _cells(tree: Tree) -> list[tuple[float, float]]:
    width = tree.shape.branching
    while width * tree.shape.branching <= min(_MOST_ROWS, tree.shape.num_leaves):
        width *= tree.shape.branching
    edges = tree.edges()[:: tree.shape.num_leaves // width]
    return [(float(a), float(b)) for a, b in pairwise(edges)]


def _absent(tree: Tree, options: Options) -> tuple[Array, Array, Array, Array]:
    whole = tree.shares([(float(tree.shape.low), float(tree.shape.high))], of="all")
    absent = 1 - whole.estimate
    return absent, whole.std_error, *normal_interval(absent, whole.std_error, options.confidence)


def _floor(tree: Tree, tests: int, options: Options) -> float:
    """All cells of a level have the same noise but for the shares around them."""
    return float(tree.shares_if_empty(_cells(tree)[:1])[0]) * exceeded_with(options.alpha / tests)


def _level_p_values(tree: Tree) -> Array:
    """Chi-square of each level's counts against the joint fit, with the moments its residuals really have
    (Satterthwaite 1946): the fit follows a level's own counts in some directions and not in others."""
    levels = tree.levels
    p_values = np.full(len(levels.levels), np.nan)
    if not levels.identified or sum(level.reports > 0 for level in levels.levels) < 2:
        return p_values
    for level, cells in enumerate(levels.levels):
        if not cells.reports:
            continue
        width = len(cells.shares)
        fitted = tree.leaves.reshape(width, -1).sum(axis=1)
        guess = tree.best_guess.reshape(width, -1).sum(axis=1)
        variance = cells.floor + cells.slope * guess + cells.sampling * guess * (1 - guess)
        left, count = levels.residual_parts(level)
        mean, spread = float(np.sum(count * left)), float(np.sum(count * left**2))
        if mean > 1e-6:
            squares = float(np.sum((cells.shares - fitted) ** 2 / variance))
            p_values[level] = float(stats.chi2.sf(squares * mean / spread, mean**2 / spread))
    return p_values


def _notes(tree: Tree) -> list[str]:
    if not tree.levels.identified:
        return ["No report came from the finest level: the cells cannot be told apart."]
    empty = [i for i, level in enumerate(tree.levels.levels) if not level.reports]
    return [f"No report came from level{'s' * (len(empty) > 1)} {', '.join(map(str, empty))}."] if empty else []
