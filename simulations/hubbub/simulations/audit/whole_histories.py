"""Auditing answers that have a history: all that an install ever says, from the client's own code.

One trial is one install with a key of its own, through all of its periods: its flags, and every answer. Two histories
are told apart, one value throughout and another throughout. The event is that every answer agrees with the one value,
the sharpest there is: its chance is known exactly for both, and their ratio is the whole epsilon where categories are
sent. Where bits are sent it is a part of it, because an answer's other bits agree by chance alone.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing

from hubbub.client import state
from hubbub.client.histories import answered
from hubbub.client.identity import Identity
from hubbub.client.respond import RandomDraws
from hubbub.client.vocabulary import Random
from hubbub.protocol.history import History
from hubbub.protocol.metric import Metric
from hubbub.simulations.audit.evidence import Chances, Finding, Seen, judge
from hubbub.simulations.audit.pairs import Pair, far_pairs

TRIALS_PER_INSTALL = 100
FEWEST_INSTALLS = 400
_LINE = 62  # binary digits of an install's place on the line of cohorts
_BEGAN = 1_000  # the period in which all of them begin
_PAIRS = ("first value against second", "second value against first")


class HistoryAudit:
    """The claim of one metric with `hold`. `tests` are counted before anything is drawn, to share out alpha."""

    tests = 2

    def __init__(self, metric: Metric, trials: int, alpha: float) -> None:
        assert metric.noise.history is not None
        self.metric, self.history, self.alpha = metric, metric.noise.history, alpha
        self.installs = max(FEWEST_INSTALLS, trials // TRIALS_PER_INSTALL) // 2
        self.pair = far_pairs(metric)[0]
        self.agreed = [[0, 0], [0, 0]]  # by what was answered, and what all answers agree with

    @property
    def work(self) -> int:
        return 2 * self.installs

    def run(self, random: Random = os.urandom) -> Iterator[None]:
        with closing(sqlite3.connect(":memory:")) as db:
            db.executescript(state._TABLES)
            began = _BEGAN * self.history.hold
            db.execute("INSERT INTO ledger VALUES (?, 1, 0, ?)", (self.metric.metric_hash, began))
            for _ in range(self.installs):
                for which in (0, 1):
                    said = self._life(db, which, random)
                    for toward, mask in enumerate(self.pair.masks):
                        self.agreed[which][toward] += all(self._agrees(bits, mask) for bits in said)
                    yield

    def _life(self, db: sqlite3.Connection, which: int, random: Random) -> list[int]:
        who = Identity(random(32), _place(self.pair, self.metric, random))
        epochs = [(_BEGAN + number) * self.history.hold for number in range(self.history.answers)]
        draws, mask = RandomDraws(random), self.pair.masks[which]
        said = [answered(db, who, self.metric, self.history, mask, epoch, draws) for epoch in epochs]
        db.execute("DELETE FROM memos")
        return said

    def _agrees(self, bits: int, mask: int) -> bool:
        return bool(bits & mask) if self.history.categories is None else bits == mask

    def findings(self) -> list[Finding]:
        shown = [toward for toward in (0, 1) if self.history.categories is not None or self.pair.masks[toward]]
        return [
            judge(
                Seen(self.agreed[toward][toward], self.installs, self.agreed[1 - toward][toward], self.installs),
                self.alpha,
                metric=self.metric.name,
                what="everything ever said",
                pair=_PAIRS[toward],
                claim=float(self.metric.epsilon_permanent),
                chances=chances(self.history),
            )
            for toward in shown
        ]


def chances(history: History) -> Chances:
    """That all answers agree with a value, if it is the true one throughout, and if another is."""
    if history.categories is None:
        other = history.chance**history.answers
    else:
        other = history.count_law[0] / (history.categories - 1) ** history.flags
    return Chances(float(history.count_law[-1]), float(other))


def _place(pair: Pair, metric: Metric, random: Random) -> int:
    """Anywhere on the part of the line that is the pair's cohort."""
    number = metric.shape.num_cohorts
    first, last = (-(-(cohort << _LINE) // number) for cohort in (pair.cohort, pair.cohort + 1))
    return first + int.from_bytes(random(8), "little") % (last - first)
