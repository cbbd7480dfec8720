"""The checkpoint: an SQLite file that says what had been counted when the log stood at one position.

Counters, batch ids and that position change in one transaction, or not at all: that is what makes a replay count
each batch once. Nothing in the file tells when a batch came, beyond its epoch: ids are sorted before they are written.

Every row has a checksum, every table a total (`checked_rows`): what a failing disk changed is noticed at the next start
and by every backup, before anything is counted on top of it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hubbub.collector.catalog import CountedPair, with_known_names
from hubbub.collector.message_layout import CRC_BYTES, ID_BYTES, RECORD_BYTES, day_bytes
from hubbub.collector.storage.checked_rows import TOTALS_SCHEMA, CheckedRows, StoredRow
from hubbub.collector.storage.counting import Cells, MetricEpoch
from hubbub.collector.storage.log import START, Damaged, Position, other_version
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.metric import Definition, Metric
from hubbub.protocol.pair import Counted, Pair, counted_from_json

SCHEMA_VERSION = 3
_SCHEMA = f"""
create table state (one integer primary key check (one = 1), segment integer, offset integer, day integer,
                    min_reports integer, clean integer, crc integer) strict;
create table metrics (metric_hash text primary key, definition text, grace integer, retention_days integer,
                      sealed_through integer, crc integer) strict;
create table counts (metric_hash text, epoch integer, num_reports blob, bit_counts blob, crc integer,
                     primary key (metric_hash, epoch)) strict;
create table handed_out (metric_hash text, epoch integer, num_reports blob, bit_counts blob, crc integer,
                         primary key (metric_hash, epoch)) strict;
create table purged (metric_hash text, epoch integer, num_reports blob, bit_counts blob, day integer, crc integer,
                     primary key (metric_hash, epoch)) strict;
create table ids (closes integer, records blob, crc integer) strict;
create index ids_by_day on ids (closes);
create table kept (metric_hash text, epoch integer, cohorts blob, vectors blob, crc integer) strict;
create index kept_by_epoch on kept (metric_hash, epoch);
{TOTALS_SCHEMA}
"""
_TABLES = ("state", "metrics", "counts", "handed_out", "purged", "ids", "kept")
_NAMES = "select type, name, tbl_name, sql from sqlite_master order by name"
_COUNTS = np.dtype("<i8")
_ID_AND_CRC = ID_BYTES + CRC_BYTES
ENDED = -1  # the grace of a pair whose reports are not counted any more, not even those of the present epoch
RECOVERABLE_DAYS = 7  # how long purged counts can be had back
_BUSY_MILLISECONDS = 2000  # how long a save waits for somebody who reads the file; it is tried again later
_KEY = "metric_hash = ? and epoch = ?"
_LONGEST_EPOCH_DAYS = {"day": 1, "week": 7, "month": 31, "once": 31}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What changed since the last checkpoint, and the log position up to which it is all there is."""

    position: Position
    day: int
    cells: Mapping[MetricEpoch, Cells]
    ids: tuple[bytes, ...]
    sealed: Mapping[str, int]
    reports_to_keep: tuple[tuple[str, int, bytes, bytes], ...]
    purged: Mapping[MetricEpoch, Cells]
    steps: Mapping[MetricEpoch, Cells] = field(default_factory=dict)  # what readers may see from now on
    min_reports: int = 0
    clean: bool = False  # nothing will follow: the collector stops


@dataclass(frozen=True, slots=True)
class SavedState:
    """What a checkpoint holds. `ids` are lists of records as `BatchIds.load` takes them."""

    position: Position
    day: int
    clean: bool  # the collector had stopped, everything was counted: the log was not needed any more
    definitions: Mapping[str, Counted]
    pairs: tuple[Pair, ...]  # of these definitions, the pairs that were counted last
    retention_days: Mapping[str, int]
    cells: Mapping[MetricEpoch, Cells]
    handed_out: Mapping[MetricEpoch, Cells]
    min_reports: int
    ids: tuple[bytes, ...]
    sealed: Mapping[str, int]


class Checkpoint:
    """The file. One thread at a time uses it, not always the same."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.touch(mode=0o600)
        self._path = path
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        self._checked = CheckedRows(self._db, str(path))
        try:
            self._prepare(path)
            self._verify()
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise Invalid([f"{path}: must be a collector's checkpoint: {error}"]) from None
        except BaseException:
            self._db.close()
            raise

    def _prepare(self, path: Path) -> None:
        # First of all, before anything in the file is changed: is it ours, and of this version?
        (version,) = self._db.execute("pragma user_version").fetchone()
        (tables,) = self._db.execute("select count(*) from sqlite_master").fetchone()
        if version == 0 and tables:
            raise Invalid([f"{path}: must be a collector's checkpoint, got another program's database"])
        if version not in (0, SCHEMA_VERSION):
            raise Invalid([f"{path}: schema version must be {SCHEMA_VERSION}, {other_version(version)}"])
        # A rollback journal, not a write-ahead log: there a failed sync of the main file can pass unnoticed.
        self._db.execute("pragma journal_mode = delete")
        # Extra: a commit is the removal of the journal, and only so is that removal synced too.
        self._db.execute("pragma synchronous = extra")
        if version == 0:
            with self._transaction():
                for statement in _SCHEMA.split(";"):
                    self._db.execute(statement)
                for table in _TABLES:
                    self._checked.create(table)
                self._checked.insert("state", [(1, START.segment, START.offset, 0, 0, 0)])
                self._db.execute(f"pragma user_version = {SCHEMA_VERSION}")

    def _verify(self) -> None:
        """Look at every row before anything is changed or believed. Raises `Damaged`.

        The names first, as a flipped letter can hide a table; then SQLite's own check, which sees indices that do not
        fit their tables; then the checksums, which see everything else.
        """
        with closing(sqlite3.connect(":memory:")) as fresh:
            fresh.executescript(_SCHEMA)
            if self._db.execute(_NAMES).fetchall() != fresh.execute(_NAMES).fetchall():
                raise Damaged(f"{self._path}: the names of its tables and columns are damaged")
        (found,) = self._db.execute("pragma integrity_check(1)").fetchone()
        if found != "ok":
            raise Damaged(f"{self._path}: damaged: {found}")
        for table in _TABLES:
            for _ in self._checked.rows(table):
                pass

    def fill(self, tables: Mapping[str, Iterable[StoredRow]]) -> None:
        """Put rows into a file that has none yet."""
        with self._transaction():
            self._checked.delete("state", "true", [])
            for table, rows in tables.items():
                self._checked.insert(table, rows)

    def adopt(self, counted: Iterable[Metric | CountedPair], *, end_pairs: bool = True) -> None:
        """Take note of the metrics and pairs now counted. Where a grace grew, ids stay as much longer: never too short.

        A pair that is no longer declared is not counted any more, and has a grace of `ENDED`; without `end_pairs` it
        goes on. A name that a spare place had stays, also where the registry does not know it.
        """
        longer = 0
        with self._transaction():
            known = {str(row[0]): row for row in self._checked.rows("metrics")}
            saved_as = self._definitions()
            pairs = {key for key, definition in saved_as.items() if end_pairs and isinstance(definition, Pair)}
            for metric in counted:
                pairs.discard(metric.metric_hash)
                _, _, grace, _, sealed = known.get(metric.metric_hash, (None, None, metric.grace, None, -1))
                assert isinstance(grace, int)
                if isinstance(metric, Metric):  # a pair's follows from its metrics'
                    longer = max(longer, (metric.grace - grace) * _LONGEST_EPOCH_DAYS[metric.every])
                    before = saved_as.get(metric.metric_hash)
                    metric = with_known_names(metric, before) if isinstance(before, Definition) else metric
                terms = (json.dumps(metric.described()), metric.grace, metric.retention_days)
                self._replace_metric((metric.metric_hash, *terms, sealed))
            for key in pairs:
                self._replace_metric((*known[key][:2], ENDED, *known[key][3:]))
            if longer > 0:
                ids = [(int(str(closes)) + longer, records) for closes, records in self._checked.rows("ids")]
                self._checked.delete("ids", "true", [])
                self._checked.insert("ids", ids)

    def load(self) -> SavedState:
        ((_, segment, offset, day, min_reports, clean),) = self._rows("state")
        rows = list(self._rows("metrics"))
        definitions = self._definitions()
        return SavedState(
            position=Position(segment, offset),
            day=day,
            clean=bool(clean),
            definitions=definitions,
            pairs=tuple(pair for row in rows if isinstance(pair := definitions[row[0]], Pair) and row[2] != ENDED),
            retention_days={row[0]: row[3] for row in rows},
            cells=self._cells("counts", definitions),
            handed_out=self._cells("handed_out", definitions),
            min_reports=min_reports,
            ids=tuple(_with_day(closes, records) for closes, records in self._rows("ids")),
            sealed={row[0]: row[4] for row in rows},
        )

    def metrics(self) -> list[tuple[str, str, int, int, int]]:
        """Hash, definition, grace, retention in days and newest closed epoch of everything ever counted."""
        return list(self._rows("metrics"))

    def _cells(self, table: str, definitions: Mapping[str, Counted]) -> dict[MetricEpoch, Cells]:
        return {
            (metric_hash, epoch): Cells(definitions[metric_hash], _counts_of(num_reports), _counts_of(bit_counts))
            for metric_hash, epoch, num_reports, bit_counts in self._rows(table)
        }

    def _rows(self, table: str) -> Iterator[Any]:
        return self._checked.rows(table)

    def save(self, snapshot: Snapshot) -> None:
        with self._transaction():
            self._save_counts(snapshot)
            self._save_position(snapshot)

    def save_steps(self, steps: Mapping[MetricEpoch, Cells]) -> None:
        """What readers may see from now on, and nothing else."""
        with self._transaction():
            self._replace_cells("handed_out", steps)

    def _save_counts(self, snapshot: Snapshot) -> None:
        for key in snapshot.purged:
            self._checked.delete("counts", _KEY, key)
        self._replace_cells("counts", snapshot.cells)
        self._replace_cells("handed_out", snapshot.steps)
        self._checked.insert("ids", _ids_by_day(snapshot.ids))
        self._checked.delete("ids", "closes <= ?", [snapshot.day])
        self._checked.insert("kept", snapshot.reports_to_keep)
        for key in snapshot.purged:
            self._checked.delete("kept", _KEY, key)
        self._save_purged(snapshot)
        for row in list(self._rows("metrics")):
            sealed = snapshot.sealed.get(row[0], row[4])
            if sealed != row[4]:
                self._replace_metric((*row[:4], sealed))

    def _replace_cells(self, table: str, changed: Mapping[MetricEpoch, Cells]) -> None:
        for key in changed:
            self._checked.delete(table, _KEY, key)
        self._checked.insert(
            table,
            ((*key, _blob_of(cells.num_reports), _blob_of(cells.bit_counts)) for key, cells in changed.items()),
        )

    def _save_purged(self, snapshot: Snapshot) -> None:
        """Purged counts stay for a while, out of the way. What has been here long enough goes for good."""
        before = self.purged() if snapshot.purged else {}
        for key, cells in snapshot.purged.items():
            if key in before:
                cells = cells + before[key][0]
                self._checked.delete("purged", _KEY, key)
            row = (*key, _blob_of(cells.num_reports), _blob_of(cells.bit_counts), snapshot.day)
            self._checked.insert("purged", [row])
        last_day = [snapshot.day - RECOVERABLE_DAYS]
        for key in self._db.execute("select metric_hash, epoch from purged where day <= ?", last_day).fetchall():
            self._checked.delete("handed_out", _KEY, key)  # not before: until now it might have been restored and read
        self._checked.delete("purged", "day <= ?", last_day)

    def purged(self) -> dict[MetricEpoch, tuple[Cells, int]]:
        """Counts that were purged and can still be had back, each with the day on which it was."""
        rows = list(self._rows("purged"))
        definitions = self._definitions() if rows else {}
        return {
            (metric_hash, epoch): (Cells(definitions[metric_hash], _counts_of(num_reports), _counts_of(bits)), day)
            for metric_hash, epoch, num_reports, bits, day in rows
        }

    def restore_purged(self, keys: Iterable[MetricEpoch]) -> None:
        """Make purged counts counts again."""
        with self._transaction():
            purged = self.purged()
            counted = self.load().cells
            for key in keys:
                cells = purged[key][0] + counted[key] if key in counted else purged[key][0]
                self._checked.delete("purged", _KEY, key)
                self._checked.delete("counts", _KEY, key)
                self._checked.insert("counts", [(*key, _blob_of(cells.num_reports), _blob_of(cells.bit_counts))])

    def _definitions(self) -> dict[str, Counted]:
        return {row[0]: counted_from_json(json.loads(row[1])) for row in self._rows("metrics")}

    def _replace_metric(self, row: StoredRow) -> None:
        self._checked.delete("metrics", "metric_hash = ?", row[:1])
        self._checked.insert("metrics", [row])

    def _save_position(self, snapshot: Snapshot) -> None:
        position = snapshot.position
        where = (position.segment, position.offset, snapshot.day)
        self._replace_state((1, *where, snapshot.min_reports, int(snapshot.clean)))

    def mark_running(self, min_reports: int) -> None:
        """From now on the log has what this file has not: it may no longer be missing."""
        with self._transaction():
            ((*state, _, _),) = self._rows("state")
            self._replace_state((*state, min_reports, 0))
        self._db.execute(f"pragma busy_timeout = {_BUSY_MILLISECONDS}")

    def _replace_state(self, row: StoredRow) -> None:
        self._checked.delete("state", "one = 1", [])
        self._checked.insert("state", [row])

    def kept_epochs(self) -> list[MetricEpoch]:
        """The metrics and epochs of which reports wait to be written to Parquet."""
        return self._db.execute("select distinct metric_hash, epoch from kept order by 1, 2").fetchall()

    def kept_reports(self, key: MetricEpoch) -> list[tuple[bytes, bytes]]:
        query = "select cohorts, vectors from kept where metric_hash = ? and epoch = ?"
        return self._db.execute(query, key).fetchall()

    def drop_kept(self, key: MetricEpoch) -> None:
        with self._transaction():
            self._checked.delete("kept", _KEY, key)

    def _transaction(self) -> _Transaction:
        return _Transaction(self._db)

    def close(self) -> None:
        self._db.close()


class _Transaction:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("begin immediate")

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:
            self._db.execute("commit")
        elif self._db.in_transaction:
            self._db.execute("rollback")


def _ids_by_day(ids: Iterable[bytes]) -> list[tuple[int, bytes]]:
    """Records by the day they may go, sorted: their order must not tell when they came."""
    days: dict[int, list[bytes]] = {}
    for record in ids:
        days.setdefault(int.from_bytes(record[_ID_AND_CRC:], "little"), []).append(record[:_ID_AND_CRC])
    return [(day, b"".join(sorted(records))) for day, records in days.items()]


def _with_day(closes: int, records: bytes) -> bytes:
    rows = np.frombuffer(records, np.uint8).reshape(-1, _ID_AND_CRC)
    full = np.empty((len(rows), RECORD_BYTES), np.uint8)
    full[:, :_ID_AND_CRC] = rows
    full[:, _ID_AND_CRC:] = np.frombuffer(day_bytes(closes), np.uint8)
    return full.tobytes()


def _blob_of(counts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bytes:
    return counts.astype(_COUNTS).tobytes()


def _counts_of(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.frombuffer(data, _COUNTS).astype(np.int64)
