"""What can be saved of a damaged data directory, in a new one, and in words what cannot. The old one is only read.

Of the checkpoint every row is taken whose checksum fits; of the log every batch whose checksum fits, which goes into a
new log for the next start to count. Whatever was there and is not taken is named: which metric and epoch where a row
still tells, else how many.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hubbub.collector.storage.backup import copy_operator_files, new_directory
from hubbub.collector.storage.checked_rows import StoredRow, checksum
from hubbub.collector.storage.checkpoint import Checkpoint
from hubbub.collector.storage.log import START, Log, Position, Salvage
from hubbub.protocol.cadence import epoch_text
from hubbub.protocol.invalid import Invalid, plural
from hubbub.protocol.metric import Definition
from hubbub.protocol.pair import Counted, counted_from_json
from hubbub.protocol.refusal import Refused
from hubbub.protocol.report import by_short_hash
from hubbub.protocol.wire import unpack

_SEGMENT_BYTES = 64 << 20
_GROUP_BATCHES = 1000


def repair(data: Path, out: Path) -> list[str]:
    """Save what can be saved into a directory that must not exist yet. Returns what is lost, a line each."""
    if not (data / "store.sqlite").exists() and not any(data.glob("log/*.log")):
        raise Invalid([f"data must be the directory of a collector, got {data}, which has no store.sqlite and no log"])
    with new_directory(out) as unfinished, _to_itself(data):
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        for folder in (unfinished, unfinished / "log"):
            folder.mkdir(mode=0o700)
        lost = _Repair(data, unfinished).run()
        copy_operator_files(data, unfinished)
    return lost


@contextmanager
def _to_itself(data: Path) -> Iterator[None]:
    """No collector may be at work there. Works on a disk that can only be read."""
    if not (data / "lock").exists():
        yield
        return
    lock = os.open(data / "lock", os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Invalid([f"data must not be in use by another process, got {data}, which is locked"]) from None
        yield
    finally:
        os.close(lock)


class _Repair:
    def __init__(self, data: Path, out: Path) -> None:
        self._data = data
        self._out = out
        self._lost: list[str] = []
        self._definitions: dict[str, Counted] = {}

    def run(self) -> list[str]:
        rows = self._salvaged_rows()
        for table in ("counts", "handed_out", "purged", "kept"):
            rows[table] = [row for row in rows[table] if self._is_defined(table, row)]
        ((_, segment, offset, day, min_reports, clean),) = rows["state"] or [(1, *_where(START), 0, 0, 0)]
        position = Position(int(str(segment)), int(str(offset)))
        self._copy_log(position, needed=not clean)
        rows["state"] = [
            (1, *_where(START), day, min_reports, 0)
        ]  # the new log begins anew, and all of it is still to be counted
        checkpoint = Checkpoint(self._out / "store.sqlite")
        try:
            checkpoint.fill(rows)
        finally:
            checkpoint.close()
        return self._lost

    def _salvaged_rows(self) -> dict[str, list[StoredRow]]:
        if not (self._data / "store.sqlite").exists():
            self._lost.append("store.sqlite is missing: all counts and ids that were in it")
            return {table: [] for table in _TITLES}
        with TemporaryDirectory(dir=self._out) as work:
            for path in self._data.glob("store.sqlite*"):  # with its journal, which an interrupted save needs undone
                shutil.copy(path, work)
            with closing(sqlite3.connect(Path(work) / "store.sqlite", isolation_level=None)) as db:
                db.text_factory = lambda data: data.decode("utf-8", "replace")  # a damaged text is one damaged row
                return {table: self._rows(db, table) for table in _TITLES}

    def _rows(self, db: sqlite3.Connection, table: str) -> list[StoredRow]:
        good: list[StoredRow] = []
        bad: list[StoredRow] = []
        for *row, crc in _readable(db, table):
            (good if crc == checksum(table, row) else bad).append(tuple(row))
        if table == "metrics":  # the first to be read, so that all that follows can be called by its name
            self._definitions = {str(row[0]): counted_from_json(json.loads(str(row[1]))) for row in good}
        self._lost += [f"{_TITLES[table]}{self._named(table, row)}: damaged" for row in bad]
        expected = _expected(db, table)
        if expected is None:
            self._lost.append(f"{_TITLES[table]}: how many rows there were is damaged; more may be missing")
        elif expected > len(good) + len(bad):
            missing = plural(expected - len(good) - len(bad), "row")
            self._lost.append(f"{_TITLES[table]}: {missing} cannot be read, nor what they were about")
        elif expected < len(good):
            self._lost.append(f"{_TITLES[table]}: {len(good)} rows, though there should be {expected}")
        return good

    def _named(self, table: str, row: StoredRow) -> str:
        if table in ("counts", "handed_out", "purged", "kept"):
            return f" of {self._metric_and_epoch(row)}"
        if table == "metrics":
            return f" of metric {str(row[0])[:40]}"
        if table == "ids":
            return ", one save of them; batches among them that are sent again would count twice"
        return ""

    def _metric_and_epoch(self, row: StoredRow) -> str:
        metric = self._definitions.get(str(row[0]))
        if metric is None:
            return f"metric {str(row[0])[:40]}, epoch {row[1]}"
        try:
            return f"{metric.name}, {epoch_text(metric.every, int(str(row[1])))}"
        except (ValueError, OverflowError):
            return f"{metric.name}, epoch {row[1]}"

    def _is_defined(self, table: str, row: StoredRow) -> bool:
        known = str(row[0]) in self._definitions
        if not known:
            self._lost.append(f"{_TITLES[table]} of {self._metric_and_epoch(row)}: its definition is lost")
        return known

    def _copy_log(self, position: Position, needed: bool) -> None:
        metrics = by_short_hash(metric for metric in self._definitions.values() if isinstance(metric, Definition))
        salvage = Salvage(self._data / "log", position, needed)
        log = Log(self._out / "log", 1, _SEGMENT_BYTES)
        group: list[bytes] = []
        unreadable = 0
        for message in salvage:
            if not _can_be_read(message, metrics):
                unreadable += 1
                continue
            group.append(message)
            if len(group) == _GROUP_BATCHES:
                log.append(group)
                group = []
        if group:
            log.append(group)
        log.sync()
        log.close()
        self._lost += salvage.lost
        if unreadable:
            self._lost.append(f"log: batches of metrics whose definition is lost, {unreadable} of them")


_TITLES: Mapping[str, str] = {
    "metrics": "the definition",
    "state": "the log position",
    "counts": "counts",
    "handed_out": "how much readers had seen",
    "purged": "purged counts",
    "ids": "batch ids",
    "kept": "kept reports",
}


def _where(position: Position) -> tuple[int, int]:
    return position.segment, position.offset


def _readable(db: sqlite3.Connection, table: str) -> list[StoredRow]:
    """The rows that SQLite can reach, from the front to the first error and from the back to the last."""
    found: dict[int, StoredRow] = {}
    for order in ("asc", "desc"):
        with suppress(sqlite3.DatabaseError):
            for rowid, *row in db.execute(f"select rowid, * from {table} order by rowid {order}"):  # noqa: S608
                found.setdefault(rowid, tuple(row))
    return [found[rowid] for rowid in sorted(found)]


def _expected(db: sqlite3.Connection, table: str) -> int | None:
    with suppress(sqlite3.DatabaseError):
        for *row, crc in db.execute("select * from totals"):
            if row[0] == table and crc == checksum("totals", row):
                return int(row[1])
    return None


def _can_be_read(message: bytes, metrics: Mapping[bytes, Definition]) -> bool:
    try:
        unpack(message, metrics, check=lambda block: None)
    except Refused:
        return False
    return True
