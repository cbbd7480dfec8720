"""From a value to a report, and from an epoch's reports to a message. One recorder decides and does.

    record    is the metric asked in this epoch, and for the first time? Then:
    encode    the value becomes a mask
    memo      found, or drawn, charged and kept for life
    report    fresh noise on the memo; value and mask are gone
    seal      when the epoch is over: what was not recorded answers `absent`, and one message goes to the outbox

Presence says nothing: for every epoch in which the app ran there is exactly one report for every metric of that
cadence. Time is an argument, and everything that belongs together happens in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from hubbub.client import outbox
from hubbub.client.budget import reserve, slots_reserved, slots_used
from hubbub.client.consent import lapsed
from hubbub.client.facts import CountName, Facts, Outcome, add_counts, read_facts
from hubbub.client.identity import ensure_identity
from hubbub.client.memos import find_or_draw
from hubbub.client.respond import Draws, Random, instantaneous_response
from hubbub.client.state import State
from hubbub.protocol.cadence import DAY, epoch_of, epoch_start
from hubbub.protocol.encoding import ABSENT, Encoded
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import BATCH_ID_BYTES, Batch, Report
from hubbub.protocol.wire import pack

LONGEST_RUN = 28 * DAY
"""Seconds for which an app is believed to have run without a word; more is a clock that was set ahead."""


class Withdrawn(Exception):
    """The stored answer is no longer yes: another process took it back since this one looked."""


class Recorder:
    """Records what one app on one install says, in mode `on`.

    `send_delay` places a message's time within its sending window. `after_sealing` is told, in the transaction, that
    the outbox may have changed.
    """

    def __init__(
        self,
        state: State,
        registry: Registry,
        *,
        send_delay: Callable[[float], float],
        random: Random,
        draws: Draws,
        after_sealing: Callable[[sqlite3.Connection], None],
    ) -> None:
        self._state, self._registry, self._cadences = state, registry, registry.cadences
        self._send_delay, self._random, self._draws = send_delay, random, draws
        self._after_sealing = after_sealing
        self.unsaved: Counter[CountName] = Counter()
        """What was counted and is not yet in the state; goes there with the next transaction."""
        self._epochs: tuple[int, ...] = ()
        self._since: float | None = None
        self._answered: set[tuple[str, int]] = set()

    def record(self, metric: Metric, value: Any, now: float) -> Outcome:
        """Answer a metric for the epoch of this moment, once. What became of it is returned, and counted by that name.

        Raises `WrongValue`, `Withdrawn`, and what a transaction raises; nothing was recorded then.
        """
        epoch = epoch_of(metric.every, now)
        if is_expired(metric, epoch):
            self.unsaved["expired"] += 1
            return "expired"
        if (metric.name, epoch) in self._answered:
            self.unsaved["repeated"] += 1
            return "repeated"
        with self._session(now) as session:
            outcome = session.record(metric, value, epoch)
        self._answered.add((metric.name, epoch))
        return outcome

    def advance(self, now: float) -> None:
        """Note that the app runs now, seal what is over, save what was counted."""
        with self._session(now):
            pass

    @contextmanager
    def _session(self, now: float) -> Iterator[_Session]:
        """One transaction: epochs are up to date in it, and counts are saved with it."""
        epochs = tuple(epoch_of(every, now) for every in self._cadences)
        unsaved, self.unsaved = self.unsaved, Counter()
        try:
            with self._state.transaction() as db:
                facts = read_facts(db)
                if facts.answer != "yes" or lapsed(facts, self._registry) is not None:
                    raise Withdrawn
                session = _Session(db, facts, self._registry, self._random, self._draws)
                if epochs != self._epochs:
                    session.open_epochs(now if self._since is None else self._since, now)
                    session.seal_past_epochs(now, self._send_delay)
                    outbox.prune(db, now)
                    self._after_sealing(db)
                yield session
                add_counts(db, session.counts + unsaved)
        except BaseException:
            self.unsaved.update(unsaved)
            raise
        if epochs != self._epochs:
            self._epochs = epochs
            self._since = now
            self._answered.clear()


class _Session:
    """One app's registry on one install, within one transaction."""

    def __init__(self, db: sqlite3.Connection, facts: Facts, registry: Registry, random: Random, draws: Draws) -> None:
        self.db, self.registry, self.random, self.draws = db, registry, random, draws
        if facts.reserved_for != registry.mark:
            reserve(db, facts, registry)
        self.who = ensure_identity(db, facts, random)
        self.answered_at = facts.answered_at
        self.counts: Counter[CountName] = Counter()

    # -- one record

    def record(self, metric: Metric, value: Any, epoch: int) -> Outcome:
        outcome = self._record(metric, value, epoch)
        self.counts[outcome] += 1
        return outcome

    def _record(self, metric: Metric, value: Any, epoch: int) -> Outcome:
        encoded = self._encode(metric, value)  # first: a wrong value is one, whether or not the epoch asks
        if not self._is_open(metric.every, epoch) or not self.is_asked(metric, epoch):
            return "not_asked"  # the epoch of the yes, one already sent, or no budget left
        if self.has_report(metric, epoch):
            return "repeated"  # by another process
        self._report(metric, encoded, epoch)
        return "made"

    def _encode(self, metric: Metric, value: Any) -> Encoded:
        return metric.shape.encode(value, self.who.cohort(metric), self.who.dither(metric))

    def is_asked(self, metric: Metric, epoch: int) -> bool:
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

    def _report(self, metric: Metric, encoded: Encoded, epoch: int) -> None:
        """Answer once for this epoch. The mask is gone afterwards; what stays is a memo and noisy bits."""
        memo = find_or_draw(self.db, self.who, metric, encoded.mask, epoch, self.draws)
        cohort = self.who.cohort(metric)
        bits = instantaneous_response(metric, memo.bits, cohort, self.draws)
        self.db.execute(
            "INSERT INTO reports VALUES (?, ?, ?, ?, ?)",
            (metric.metric_hash, epoch, metric.every, cohort, bits.to_bytes(metric.vector_bytes(cohort), "little")),
        )
        self.counts["clamped"] += encoded.clamped
        self.counts["overflowed"] += memo.overflowed

    # -- epochs

    def open_epochs(self, since: float, now: float) -> None:
        """Note that the app has run in every epoch since then. In those without a record it ran as well: were they
        left out, a message would tell that something was recorded."""
        if not now - LONGEST_RUN <= since <= now:
            since = now
        for every in self.registry.cadences:
            first = max(epoch_of(every, since), epoch_of(every, self.answered_at) + 1)
            epochs = [(every, epoch) for epoch in range(first, epoch_of(every, now) + 1)]
            self.db.executemany("INSERT OR IGNORE INTO epochs VALUES (?, ?, 0)", epochs)

    def _is_open(self, every: str, epoch: int) -> bool:
        query = "SELECT 1 FROM epochs WHERE every = ? AND epoch = ? AND sealed = 0"
        return self.db.execute(query, (every, epoch)).fetchone() is not None

    def seal_past_epochs(self, now: float, delay: Callable[[float], float]) -> None:
        """Turn every epoch that is over into a message that waits for its sending time. Sealed epochs are remembered
        for ever: whatever the clock does, none is reported twice."""
        for every in self.registry.cadences:
            current = epoch_of(every, now)
            query = "SELECT epoch FROM epochs WHERE every = ? AND epoch < ? AND sealed = 0 ORDER BY epoch"
            for (epoch,) in self.db.execute(query, (every, current)).fetchall():
                self._seal(every, epoch, delay)

    def _seal(self, every: str, epoch: int, delay: Callable[[float], float]) -> None:
        reports = [self._final_report(metric, epoch) for metric in self._metrics_asked(every, epoch)]
        self.db.execute("UPDATE epochs SET sealed = 1 WHERE every = ? AND epoch = ?", (every, epoch))
        # Reports of metrics that an upgrade took away or redefined meanwhile go too: were they sent, their presence
        # would tell that something was recorded.
        self.db.execute("DELETE FROM reports WHERE every = ? AND epoch = ?", (every, epoch))
        if not reports:
            return
        batch = Batch.of(self.random(BATCH_ID_BYTES), reports)
        end = epoch_start(every, epoch + 1)
        window = float(min(end - epoch_start(every, epoch), DAY))
        message = outbox.Message(batch.batch_id, every, epoch, len(reports), pack(batch))
        outbox.add(self.db, message, not_before=end + delay(window))

    def _metrics_asked(self, every: str, epoch: int) -> Iterator[Metric]:
        return (metric for metric in self.registry.with_cadence(every) if self.is_asked(metric, epoch))

    def _final_report(self, metric: Metric, epoch: int) -> Report:
        if not self.has_report(metric, epoch):
            self._report(metric, self._encode(metric, ABSENT), epoch)
            self.counts["made"] += 1
            self.counts["absent"] += 1
        query = "SELECT cohort, bits FROM reports WHERE metric_hash = ? AND epoch = ?"
        cohort, bits = self.db.execute(query, (metric.metric_hash, epoch)).fetchone()
        return Report(metric, epoch, cohort, int.from_bytes(bits, "little"))


def is_expired(metric: Metric, epoch: int) -> bool:
    """Whether the metric's end lies before this epoch's beginning."""
    end = datetime(metric.expires.year, metric.expires.month, metric.expires.day, tzinfo=UTC).timestamp()
    return epoch_start(metric.every, epoch) >= end


# --- reports in the making ----------------------------------------------------------------------------------------


def in_the_making(db: sqlite3.Connection) -> list[tuple[str, int, str, int, bytes]]:
    """Cadence, epoch, metric's hash, cohort and bits of every report of an epoch that is not over, by epoch."""
    return db.execute("SELECT every, epoch, metric_hash, cohort, bits FROM reports ORDER BY epoch").fetchall()


def discard_unsent(db: sqlite3.Connection) -> None:
    """Forget what was made and not sent. The epochs stay closed: none of them is reported again."""
    outbox.empty(db)
    db.execute("DELETE FROM reports")
    db.execute("UPDATE epochs SET sealed = 1")
