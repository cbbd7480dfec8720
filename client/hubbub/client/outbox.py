"""The messages that wait: when each may leave, who is sending it, and how long nothing is sent after a failure.

All of it runs inside a caller's transaction; time and chance are arguments. Several processes may share the outbox: a
message that one of them is about to send is kept from the others, for an hour at most should that process be killed.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable

from hubbub.client.chance import fraction
from hubbub.client.facts import add_counts, put, read_facts
from hubbub.client.upload import Delivery
from hubbub.protocol.cadence import DAY, HOUR, epoch_start
from hubbub.protocol.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubbub.client.vocabulary import Chance, CountName
    from hubbub.protocol.vocabulary import Cadence

FIRST_PAUSE, LONGEST_PAUSE = 30.0, 6 * 3600.0
"""Seconds: the pause after the first failure, doubled with each further one up to the second number. What is stored is
a moment drawn from the hour that begins with the first full hour after it: no two installs are in step, and the file
does not tell when an attempt was made."""

CLAIM = 240.0
"""Seconds for which messages belong to the process that claimed them, at least: a minute until they leave, and the time
to send as many as are claimed at once. On disk the end is a full hour, which tells of no moment in it."""

MOST_CLAIMED = 8

MAX_BATCHES, MAX_BYTES, MAX_AGE = 1000, 4 << 20, 28 * DAY


class Message(Value):
    """One batch, packed: all reports of one cadence and epoch."""

    batch_id: bytes
    every: Cadence
    epoch: int
    reports: int
    """How many it holds."""
    body: bytes
    attempts: int = 0
    """How often our collector has asked for it later."""


def add(db: sqlite3.Connection, message: Message, not_before: float) -> None:
    row = (message.batch_id, message.every, message.epoch, not_before, message.reports, message.body, message.attempts)
    db.execute("INSERT INTO outbox VALUES (?, ?, ?, ?, 0, ?, ?, ?)", row)


class Claimed(Value):
    """A message that this process will send."""

    message: Message
    departs: float
    """When, in Unix seconds."""
    until: float
    """When it ceases to be this process's."""


def claim(db: sqlite3.Connection, now: float, ahead: float = 0.0) -> list[Claimed]:
    """The next messages to send, kept from other processes for a while: those that are due, or will be within
    `ahead` seconds."""
    prune(db, now)
    facts = read_facts(db)
    if facts.answer != "yes" or facts.retry_at > now + ahead:
        return []
    rows = db.execute(
        "SELECT not_before, batch_id, every, epoch, reports, body, attempts FROM outbox "
        "WHERE not_before <= ? AND claimed_until <= ? ORDER BY not_before, batch_id LIMIT ?",
        (now + ahead, now, MOST_CLAIMED),
    ).fetchall()
    until = _full_hour_after(now + CLAIM)
    claimed = [Claimed(Message(*row), max(not_before, facts.retry_at), until) for not_before, *row in rows]
    db.executemany("UPDATE outbox SET claimed_until = ? WHERE batch_id = ?", [(until, row[1]) for row in rows])
    return claimed


def release(db: sqlite3.Connection, messages: Iterable[Message]) -> None:
    """Leave claimed messages to whoever comes next."""
    ids = [(message.batch_id,) for message in messages]
    db.executemany("UPDATE outbox SET claimed_until = 0 WHERE batch_id = ?", ids)


def _full_hour_after(moment: float) -> float:
    return (moment // HOUR + 1) * HOUR


def settle(db: sqlite3.Connection, message: Message, delivery: Delivery | None, now: float, chance: Chance) -> None:
    """Keep what became of a message; none: there was no time to send it. Should this be lost, the worst that can
    happen is that it is sent again. Of one that was deleted meanwhile, by a no or `forget`, nothing is kept."""
    if not still_waits(db, message):
        return
    match delivery:
        case None:
            _postpone(db, message, 0.0)
        case Delivery("delivered"):
            _remove(db, message, "sent")
            _set_pause(db, 0, 0.0)
        case Delivery("refused", reason):
            _remove(db, message, f"dropped_{reason}")
            _set_pause(db, 0, 0.0)
        case Delivery("later", "epoch-in-future", _, server_time):
            # Our clock was ahead. Wait as long as the server's clock says that the epoch still lasts, but look every
            # day: by our clock, which may be set right meanwhile, that would be as much too late as it was ahead.
            _count_failure(db, "epoch-in-future")
            lasts = epoch_start(message.every, message.epoch + 1) - server_time if server_time else DAY
            _ask_later(db, message, now + min(DAY, max(HOUR, lasts)), chance)
            _set_pause(db, 0, 0.0)
        case Delivery("later", reason):  # the collector does not know a metric yet
            _count_failure(db, reason)
            _rename(db, _ask_later(db, message, now + DAY, chance), chance)
            _set_pause(db, 0, 0.0)
        case Delivery("failed", reason, retry_after):
            _count_failure(db, reason)
            back_off(db, message, now, chance, retry_after)
            _postpone(db, message, 0.0)


def back_off(db: sqlite3.Connection, message: Message, now: float, chance: Chance, retry_after: float = 0.0) -> None:
    """An attempt has failed: none is made for a while, by nobody who shares this state."""
    failures = read_facts(db).failures + 1
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 30))
    drawn = chance("pause", message.every, message.epoch, failures)
    _set_pause(db, failures, _drawn_after(now + max(min(retry_after, DAY), pause), drawn))


def _count_failure(db: sqlite3.Connection, reason: str) -> None:
    """Attempts by reason, for `status`: the message is kept, so that no report is lost."""
    add_counts(db, {f"tried_{reason}": 1})


def _drawn_after(moment: float, drawn: bytes) -> float:
    return _full_hour_after(moment) + HOUR * fraction(drawn)


def prune(db: sqlite3.Connection, now: float) -> None:
    """Keep the outbox within its limits of age, number and size; the oldest go first. Pauses longer than any that is
    ever made come from a clock that was set back since: they end."""
    if read_facts(db).retry_at > now + DAY + 2 * HOUR:
        put(db, "retry_at", 0.0)
    db.execute("UPDATE outbox SET claimed_until = 0 WHERE claimed_until > ?", (now + CLAIM + HOUR,))
    total = kept = 0
    lost: Counter[CountName] = Counter()
    rows = db.execute("SELECT batch_id, every, epoch, reports, length(body) FROM outbox ORDER BY not_before DESC")
    for batch_id, every, epoch, reports, size in rows.fetchall():
        if now - epoch_start(every, epoch + 1) > MAX_AGE:
            lost["dropped_too_old"] += reports
        elif kept >= MAX_BATCHES or total + size > MAX_BYTES:
            lost["dropped_outbox_full"] += reports
        else:
            kept, total = kept + 1, total + size
            continue
        db.execute("DELETE FROM outbox WHERE batch_id = ?", (batch_id,))
    add_counts(db, lost)


def empty(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM outbox")


def _remove(db: sqlite3.Connection, message: Message, count: str) -> None:
    if db.execute("DELETE FROM outbox WHERE batch_id = ?", (message.batch_id,)).rowcount:
        add_counts(db, {count: message.reports})


def _ask_later(db: sqlite3.Connection, message: Message, moment: float, chance: Chance) -> Message:
    """Not before this moment, and at another that is drawn."""
    message = message.replace(attempts=message.attempts + 1)
    db.execute("UPDATE outbox SET attempts = ? WHERE batch_id = ?", (message.attempts, message.batch_id))
    _postpone(db, message, _drawn_after(moment, chance("pause", message.every, message.epoch, -message.attempts)))
    return message


def _rename(db: sqlite3.Connection, message: Message, chance: Chance) -> None:
    """Nothing of it was stored, so nobody needs to know it again: one id on 28 days would link the addresses of an
    install."""
    from hubbub.protocol.wire import renamed

    batch_id = chance("id", message.every, message.epoch, message.attempts)
    body = renamed(message.body, batch_id)
    query = "UPDATE outbox SET batch_id = ?, body = ? WHERE batch_id = ?"
    db.execute(query, (batch_id, body, message.batch_id))


def _postpone(db: sqlite3.Connection, message: Message, until: float) -> None:
    query = "UPDATE outbox SET claimed_until = 0, not_before = max(not_before, ?) WHERE batch_id = ?"
    db.execute(query, (until, message.batch_id))


def _set_pause(db: sqlite3.Connection, failures: int, until: float) -> None:
    put(db, "failures", failures)
    put(db, "retry_at", until)


# --- what waits ---------------------------------------------------------------------------------------------------


def next_due(db: sqlite3.Connection) -> float | None:
    """When the sender has something to do; None if nothing waits."""
    (soonest,) = db.execute("SELECT min(max(not_before, claimed_until)) FROM outbox").fetchone()
    return None if soonest is None else max(float(soonest), read_facts(db).retry_at)


def still_waits(db: sqlite3.Connection, message: Message) -> bool:
    """Whether nobody has sent or deleted it."""
    query = "SELECT 1 FROM outbox WHERE batch_id = ?"
    return db.execute(query, (message.batch_id,)).fetchone() is not None


def number_due(db: sqlite3.Connection, now: float) -> int:
    """How many messages have reached their sending time and are still here, those of a pause or a claim included."""
    (due,) = db.execute("SELECT count(*) FROM outbox WHERE not_before <= ?", (now,)).fetchone()
    return int(due)


def size(db: sqlite3.Connection) -> tuple[int, int]:
    """How many messages wait, and how many reports are in them."""
    messages, reports = db.execute("SELECT count(*), coalesce(sum(reports), 0) FROM outbox").fetchone()
    return int(messages), int(reports)


def waiting(db: sqlite3.Connection) -> list[tuple[Cadence, int, float, bytes]]:
    """Cadence, epoch, earliest time to leave (Unix seconds) and body of every message, the next to leave first."""
    return db.execute("SELECT every, epoch, not_before, body FROM outbox ORDER BY not_before").fetchall()
