"""Many populations of a regime decoded in one call, with the results that `decode` has for each: two of them are
decoded alone, too, and must come out the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest

from hubbub.analysis import Options
from hubbub.analysis.distribution import Distribution
from hubbub.analysis.estimation.cells import Cohort, PooledTally, finite_population, pool
from hubbub.analysis.estimation.detection import Rule
from hubbub.analysis.estimation.intervals import RatioVariance
from hubbub.analysis.estimation.law import Law, interval
from hubbub.analysis.estimation.shares import Samples, Shares, shares
from hubbub.analysis.estimation.tree import Levels
from hubbub.analysis.kinds.categorical import Questions, _among_answered, decode_answers
from hubbub.analysis.kinds.rows import Columns, assemble, cohorts_of, places_of
from hubbub.analysis.result import ABSENT, ANSWER, Decoding
from hubbub.protocol.kinds import Histogram, Range
from hubbub.protocol.tally import Tally
from tests.analysis.regimes import SHAPES, Regime, decoded

AT_ONCE = 400


def side_by_side(regime: Regime, worlds: Sequence[list[Tally]]) -> Decoding:
    """Many populations decoded in one call: what `decode` does with their counts, as cohorts and answers of their own.

    Rows are those of the first population, then those of the second, and so on. Corrections for many tests are of all
    together, and not to be used.
    """
    pools, questions, options = _together(regime, worlds)
    return decode_answers(pools, questions, options)


def answered_side_by_side(regime: Regime, worlds: Sequence[list[Tally]]) -> Decoding:
    """The same of shares of those who answered. Shares of all installs are found together; then each population has
    ratios of its own."""
    pools, questions, options = _together(regime, worlds)
    every = decode_answers(pools, questions, options)
    cohorts, finite = cohorts_of(pools), finite_population(pools, regime.estimand)
    found = shares(cohorts, questions.asked, len(every), finite, places_of(pools))
    size = len(every) // len(worlds)
    names = [*map(str, range(size)), *(["absent"] if regime.kind == "histogram" else [])]  # of a choice it is the last
    beyond = [np.nan] * (len(names) - size)
    ratios = []
    for place, (part, own) in enumerate(_apart(regime, found, cohorts, size)):
        row = slice(place * size, (place + 1) * size)
        columns = {name: np.append(getattr(every, name)[row], beyond) for name in _COLUMNS}
        rows = Columns(values=names, roles=[*[ANSWER] * (len(names) - 1), ABSENT], **columns)
        ratios.append(_among_answered(rows, part, own, finite, options))
    together = Columns(
        values=[f"{place} {value}" for place, each in enumerate(ratios) for value in each.values],
        roles=[role for each in ratios for role in each.roles],
        **{name: np.concatenate([getattr(each, name) for each in ratios]) for name in _COLUMNS},
        variance=RatioVariance(
            np.concatenate([each.variance.coefficients for each in ratios], axis=1),
            np.concatenate([each.variance.step for each in ratios]),
        ),
    )
    return assemble(pools, options, together, diagnostics=every.diagnostics, noise_floor=0.0, answered_only=True)


_COLUMNS = ("estimate", "std_error", "low", "high", "p_value", "best_guess")


def _together(regime: Regime, worlds: Sequence[list[Tally]]) -> tuple[list[PooledTally], Questions, Options]:
    asked, size = asked_of(regime.kind)
    pools = [_joined([pool(tallies[number]) for tallies in worlds]) for number in range(len(regime.metrics))]
    everyone = [[place * size + answer for answer in row] for place in range(len(worlds)) for row in asked]
    questions = Questions(
        values=[f"{place} {answer}" for place in range(len(worlds)) for answer in range(size)],
        roles=[ANSWER] * (size * len(worlds)),
        asked=everyone * len(pools),
        best_guess=lambda estimate, variance: np.clip(estimate, 0, 1),
        attack_gain=0.0,
    )
    # The interval of a mean is that of a sample, whichever is asked for (hubbub.analysis.kinds.mean).
    options = Options(estimand="population" if regime.kind == "mean" else regime.estimand)
    return pools, questions, options


def _apart(
    regime: Regime, found: Shares, cohorts: Sequence[Cohort], size: int
) -> Iterator[tuple[Shares, Sequence[Cohort]]]:
    """The shares of each population by themselves, and its cohorts. These stand by definition, population and place."""
    numbers = np.arange(len(cohorts)).reshape(len(regime.metrics), -1, SHAPES[regime.kind][0].num_cohorts)
    for place in range(numbers.shape[1]):
        own = numbers[:, place].ravel()
        number = np.zeros(len(cohorts), dtype=np.int64)
        number[own] = np.arange(len(own))
        cell, sample = (np.flatnonzero(each // size == place) for each in (found.answer, found.samples.answer))
        row = np.arange(place * size, (place + 1) * size)
        yield (
            replace(
                found,
                estimate=found.estimate[row],
                variance=found.variance.of(row),
                p_value=found.p_value[row],
                coefficient=found.coefficient[cell],
                answer=found.answer[cell] - row[0],
                cohort=number[found.cohort[cell]],
                samples=Samples(
                    found.samples.sample[sample] - found.samples.sample[sample].min(),
                    found.samples.answer[sample] - row[0],
                    found.samples.weight[sample],
                    found.samples.size[sample],
                ),
            ),
            [cohorts[i] for i in own],
        )


def ranges_side_by_side(regime: Regime, worlds: Sequence[list[Tally]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of ranges, a line for each population: the ends of the intervals of its cells and of `absent`, and the
    p-values of the cells. Trees are fitted one by one; their laws are searched together."""
    options = Options(estimand=regime.estimand)
    each = [distribution(regime, [pool(tally) for tally in tallies]) for tallies in worlds]
    cells = queries(each[0])
    law = Law.joined([found._law(cells) for found in each])
    share = np.concatenate([cells @ found.leaves for found in each])
    low, high = (
        end.reshape(len(worlds), -1) for end in interval(share, law.variance(), law.of_rows, options.confidence)
    )
    absent = 1 - high[:, -1], 1 - low[:, -1]
    low[:, -1], high[:, -1] = absent
    return low, high, law.p_values(share).reshape(len(worlds), -1)[:, :-1]


def distribution(regime: Regime, pools: Sequence[PooledTally]) -> Distribution:
    shape = pools[0].metric.shape
    assert isinstance(shape, Range)
    levels = Levels.of(shape.branching, [of.cohorts for of in pools])
    low, high = float(shape.low), float(shape.high)
    return Distribution.of(levels, low, high, finite_population(pools, regime.estimand), Options().confidence)


def queries(found: Distribution) -> np.ndarray:
    """Every cell, and everyone who answered."""
    edges = found.edges().tolist()
    return found.queries([*pairwise(edges), (edges[0], edges[-1])])


def asked_of(kind: str) -> tuple[list[list[int]], int]:
    """Which answer each bit of each cohort asks about, and how many answers there are."""
    shape = SHAPES[kind][0]
    if isinstance(shape, Histogram):
        bits = range(shape.buckets_per_report)
        return [[shape.bucket(c, i) for i in bits] for c in range(shape.num_cohorts)], shape.num_buckets
    width = shape.width(0)
    return [list(range(width))], width


def rows_side_by_side(kind: str) -> int:
    return SHAPES["range"][1] if kind == "range" else asked_of(kind)[1]


def _joined(pools: Sequence[PooledTally]) -> PooledTally:
    return replace(pools[0], cohorts=tuple(cohort for each in pools for cohort in each.cohorts))


@dataclass(frozen=True)
class Judged:
    """Of one population: one row's interval, and which rows are detected."""

    low: float
    high: float
    detected: np.ndarray


def judged(found: Decoding, row: int) -> Judged:
    return Judged(float(found.low[row]), float(found.high[row]), found.detected)


def judged_side_by_side(
    regime: Regime, worlds: Sequence[list[Tally]], rows: Sequence[int], exclude_absent: bool
) -> list[Judged]:
    """The same of many populations. Two of them are decoded alone, too, and must come out the same."""
    if exclude_absent:
        every = _ratios(regime, worlds, rows)
    else:
        every = (_ranges if regime.kind == "range" else _answers)(regime, worlds, rows)
    for place in (0, len(worlds) - 1):
        alone = judged(decoded(regime, worlds[place], exclude_absent=exclude_absent), rows[place])
        ours = every[place]
        assert (ours.low, ours.high) == (pytest.approx(alone.low), pytest.approx(alone.high))
        assert (ours.detected == alone.detected[: len(ours.detected)]).all()
    return every


def _ranges(regime: Regime, worlds: Sequence[list[Tally]], rows: Sequence[int]) -> list[Judged]:
    low, high, p_value = ranges_side_by_side(regime, worlds)
    seen = p_value <= Rule(p_value.shape[1], Options().alpha).level
    return [Judged(float(low[i, row]), float(high[i, row]), seen[i]) for i, row in enumerate(rows)]


def _answers(regime: Regime, worlds: Sequence[list[Tally]], rows: Sequence[int]) -> list[Judged]:
    found, size = side_by_side(regime, worlds), asked_of(regime.kind)[1]
    is_mean = regime.kind == "mean"
    low, high = (np.clip(end, 0, 1) if is_mean else end for end in (found.low, found.high))
    tests = size - (regime.kind == "choice")  # that somebody did not answer is no discovery
    seen = (found.p_value <= Rule(tests, 1 - found.confidence).level) & (not is_mean)
    every = []
    for place, row in enumerate(rows):
        mine = place * size + row
        own = seen[place * size : place * size + tests]
        every.append(Judged(float(low[mine]), float(high[mine]), own))
    return every


def _ratios(regime: Regime, worlds: Sequence[list[Tally]], rows: Sequence[int]) -> list[Judged]:
    found = answered_side_by_side(regime, worlds)
    size = len(found) // len(worlds)
    seen = (found.p_value <= Rule(size, 1 - found.confidence).level).reshape(len(worlds), size)
    mine = np.arange(len(worlds)) * size + rows
    return [Judged(*each) for each in zip(found.low[mine].tolist(), found.high[mine].tolist(), seen, strict=True)]
