"""From the counts of a pair, or of a cross, to a `Crosstab`: pool, estimate, judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from hubbub.analysis.arrays import Array
from hubbub.analysis.crosstab_parts import Setting, crosstab
from hubbub.analysis.crosstab_result import Crosstab
from hubbub.analysis.estimation.cells import PooledTally, crowds_of, pool, sampling_of
from hubbub.analysis.estimation.joint_law import CrossGroup, CrossLaw, PairGroup, PairLaw
from hubbub.analysis.estimation.unlisted import unlisted_excess
from hubbub.analysis.kinds import kind_of
from hubbub.analysis.kinds.factor import Factor, declared_categories, one_of
from hubbub.analysis.options import Options
from hubbub.protocol.cadence import epoch_text
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.pair import Pair, PairCounts, PairTally
from hubbub.protocol.tally import Counts, Tally, common_segment, undivided

MOST_CELLS = 1024
"""Of a table: of more, hardly one would be detected, and nobody would read it."""

T = TypeVar("T", Tally, PairTally)
Candidates = Mapping[str, Sequence[str]]
"""The strings to look for, or the one item of a set, by the name of the metric."""


def decode_pair(tallies: Sequence[PairTally], candidates: Candidates, options: Options) -> Crosstab:
    """The table of two metrics whose reports were counted together. Segments are added up."""
    (tally,) = _of_one_definition(undivided(tallies))
    sides = _both_sides(tally)
    factors = tuple(_factor(side, candidates.get(side.metric.name, ()), options) for side in sides)
    groups = [
        PairGroup(counts=counts, sampling=sampling, first=one, second=other)
        for (a, b), counts, sampling in _pooled(tally)
        if counts[0, 0] and (one := factors[0].responses[a]) and (other := factors[1].responses[b])
    ]
    if not groups:
        raise Invalid([f"no batch of {tally.pair.name} with a report of both metrics was counted"])
    total, asked = _installs(tally)
    used = sum(group.batches for group in groups) / tally.num_batches
    law = PairLaw(groups, total / used)
    _limit_cells(tally.pair.name, law.shape)
    setting = Setting(
        name=tally.pair.name,
        way="pair",
        factors=(factors[0].categories, factors[1].categories),
        segment=common_segment(tallies),
        epochs=tuple(epoch_text(tally.pair.every, epoch) for epoch in tally.epochs),
        num_reports=int(law.batches),
        finite=_finite(total, asked, options),
        notes=(*factors[0].notes, *factors[1].notes),
        largest=max(group.first.largest() * group.second.largest() for group in groups),
    )
    return crosstab(setting, law, unlisted_excess(law, [factor.unlisted for factor in factors]), options)


def decode_cross(tallies: Sequence[Tally], options: Options) -> Crosstab:
    """The table of a metric of kind cross. Segments are added up."""
    (tally,) = _of_one_definition(undivided(tallies))
    metric, shape = tally.metric, tally.metric.shape
    if not shape.factors or shape.categories is None:
        raise Invalid([f"a crosstab is of a cross or of a pair, {metric.name} is a {metric.kind}"])
    first, second = (declared_categories(factor) for factor in shape.factors)
    pooled = pool(tally)
    (cohort,) = pooled.cohorts
    if not cohort.reports:
        raise Invalid([f"no report of {metric.name} was counted"])
    cell = one_of(metric.noise, shape.categories)
    law = CrossLaw(
        CrossGroup(np.concatenate([[cohort.reports], cohort.ones]), cohort.sampling, cell), (len(first), len(second))
    )
    setting = Setting(
        name=metric.name,
        way="cross",
        factors=(first, second),
        segment=common_segment(tallies),
        epochs=tuple(epoch_text(metric.every, epoch) for epoch in tally.epochs),
        num_reports=int(cohort.reports),
        finite=_finite(pooled.sampling, pooled.asked, options),
        notes=(),
        largest=cell.largest(),
    )
    return crosstab(setting, law, np.zeros(law.shape), options)


def _of_one_definition(tallies: Sequence[T]) -> Sequence[T]:
    if len(tallies) != 1:
        raise Invalid(
            [
                "a crosstab is made of one definition, "
                f"got {len(tallies)} of {', '.join(sorted({tally.metric.name for tally in tallies})) or 'nothing'}"
            ]
        )
    return tallies


def _factor(side: PooledTally, candidates: Sequence[str], options: Options) -> Factor:
    make = kind_of(side.metric.shape.form).factor
    if make is None:
        kind = "string with discover" if side.metric.shape.discovers else side.metric.kind
        raise Invalid([f"a crosstab cannot have a {kind} as a side, got {side.metric.name}"])
    return make(side, candidates, options)


def _both_sides(tally: PairTally) -> tuple[PooledTally, PooledTally]:
    """The counts of each metric in the batches of the pair, as if it had been counted alone."""
    first, second = (
        pool(Tally(metric, {epoch: _side(tally.pair, counts, side) for epoch, counts in tally.epochs.items()}))
        for side, metric in enumerate(tally.pair.metrics)
    )
    return first, second


def _side(pair: Pair, counts: PairCounts, side: int) -> Counts:
    shape = pair.metrics[side].shape
    reports = [0] * shape.num_cohorts
    ones = [np.zeros(shape.width(cohort), dtype=np.int64) for cohort in range(shape.num_cohorts)]
    rows = (counts.first, counts.second)[side]
    for cohorts, batches, row in zip(pair.cohort_pairs, counts.num_batches, rows, strict=True):
        reports[cohorts[side]] += batches
        ones[cohorts[side]] += np.asarray(row, dtype=np.int64)
    return Counts(tuple(reports), tuple(tuple(row.tolist()) for row in ones))


def _pooled(tally: PairTally) -> list[tuple[tuple[int, int], Array, float]]:
    """For each pair of cohorts the counts of all epochs in one table, and 1 / installs."""
    batches, _ = _crowds(tally)
    found = []
    for place, cohorts in enumerate(tally.pair.cohort_pairs):
        bits = tally.pair.shape.widths(place)
        table = np.zeros((1 + bits[0], 1 + bits[1]))
        for counts in tally.epochs.values():
            table[0, 0] += counts.num_batches[place]
            table[1:, 0] += counts.first[place]
            table[0, 1:] += counts.second[place]
            table[1:, 1:] += counts.both[place]
        found.append((cohorts, table, sampling_of(batches[:, place])))
    return found


def _installs(tally: PairTally) -> tuple[float, float]:
    """1 / all installs, and the share of them that was asked (where one of the metrics has `hold`)."""
    batches, asked = _crowds(tally)
    return sampling_of(batches.sum(axis=1)), asked


def _crowds(tally: PairTally) -> tuple[Array, float]:
    counts = [epoch.num_batches for epoch in tally.epochs.values()]
    batches = np.array(counts, dtype=np.float64).reshape(len(counts), len(tally.pair.cohort_pairs))
    hold = next((metric.hold for metric in tally.pair.metrics if metric.hold is not None), None)
    return crowds_of(batches, list(tally.epochs), tally.pair.every, hold)


def _finite(sampling: float, asked: float, options: Options) -> float:
    """What the sampling of everyone takes off, see `cells.finite_population`."""
    return sampling * asked if options.estimand == "reporting" else 0.0


def _limit_cells(name: str, shape: tuple[int, int]) -> None:
    if shape[0] * shape[1] > MOST_CELLS:
        raise Invalid([f"a crosstab must have at most {MOST_CELLS:,} cells, got {shape[0]} x {shape[1]} of {name}"])
