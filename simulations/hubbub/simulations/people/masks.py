"""The masks that installs would encode, for whole crowds at once, cohort by cohort.

A mask is known here by a number, its key, and by where its bits are. What values encode to is the kind's to say, and
tested to be what the client encodes. Which way an install rounds depends on its dither, which is drawn here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hubbub.protocol.metric import Definition, Metric
from hubbub.simulations.kinds import kind_of
from hubbub.simulations.kinds.kind import NOWHERE, Index, Rounding
from hubbub.simulations.people.histories import AWAY, Histories


class CohortMasks(NamedTuple):
    """One cohort: `keys[r, e]` is the mask that each of `installs[r]` encodes in epoch e, or `NOWHERE` if it does not
    run; `where[key]` holds the positions of that mask's bits, `NOWHERE` for those it lacks."""

    cohort: int
    keys: Index
    installs: Index
    where: Index


def masks_by_cohort(metric: Definition, histories: Histories, rng: np.random.Generator) -> Iterator[CohortMasks]:
    """Every install joins a cohort by itself. Cohorts come one after the other: no more than one is held."""
    kind = kind_of(metric.shape)
    rounding = kind.rounding(histories.values)
    if rounding is not None:
        yield rounded_by_dither(rounding, histories, rng)
        return
    prepared = kind.prepared(histories.values)
    num_cohorts = metric.shape.num_cohorts
    left = histories.installs
    for cohort in range(num_cohorts):
        here = left if cohort == num_cohorts - 1 else rng.binomial(left, 1 / (num_cohorts - cohort))
        left = left - here
        present = np.flatnonzero(here)
        masks = kind.masks(prepared, cohort)
        answers = histories.answers[present]
        keys = np.where(answers == AWAY, NOWHERE, masks.keys[answers])  # ABSENT = -1 is the last of them
        yield CohortMasks(cohort, keys, here[present], masks.where)


def parts_kept(metric: Metric, masks: CohortMasks) -> list[CohortMasks]:
    """The same installs, once for each part of a mask that is kept by itself: all of it, or one bit after the other."""
    if not metric.keeps_by_bit:
        return [masks]
    has = np.zeros((len(masks.where), metric.shape.width(masks.cohort)), dtype=bool)
    key, place = np.nonzero(masks.where != NOWHERE)
    has[key, masks.where[key, place]] = True
    away = masks.keys == NOWHERE
    return [
        masks._replace(keys=np.where(away, NOWHERE, bit[masks.keys].astype(np.int64)), where=np.array([[NOWHERE], [0]]))
        for bit in has.T
    ]


def rounded_by_dither(rounding: Rounding, histories: Histories, rng: np.random.Generator) -> CohortMasks:
    """Rounded up in the epochs whose threshold the install's dither reaches.

    The thresholds of one history cut [0, 1) into pieces; in which of them the dither lies says how every epoch is
    rounded.
    """
    away = histories.answers == AWAY
    threshold = np.where(away, 1.0, rounding.threshold[histories.answers])  # ABSENT = -1 is the last of them
    ends = np.ones((len(threshold), 1))
    pieces = np.concatenate([0 * ends, np.sort(threshold, axis=1), ends], axis=1)
    installs = rng.multinomial(histories.installs, np.diff(pieces, axis=1))
    history, piece = np.nonzero(installs)
    rounded_up = pieces[history, piece][:, np.newaxis] >= threshold[history]
    keys = np.where(away[history], NOWHERE, rounding.below[histories.answers[history]] + rounded_up)
    return CohortMasks(0, keys, installs[history, piece], rounding.where)
