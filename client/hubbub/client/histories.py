"""Metrics with `hold`: in which epochs an install is asked, and what it then says. Runs inside a caller's transaction.

Epochs are counted in periods of `hold`, from 1970 on, the same for everybody. In each period an install is asked in one
epoch, drawn by its key for this period alone; it has a turn in as many periods as the metric has answers, from the one
in which it agreed, whether it runs then or not. So a turn depends on the key and the clock, and on nothing recorded.

Whether each answer will be true is drawn by key, for all of them together, before there is any; flag i belongs to the
i-th of those periods and to no other. So no flag ever serves twice, whatever the clock does, and a state that was
restored or copied has the same flags, epochs and noise.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from hubbub.client.budget import first_asked_in
from hubbub.client.identity import Identity
from hubbub.client.respond import RandomDraws, history_response
from hubbub.protocol.encoding import bytes_for
from hubbub.protocol.history import History
from hubbub.protocol.metric import Metric

if TYPE_CHECKING:
    from hubbub.client.vocabulary import Draws


def is_turn(db: sqlite3.Connection, who: Identity, metric: Metric, history: History, epoch: int) -> bool:
    """Whether the install is asked in this epoch."""
    if not 0 <= _number(db, metric, history, epoch) < history.answers:
        return False
    period = epoch // history.hold
    chance = who.chance(b"turn %s %d" % (metric.metric_hash.encode(), period))
    return epoch - period * history.hold == RandomDraws(chance).below(history.hold)


def drawn_flags(db: sqlite3.Connection, who: Identity, metric: Metric, history: History, draws: Draws) -> int:
    """Which answers will be true: drawn when the metric has its first turn, and charged with that."""
    began = _began(db, metric) // history.hold
    fingerprint = who.keyed(b"flags", b"%s %d" % (metric.metric_hash.encode(), began))
    row = db.execute("SELECT memo FROM memos WHERE fingerprint = ?", (fingerprint,)).fetchone()
    if row is not None:
        return int.from_bytes(row[0], "little")
    flags = draws.of_a_memo(who.chance(b"flags" + fingerprint)).flags(history)
    kept = flags.to_bytes(bytes_for(history.flags), "little")
    db.execute("INSERT INTO memos VALUES (?, ?, 0, ?)", (fingerprint, metric.metric_hash, kept))
    return flags


def answered(
    db: sqlite3.Connection, who: Identity, metric: Metric, history: History, mask: int, epoch: int, draws: Draws
) -> int:
    """What the install says in an epoch in which it has its turn."""
    cohort, number = who.cohort(metric), _number(db, metric, history, epoch)
    flags = drawn_flags(db, who, metric, history, draws) >> number * history.items & (1 << history.items) - 1
    # The mask too: two answers to one question, by a copied state, never share their noise.
    what = b"%s %d %d " % (metric.metric_hash.encode(), epoch, cohort)
    chance = who.chance(b"said " + what + mask.to_bytes(metric.vector_bytes(cohort), "little"))
    return history_response(metric, history, mask, flags, cohort, draws.of_a_memo(chance))


def _number(db: sqlite3.Connection, metric: Metric, history: History, epoch: int) -> int:
    """How many periods lie between the one in which the metric began here and that of this epoch."""
    return epoch // history.hold - _began(db, metric) // history.hold


def _began(db: sqlite3.Connection, metric: Metric) -> int:
    began = first_asked_in(db, metric)
    assert began is not None, "noted when the budget was set aside, before anything is asked"
    return began
