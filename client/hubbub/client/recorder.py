"""From a value to a report. `record` writes reports, memos and counts, and nothing else.

    record    is the metric asked in this epoch, and for the first time (or does it `accumulate`)? Then:
    encode    the value becomes a mask
    memo      found, or drawn, charged and kept for life
    report    fresh noise on the memo, or with `hold` true or not as was drawn before; value and mask are gone

When epochs begin and end, and when messages leave, is not decided here: it must not depend on what is recorded, or
when. A record that finds its epoch not yet opened waits in memory for the timer's next look, 15 minutes at most. Time
is an argument, and everything that belongs together happens in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from hubbub.client.budget import first_asked_in, reserve, slots_reserved
from hubbub.client.consent import lapsed
from hubbub.client.developer_log import warn
from hubbub.client.facts import Facts, add_counts, read_facts
from hubbub.client.identity import Identity, ensure_identity, known_identity
from hubbub.client.memos import find_or_draw
from hubbub.client.respond import instantaneous_response
from hubbub.client.state import State
from hubbub.protocol.cadence import epoch_of, epoch_start
from hubbub.protocol.encoding import ABSENT, Encoded
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry
from hubbub.protocol.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from hubbub.client.vocabulary import CountName, Draws, Outcome, Random
    from hubbub.protocol.history import History
    from hubbub.protocol.vocabulary import Cadence

LONGEST_WAIT = 900.0
"""Seconds for which the value of a record may wait in memory for its epoch to be opened."""


class Withdrawn(Exception):
    """The stored answer is no longer yes: another process took it back since this one looked."""


class _Waiting(Value):
    """A record whose epoch is not yet open."""

    metric: Metric
    value: Any
    epoch: int
    since: float


class Recorder:
    """Records what one app on one install says, in mode `on`."""

    def __init__(self, state: State, registry: Registry, *, random: Random, draws: Draws) -> None:
        self._state, self._registry = state, registry
        self._random, self._draws = random, draws
        self.unsaved: Counter[CountName] = Counter()
        """What was counted and is not yet in the state; goes there with the next transaction."""
        self._answered: dict[str, tuple[int, int | None]] = {}
        """By metric: the last epoch that needs no more records, and what tells the value that it counts from others."""
        self._waiting: dict[str, _Waiting] = {}
        self._said_clamped: set[str] = set()

    def record(self, metric: Metric, value: Any, now: float) -> Outcome | Literal["waiting"]:
        """Answer a metric for the epoch of this moment, once. What became of it is returned, and counted by that name;
        one that waits is counted when that is known.

        Raises `WrongValue`, and what a transaction raises; nothing was recorded then.
        """
        epoch = epoch_of(metric.every, now)
        if is_expired(metric, epoch) and not self._is_crossed(metric, epoch):
            self.unsaved["expired"] += 1
            return "expired"
        answered = self._answered.get(metric.name)
        if answered is not None and answered[0] == epoch:
            again: Outcome = "repeated" if answered[1] in (None, _hash(value)) else "ignored_later"
            self.unsaved[again] += 1
            return again
        new = _Waiting(metric, value, epoch, now)
        with self._counting() as unsaved, self._state.transaction(sets_aside=False) as db:
            facts = read_facts(db)
            maker = ReportMaker.if_ready(db, facts, self._registry, self._draws)
            outcome = self._before_anything_is_asked(facts, new) if maker is None else self._record(maker, new)
            if outcome != "waiting":
                unsaved[outcome] += 1
            if maker is not None:
                add_counts(db, maker.counts + unsaved)
                unsaved.clear()
        if maker is not None:
            self._say_clamped(maker)
        if outcome != "waiting" and (outcome != "gathered" or metric.accumulate == "first"):
            self._answered[metric.name] = epoch, _hash(value) if outcome in ("made", "gathered") else None
        return outcome

    def _is_crossed(self, metric: Metric, epoch: int) -> bool:
        """Whether a cross that has not ended is made of this metric."""
        return any(not is_expired(cross, epoch) for cross in self._registry.crosses.get(metric.name, ()))

    def _before_anything_is_asked(self, facts: Facts, new: _Waiting) -> Outcome | Literal["waiting"]:
        new.metric.check(new.value)  # a wrong value is one, whatever becomes of it
        return self._wait(new) if _agreed(facts, self._registry) else "not_asked"

    def _record(self, maker: ReportMaker, new: _Waiting) -> Outcome | Literal["waiting"]:
        encoded = maker.encode(new.metric, new.value)  # first: a wrong value is one, whether or not the epoch asks
        if new.metric.accumulate != "first":
            new.metric.check(new.value)
        if maker.may_yet_open(new.metric, new.epoch):
            return self._wait(new)
        return maker.record(new.metric, new.value, encoded, new.epoch)

    def _wait(self, new: _Waiting) -> Outcome | Literal["waiting"]:
        earlier = self._waiting.get(new.metric.name)
        if earlier is not None and earlier.epoch == new.epoch and 0 <= new.since - earlier.since <= LONGEST_WAIT:
            if new.metric.accumulate == "first":
                self.unsaved["repeated"] += 1
                return "waiting"
            from hubbub.client.gathering import combined  # here and below, because most registries gather nothing

            self.unsaved["gathered"] += 1
            new = earlier.replace(value=combined(new.metric, earlier.value, new.value))
        self._waiting[new.metric.name] = new
        return "waiting"

    @contextmanager
    def looking(self) -> Iterator[ReportMaker]:
        """One transaction of the timer's: budget and identity are up to date in it, and counts are saved with it.
        Raises `Withdrawn` where the person's yes does not hold."""
        with self._counting() as unsaved, self._state.transaction() as db:
            maker = ReportMaker.made_ready(db, self._registry, self._draws, self._random)
            yield maker
            add_counts(db, maker.counts + unsaved)
            unsaved.clear()
        self._say_clamped(maker)

    def _say_clamped(self, maker: ReportMaker) -> None:
        """Of sums, which nobody sees before: once for each metric, and never the number."""
        for name in maker.clamped_sums:
            if name not in self._said_clamped:
                self._said_clamped.add(name)
                warn(
                    f"add({name!r}): what was added in one epoch is beyond the registry's limits and counts as their "
                    "end; wider limits would hold it"
                )

    def answer_waiting(self, maker: ReportMaker, now: float) -> None:
        """The epochs of this moment are open: what waited for them is recorded, the rest is given up."""
        for waiting in self._waiting.values():
            metric, epoch = waiting.metric, waiting.epoch
            if abs(now - waiting.since) > LONGEST_WAIT or maker.may_yet_open(metric, epoch):
                maker.counts["not_asked"] += 1
            else:
                encoded = maker.encode(metric, waiting.value)
                maker.counts[maker.record(metric, waiting.value, encoded, epoch)] += 1

    def forget_waiting(self) -> None:
        """What waits was answered, or is nobody's any more."""
        self._waiting.clear()

    def save_counts(self) -> None:
        """Keep what was counted, where the person's yes holds."""
        if self.unsaved:
            with self._counting() as unsaved, self._state.transaction() as db:
                if _agreed(read_facts(db), self._registry):
                    add_counts(db, unsaved)
                    unsaved.clear()

    @contextmanager
    def _counting(self) -> Iterator[Counter[CountName]]:
        """The counts that are to be saved; those that are left in it at the end are kept for later."""
        unsaved, self.unsaved = self.unsaved, Counter()
        kept = Counter(unsaved)
        try:
            yield unsaved
        except BaseException:
            self.unsaved.update(kept)
            raise
        self.unsaved.update(unsaved)


class ReportMaker:
    """One app's registry on one install, within one transaction: where a report is made."""

    def __init__(self, db: sqlite3.Connection, facts: Facts, registry: Registry, draws: Draws, who: Identity) -> None:
        self.db, self.registry, self.draws, self.who = db, registry, draws, who
        self.answered_at = facts.answered_at
        self.counts: Counter[CountName] = Counter()
        self.clamped_sums: list[str] = []

    @classmethod
    def if_ready(cls, db: sqlite3.Connection, facts: Facts, registry: Registry, draws: Draws) -> ReportMaker | None:
        """None where nothing may be made: without a yes that holds, or before the first look has set the budget aside
        and drawn an identity."""
        who = known_identity(facts)
        if who is None or facts.reserved_for != registry.fingerprint or not _agreed(facts, registry):
            return None
        return cls(db, facts, registry, draws, who)

    @classmethod
    def made_ready(cls, db: sqlite3.Connection, registry: Registry, draws: Draws, random: Random) -> ReportMaker:
        facts = read_facts(db)
        if not _agreed(facts, registry):
            raise Withdrawn
        if facts.reserved_for != registry.fingerprint:
            reserve(db, facts, registry)
        return cls(db, facts, registry, draws, ensure_identity(db, facts, random))

    def record(self, metric: Metric, value: Any, encoded: Encoded, epoch: int) -> Outcome:
        is_open = self.is_sealed(metric.every, epoch) is False
        asked, crosses = is_open and self.is_asked(metric, epoch), self._crosses_asked(metric, epoch) if is_open else []
        if not asked and not crosses:  # the epoch of the yes, one already sent, or no budget left
            return "expired" if is_expired(metric, epoch) else "not_asked"
        if metric.accumulate != "first":
            from hubbub.client.gathering import gather

            gather(self.db, metric, epoch, metric.shape.kept(value, self.who.cohort(metric)))
            return "gathered"
        is_first = not crosses or self._keep_for(crosses[0], metric, value, epoch)
        if not asked:
            return "gathered" if is_first else "repeated"
        if self.has_report(metric, epoch):
            return "repeated"  # by another process
        self.report(metric, encoded, epoch)
        return "made"

    def _crosses_asked(self, metric: Metric, epoch: int) -> list[Metric]:
        """Those that are made of this metric and asked in this epoch: what is recorded counts for them, whether or not
        the metric itself is asked."""
        return [cross for cross in self.registry.crosses.get(metric.name, ()) if self.is_asked(cross, epoch)]

    def _keep_for(self, cross: Metric, metric: Metric, value: Any, epoch: int) -> bool:
        """One row serves all crosses: a metric has the same categories in each."""
        from hubbub.client.gathering import keep_category

        (factor,) = (factor for factor in cross.shape.factors if factor.name == metric.name)
        return keep_category(self.db, metric, epoch, factor.category(value, self.who.dither(metric)))

    def encode(self, metric: Metric, value: Any) -> Encoded:
        return metric.shape.encode(value, self.who.cohort(metric), self.who.dither(metric))

    def is_asked(self, metric: Metric, epoch: int) -> bool:
        """Whether this epoch reports this metric: after the answer yes, before its end, on an install of its sample,
        within the budget, for `once` only the first epoch that asked and was opened, and with `hold` where it has a
        turn. None of it depends on what was recorded."""
        history = metric.turns
        return (
            epoch > epoch_of(metric.every, self.answered_at)
            and not is_expired(metric, epoch)
            and self.who.is_sampled(metric)
            and slots_reserved(self.db, metric) > 0
            and (metric.every != "once" or first_asked_in(self.db, metric) in (None, epoch))
            and (history is None or self._has_turn(metric, history, epoch))
        )

    def _has_turn(self, metric: Metric, history: History, epoch: int) -> bool:
        from hubbub.client.histories import is_turn  # here and below, because most registries ask nothing with `hold`

        return is_turn(self.db, self.who, metric, history, epoch)

    def is_sealed(self, every: Cadence, epoch: int) -> bool | None:
        """Whether the epoch is closed for good; None: it was never opened."""
        query = "SELECT sealed FROM epochs WHERE every = ? AND epoch = ?"
        row = self.db.execute(query, (every, epoch)).fetchone()
        return None if row is None else bool(row[0])

    def may_yet_open(self, metric: Metric, epoch: int) -> bool:
        """Whether the next look could open this epoch, which nobody has done yet."""
        return epoch > epoch_of(metric.every, self.answered_at) and self.is_sealed(metric.every, epoch) is None

    def has_report(self, metric: Metric, epoch: int) -> bool:
        query = "SELECT 1 FROM reports WHERE metric_hash = ? AND epoch = ?"
        return self.db.execute(query, (metric.metric_hash, epoch)).fetchone() is not None

    def gathered(self, metric: Metric, epoch: int) -> tuple[Any, bool]:
        """What the records of this epoch came to that made no report by themselves, and whether it is an answer;
        otherwise it is what stands for silence."""
        if metric.shape.made_of_others:
            from hubbub.client.gathering import categories_of

            return categories_of(self.db, self.who, metric, self.registry.metrics, epoch)
        if metric.accumulate == "first":
            return ABSENT, False
        from hubbub.client.gathering import answer_of

        answer = answer_of(self.db, metric, epoch)
        return answer, answer is not ABSENT

    def report(self, metric: Metric, encoded: Encoded, epoch: int) -> None:
        """Answer once for this epoch. The mask is gone afterwards; what stays is a memo and noisy bits."""
        cohort, history = self.who.cohort(metric), metric.turns
        if history is None:
            memo = find_or_draw(self.db, self.who, metric, encoded.mask, self.draws)
            bits = instantaneous_response(metric, memo.bits, cohort, self.draws)
            self.counts["overflowed"] += memo.overflowed
        else:
            from hubbub.client.histories import answered

            bits = answered(self.db, self.who, metric, history, encoded.mask, epoch, self.draws)
        self.db.execute(
            "INSERT INTO reports VALUES (?, ?, ?, ?, ?)",
            (metric.metric_hash, epoch, metric.every, cohort, bits.to_bytes(metric.vector_bytes(cohort), "little")),
        )
        self.counts["clamped"] += encoded.clamped
        if encoded.clamped and metric.accumulate == "sum":
            self.clamped_sums.append(metric.name)


def _hash(value: Any) -> int:
    """Tells different values apart within this process; those that have no hash are wrong values."""
    try:
        return hash(value)
    except TypeError:
        return 0


def _agreed(facts: Facts, registry: Registry) -> bool:
    return facts.answer == "yes" and lapsed(facts, registry) is None


def is_expired(metric: Metric, epoch: int) -> bool:
    """Whether the metric's end lies before this epoch's beginning."""
    end = datetime(metric.expires.year, metric.expires.month, metric.expires.day, tzinfo=UTC).timestamp()
    return epoch_start(metric.every, epoch) >= end


# --- reports of epochs that are not over --------------------------------------------------------------------------


def in_the_making(db: sqlite3.Connection) -> list[tuple[Cadence, int, str, int, bytes]]:
    """Cadence, epoch, metric's hash, cohort and bits of every report of an epoch that is not over, by epoch."""
    return db.execute("SELECT every, epoch, metric_hash, cohort, bits FROM reports ORDER BY epoch").fetchall()
