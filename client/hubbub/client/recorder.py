"""Epochs on the device: which are open, what each still has to answer, and the batch that is made when one is over.

Presence says nothing: for every epoch in which the app ran there is exactly one report for every metric of that
cadence; what was not recorded answers `absent`. All of it runs inside a caller's transaction, and time is an argument.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from hubbub.client.memos import answer, identity, reserve, slots_reserved, slots_used
from hubbub.client.respond import Random, draw_bits
from hubbub.client.state import get, put
from hubbub.protocol.cadence import epoch_of, epoch_start
from hubbub.protocol.encoding import ABSENT, Encoded
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import BATCH_ID_BYTES, Batch, Report
from hubbub.protocol.wire import pack

DAY = 86_400
LONGEST_RUN = 28 * DAY
"""Seconds for which an app is believed to have run without a word; more is a clock that was set ahead."""


class Reporter:
    """One app's registry on one install, within one transaction. `known` are the small facts of the state."""

    def __init__(self, db: sqlite3.Connection, known: Mapping[str, Any], registry: Registry, random: Random) -> None:
        self.db, self.registry, self.random = db, registry, random
        if known.get("reserved_for") != registry.mark:
            reserve(db, registry)
        self.who = identity(db, known, random)
        self.answered_at: float = known.get("answered_at", 0.0)
        self.counts: Counter[str] = Counter()

    def asked(self, metric: Metric, epoch: int) -> bool:
        """Whether this epoch reports this metric: after the answer yes, before its end, within the budget, and for
        `once` only if it has never been. None of it depends on values."""
        return (
            epoch > epoch_of(metric.every, self.answered_at)
            and not is_expired(metric, epoch)
            and slots_reserved(self.db, metric) > 0
            and (metric.every != "once" or slots_used(self.db, metric) == 0 or self.has_report(metric, epoch))
        )

    def has_report(self, metric: Metric, epoch: int) -> bool:
        query = "SELECT 1 FROM reports WHERE metric_hash = ? AND epoch = ?"
        return self.db.execute(query, (metric.metric_hash, epoch)).fetchone() is not None

    def open_epochs(self, since: float, now: float) -> None:
        """Note that the app has run in every epoch since then. In those without a record it ran as well: were they
        left out, a message would tell that something was recorded."""
        if not now - LONGEST_RUN <= since <= now:
            since = now
        for every in self.registry.cadences:
            first = max(epoch_of(every, since), epoch_of(every, self.answered_at) + 1)
            epochs = [(every, epoch) for epoch in range(first, epoch_of(every, now) + 1)]
            self.db.executemany("INSERT OR IGNORE INTO epochs VALUES (?, ?, 0)", epochs)

    def is_open(self, every: str, epoch: int) -> bool:
        query = "SELECT 1 FROM epochs WHERE every = ? AND epoch = ? AND sealed = 0"
        return self.db.execute(query, (every, epoch)).fetchone() is not None

    def report(self, metric: Metric, encoded: Encoded, epoch: int) -> None:
        """Answer once for this epoch. The mask is gone afterwards; what stays is a memo and noisy bits."""
        memo = answer(self.db, self.who, metric, encoded.mask, epoch, self.random)
        cohort = self.who.cohort(metric)
        bits = draw_bits(metric, memo.bits, cohort, self.random)
        size = (metric.shape.width(cohort) + 7) // 8
        self.db.execute(
            "INSERT INTO reports VALUES (?, ?, ?, ?, ?)",
            (metric.metric_hash, epoch, metric.every, cohort, bits.to_bytes(size, "little")),
        )
        self.counts["made"] += 1
        self.counts["clamped"] += encoded.clamped
        self.counts["overflowed"] += memo.overflowed

    def seal_past_epochs(self, now: float, delay: Callable[[float], float]) -> None:
        """Turn every epoch that is over into a batch that waits for its sending time. Sealed epochs are remembered for
        ever: whatever the clock does, none is reported twice."""
        for every in self.registry.cadences:
            current = epoch_of(every, now)
            query = "SELECT epoch FROM epochs WHERE every = ? AND epoch < ? AND sealed = 0 ORDER BY epoch"
            for (epoch,) in self.db.execute(query, (every, current)).fetchall():
                self._seal(every, epoch, delay)

    def _seal(self, every: str, epoch: int, delay: Callable[[float], float]) -> None:
        reports = [self._final_report(metric, epoch) for metric in self._asked(every, epoch)]
        self.db.execute("UPDATE epochs SET sealed = 1 WHERE every = ? AND epoch = ?", (every, epoch))
        # Reports of metrics that an upgrade took away or redefined meanwhile go too: were they sent, their presence
        # would tell that something was recorded.
        self.db.execute("DELETE FROM reports WHERE every = ? AND epoch = ?", (every, epoch))
        if not reports:
            return
        batch = Batch.of(self.random(BATCH_ID_BYTES), reports)
        end = epoch_start(every, epoch + 1)
        span = float(min(end - epoch_start(every, epoch), DAY))
        self.db.execute(
            "INSERT INTO outbox VALUES (?, ?, ?, ?, 0, ?, ?)",
            (batch.batch_id, every, epoch, end + delay(span), len(reports), pack(batch)),
        )

    def _asked(self, every: str, epoch: int) -> Iterator[Metric]:
        return (metric for metric in self.registry.with_cadence(every) if self.asked(metric, epoch))

    def _final_report(self, metric: Metric, epoch: int) -> Report:
        if not self.has_report(metric, epoch):
            self.report(metric, metric.shape.encode(ABSENT, self.who.cohort(metric), self.who.dither(metric)), epoch)
            self.counts["absent"] += 1
        query = "SELECT cohort, bits FROM reports WHERE metric_hash = ? AND epoch = ?"
        cohort, bits = self.db.execute(query, (metric.metric_hash, epoch)).fetchone()
        return Report(metric, epoch, cohort, int.from_bytes(bits, "little"))


def is_expired(metric: Metric, epoch: int) -> bool:
    """Whether the metric's end lies before this epoch's beginning."""
    end = datetime(metric.expires.year, metric.expires.month, metric.expires.day, tzinfo=UTC).timestamp()
    return epoch_start(metric.every, epoch) >= end


def empty_outbox(db: sqlite3.Connection) -> None:
    """Forget what was made and not sent. The epochs stay closed: none of them is reported again."""
    db.execute("DELETE FROM outbox")
    db.execute("DELETE FROM reports")
    db.execute("UPDATE epochs SET sealed = 1")


def forget(db: sqlite3.Connection, spent: int) -> None:
    """Delete identity, memos, outbox and counts, say no, and keep one number: what was spent."""
    lifetime, home = get(db, "lifetime"), get(db, "home")
    for table in ("meta", "memos", "ledger", "epochs", "reports", "outbox", "counts"):
        db.execute(f"DELETE FROM {table}")  # noqa: S608  the names stand in the line above
    put(db, "home", home)
    put(db, "carried", spent)
    put(db, "answer", "no")
    if lifetime is not None:
        put(db, "lifetime", lifetime)
