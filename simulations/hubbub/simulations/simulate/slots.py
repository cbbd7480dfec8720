"""Which memo answers in which epoch, for whole crowds at once: the rule of `hubbub.client.memos`, on arrays.

A mask that was answered before is answered by the same memo; a new one takes a free slot; when all are taken, an old
slot answers for it, the same one every time, and which one is a matter of the install's secret key: to everybody
else, even chance. A test of this module runs the client beside it. Metrics with `hold` keep no memos:
they are drawn by `history_tallies`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hubbub.protocol.invalid import Invalid
from hubbub.protocol.metric import Metric
from hubbub.simulations.kinds.kind import NOWHERE, Index

MOST_ROWS = 1_000_000
UNUSED = -1


class TooManyHistories(Invalid):
    """Installs part in more ways than can be followed as groups; one by one they still can."""


class Answered(NamedTuple):
    """`installs[r]` installs use memo `slot[r, e]` in epoch e (`NOWHERE`: they do not report); `held[r, s]` is the key
    of the mask that memo s was drawn for, `UNUSED` where there is none."""

    installs: Index
    slot: Index
    held: Index
    stale: int
    """Reports that answer for another mask than the one just asked about."""


def answer_from_slots(metric: Metric, keys: Index, installs: Index, rng: np.random.Generator) -> Answered:
    """Follow the client through all epochs. Rows part where installs of one history choose different old slots."""
    table = _SlotTable(metric, keys, installs, rng)
    for epoch in range(keys.shape[1]):
        table.answer(epoch)
    return table.answered()


class _SlotTable:
    def __init__(self, metric: Metric, keys: Index, installs: Index, rng: np.random.Generator) -> None:
        self.slots, self.rng = metric.max_values, rng
        self.keys, self.installs = keys, installs
        width = min(metric.max_values, keys.shape[1])
        self.slot = np.full(keys.shape, NOWHERE, dtype=np.int64)
        self.held = np.full((len(keys), width), UNUSED, dtype=np.int64)
        self.used = np.zeros(len(keys), dtype=np.int64)

    def answer(self, epoch: int) -> None:
        there = self.keys[:, epoch] != NOWHERE
        new = there
        if epoch:
            before = self._answered_before(epoch)
            known = np.flatnonzero(there & before.any(axis=1))
            self.slot[known, epoch] = self.slot[known, before[known].argmax(axis=1)]
            new = there & (self.slot[:, epoch] == NOWHERE)
        free = np.flatnonzero(new & (self.used < self.slots))
        self.slot[free, epoch] = self.used[free]
        self.held[free, self.used[free]] = self.keys[free, epoch]
        overflowing = np.flatnonzero(new & (self.used >= self.slots))
        self.used[free] += 1
        if len(overflowing):
            self._repeat_old_slots(epoch, overflowing)

    def _answered_before(self, epoch: int) -> npt.NDArray[np.bool_]:
        """In which earlier epochs the same mask was answered."""
        reported = self.slot[:, :epoch] != NOWHERE
        return np.asarray(reported & (self.keys[:, :epoch] == self.keys[:, epoch : epoch + 1]))

    def _repeat_old_slots(self, epoch: int, rows: Index) -> None:
        if (self.installs[rows] == 1).all():
            self.slot[rows, epoch] = self.rng.integers(0, self.slots, len(rows))
            return
        chosen = self.rng.multinomial(self.installs[rows], np.full(self.slots, 1 / self.slots))
        which, slot = np.nonzero(chosen)
        others = np.ones(len(self.installs), dtype=bool)
        others[rows] = False
        total = int(others.sum()) + len(which)
        if total > MOST_ROWS:
            raise TooManyHistories(
                [
                    f"max_values = {self.slots} is used up in so many ways that more than {MOST_ROWS:,} different "
                    "histories would have to be followed"
                ]
            )
        parted = rows[which]
        self.slot[parted, epoch] = NOWHERE
        self.keys, self.slot, self.held, self.used = (
            np.concatenate([column[others], column[parted]]) for column in (self.keys, self.slot, self.held, self.used)
        )
        self.installs = np.concatenate([self.installs[others], chosen[which, slot]])
        self.slot[len(self.installs) - len(which) :, epoch] = slot

    def answered(self) -> Answered:
        reported = self.slot != NOWHERE
        about = np.take_along_axis(self.held, np.where(reported, self.slot, 0), axis=1)
        stale = ((about != self.keys) & reported).sum(axis=1) @ self.installs
        return Answered(self.installs, self.slot, self.held, int(stale))
