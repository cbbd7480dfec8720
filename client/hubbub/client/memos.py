"""Answers already given and paid for, and the lifetime budget. Everything here runs inside a caller's transaction.

An answer is drawn once and kept for life: answering afresh each time would let the noise be averaged away. It is found
again by a keyed fingerprint, so the file shows neither the value nor its mask.

The budget is static. When a metric is first reported, all its slots are set aside, whether they will be needed or not:
what a metric may still spend never depends on what another one was told. A mask beyond the last slot is answered from
an old one.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping
from typing import Any, NamedTuple

from hubbub.client.respond import Random, draw_memo
from hubbub.client.state import get, put
from hubbub.protocol.encoding import DITHER_BITS
from hubbub.protocol.metric import Definition, Metric
from hubbub.protocol.registry import Registry

MICRO = 1_000_000


class Identity(NamedTuple):
    """What an install adds to its answers: a secret key and one number that places it in every metric's cohorts."""

    key: bytes
    number: int

    def cohort(self, metric: Definition) -> int:
        return self.number % metric.shape.num_cohorts

    def dither(self, metric: Definition) -> int:
        """Fixed for install and metric; decides which way a `mean` rounds values between its ends."""
        return int.from_bytes(self.keyed(b"dither", metric.metric_hash.encode(), size=DITHER_BITS // 8), "little")

    def keyed(self, purpose: bytes, data: bytes, size: int = 16) -> bytes:
        """A hash that nobody without the key can test guesses against."""
        return hashlib.blake2b(data, digest_size=size, key=self.key, person=purpose).digest()


class Memo(NamedTuple):
    bits: int
    overflowed: bool = False


def identity(db: sqlite3.Connection, known: Mapping[str, Any], random: Random) -> Identity:
    """The install's identity; made when there is none. 62 bits of number: its cohorts are uniform beyond notice."""
    if "key" in known:
        return Identity(known["key"], known["number"])
    who = Identity(random(32), int.from_bytes(random(8), "little") >> 2)
    put(db, "key", who.key)
    put(db, "number", who.number)
    return who


def answer(db: sqlite3.Connection, who: Identity, metric: Metric, mask: int, epoch: int, random: Random) -> Memo:
    """The memo for this mask: the one kept, a new one in a free slot, or that of an old slot when all are taken.

    With `hold`, the first mask of each period is answered for all of it, in a slot of its own; which old slot is
    repeated after the last is then a matter of the period alone, so that no change of value shows.
    """
    known = kept_memo(db, who, metric, mask, epoch)
    if known is not None:
        return Memo(known)
    cohort = who.cohort(metric)
    print_ = _fingerprint(who, metric, cohort, mask, epoch)
    used = slots_used(db, metric)
    if used < min(metric.max_values, slots_reserved(db, metric)):
        memo = draw_memo(metric, mask, cohort, random)
        row = (print_, metric.metric_hash, used, memo.to_bytes(_size(metric, cohort), "little"))
        db.execute("INSERT INTO memos VALUES (?, ?, ?, ?)", row)
        return Memo(memo)
    slot = int.from_bytes(who.keyed(b"overflow", print_), "little") % used
    (kept,) = db.execute(
        "SELECT memo FROM memos WHERE metric_hash = ? AND slot = ?", (metric.metric_hash, slot)
    ).fetchone()
    return Memo(int.from_bytes(kept, "little"), overflowed=True)


def kept_memo(db: sqlite3.Connection, who: Identity, metric: Metric, mask: int, epoch: int) -> int | None:
    """The memo with which this mask was answered before, if it was."""
    print_ = _fingerprint(who, metric, who.cohort(metric), mask, epoch)
    row = db.execute("SELECT memo FROM memos WHERE fingerprint = ?", (print_,)).fetchone()
    return None if row is None else int.from_bytes(row[0], "little")


def _fingerprint(who: Identity, metric: Metric, cohort: int, mask: int, epoch: int) -> bytes:
    if metric.hold is None:
        what = mask.to_bytes(_size(metric, cohort), "little")
    else:
        what = b"period %d" % (epoch // metric.hold)
    return who.keyed(b"memo", b"%s %d %s" % (metric.metric_hash.encode(), cohort, what))


def _size(metric: Definition, cohort: int) -> int:
    return (metric.shape.width(cohort) + 7) // 8


def slots_used(db: sqlite3.Connection, metric: Definition) -> int:
    query = "SELECT count(*) FROM memos WHERE metric_hash = ?"
    (used,) = db.execute(query, (metric.metric_hash,)).fetchone()
    return int(used)


def slots_reserved(db: sqlite3.Connection, metric: Definition) -> int:
    row = db.execute("SELECT slots FROM ledger WHERE metric_hash = ?", (metric.metric_hash,)).fetchone()
    return 0 if row is None else int(row[0])


def reserve(db: sqlite3.Connection, registry: Registry) -> None:
    """Set slots aside for every metric that has none yet. One that finds no room is not asked on this install.

    Metrics are served in the order of the registry, all slots or none, so what is left out depends on the registries
    this install has seen and on nothing else. The smallest lifetime budget ever seen counts.
    """
    put(db, "reserved_for", registry.mark)
    limit = min(int(registry.lifetime_epsilon * MICRO), get(db, "lifetime", 1 << 62))
    put(db, "lifetime", limit)
    room = limit - reserved_micro(db)
    for metric in registry:
        wanted = metric.max_values - slots_reserved(db, metric)
        micro = int(metric.epsilon_permanent * MICRO)
        if wanted > 0 and wanted * micro <= room:
            room -= wanted * micro
            db.execute("INSERT OR REPLACE INTO ledger VALUES (?, ?, ?)", (metric.metric_hash, metric.max_values, micro))


def reserved_micro(db: sqlite3.Connection) -> int:
    """All that is set aside or was spent by earlier lives, in millionths of epsilon."""
    (reserved,) = db.execute("SELECT coalesce(sum(slots * micro_epsilon), 0) FROM ledger").fetchone()
    return int(reserved) + int(get(db, "carried", 0))
