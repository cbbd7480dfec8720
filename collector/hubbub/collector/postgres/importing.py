"""An embedded store moves into a database: everything in one transaction, or nothing.

The database must not have counted anything yet: so a second try after an unknown end adds nothing twice. In the
embedded store an id does not say which lot it belongs to; such ids go to a table of their own, which is asked as long
as there is anything in it.
"""

from __future__ import annotations

from pathlib import Path

from hubbub.collector.message_layout import CRC_BYTES, ID_BYTES, LOT_CADENCES, RECORD_BYTES
from hubbub.collector.postgres.cells_rows import blobs, write_cells
from hubbub.collector.postgres.journal import has_lock
from hubbub.collector.postgres.listed import listed, opened
from hubbub.collector.postgres.session import Connection, one
from hubbub.collector.postgres.shared import ALWAYS, NEVER, short_hash
from hubbub.collector.stopped import read_stopped
from hubbub.collector.storage.checked_rows import checksum
from hubbub.collector.storage.checkpoint import Checkpoint, SavedState
from hubbub.collector.storage.counting import sum_of_reports
from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.purge import at_rest
from hubbub.collector.tokens import read_tokens
from hubbub.protocol.invalid import Invalid

_RECORD_DAY = slice(ID_BYTES + CRC_BYTES, RECORD_BYTES)


def import_store(store: str, data: Path) -> int:
    """Move the store of a collector that was stopped. Returns the number of reports; the directory stays as it is."""
    address, *others = listed(store)
    if others:
        words = "import must go into a store of one database, because it is one transaction; `hubbub store add` spreads"
        raise Invalid([f"{words} batches over more afterwards; got {1 + len(others)} databases"])
    with at_rest(data) as (data_dir, checkpoint):
        saved = checkpoint.load()
        if not saved.clean:
            raise Invalid([f"{data}: the collector must have stopped in peace: start it once more and stop it"])
        with opened(address) as connection, connection.transaction():
            _require_empty(connection)
            _write(connection, checkpoint, saved)
            _write_operator_lists(connection, data_dir)
    return sum_of_reports(saved.cells.values())


def _require_empty(connection: Connection) -> None:
    has_lock(connection, wait=True)
    connection.execute("lock table journal in share row exclusive mode")
    for table in ("counts", "journal", "lots", "imported_ids", "purged"):
        (found,) = one(connection, f"select exists (select from {table})")  # noqa: S608  # a name of ours
        if found:
            raise Invalid([f"the store to import into must be new, got one with rows in {table}"])


def _write(connection: Connection, checkpoint: Checkpoint, saved: SavedState) -> None:
    for metric_hash, definition, grace, retention_days, sealed in checkpoint.metrics():
        known = saved.definitions[metric_hash]
        cadence = LOT_CADENCES.index(known.every)
        metric = (metric_hash, short_hash(metric_hash), definition, cadence, grace, grace, retention_days, sealed)
        connection.execute(
            "insert into metrics values (%s, %s, %s, %s, %s, %s, %s, false, %s, %s) "
            "on conflict (metric_hash) do update "
            "set sealed_through = excluded.sealed_through, "
            "longest_grace = greatest(metrics.longest_grace, excluded.longest_grace)",
            (*metric, ALWAYS if known in saved.pairs else NEVER),
        )
    write_cells(connection, "counts", saved.cells)
    write_cells(connection, "handed_out", saved.handed_out)
    for key, (cells, day) in checkpoint.purged().items():
        row = (*key, *blobs(cells))
        connection.execute("insert into purged values (%s, %s, %b, %b, %s, %s)", (*row, day, checksum("purged", row)))
    for key in checkpoint.kept_epochs():
        for part in checkpoint.kept_reports(key):
            values = (*key, *part, checksum("kept", (*key, *part)))
            connection.execute("insert into kept values (%s, %s, %b, %b, %s)", values)
    has_ids = _write_ids(connection, saved)
    connection.execute(
        "update state set turn = turn + 1, day = greatest(day, %s), min_reports = %s, imported = %s",
        (saved.day, saved.min_reports, has_ids),
    )


def _write_ids(connection: Connection, saved: SavedState) -> bool:
    found = False
    with (
        connection.cursor() as cursor,
        cursor.copy("copy imported_ids (id, mark, closes) from stdin") as copy,
    ):
        for records in saved.ids:
            for at in range(0, len(records), RECORD_BYTES):
                record = records[at : at + RECORD_BYTES]
                mark = int.from_bytes(record[ID_BYTES : ID_BYTES + CRC_BYTES], "little", signed=True)
                closes = int.from_bytes(record[_RECORD_DAY], "little")
                copy.write_row((record[:ID_BYTES].hex(), mark, closes))
                found = True
    return found


def _write_operator_lists(connection: Connection, data_dir: DataDir) -> None:
    tokens, _ = read_tokens(data_dir.tokens)
    for token in tokens:
        connection.execute(
            "insert into tokens values (%b, %s, %s) on conflict do nothing", (token.digest, token.role, token.name)
        )
    for name in read_stopped(data_dir.stopped):
        connection.execute("insert into stopped values (%s) on conflict do nothing", (name,))
