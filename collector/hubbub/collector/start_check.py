"""`hubbub collect --check`: whether a start would succeed. Nothing is written, made or locked for longer than a look.

A collector that runs on the same directory already is not in the way: it will be stopped, or told to reload. Then its
port and its directory are known to work, and only the rest is checked.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from hubbub.collector.catalog import Catalog
from hubbub.collector.database import administration
from hubbub.collector.http.tls import check_validity, tls_context
from hubbub.collector.serve import check_aiohttp
from hubbub.collector.settings import Settings
from hubbub.collector.storage.checkpoint import SCHEMA_VERSION
from hubbub.collector.storage.log import other_version
from hubbub.protocol.invalid import require


def check_start(settings: Settings) -> list[str]:
    """What was found, in lines. Raises `Invalid` or OSError with what would keep a collector from starting."""
    check_aiohttp()
    catalog = Catalog.load(settings.metrics, settings.older_metrics, settings.rehearsal)
    found = [f"{settings.metrics}: {len(catalog.registry)} metrics; {len(catalog.metrics)} definitions are counted"]
    check_validity(tls_context(settings), settings.tls_certificate)
    if settings.store != "embedded":
        require(_port_problems(settings))
        found += administration().check_start(settings.store)
    elif _is_in_use(settings.data):
        found.append(f"{settings.data}: in use by a running collector; its port and directory were not checked")
    else:
        require([*_port_problems(settings), *_data_problems(settings.data)])
    return found


def _port_problems(settings: Settings) -> Iterator[str]:
    try:
        places = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        yield f"host must be an address of this machine, got {settings.host!r}: {error.strerror}"
        return
    for family, kind, protocol, _, address in places:
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                trial.bind(address)
            except OSError as error:
                yield f"port {settings.port} of {address[0]} cannot be listened on: {error.strerror}"


def _data_problems(data: Path) -> Iterator[str]:
    place = data
    while not place.exists() and place != place.parent:
        place = place.parent  # it would be made
    if not place.is_dir():
        yield f"data must be a directory, got {data}: {place} is a file"
        return
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        yield f"data must be writable, got {data}: {place}: {error.strerror}"
        return
    if (data / "store.sqlite").exists():
        yield from _schema_problems(data / "store.sqlite")


def _schema_problems(path: Path) -> Iterator[str]:
    try:
        # As it lies there: a journal that a crash has left is the collector's to roll back.
        address = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as database:
            (version,) = database.execute("pragma user_version").fetchone()
            (tables,) = database.execute("select count(*) from sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        yield f"{path}: must be a collector's checkpoint: {error}"
        return
    if version == 0 and tables:
        yield f"{path}: must be a collector's checkpoint, got another program's database"
    elif version not in (0, SCHEMA_VERSION):
        yield f"{path}: schema version must be {SCHEMA_VERSION}, {other_version(version)}"


def _is_in_use(data: Path) -> bool:
    try:
        lock = os.open(data / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
