"""What an install knows about itself in few words: single facts, and counts by name.

Both are small tables of the state; everything here runs inside a caller's transaction. Facts are read all at once: one
query where a record would need six.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hubbub.client.vocabulary import CountName, FactName, Said


class Facts:
    """One attribute for each fact, with what it is where the state does not have it."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self.home: bytes | None = stored.get("home")
        """A hash of machine and inode: tells a state that was copied here from one that was made here."""
        self.key: bytes | None = stored.get("key")
        """The secret of `Identity`, 32 bytes."""
        self.number: int | None = stored.get("number")
        """The number of `Identity`, 62 bits."""
        self.answer: Said | None = stored.get("answer")
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


def add_counts(db: sqlite3.Connection, counts: Mapping[CountName, int] | Mapping[str, int]) -> None:
    db.executemany(
        "INSERT INTO counts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET number = number + excluded.number",
        counts.items(),
    )


def read_counts(db: sqlite3.Connection) -> dict[str, int]:
    return dict(db.execute("SELECT name, number FROM counts").fetchall())
