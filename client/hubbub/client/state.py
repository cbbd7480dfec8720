"""The one SQLite file of an install: identity, memos, ledger, reports being collected, outbox, counts.

Everything that must happen together happens in one `transaction`. Several threads and processes share the file: a
thread lock here, SQLite's lock between processes, and neither is waited for longer than 100 ms. A connection never
crosses a fork (a child's committed rows would vanish when the parent closes): it is closed before, reopened after.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from os.path import exists, join

from hubbub.client.facts import put, read_facts
from hubbub.client.state_dir import WOULD_NOT_LAST, in_container, is_explicit, machine_id, state_directory
from hubbub.protocol.blake2 import blake2b

PATIENCE = 0.1
"""Seconds to wait for a lock before the record is dropped and counted."""

INSISTENCE = 2.0
"""Seconds to wait for a lock with what must not be dropped: the person's own word, and what became of a message."""

MAX_OPEN = 64
"""Connections that one process keeps open; each needs three files. Simulations have thousands of clients."""

SCHEMA = 4
"""Whoever raises it sees to what lies in plain in files of the old one (`gathered`)."""

FILE = "state.db"

_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE memos (
    fingerprint BLOB PRIMARY KEY, metric_hash TEXT NOT NULL, slot INTEGER NOT NULL, memo BLOB NOT NULL,
    UNIQUE (metric_hash, slot)
) WITHOUT ROWID;
CREATE TABLE ledger (
    metric_hash TEXT PRIMARY KEY, slots INTEGER NOT NULL, micro_epsilon INTEGER NOT NULL, asked_in INTEGER
) WITHOUT ROWID;
CREATE TABLE epochs (
    every TEXT, epoch INTEGER, sealed INTEGER NOT NULL, segment TEXT NOT NULL, PRIMARY KEY (every, epoch)
) WITHOUT ROWID;
CREATE TABLE reports (
    metric_hash TEXT, epoch INTEGER, every TEXT NOT NULL, cohort INTEGER NOT NULL, bits BLOB NOT NULL,
    PRIMARY KEY (metric_hash, epoch)
) WITHOUT ROWID;
CREATE TABLE gathered (
    metric_hash TEXT, epoch INTEGER, every TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (metric_hash, epoch)
) WITHOUT ROWID;
CREATE TABLE outbox (
    batch_id BLOB PRIMARY KEY, every TEXT NOT NULL, epoch INTEGER NOT NULL, not_before REAL NOT NULL,
    claimed_until REAL NOT NULL, reports INTEGER NOT NULL, body BLOB NOT NULL,
    attempts INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE counts (name TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
"""


class Busy(Exception):
    """Somebody else holds the state; the caller drops what it wanted."""

    def __init__(self) -> None:
        super().__init__("the state is busy")


class Unusable(Exception):
    """The state cannot be kept here; the message says why. Nothing may be sent."""


class State:
    """Opens the file when it is first needed; makes it only when told to. One that is `elsewhere` is another machine's,
    seen from a container: it is not taken for a copy, because it is not used here."""

    def __init__(self, directory: str | os.PathLike[str], elsewhere: bool = False) -> None:
        self.directory, self._elsewhere = os.fspath(directory), elsewhere
        self.path = join(self.directory, FILE)
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._glance_lock = threading.Lock()
        with _fork_lock:
            _live.add(self)

    def exists(self) -> bool:
        """Whether there is anything to open. A file set aside as corrupt counts: what it spent is unknown."""
        return exists(self.path) or bool(self.set_aside())

    def set_aside(self) -> list[str]:
        """Earlier files that were found corrupt."""
        try:
            names = sorted(os.listdir(self.directory))
        except (FileNotFoundError, NotADirectoryError, PermissionError):  # opening the file will say so
            return []
        return [
            join(self.directory, name) for name in names if name.startswith("state.corrupt-") and name[-3:] == ".db"
        ]

    @contextmanager
    def transaction(
        self, durable: bool = False, patience: float = PATIENCE, sets_aside: bool = True
    ) -> Iterator[sqlite3.Connection]:
        """All or nothing. `durable` also waits for the disk: everything committed before is then safe as well.

        Raises `Busy` if a lock is held for longer than `patience`, `Unusable` if the file cannot be used. A file found
        corrupt is set aside, unless the caller `sets_aside` nothing.
        """
        if not self._lock.acquire(timeout=patience):
            raise Busy
        try:
            with self._errors_in_words(sets_aside):
                db = self._open()
                if durable:
                    db.execute("PRAGMA synchronous = FULL")  # a synced commit syncs the whole log before it
                try:
                    self._begin(db, patience)
                    try:
                        yield db
                        db.execute("COMMIT")
                    except BaseException:
                        if db.in_transaction:  # a full disk has rolled back already
                            db.execute("ROLLBACK")
                        raise
                finally:
                    if durable:
                        db.execute("PRAGMA synchronous = NORMAL")
        finally:
            self._lock.release()

    def _begin(self, db: sqlite3.Connection, patience: float) -> None:
        if patience == PATIENCE:
            db.execute("BEGIN IMMEDIATE")
            return
        db.execute(f"PRAGMA busy_timeout = {int(1000 * patience)}")
        try:
            db.execute("BEGIN IMMEDIATE")
        finally:
            db.execute(f"PRAGMA busy_timeout = {int(1000 * PATIENCE)}")

    @contextmanager
    def glance(self) -> Iterator[sqlite3.Connection]:
        """Read only, on a connection of its own: nobody who writes is waited for, in this process or another."""
        with self._glance_lock, self._errors_in_words(sets_aside=False):
            if not exists(self.path):
                raise Unusable(f"{self.path}: there is no such file")
            db = _plain_connection(self.path)
            try:
                db.execute("PRAGMA query_only = ON")
                yield db
            finally:
                db.close()

    @staticmethod
    def clear(db: sqlite3.Connection) -> None:
        """Delete every row of every table."""
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            db.execute(f"DELETE FROM {table}")  # noqa: S608  the names are those of _TABLES

    def shred(self) -> None:
        """Make deleted rows unrecoverable from the file. (They are overwritten when deleted; this empties the log.)"""
        with self._lock, self._errors_in_words():
            db = self._open()
            db.execute("VACUUM")
            _empty_log(db)

    def empty_log(self) -> None:
        """Make what was deleted unrecoverable from SQLite's log as well. Raises `Busy` while somebody reads."""
        with self._lock, self._errors_in_words(sets_aside=False):
            db = self._open()
            noted = read_facts(db).plain_in_log
            if noted:
                _empty_log(db)  # unless another process has deleted something since, nothing is left to empty
                db.execute("UPDATE meta SET value = 0 WHERE name = 'plain_in_log' AND value = ?", (noted,))

    def replace_corrupt(self) -> None:
        """Delete the files that were found corrupt, and begin with a budget of nothing: what they had spent is unknown,
        so nothing may be spent here any more."""
        with self._lock, self._errors_in_words():
            self._close()
            os.replace(self._make_beside(lifetime=0), self.path)
            for path in self.set_aside():
                for name in (path, f"{path}-wal", f"{path}-shm"):
                    with suppress(FileNotFoundError):
                        os.unlink(name)

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
            corrupt = self.set_aside()
            if corrupt:
                raise Unusable(
                    f"the state was found corrupt and set aside as {corrupt[-1]}; nothing is sent, because what was "
                    "already spent is unknown. Delete that file to start anew"
                )
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        _make_room()
        if not exists(self.path):
            self._make()
        db = _connect(self.path)
        try:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version == 0:  # it was made with tables in it
                raise sqlite3.DatabaseError("malformed: nothing is left in the file")
            if version != SCHEMA:
                raise Unusable(
                    f"{self.path} must have schema {SCHEMA}, got {version}: another release of hubbub wrote it. It is "
                    "left as it is, and nothing is sent. Use the release of the app that wrote it, or delete the file "
                    "to start anew"
                )
            if not self._elsewhere and read_facts(db).home != _home(self.path):
                _go_on_as_a_copy(db, _home(self.path))
        except BaseException:
            db.close()
            raise
        _opened.append(weakref.ref(self))
        return db

    def _make(self) -> None:
        beside = self._make_beside()
        try:
            with suppress(FileExistsError):  # another process was faster
                os.link(beside, self.path)
        finally:
            os.unlink(beside)

    def _make_beside(self, lifetime: int | None = None) -> str:
        """A new file, to be put into its place whole: an empty one there is never just being made, but was lost."""
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        if os.name == "posix":
            os.chmod(self.directory, 0o700)
        beside = join(self.directory, f"state.{os.urandom(8).hex()}.new")
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        db = sqlite3.connect(beside, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = MEMORY")
            db.execute("BEGIN")
            for statement in _TABLES.split(";"):
                db.execute(statement)
            put(db, "home", _home(beside))
            if lifetime is not None:
                put(db, "lifetime", lifetime)
            db.execute(f"PRAGMA user_version = {SCHEMA}")
            db.execute("COMMIT")
        except BaseException:
            os.unlink(beside)
            raise
        finally:
            db.close()
        return beside

    def _free_name(self) -> str:
        number = 1
        while exists(aside := join(self.directory, f"state.corrupt-{number}.db")):
            number += 1
        return aside

    def _set_corrupt_aside(self) -> str:
        aside = self._free_name()
        os.rename(self.path, aside)
        for suffix in ("-wal", "-shm"):
            if exists(self.path + suffix):
                os.rename(self.path + suffix, aside + suffix)
        return aside

    # -- what can go wrong

    @contextmanager
    def _errors_in_words(self, sets_aside: bool = True) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise self._in_words(error, sets_aside) from error

    def _in_words(self, error: sqlite3.Error | OSError, sets_aside: bool) -> Busy | Unusable:
        said = str(error)
        if isinstance(error, sqlite3.OperationalError) and ("locked" in said or "busy" in said):
            return Busy()
        if not sets_aside:
            return Unusable(f"{self.path}: {said}")
        self._close()
        if isinstance(error, OSError):
            return Unusable(f"{error.filename or self.directory}: {error.strerror}")
        if "malformed" not in said and "not a database" not in said:
            return Unusable(f"{self.path}: {said}")
        try:
            aside = self._set_corrupt_aside()
        except OSError as why:
            return Unusable(
                f"the state is corrupt ({said}) and could not be set aside ({why.strerror}); nothing is sent"
            )
        return Unusable(f"the state was corrupt ({said}) and is set aside as {aside}; nothing is sent")


def placed(app: str, environ: Mapping[str, str], given: str | os.PathLike[str] | None) -> tuple[State, str]:
    """The state, and why it would not last there, if so."""
    try:
        state = State(state_directory(app, environ, given))
    except OSError as error:
        return State(os.path.join(os.devnull, app)), str(error)
    if not is_explicit(environ, given) and in_container(environ):
        return State(state.directory, elsewhere=True), WOULD_NOT_LAST
    return state, ""


def _plain_connection(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)


def _connect(path: str) -> sqlite3.Connection:
    """One that may write."""
    db = _plain_connection(path)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA fullfsync = ON")  # macOS: through the drive's own cache
        db.execute("PRAGMA secure_delete = ON")  # what was sent or forgotten is overwritten, not only unlinked
    except BaseException:
        db.close()
        raise
    return db


def _empty_log(db: sqlite3.Connection) -> None:
    (busy, *_) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise Busy


def _go_on_as_a_copy(db: sqlite3.Connection, home: bytes) -> None:
    """A copied or restored file goes on with its key: the memos it draws are those its origin has drawn or would draw,
    so nothing is spent twice. What waits is dropped, because the same id from two places would link them; no epoch is
    answered twice; and a yes is asked for again, because a copy may be somebody else's."""
    db.execute("BEGIN IMMEDIATE")
    try:
        if read_facts(db).home != home:  # another process may have been faster
            db.execute("DELETE FROM outbox")
            db.execute("DELETE FROM reports")
            db.execute("DELETE FROM gathered")
            put(db, "plain_in_log", 1)
            db.execute("UPDATE epochs SET sealed = 1")
            db.execute("DELETE FROM meta WHERE name = 'answer' AND value = 'yes'")
            put(db, "home", home)
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _home(path: str) -> bytes:
    """Where a file was made. A copy has another inode, or lies on another machine. (Device numbers are left out: they
    change from boot to boot.)"""
    place = f"{machine_id()} {os.stat(path).st_ino}"
    return blake2b(place.encode(), digest_size=16).digest()


def _make_room() -> None:
    """Close the connections that were opened first; their states open again when they are needed."""
    while len(_opened) >= MAX_OPEN:
        state = _opened.popleft()()
        if state is not None and state._lock.acquire(blocking=False):
            try:
                state._close()
            finally:
                state._lock.release()


_opened: deque[weakref.ref[State]] = deque()


# --- forks --------------------------------------------------------------------------------------------------------

_live: weakref.WeakSet[State] = weakref.WeakSet()
_forking: list[State] = []
_fork_lock = threading.Lock()
"""Two threads may fork at once, and a third may make a client meanwhile."""


def _before_fork() -> None:
    _fork_lock.acquire()
    _forking.extend(_live)
    for state in _forking:
        state._glance_lock.acquire()
        state._lock.acquire()
        state._close()


def _after_fork_in_parent() -> None:
    for state in _forking:
        state._lock.release()
        state._glance_lock.release()
    _forking.clear()
    _fork_lock.release()


def _after_fork_in_child() -> None:
    for state in _forking:
        # The threads that waited for the old ones do not exist here.
        state._lock, state._glance_lock = threading.Lock(), threading.Lock()
    _forking.clear()
    _fork_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
