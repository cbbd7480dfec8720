"""What an install knows about itself in few words: single facts, and counts by name.

Both are small tables of the state; everything here runs inside a caller's transaction. Facts are read all at once: one
query where a record would need six.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any, Literal, get_args

Answer = Literal["yes", "no"]
"""What the person said."""

FactName = Literal[
    "home",
    "key",
    "number",
    "answer",
    "agreed",
    "agreed_to",
    "fingerprint",
    "answered_at",
    "reserved_for",
    "lifetime",
    "carried",
    "cohorts",
    "samples",
    "failures",
    "retry_at",
    "plain_in_log",
]


class Facts:
    """One attribute for each fact, with what it is where the state does not have it."""

    __slots__ = get_args(FactName)

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self.home: bytes | None = stored.get("home")
        """A hash of machine and inode: tells a state that was copied here from one that was made here."""
        self.key: bytes | None = stored.get("key")
        """The secret of `Identity`, 32 bytes."""
        self.number: int | None = stored.get("number")
        """The number of `Identity`, 62 bits."""
        self.answer: Answer | None = stored.get("answer")
        """None: nobody has been asked yet."""
        self.agreed: str = stored.get("agreed", "")
        """The metrics.toml that the person agreed to, as it was."""
        self.agreed_to: str = stored.get("agreed_to", "")
        """What it asked, by the release of hubbub that read it then (`protocol.agreement`, as JSON)."""
        self.fingerprint: str = stored.get("fingerprint", "")
        """Of the same (`Registry.fingerprint`)."""
        self.answered_at: float = stored.get("answered_at", 0.0)
        """The day on which the person last said yes: its beginning, in Unix seconds."""
        self.reserved_for: str = stored.get("reserved_for", "")
        """The fingerprint of the registry for which slots were last set aside."""
        self.lifetime: int | None = stored.get("lifetime")
        """The smallest lifetime budget ever seen, in millionths of epsilon."""
        self.carried: int = stored.get("carried", 0)
        """What earlier lives of this state have spent, in millionths of epsilon."""
        self.cohorts: str = stored.get("cohorts", "")
        """Into how many cohorts the metrics ever asked here divide installs, with spaces between."""
        self.samples: str = stored.get("samples", "")
        """Of which shares of all installs metrics ever asked here are asked, if not of all; with spaces between."""
        self.failures: int = stored.get("failures", 0)
        """Attempts to send that have failed since the last that did not."""
        self.retry_at: float = stored.get("retry_at", 0.0)
        """Before this moment (Unix seconds) nothing is sent."""
        self.plain_in_log: int = stored.get("plain_in_log", 0)
        """Above 0 while SQLite's log may still have gathered values that were deleted: how often that was noted."""


def read_facts(db: sqlite3.Connection) -> Facts:
    return Facts(dict(db.execute("SELECT name, value FROM meta").fetchall()))


def said_yes(db: sqlite3.Connection) -> bool:
    """Whether the person's answer is yes; asked before every message, so nothing else is read."""
    (says,) = db.execute("SELECT count(*) FROM meta WHERE name = 'answer' AND value = 'yes'").fetchone()
    return bool(says)


def put(db: sqlite3.Connection, name: FactName, value: str | bytes | float | None) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))


# --- counts -------------------------------------------------------------------------------------------------------

Outcome = Literal["made", "gathered", "repeated", "ignored_later", "not_asked", "expired"]
"""What became of a record: a report was made; it will be part of one (`accumulate`); the epoch had one already; so it
had, and this one was another value; the epoch does not ask (that of the yes, one already sent, or no budget left); the
metric's end is past."""

Lost = Literal["unknown_metric", "wrong_value", "dropped_busy", "dropped_state"]
"""Why a record could not be looked at: the programmer's mistake, or what the disk did."""

Noted = Literal["absent", "clamped", "overflowed", "sent", "dropped_too_old", "dropped_outbox_full"]
"""What else is counted: reports that answered `absent`, were moved into their limits, or repeat an old answer for want
of a slot; reports that were sent, or given up because they grew too old or too many."""

CountName = Outcome | Lost | Noted
"""Names of counts, in `Status.counts`. Besides, a message that the collector refuses for good is counted, by its
reports, as `dropped_` and the reason, one of `protocol.refusal.STATUS`; an attempt after which it is kept, as `tried_`
and the reason, one of those, `status_` and a number, or the name of an error."""


def add_counts(db: sqlite3.Connection, counts: Mapping[CountName, int] | Mapping[str, int]) -> None:
    db.executemany(
        "INSERT INTO counts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET number = number + excluded.number",
        counts.items(),
    )


def read_counts(db: sqlite3.Connection) -> dict[str, int]:
    return dict(db.execute("SELECT name, number FROM counts").fetchall())
