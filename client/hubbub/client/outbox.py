"""The messages that wait: when each may leave, who is sending it, and how long nothing is sent after a failure.

All of it runs inside a caller's transaction; time and chance are arguments. Several processes may share the outbox: a
message that one of them is sending is kept from the others for two minutes.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import NamedTuple

from hubbub.client.facts import CountName, add_counts, put, read_facts
from hubbub.client.respond import Random
from hubbub.client.upload import Verdict
from hubbub.protocol.cadence import DAY, epoch_start

FIRST_PAUSE, LONGEST_PAUSE = 30.0, 6 * 3600.0
"""Seconds: the longest pause after the first failure, doubled with each further one up to the second number."""

CLAIM = 120.0
"""Seconds for which a message belongs to the process that sends it."""

MAX_BATCHES, MAX_BYTES, MAX_AGE = 1000, 4 << 20, 28 * DAY


class Message(NamedTuple):
    """One batch, packed: all reports of one cadence and epoch."""

    batch_id: bytes
    every: str
    epoch: int
    reports: int
    """How many it holds."""
    body: bytes


def add(db: sqlite3.Connection, message: Message, not_before: float) -> None:
    batch_id, every, epoch, reports, body = message
    db.execute("INSERT INTO outbox VALUES (?, ?, ?, ?, 0, ?, ?)", (batch_id, every, epoch, not_before, reports, body))


def claim(db: sqlite3.Connection, now: float) -> Message | None:
    """The next message to send, kept from other processes for a while; None if there is none or it is not yet time."""
    prune(db, now)
    facts = read_facts(db)
    if facts.answer != "yes" or facts.retry_at > now:
        return None
    row = db.execute(
        "SELECT batch_id, every, epoch, reports, body FROM outbox WHERE not_before <= ? AND claimed_until <= ? "
        "ORDER BY not_before, batch_id LIMIT 1",
        (now, now),
    ).fetchone()
    if row is None:
        return None
    db.execute("UPDATE outbox SET claimed_until = ? WHERE batch_id = ?", (now + CLAIM, row[0]))
    return Message(*row)


def settle(db: sqlite3.Connection, message: Message, verdict: Verdict | None, now: float, random: Random) -> None:
    """Keep what became of a message; no verdict: there was no time to send it. Should this be lost, the worst that can
    happen is that it is sent again."""
    match verdict:
        case None:
            _postpone(db, message, 0.0)
        case Verdict("delivered"):
            _remove(db, message, "sent")
            _set_pause(db, 0, 0.0)
        case Verdict("refused", reason):
            _remove(db, message, f"dropped_{reason}")
            _set_pause(db, 0, 0.0)
        case Verdict("later", "epoch-in-future", _, server_time):
            # Our clock was ahead. Wait as long as the server's clock says that the epoch still lasts, but look every
            # day: by our clock, which may be set right meanwhile, that would be as much too late as it was ahead.
            lasts = epoch_start(message.every, message.epoch + 1) - server_time if server_time else DAY
            _postpone(db, message, now + min(DAY, max(3600.0, lasts)))
            _set_pause(db, 0, 0.0)
        case Verdict("later"):  # the collector does not know a metric yet
            _postpone(db, message, now + DAY)
            _set_pause(db, 0, 0.0)
        case Verdict("failed", _, retry_after):
            back_off(db, now, random, retry_after)
            _postpone(db, message, 0.0)


def back_off(db: sqlite3.Connection, now: float, random: Random, retry_after: float = 0.0) -> None:
    """An attempt has failed: none is made for a while, by nobody who shares this state."""
    failures = read_facts(db).failures + 1
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 30))
    jitter = longest * int.from_bytes(random(4), "little") / 2**32  # full jitter: no two installs in step
    _set_pause(db, failures, now + max(min(retry_after, DAY), jitter))


def prune(db: sqlite3.Connection, now: float) -> None:
    """Keep the outbox within its limits of age, number and size; the oldest go first. Pauses longer than any that is
    ever made come from a clock that was set back since: they end."""
    if read_facts(db).retry_at > now + DAY:
        put(db, "retry_at", 0.0)
    db.execute("UPDATE outbox SET claimed_until = 0 WHERE claimed_until > ?", (now + CLAIM,))
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


def number_due(db: sqlite3.Connection, now: float) -> int:
    """How many messages have reached their sending time and are still here, those of a pause or a claim included."""
    (due,) = db.execute("SELECT count(*) FROM outbox WHERE not_before <= ?", (now,)).fetchone()
    return int(due)


def size(db: sqlite3.Connection) -> tuple[int, int]:
    """How many messages wait, and how many reports are in them."""
    messages, reports = db.execute("SELECT count(*), coalesce(sum(reports), 0) FROM outbox").fetchone()
    return int(messages), int(reports)


def waiting(db: sqlite3.Connection) -> list[tuple[str, int, float, bytes]]:
    """Cadence, epoch, earliest time to leave (Unix seconds) and body of every message, the next to leave first."""
    return db.execute("SELECT every, epoch, not_before, body FROM outbox ORDER BY not_before").fetchall()
