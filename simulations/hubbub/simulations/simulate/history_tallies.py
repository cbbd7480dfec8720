"""Exact tallies of metrics whose answers have a history: drawn for all installs at once, as for one at a time.

An install is asked in one epoch of each period, each as likely, and tells the truth where its flag is set. Flags with
as many set are equally likely, so of the installs that have k set among the W still to come, the next one is set in a
share k/W of the cases: the installs of a history are followed as numbers by k, never one by one. Who is asked in which
epoch is independent of that. Of the answers that are not the truth, categories go evenly to all others; bits but an
answer's own are drawn afresh. Nothing is approximated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hubbub.protocol.history import History
from hubbub.protocol.metric import Definition
from hubbub.simulations.kinds.kind import NOWHERE, Index
from hubbub.simulations.people.masks import CohortMasks


def history_counts(
    metric: Definition, masks: CohortMasks, epochs: Sequence[int], rng: np.random.Generator
) -> tuple[Index, Index]:
    """The reports of each epoch, and the ones of each epoch and bit, of one cohort."""
    history, width = metric.noise.history, metric.shape.width(masks.cohort)
    assert history is not None
    reports = np.zeros(len(epochs), dtype=np.int64)
    ones = np.zeros((len(epochs), width), dtype=np.int64)
    period = np.asarray(epochs, dtype=np.int64) // history.hold
    runs = masks.keys != NOWHERE
    first = period[np.argmax(runs, axis=1)]
    left = rng.multinomial(masks.installs, [float(chance) for chance in history.count_law])
    for answer in range(history.answers):
        for columns in [np.flatnonzero(period == number) for number in np.unique(first + answer)]:
            rows = np.flatnonzero(first + answer == (period[columns[0]] if len(columns) else NOWHERE))
            if len(rows):
                asked, told = _answers(history, left, rows, runs[np.ix_(rows, columns)], answer, rng)
                reports[columns] += asked.sum(axis=0)
                ones[columns] += _shown(history, masks, rows, columns, asked, told, width, rng)
    return reports, ones


def _answers(
    history: History, left: Index, rows: Index, runs: Index, answer: int, rng: np.random.Generator
) -> tuple[Index, Index]:
    """How many installs of each of the rows are asked in each epoch of a period, and for each flag of their answers in
    how many it is set. `left[row, k]`, the installs with k flags set of those to come, goes on by one answer."""
    installs = left[rows]
    chance = np.full(runs.shape[1] + 1, 1 / history.hold)
    chance[-1] = max(1 - runs.shape[1] / history.hold, 0)
    groups = rng.multinomial(installs, chance).transpose(0, 2, 1)  # by row, epoch (or none of these) and k
    told = []
    for flag in range(history.items):
        to_come = history.flags - answer * history.items - flag
        is_set = rng.binomial(groups, np.minimum(np.arange(groups.shape[2]) / to_come, 1))  # nobody has more than come
        told.append(np.where(runs, is_set.sum(axis=2)[:, :-1], 0))
        groups = groups - is_set
        groups[:, :, :-1] += is_set[:, :, 1:]
    left[rows] = groups.sum(axis=1)
    return np.where(runs, groups.sum(axis=2)[:, :-1], 0), np.stack(told)


def _shown(
    history: History,
    masks: CohortMasks,
    rows: Index,
    columns: Index,
    asked: Index,
    told: Index,
    width: int,
    rng: np.random.Generator,
) -> Index:
    """The ones of each epoch and bit."""
    found = np.zeros((len(columns), width), dtype=np.int64)
    keys = masks.keys[np.ix_(rows, columns)]
    for e in range(len(columns)):
        here = np.flatnonzero(asked[:, e])
        where = masks.where[keys[here, e]]
        if history.categories is None or width > history.items or history.categories > 2:
            found[e] = _one_of_many(history, where[:, 0], asked[here, e], told[0, here, e], width, rng)
        else:
            found[e] = _yes_or_no(where, asked[here, e], told[:, here, e], width)
    return found


def _one_of_many(
    history: History, own: Index, asked: Index, told: Index, width: int, rng: np.random.Generator
) -> Index:
    has = own != NOWHERE
    truths = np.bincount(own[has], told[has], minlength=width).astype(np.int64)
    holders = np.bincount(own[has], asked[has], minlength=width).astype(np.int64)
    if history.categories is None:
        return np.asarray(truths + rng.binomial(asked.sum() - holders, float(history.chance)))
    others = (1 - np.eye(width)) / (width - 1)
    return np.asarray(truths + rng.multinomial(holders - truths, others).sum(axis=0))


def _yes_or_no(where: Index, asked: Index, told: Index, width: int) -> Index:
    """Of each bit: it is shown as it is where its flag is set, and the contrary elsewhere."""
    yes = np.zeros((len(asked), width), dtype=bool)
    row, place = np.nonzero(where != NOWHERE)
    yes[row, where[row, place]] = True
    return np.asarray(np.where(yes.T, told, asked - told).sum(axis=1))
