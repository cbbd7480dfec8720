"""How often intervals of a regime hold the truth, empty rows are detected, and changes are seen where there are none.

Rows are told apart by what is true of them, before anything is drawn: whether anybody holds them, because intervals of
empty rows hold more often and would hide what is wrong with the others; and whether few counts are behind them, that
is, whether the variance of the count is below 15 at the true shares (told by the estimate, those that look as if many
were are the ones that are far off). The count behind a string is that of its cells, each as far as it weighs (a cell
that a frequent string sets too hardly does), behind a mean that of its upper end, and behind a share of those who
answered that of the share of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from hubbub.analysis import compare
from hubbub.analysis.estimation.cells import pool
from hubbub.analysis.estimation.fit import cell_variance
from hubbub.analysis.estimation.hashing import digests
from hubbub.analysis.estimation.intervals import FEW
from hubbub.analysis.estimation.shares import shares
from hubbub.analysis.kinds.rows import cohorts_of, places_of
from hubbub.analysis.kinds.string import string_design
from hubbub.protocol.tally import Tally
from tests.analysis.regimes import ONE_BY_ONE, SHAPES, TEXTS, Regime, crowd, decoded, probabilities, tallies_of
from tests.analysis.side_by_side import (
    Judged,
    answered_side_by_side,
    asked_of,
    distribution,
    judged,
    judged_side_by_side,
    queries,
    rows_side_by_side,
    side_by_side,
)

AT_ONCE = 400

Class = tuple[str, str]
"""Held or empty, few counts or many."""
CLASSES: tuple[Class, ...] = (("held", "many"), ("held", "few"), ("empty", "many"), ("empty", "few"))


@dataclass
class Measured:
    """Of the intervals of each class: how many held the truth, and of how many."""

    held: Counter[Class] = field(default_factory=Counter)
    of: Counter[Class] = field(default_factory=Counter)
    populations: int = 0
    false_detections: int = 0

    def __add__(self, other: Measured) -> Measured:
        return Measured(
            self.held + other.held,
            self.of + other.of,
            self.populations + other.populations,
            self.false_detections + other.false_detections,
        )

    def __str__(self) -> str:
        seen = [
            f"{who}, {counts} counts {self.held[who, counts] / self.of[who, counts]:.3f} of {self.of[who, counts]}"
            for who, counts in CLASSES
            if self.of[who, counts]
        ]
        return "; ".join([*seen, f"falsely detected {self.false_detections / self.populations:.3f}"])


def rests_on_few(regime: Regime, tallies: list[Tally], truth: np.ndarray) -> np.ndarray:
    """Of each row, whether the count behind it has a variance below 15 where these are the shares of all installs.
    Only the sizes of cohorts are taken from the tallies."""
    pools = [pool(tally) for tally in tallies]
    if regime.kind == "string":
        design, gain = string_design(pools, digests(TEXTS)), pools[0].cohorts[0].noise.gain
        weight = np.where(design.observed, 1 / cell_variance(design, design.scatter(truth[:-1])), 0.0)
        moved = weight * design.sampling / gain  # by one install, times the sum of the weights
        cells = design.offset[:, np.newaxis] + design.positions
        own = weight[cells].sum(axis=0) / moved[cells].max(axis=0) ** 2
        return np.append(own, np.sum((design.sampling[design.observed] / gain) ** -2 / weight[design.observed])) < FEW
    if regime.kind == "range":
        found = distribution(regime, pools)
        of_answered = found._law(queries(found)).variance()
        few = of_answered.rests_on_few(np.append(truth[:-1], 1 - truth[-1]))
        return np.asarray(few)
    if regime.kind == "mean":
        return shares(cohorts_of(pools), [[0]] * len(pools), 1, 0.0, places_of(pools)).variance.rests_on_few(truth)
    variance = decoded(regime, tallies).variance
    assert variance is not None
    return variance.rests_on_few(truth)


def measure(regime: Regime, populations: int, *, exclude_absent: bool = False) -> Measured:
    rng = np.random.default_rng(regime.seed)
    result = Measured(populations=populations)
    for start in range(0, populations, AT_ONCE):
        crowds = [crowd(regime, rng) for _ in range(min(AT_ONCE, populations - start))]
        truths = [_truth(regime, counts, exclude_absent) for counts in crowds]
        rows = [(start + i) % len(truth) for i, truth in enumerate(truths)]
        worlds = [tallies_of(regime, counts, rng) for counts in crowds]
        few = rests_on_few(regime, worlds[0], _truth(regime, crowds[0], False))
        every = _judged_all(regime, worlds, rows, exclude_absent)
        for truth, row, found in zip(truths, rows, every, strict=True):
            sort = ("held" if truth[row] > 0 else "empty", "few" if few[row] else "many")
            result.of[sort] += 1
            result.held[sort] += found.low - 1e-9 <= truth[row] <= found.high + 1e-9
            tested = min(len(truth), len(found.detected))
            result.false_detections += bool((found.detected[:tested] & (truth[:tested] == 0)).any())
    return result


def _truth(regime: Regime, counts: np.ndarray, exclude_absent: bool) -> np.ndarray:
    truth = counts / counts.sum() if regime.estimand == "reporting" else probabilities(regime.kind)
    truth = truth[1:] if len(truth) == 2 else truth
    return truth[:-1] / truth[:-1].sum() if exclude_absent else truth


def _judged_all(
    regime: Regime, worlds: Sequence[list[Tally]], rows: Sequence[int], exclude_absent: bool
) -> list[Judged]:
    """Side by side where that can be done: strings are decoded one by one, as are ranges among those who answered and
    what a histogram has no bit for."""
    size = 0 if _one_by_one(regime, exclude_absent) else rows_side_by_side(regime.kind)
    found = {
        i: judged(decoded(regime, worlds[i], exclude_absent=exclude_absent), row)
        for i, row in enumerate(rows)
        if row >= size
    }
    together = [i for i in range(len(rows)) if i not in found]
    if together:
        some = judged_side_by_side(regime, [worlds[i] for i in together], [rows[i] for i in together], exclude_absent)
        found |= dict(zip(together, some, strict=True))
    return [found[i] for i in range(len(rows))]


def _one_by_one(regime: Regime, exclude_absent: bool) -> bool:
    return regime.kind == "string" or (exclude_absent and regime.kind == "range")


def changes(regime: Regime, pairs: int, times: int = 1) -> int:
    """Two crowds that hold the same, the one before so many `times` as large: how often a row, each in its turn, is
    said to have changed, tested by itself."""
    rng = np.random.default_rng([*regime.seed, times])
    sides = _two_sides(regime, pairs, times, rng)
    if regime.kind in ONE_BY_ONE:
        both = zip(*([decoded(regime, tallies) for tallies in side] for side in sides), strict=True)
        return sum(bool(compare(*pair).p_value[i % SHAPES[regime.kind][1]] <= 0.05) for i, pair in enumerate(both))
    size = asked_of(regime.kind)[1]
    rows = np.arange(pairs) % size
    p_value = compare(*(side_by_side(regime, side) for side in sides)).p_value[np.arange(pairs) * size + rows]
    alone = compare(*(decoded(regime, side[-1]) for side in sides)).p_value[rows[-1]]
    assert p_value[-1] == pytest.approx(alone)
    return int((p_value <= 0.05).sum())


def _two_sides(regime: Regime, pairs: int, times: int, rng: np.random.Generator) -> list[list[list[Tally]]]:
    sizes = replace(regime, installs=times * regime.installs), regime
    return [[tallies_of(size, crowd(size, rng), rng) for _ in range(pairs)] for size in sizes]


def changes_of_rows(regime: Regime, pairs: int, times: int = 1, *, exclude_absent: bool = False) -> np.ndarray:
    """The same for each row, of kinds that are decoded one by one."""
    rng = np.random.default_rng([*regime.seed, times, exclude_absent])
    sides = _two_sides(regime, pairs, times, rng)
    both = zip(
        *([decoded(regime, each, exclude_absent=exclude_absent) for each in side] for side in sides), strict=True
    )
    with np.errstate(invalid="ignore"):  # nobody seems to have answered
        return np.asarray((np.array([compare(*pair).p_value for pair in both]) <= 0.05).sum(axis=0))


def changes_among_answered(regime: Regime, pairs: int) -> np.ndarray:
    """The same of shares of those who answered: for each row how often it is said to have changed, tested by itself."""
    rng = np.random.default_rng([*regime.seed, 2])
    both = [[tallies_of(regime, crowd(regime, rng), rng) for _ in range(2)] for _ in range(pairs)]
    if _one_by_one(regime, exclude_absent=True):
        alone = [[decoded(regime, tallies, exclude_absent=True) for tallies in pair] for pair in both]
        p_value = np.array([compare(*pair).p_value for pair in alone])
    else:
        sides = (answered_side_by_side(regime, side) for side in zip(*both, strict=True))
        p_value = compare(*sides).p_value.reshape(pairs, -1)
        last = compare(*(decoded(regime, tallies, exclude_absent=True) for tallies in both[-1]))
        assert p_value[-1] == pytest.approx(last.p_value, nan_ok=True)
    with np.errstate(invalid="ignore"):  # nobody seems to have answered
        return np.asarray((p_value <= 0.05).sum(axis=0))
