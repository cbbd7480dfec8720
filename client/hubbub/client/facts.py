"""What an install knows about itself in few words: single facts, and counts by name.

Both are small tables of the state; everything here runs inside a caller's transaction. Facts are read all at once: one
query where a record would need six.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Literal, NamedTuple

Answer = Literal["yes", "no"]
"""What the person said."""

FactName = Literal[
    "home",
    "key",
    "number",
    "answer",
    "agreed",
    "answered_at",
    "reserved_for",
    "lifetime",
    "carried",
    "failures",
    "retry_at",
]


class Facts(NamedTuple):
    """One field for each fact, with what it is where the state does not have it."""

    home: bytes | None = None
    """A hash of machine and inode: tells a state that was copied here from one that was made here."""
    key: bytes | None = None
    """The secret of `Identity`, 32 bytes."""
    number: int | None = None
    """The number of `Identity`, 62 bits."""
    answer: Answer | None = None
    """None: nobody has been asked yet."""
    agreed: str = ""
    """The metrics.toml that the person agreed to, as it was."""
    answered_at: float = 0.0
    """When the person last said yes, in Unix seconds."""
    reserved_for: bytes | None = None
    """The `Registry.mark` for which slots were last set aside."""
    lifetime: int | None = None
    """The smallest lifetime budget ever seen, in millionths of epsilon."""
    carried: int = 0
    """What earlier lives of this state have spent, in millionths of epsilon."""
    failures: int = 0
    """Attempts to send that have failed since the last that did not."""
    retry_at: float = 0.0
    """Before this moment (Unix seconds) nothing is sent."""


_DEFAULTS = Facts()


def read_facts(db: sqlite3.Connection) -> Facts:
    stored = dict(db.execute("SELECT name, value FROM meta").fetchall())
    return Facts._make(map(stored.get, Facts._fields, _DEFAULTS))


def put(db: sqlite3.Connection, name: FactName, value: str | bytes | float | None) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))


# --- counts -------------------------------------------------------------------------------------------------------

Outcome = Literal["made", "repeated", "not_asked", "expired"]
"""What became of a record: a report was made; the epoch had one already; the epoch does not ask (that of the yes, one
already sent, or no budget left); the metric's end is past."""

Lost = Literal["unknown_metric", "wrong_value", "dropped_busy", "dropped_state"]
"""Why a record could not be looked at: the programmer's mistake, or what the disk did."""

Noted = Literal["absent", "clamped", "overflowed", "sent", "dropped_too_old", "dropped_outbox_full"]
"""What else is counted: reports that answered `absent`, were moved into their limits, or repeat an old answer for want
of a slot; reports that were sent, or given up because they grew too old or too many."""

CountName = Outcome | Lost | Noted
"""Names of counts, in `Status.counts`. Besides, a message that the collector refuses for good is counted, by its
reports, as `dropped_` and the reason, one of `protocol.refusal.STATUS`."""


def add_counts(db: sqlite3.Connection, counts: Mapping[CountName, int] | Mapping[str, int]) -> None:
    db.executemany(
        "INSERT INTO counts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET number = number + excluded.number",
        counts.items(),
    )


def read_counts(db: sqlite3.Connection) -> dict[str, int]:
    return dict(db.execute("SELECT name, number FROM counts").fetchall())
