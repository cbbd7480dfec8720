"""Answers already given: find the memo of a mask, or draw it. Everything here runs inside a caller's transaction.

An answer is drawn once and kept for life: answering afresh each time would let the noise be averaged away. Its chance
comes from the install's key, so that a state that was restored from a backup, or copied, draws the same again. It is
found by a keyed fingerprint, so the file shows neither the value nor its mask. A mask beyond the last slot of its
metric's budget is answered from an old slot.
"""

from __future__ import annotations

import sqlite3

from hubbub.client.budget import free_slot, slots_used
from hubbub.client.identity import Identity
from hubbub.client.respond import permanent_response
from hubbub.protocol.metric import Metric
from hubbub.protocol.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubbub.client.vocabulary import Draws


class Memo(Value):
    """A kept answer."""

    bits: int
    """The permanent response: what every report of this answer is drawn from."""
    overflowed: bool = False
    """Whether it was drawn for another mask, because no slot was left."""


def find_or_draw(db: sqlite3.Connection, who: Identity, metric: Metric, mask: int, draws: Draws) -> Memo:
    """The memo for this mask: the one kept, a new one in a free slot, or that of an old slot when all are taken."""
    bits, overflowed = 0, False
    for drawn_for, positions in _parts(metric, who.cohort(metric), mask):
        part = _find_or_draw(db, who, metric, drawn_for, draws)
        bits, overflowed = bits | part.bits & positions, overflowed or part.overflowed
    return Memo(bits, overflowed)


def _parts(metric: Metric, cohort: int, mask: int) -> list[tuple[int, int]]:
    """The masks whose memos answer for this one, and at which positions.

    Where each bit is kept by itself, one memo is drawn for all bits set and one for none: a position of the one is
    that bit's answer while it is set, of the other while it is not, whatever the bits beside it are.
    """
    everywhere = (1 << metric.shape.width(cohort)) - 1
    if not metric.keeps_by_bit:
        return [(mask, everywhere)]
    return [(all_of, where) for all_of, where in ((everywhere, mask), (0, everywhere & ~mask)) if where]


def _find_or_draw(db: sqlite3.Connection, who: Identity, metric: Metric, mask: int, draws: Draws) -> Memo:
    cohort = who.cohort(metric)
    fingerprint = _fingerprint(who, metric, cohort, mask)
    known = _with_fingerprint(db, fingerprint)
    if known is not None:
        return Memo(known)
    slot = free_slot(db, metric)
    if slot is not None:
        what = mask.to_bytes(metric.vector_bytes(cohort), "little")
        memo = permanent_response(metric, mask, cohort, draws.of_a_memo(who.chance(fingerprint + what)))
        row = (fingerprint, metric.metric_hash, slot, memo.to_bytes(metric.vector_bytes(cohort), "little"))
        db.execute("INSERT INTO memos VALUES (?, ?, ?, ?)", row)
        return Memo(memo)
    return Memo(_of_old_slot(db, who, metric, fingerprint), overflowed=True)


def kept_memo(db: sqlite3.Connection, who: Identity, metric: Metric, mask: int) -> int | None:
    """The memo with which this mask was answered before, if it was."""
    cohort, bits = who.cohort(metric), 0
    for drawn_for, positions in _parts(metric, cohort, mask):
        part = _with_fingerprint(db, _fingerprint(who, metric, cohort, drawn_for))
        if part is None:
            return None
        bits |= part & positions
    return bits


def _with_fingerprint(db: sqlite3.Connection, fingerprint: bytes) -> int | None:
    row = db.execute("SELECT memo FROM memos WHERE fingerprint = ?", (fingerprint,)).fetchone()
    return None if row is None else int.from_bytes(row[0], "little")


def _of_old_slot(db: sqlite3.Connection, who: Identity, metric: Metric, fingerprint: bytes) -> int:
    """Always the same slot for the same mask; which one, nobody without the key can tell."""
    slot = int.from_bytes(who.keyed(b"overflow", fingerprint), "little") % slots_used(db, metric)
    query = "SELECT memo FROM memos WHERE metric_hash = ? AND slot = ?"
    (kept,) = db.execute(query, (metric.metric_hash, slot)).fetchone()
    return int.from_bytes(kept, "little")


def _fingerprint(who: Identity, metric: Metric, cohort: int, mask: int) -> bytes:
    what = mask.to_bytes(metric.vector_bytes(cohort), "little")
    return who.keyed(b"memo", b"%s %d %s" % (metric.metric_hash.encode(), cohort, what))
