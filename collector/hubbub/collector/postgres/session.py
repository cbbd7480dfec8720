"""A connection to the database that is made again when it breaks, and words for what can go wrong with one.

Everything that is done through `Session.run` may be done twice: the end of a transaction whose answer never came is
unknown, and doing it again finds out. A statement that takes longer than any may is ended from outside, as a server
that is stopped or unreachable answers nothing at all.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from hubbub.protocol.invalid import Invalid, require
from hubbub.protocol.refusal import Refused

Connection = psycopg.Connection[tuple[Any, ...]]
Result = TypeVar("Result")

VERSION = 3
"""Of the schema."""
_OLDEST_SERVER = 15
_DEFAULTS = {"connect_timeout": "4", "tcp_user_timeout": "8000", "keepalives_idle": "5", "keepalives_interval": "2",
             "keepalives_count": "2", "target_session_attrs": "read-write", "application_name": "hubbub"}  # fmt: skip
_SESSION = (
    "set search_path = hubbub, pg_temp; set lock_timeout = '4s'; set statement_timeout = '15s'; "
    "set idle_in_transaction_session_timeout = '30s'; set default_transaction_isolation = 'read committed'; "
    "set client_min_messages = warning"
)
_LONGEST_SECONDS = 20.0
_BUSY = ("55P03", "57014", "40P01", "40001")  # a lock that was not had, a statement that took too long, a deadlock
_LOST = ("25006", "25P03", "53300")  # read-only (a standby), ended for idling, too many connections
_FULL = ("53100",)


class Unreachable(Exception):
    """The database cannot be asked now. What was asked last may have been done or not."""


class Full(Exception):
    """The database's disk is full. Nothing was done."""


class Busy(Exception):
    """Somebody else was in the way for too long. Nothing was done."""


def check_address(address: str) -> dict[str, Any]:
    """The parts of a connection string; raises `Invalid`. A password in it could be read by everyone on the machine."""
    try:
        parts = conninfo_to_dict(address)
    except psycopg.ProgrammingError as error:
        raise Invalid([f"store must be embedded or a postgresql:// address: {str(error).strip()}"]) from None
    if parts.get("password"):
        raise Invalid(["store must not have a password in it; use a passfile (PGPASSFILE) or a service (PGSERVICE)"])
    return parts


def shown(address: str) -> str:
    """The address for people to read."""
    parts = check_address(address)
    if parts.get("service"):
        return f"postgresql, service {parts['service']}"
    where = " port ".join(filter(None, [str(parts.get("host", "")), str(parts.get("port", ""))]))
    return f"postgresql, database {parts.get('dbname', '')} at {where or 'the default address'}"


def connect(address: str) -> Connection:
    """One connection, as collectors need it. Raises `Unreachable`, or `Invalid` if this database will never do."""
    connection = _opened(address)
    _prepare(connection)
    return connection


def _opened(address: str) -> Connection:
    """A connection with nothing said on it yet, which is waited for as long as its `connect_timeout` says."""
    parts = {**_DEFAULTS, **check_address(address)}
    try:
        return psycopg.connect(**parts, autocommit=True)
    except psycopg.OperationalError as error:
        raise Unreachable(str(error).strip().splitlines()[0]) from None


def _prepare(connection: Connection) -> None:
    """The settings that collectors need."""
    try:
        connection.execute(_SESSION)
        (how,) = one(connection, "show synchronous_commit")
        if how in ("off", "local", "remote_write"):
            connection.execute("set synchronous_commit = on")
    except psycopg.Error as error:
        connection.close()
        raise Unreachable(str(error).strip()) from None


def one(connection: Connection, query: str, values: tuple[object, ...] = ()) -> tuple[Any, ...]:
    """The one row of an answer."""
    row = connection.execute(query, values).fetchone()
    assert row is not None
    return row


def check_server(connection: Connection) -> None:
    """Raise `Invalid` for a server that would lose what it has acknowledged, or that this program does not know."""
    (pid,) = one(connection, "select pg_backend_pid()")
    found = {
        name: one(connection, "select current_setting(%s)", (name,))[0]
        for name in ("fsync", "full_page_writes", "track_commit_timestamp")
    }
    problems = []
    if connection.info.server_version < _OLDEST_SERVER * 10_000:
        problems.append(f"PostgreSQL must be {_OLDEST_SERVER} or newer, got {connection.info.server_version // 10_000}")
    if pid != connection.info.backend_pid:
        problems.append(
            "a pooler such as pgbouncer stands between: collectors keep three connections each and settings on them; "
            "connect to the server itself"
        )
    for name, wanted in (("fsync", "on"), ("full_page_writes", "on"), ("track_commit_timestamp", "off")):
        if found[name] != wanted:
            why = "it would keep the time of every batch" if wanted == "off" else "a crash could lose what was answered"
            problems.append(f"{name} must be {wanted}, got {found[name]}: {why}")
    require(problems)


def check_version(connection: Connection) -> None:
    """Raise `Invalid` unless the schema is there and of this version."""
    (there,) = one(connection, "select to_regclass('hubbub.state') is not null")
    if not there:
        raise Invalid(["this database has no store of hubbub; `hubbub store create` makes one"])
    (version,) = one(connection, "select version from state")
    if version != VERSION:
        what = "`hubbub store migrate` brings it up" if version < VERSION else "it was made by a newer hubbub"
        raise Invalid([f"the store's schema must have version {VERSION}, got {version}; {what}"])


class Session:
    """One connection for one thread."""

    def __init__(self, address: str, longest_seconds: float = _LONGEST_SECONDS) -> None:
        self._address = address
        self._longest_seconds = longest_seconds
        self._connection: Connection | None = None
        self.deadline = float("inf")

    def run(self, action: Callable[[Connection], Result]) -> Result:
        """Do something, if the connection broke once more on a new one. Raises `Unreachable`, `Busy` or `Full`."""
        was_open = self._connection is not None
        try:
            return self._try(action)
        except Unreachable:
            self.close()
            if not was_open:
                raise
        try:
            return self._try(action)
        except Unreachable:
            self.close()
            raise

    def _try(self, action: Callable[[Connection], Result]) -> Result:
        is_new = self._connection is None
        connection = self._connection = self._connection or _opened(self._address)
        self.deadline = time.monotonic() + self._longest_seconds
        try:
            if is_new:  # within the deadline, and known to whoever cuts: these answers may be swallowed, too
                _prepare(connection)
            return action(connection)
        except psycopg.Error as error:
            raise translated(error, connection) from error
        finally:
            self.deadline = float("inf")

    def cut(self) -> None:
        """From another thread: whoever waits for an answer waits no more."""
        connection = self._connection
        if connection is not None and not connection.closed:
            with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as other:
                other.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


def translated(error: psycopg.Error, connection: Connection) -> Exception:
    """What an error of the database means here; itself if it means that something is wrong with hubbub."""
    state, words = error.sqlstate or "", str(error).strip()
    if state in _FULL:
        return Full(words)
    if state in _BUSY:
        return Busy(words)
    if connection.closed or connection.broken or state in _LOST or state[:3] in ("57P", "08") or state[:2] == "08":
        return Unreachable(words)
    return error


def refused(error: Exception) -> Refused:
    """The same for who sent a batch."""
    if isinstance(error, Full):
        return Refused("storage-full", "the disk of the database is full")
    return Refused("store-unreachable", "the database cannot be reached now, or is too busy")


class Watch:
    """Ends statements that take longer than any may: a stopped server, a network that swallows everything."""

    def __init__(self, sessions: list[Session]) -> None:
        self._sessions = sessions
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hubbub-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(1.0):
            for session in self._sessions:
                if time.monotonic() > session.deadline:
                    session.cut()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
