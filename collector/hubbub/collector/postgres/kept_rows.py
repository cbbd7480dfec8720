"""Reports of the metrics with `keep_reports = true`: they wait in the database until their epoch closes.

Whichever collector comes first writes the file, into the folder of its own `--data`. It does so once everything that
was acknowledged for that epoch has been folded, and forgets the rows in the transaction that it holds meanwhile.
"""

from __future__ import annotations

from pathlib import Path

from hubbub.collector.postgres.journal import JournalReader, fold
from hubbub.collector.postgres.session import Connection, one
from hubbub.collector.postgres.shared import Shared
from hubbub.collector.storage.checked_rows import checksum
from hubbub.collector.storage.counting import MetricEpoch
from hubbub.collector.storage.kept_reports import folder_of, write_closed
from hubbub.collector.storage.log import Damaged
from hubbub.protocol.cadence import DAY, parse_epoch

_KEEP_LOCK = 0x6B657074  # "kept"


class KeptRows:
    """The rows that wait, inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def kept_epochs(self) -> list[MetricEpoch]:
        return [(row[0], row[1]) for row in self._connection.execute("select distinct metric_hash, epoch from kept")]

    def kept_reports(self, key: MetricEpoch) -> list[tuple[bytes, bytes]]:
        query = "select cohorts, vectors, crc from kept where metric_hash = %s and epoch = %s"
        rows = self._connection.execute(query, key, binary=True).fetchall()
        for cohorts, vectors, crc in rows:
            if crc != checksum("kept", (*key, cohorts, vectors)):
                raise Damaged(f"table kept, metric {key[0]}, epoch {key[1]}: damaged, its checksum does not fit")
        return [(cohorts, vectors) for cohorts, vectors, _ in rows]

    def drop_kept(self, key: MetricEpoch) -> None:
        self._connection.execute("delete from kept where metric_hash = %s and epoch = %s", key)


def write_kept(connection: Connection, reader: JournalReader, shared: Shared, folder: Path) -> bool:
    """Write the files of closed epochs. False if another collector is at it."""
    (waiting,) = one(connection, "select exists (select from kept)")
    if not waiting and not any(terms.keep_reports for terms in shared.terms.values()):
        return True
    while fold(connection, reader, shared, wait=True):  # whatever was taken before the epoch closed
        pass
    with connection.transaction():
        (got,) = one(connection, "select pg_try_advisory_xact_lock(%s)", (_KEEP_LOCK,))
        if got:
            write_closed(KeptRows(connection), shared.sealed, shared.definitions, folder)
    return bool(got)


def remove_old_files(shared: Shared, folder: Path, now: float) -> None:
    """Delete this collector's files whose retention is over, whoever took the counts away."""
    for metric_hash, definition in shared.definitions.items():
        for path in folder_of(folder, definition).glob("*.parquet"):
            try:
                epoch = parse_epoch(definition.every, path.stem)
            except ValueError:
                continue  # not one of ours
            if shared.past_retention(metric_hash, epoch, int(now // DAY)):
                path.unlink(missing_ok=True)
