"""The one SQLite file of an install: identity, memos, ledger, reports in the making, outbox, counts.

Everything that must happen together happens in one `transaction`. Several threads and processes share the file: a
thread lock here, SQLite's lock between processes, and neither is waited for longer than 100 ms. A connection never
crosses a fork (a child's committed rows would vanish when the parent closes): it is closed before, reopened after.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hubbub.client.place import machine_id

PATIENCE = 0.1
"""Seconds to wait for a lock before the record is dropped and counted."""

SCHEMA = 1
FILE = "state.db"

_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE memos (
    fingerprint BLOB PRIMARY KEY, metric_hash TEXT NOT NULL, slot INTEGER NOT NULL, memo BLOB NOT NULL,
    UNIQUE (metric_hash, slot)
) WITHOUT ROWID;
CREATE TABLE ledger (
    metric_hash TEXT PRIMARY KEY, slots INTEGER NOT NULL, micro_epsilon INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE epochs (every TEXT, epoch INTEGER, sealed INTEGER NOT NULL, PRIMARY KEY (every, epoch)) WITHOUT ROWID;
CREATE TABLE reports (
    metric_hash TEXT, epoch INTEGER, every TEXT NOT NULL, cohort INTEGER NOT NULL, bits BLOB NOT NULL,
    PRIMARY KEY (metric_hash, epoch)
) WITHOUT ROWID;
CREATE TABLE outbox (
    batch_id BLOB PRIMARY KEY, every TEXT NOT NULL, epoch INTEGER NOT NULL, not_before REAL NOT NULL,
    claimed_until REAL NOT NULL, reports INTEGER NOT NULL, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE counts (name TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
"""


class Busy(Exception):
    """Somebody else holds the state; the caller drops what it wanted."""


class Unusable(Exception):
    """The state cannot be kept here; the message says why. Nothing may be sent."""


class State:
    """Opens the file when it is first needed; makes it only when told to."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / FILE
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        _live.add(self)

    def exists(self) -> bool:
        """Whether there is anything to open. A file set aside as corrupt counts: what it spent is unknown."""
        return self.path.exists() or bool(self.set_aside("corrupt"))

    def set_aside(self, why: str) -> list[Path]:
        """Earlier files that were found corrupt, or copied from elsewhere."""
        return sorted(self.directory.glob(f"state.{why}-*.db"))

    @contextmanager
    def transaction(self, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """All or nothing. `durable` also waits for the disk: everything committed before is then safe as well.

        Raises `Busy` if a lock is held for longer than `PATIENCE`, `Unusable` if the file cannot be used.
        """
        if not self._lock.acquire(timeout=PATIENCE):
            raise Busy
        try:
            with self._errors_in_words():
                db = self._open()
                if durable:
                    db.execute("PRAGMA synchronous = FULL")  # a synced commit syncs the whole log before it
                try:
                    db.execute("BEGIN IMMEDIATE")
                    try:
                        yield db
                    except BaseException:
                        if db.in_transaction:  # a full disk has rolled back already
                            db.execute("ROLLBACK")
                        raise
                    db.execute("COMMIT")
                finally:
                    if durable:
                        db.execute("PRAGMA synchronous = NORMAL")
        finally:
            self._lock.release()

    def shred(self) -> None:
        """Make deleted rows unrecoverable from the file. (They are overwritten when deleted; this empties the log.)"""
        with self._lock, self._errors_in_words():
            db = self._open()
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):  # a full disk at the last checkpoint: the log keeps everything
                self._connection.close()
            self._connection = None

    # -- opening

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            corrupt = self.set_aside("corrupt")
            if corrupt:
                raise Unusable(
                    f"the state was found corrupt and set aside as {corrupt[-1]}; nothing is sent, because what was "
                    "already spent is unknown. Delete that file to start anew"
                )
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        self._make_file()
        db = _connect(self.path)
        try:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version == 0:
                self._make_tables(db)
            elif version != SCHEMA:
                raise Unusable(f"{self.path} must have schema {SCHEMA}, got {version}: it is of another hubbub")
            if not self._is_home(db):
                db = self._leave_copy_behind(db)
        except BaseException:
            db.close()
            raise
        return db

    def _make_file(self) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            return
        if os.name == "posix":
            self.directory.chmod(0o700)

    def _make_tables(self, db: sqlite3.Connection, carried: int = 0) -> None:
        db.execute("BEGIN IMMEDIATE")
        if db.execute("PRAGMA user_version").fetchone() == (0,):  # another process may have been faster
            for statement in _TABLES.split(";"):
                db.execute(statement)
            put(db, "home", self._home())
            put(db, "carried", carried)
            db.execute(f"PRAGMA user_version = {SCHEMA}")
        db.execute("COMMIT")

    def _home(self) -> bytes:
        """Where this file was made. A copy has another inode, or lies on another machine. (Device numbers are left
        out: they change from boot to boot.)"""
        place = f"{machine_id()} {self.path.stat().st_ino}"
        return hashlib.blake2b(place.encode(), digest_size=16).digest()

    def _is_home(self, db: sqlite3.Connection) -> bool:
        return bool(get(db, "home") == self._home())

    def _leave_copy_behind(self, db: sqlite3.Connection) -> sqlite3.Connection:
        """A copied file would report as somebody else, with their memos: start anew, with what it had spent."""
        carried = spent_micro(db)
        db.execute("PRAGMA journal_mode = DELETE")  # folds the log into the file, so that one file is the whole
        db.close()
        self._rename("copied")
        self._make_file()
        fresh = _connect(self.path)
        self._make_tables(fresh, carried)
        return fresh

    def _rename(self, why: str) -> Path:
        number = 1
        while (aside := self.directory / f"state.{why}-{number}.db").exists():
            number += 1
        self.path.rename(aside)
        for suffix in ("-wal", "-shm"):
            extra = self.path.with_name(self.path.name + suffix)
            if extra.exists():
                extra.rename(aside.with_name(aside.name + suffix))
        return aside

    # -- what can go wrong

    @contextmanager
    def _errors_in_words(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                raise Busy from error
            self._close()
            raise Unusable(f"{self.path}: {error}") from error
        except sqlite3.DatabaseError as error:
            self._close()
            if "malformed" not in str(error) and "not a database" not in str(error):
                raise Unusable(f"{self.path}: {error}") from error
            aside = self._rename("corrupt")
            raise Unusable(f"the state was corrupt ({error}) and is set aside as {aside}; nothing is sent") from error
        except OSError as error:
            self._close()
            raise Unusable(f"{error.filename or self.directory}: {error.strerror}") from error


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("PRAGMA fullfsync = ON")  # macOS: through the drive's own cache
    db.execute("PRAGMA secure_delete = ON")  # what was sent or forgotten is overwritten, not only unlinked
    return db


# --- small facts --------------------------------------------------------------------------------------------------


def get(db: sqlite3.Connection, name: str, default: Any = None) -> Any:
    row = db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return default if row is None else row[0]


def put(db: sqlite3.Connection, name: str, value: Any) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))


def add_counts(db: sqlite3.Connection, counts: dict[str, int]) -> None:
    db.executemany(
        "INSERT INTO counts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET number = number + excluded.number",
        counts.items(),
    )


def spent_micro(db: sqlite3.Connection) -> int:
    """What this install has spent, in millionths of epsilon: its own charges, and what earlier lives left it."""
    query = "SELECT count(*), micro_epsilon FROM memos JOIN ledger USING (metric_hash) GROUP BY metric_hash"
    charges = sum(number * micro for number, micro in db.execute(query))
    return int(charges) + int(get(db, "carried", 0))


# --- forks --------------------------------------------------------------------------------------------------------

_live: weakref.WeakSet[State] = weakref.WeakSet()
_forking: list[State] = []


def _before_fork() -> None:
    _forking.extend(_live)
    for state in _forking:
        state._lock.acquire()
        state._close()


def _after_fork_in_parent() -> None:
    for state in _forking:
        state._lock.release()
    _forking.clear()


def _after_fork_in_child() -> None:
    for state in _forking:
        state._lock = threading.Lock()  # the threads that waited for the old one do not exist here
    _forking.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
