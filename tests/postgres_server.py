"""A PostgreSQL server for tests: its own folder, this machine only, ended with the tests.

Binaries are looked for in $HUBBUB_TEST_POSTGRES and where Debian puts them. Where there are none, tests that need them
are skipped; with HUBBUB_NEED_POSTGRES=1 they fail. Root may not run a server, so it runs as `nobody` then.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
import pytest

from hubbub.collector.postgres.administration import create_store

MEMORY = Path("/dev/shm")
SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 60
shared_buffers = 32MB
max_wal_size = 128MB
min_wal_size = 32MB
autovacuum_naptime = 5s
log_min_messages = log
wal_level = replica
max_wal_senders = 4
"""


def binaries() -> Path | None:
    """The folder that has initdb and postgres, the newest if there are several."""
    named = os.environ.get("HUBBUB_TEST_POSTGRES")
    folders = [Path(named)] if named else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def need_binaries() -> Path:
    """The same; skips the test, or fails it, where there are none."""
    found = binaries()
    if found is None:
        words = "needs PostgreSQL 15 or newer (Debian: postgresql-15), or HUBBUB_TEST_POSTGRES=folder of its programs"
        (pytest.fail if os.environ.get("HUBBUB_NEED_POSTGRES") else pytest.skip)(words)
    return found


class Server:
    """One server. `port` stays the same over restarts."""

    def __init__(self, settings: str = "", in_memory: bool = True) -> None:
        self._binaries = need_binaries()
        # Not below tmp_path, which only root may enter; in memory if there is room: syncs are not what is tested.
        self.folder = Path(
            tempfile.mkdtemp(prefix="hubbub-pg-", dir=MEMORY if in_memory and _has_room(MEMORY) else None)
        )
        self.data = self.folder / "data"
        self._as = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
        if self._as:
            shutil.chown(self.folder, "nobody", "nogroup")
        self.port = free_port()
        self._databases = 0
        self._settings = settings
        self.process: subprocess.Popen[bytes] | None = None

    def make(self, template: Path | None = None) -> Server:
        """`template` is a folder in which the data of a new server is kept from one run to the next."""
        if template is None:
            self._initdb()
        else:
            self._copy(template, self.run("postgres", "--version").stdout.split()[2])
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(SETTINGS + self._settings + f"\nport = {self.port}\n")
        return self

    def _copy(self, template: Path, version: str) -> None:
        with (template / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (template / version).exists():
                shutil.copytree(template / version, self.data)
                for path in [self.data, *self.data.rglob("*")] if self._as else []:
                    shutil.chown(path, "nobody", "nogroup")
                return
            self._initdb()
            shutil.rmtree(template / "unfinished", ignore_errors=True)
            shutil.copytree(self.data, template / "unfinished")
            (template / "unfinished").rename(template / version)

    def _initdb(self) -> None:
        self.run("initdb", "-D", self.data, "-U", "owner", "-A", "trust", "-k", "-N", "--no-locale", "-E", "UTF8")

    def run(self, program: str, *words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(self._binaries / program), *map(str, words)],
            cwd=self.folder, capture_output=True, text=True, check=False, **self._as,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def start(self) -> Server:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(self._binaries / "postgres"), "-D", str(self.data)],
                cwd=self.folder, stdout=log, stderr=log, **self._as,
            )  # fmt: skip
        self.wait_until_ready()
        return self

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while self.run("pg_isready", "-h", "127.0.0.1", "-p", self.port, check=False).returncode:
            assert self.process is not None
            assert self.process.poll() is None, (self.folder / "log").read_text()[-3000:]
            assert time.monotonic() < deadline, "the server never became ready"
            time.sleep(0.02)

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT: in peace, without waiting for clients. SIGQUIT: at once, as after a crash. SIGKILL: that."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(60)
            self.process = None
            if number == signal.SIGKILL:
                self._end_orphans()

    def _end_orphans(self) -> None:
        """A postmaster that was killed leaves backends that notice soon; a new one may not start before."""
        deadline = time.monotonic() + 60
        while self._shared_memory_in_use():
            assert time.monotonic() < deadline, "backends did not notice that their postmaster is gone"
            time.sleep(0.02)

    def _shared_memory_in_use(self) -> bool:
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if entry.joinpath("cwd").readlink() == self.data:
                    return True
            except OSError:
                continue
        return False

    def standby(self) -> Server:
        """Another server that follows this one."""
        other = Server()
        source = f"host=127.0.0.1 port={self.port} user=owner"
        other.run("pg_basebackup", "-D", other.data, "-d", source, "-R", "-X", "stream", "-c", "fast", "--no-sync")
        with (other.data / "postgresql.conf").open("a") as file:
            file.write(f"port = {other.port}\n")
        return other

    def promote(self) -> None:
        self.run("pg_ctl", "promote", "-D", self.data, "-w")

    def url(self, database: str, user: str = "owner", port: int | None = None) -> str:
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}"

    def new_database(self) -> str:
        """The address of a database of its own, with nothing in it."""
        self._databases += 1
        name = f"test_{self._databases}"
        self.sql(f"create database {name}", "postgres")
        return self.url(name)

    def new_store(self) -> tuple[str, str]:
        """The address of a new store and its first read token."""
        address = self.new_database()
        return address, create_store(address, None)

    def sql(self, statement: str, database: str = "postgres", values: tuple[object, ...] = ()) -> list[tuple]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder)


def ask(address: str, statement: str, values: tuple[object, ...] = ()) -> list[tuple]:
    """Rows from a store, found in its own schema."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("set search_path = hubbub")
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def set_clock(address: str, ahead: float) -> None:
    """From now on the database's clock is so many seconds ahead."""
    ask(
        address,
        "create or replace function hubbub.wall_seconds() returns double precision language sql volatile as "
        f"'select extract(epoch from clock_timestamp())::double precision + {ahead:.3f}'",
    )


def _has_room(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 2 << 30


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
