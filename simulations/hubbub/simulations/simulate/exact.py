"""Exact tallies of crowds that change their minds, come and go: cost grows with the different histories, not with the
installs.

A memo is drawn once and shown in a set of epochs. Of all memos of a cohort that are shown in the same epochs, N1 were
drawn for a mask that has a bit and N0 for one that lacks it: Binomial(N1, a1) + Binomial(N0, a0) of them have it. The
reports of an epoch show the memos that belong to it: Binomial(M, q) + Binomial(N - M, p). Memos, bits and reports are
drawn independently of each other on a device, so this is the law of the counts, jointly over all epochs and cells; a
k-ary wire moves whole categories, so its counts are multinomial. Nothing is approximated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hubbub.analysis.progress import Progress
from hubbub.protocol.metric import Definition, Metric
from hubbub.protocol.tally import Counts, Tally
from hubbub.simulations.exact_tallies import carry
from hubbub.simulations.kinds.kind import NOWHERE, Index
from hubbub.simulations.people.histories import Histories
from hubbub.simulations.people.masks import CohortMasks, masks_by_cohort, parts_kept
from hubbub.simulations.simulate.history_tallies import history_counts
from hubbub.simulations.simulate.slots import Answered, answer_from_slots


class Sampled(NamedTuple):
    """A tally, and how many of its reports answered with an older answer than the one asked for."""

    tally: Tally
    stale: int


def exact_tally(
    metric: Metric,
    histories: Histories,
    epochs: Sequence[int],
    rng: np.random.Generator,
    progress: Progress = lambda share: None,
) -> Sampled:
    """The tally that installs with these histories would leave, one report each for every epoch in which they run."""
    if metric.noise.history is not None:
        return Sampled(history_tally(metric, histories, epochs, rng, progress), 0)
    reports, rows, stale = [], [], 0
    num_cohorts = metric.shape.num_cohorts
    for masks in masks_by_cohort(metric, histories, rng):
        progress((masks.cohort + 1) / num_cohorts)
        parts, width = parts_kept(metric, masks), metric.shape.width(masks.cohort)
        columns = []
        for part in parts:
            answered = answer_from_slots(metric, part.keys, part.installs, rng)
            stale += answered.stale
            totals, counts = _counts(metric, part, width // len(parts), answered, rng)
            columns.append(counts)
        reports.append(totals)
        rows.append(np.concatenate(columns, axis=1))
    return Sampled(tally_from(metric, epochs, reports, rows), stale)


def history_tally(
    metric: Definition,
    histories: Histories,
    epochs: Sequence[int],
    rng: np.random.Generator,
    progress: Progress = lambda share: None,
) -> Tally:
    """The same of a metric with `hold`, which keeps no memos."""
    reports, rows = [], []
    for masks in masks_by_cohort(metric, histories, rng):
        totals, counts = history_counts(metric, masks, epochs, rng)
        reports.append(totals)
        rows.append(counts)
        progress((masks.cohort + 1) / metric.shape.num_cohorts)
    return tally_from(metric, epochs, reports, rows)


def tally_from(metric: Definition, epochs: Sequence[int], reports: Sequence[Index], rows: Sequence[Index]) -> Tally:
    """From each cohort's reports by epoch and counts by epoch and bit."""
    return Tally(
        metric,
        {
            epoch: Counts(
                tuple(int(totals[e]) for totals in reports), tuple(tuple(counts[e].tolist()) for counts in rows)
            )
            for e, epoch in enumerate(epochs)
            if any(totals[e] for totals in reports)
        },
    )


def _counts(
    metric: Metric, masks: CohortMasks, width: int, answered: Answered, rng: np.random.Generator
) -> tuple[Index, Index]:
    shown, installs, keys = _memos(answered)
    sets, which = _alike(shown)
    held = np.bincount(which, installs, minlength=len(sets)).astype(np.int64)
    ones = _ones(which, installs, masks.where[keys], len(sets), width)
    memos = carry(metric.noise.permanent, held[:, np.newaxis], ones, rng)
    in_epoch = sets.T.astype(np.float64)  # whole numbers below 2**53: exact, and much faster than integers
    totals, shown_ones = ((in_epoch @ count).astype(np.int64) for count in (held, memos))
    return totals, carry(metric.noise.instantaneous, totals[:, np.newaxis], shown_ones, rng)


def _memos(answered: Answered) -> tuple[npt.NDArray[np.bool_], Index, Index]:
    """Every memo of every history: the epochs that show it, how many installs have it, the mask it was drawn for."""
    row, slot = np.nonzero(answered.held != NOWHERE)
    shown = answered.slot[row] == slot[:, np.newaxis]
    return shown, answered.installs[row], answered.held[row, slot]


def _alike(shown: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.bool_], Index]:
    """The different sets of epochs, and which of them each memo is shown in."""
    packed = np.packbits(shown, axis=1)
    if packed.shape[1] <= 8:  # as one number each: a sort of numbers is much faster than one of rows
        padded = np.zeros((len(packed), 8), dtype=np.uint8)
        padded[:, : packed.shape[1]] = packed
        _, first, which = np.unique(padded.view(np.uint64).ravel(), return_index=True, return_inverse=True)
    else:
        _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return shown[first], which.reshape(-1)


def _ones(which: Index, installs: Index, where: Index, sets: int, width: int) -> Index:
    """How many memos of each set were drawn for a mask with each bit."""
    found = np.zeros(sets * width, dtype=np.int64)
    for position in where.T:
        there = position != NOWHERE
        cell = which[there] * width + position[there]
        found += np.bincount(cell, installs[there], minlength=sets * width).astype(np.int64)
    return found.reshape(sets, width)
