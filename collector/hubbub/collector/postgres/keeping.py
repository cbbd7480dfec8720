"""Deletes counts past their retention, and brings them back: done by whichever collector comes first, for all."""

from __future__ import annotations

from hubbub.collector.postgres.cells_rows import blobs, checked_cells, delete_cells, read_cells, revisions, write_cells
from hubbub.collector.postgres.journal import has_lock
from hubbub.collector.postgres.session import Connection
from hubbub.collector.postgres.shared import Shared
from hubbub.collector.storage.checked_rows import checksum
from hubbub.collector.storage.checkpoint import RECOVERABLE_DAYS
from hubbub.collector.storage.counting import Cells, MetricEpoch
from hubbub.protocol.cadence import DAY


def purge(connection: Connection, shared: Shared, now: float) -> list[MetricEpoch] | None:
    """Set counts aside whose retention is over; they can be restored for a week.

    Returns which these were; None if another collector is at the counts now.
    """
    today = int(now // DAY)
    with connection.transaction():
        if not has_lock(connection, wait=False):
            return None
        over = [key for key in revisions(connection, "counts") if shared.past_retention(*key, today)]
        if over:
            before = read_purged(connection, shared)
            for key, cells in read_cells(connection, "counts", over, shared.definitions).items():
                _write_purged(connection, key, cells + before[key][0] if key in before else cells, today)
            delete_cells(connection, "counts", over)
            delete_cells(connection, "kept", over)
        # Not before: until now it might have been restored and read.
        last_day = today - RECOVERABLE_DAYS
        connection.execute(
            "delete from handed_out as h using purged as p where p.day <= %s "
            "and h.metric_hash = p.metric_hash and h.epoch = p.epoch",
            (last_day,),
        )
        connection.execute("delete from purged where day <= %s", (last_day,))
    return over


def read_purged(connection: Connection, shared: Shared) -> dict[MetricEpoch, tuple[Cells, int]]:
    """Counts that were purged and can still be had back, each with the day on which it was."""
    rows = connection.execute("select metric_hash, epoch, num_reports, bit_counts, crc, day from purged", binary=True)
    return {(row[0], row[1]): (checked_cells("purged", shared.definitions[row[0]], *row[1:5]), row[5]) for row in rows}


def restore_purged(connection: Connection, shared: Shared, metric: str | None) -> list[tuple[MetricEpoch, Cells, int]]:
    """Make purged counts counts again, of one metric or of all; which these were."""
    with connection.transaction():
        has_lock(connection, wait=True)
        purged = read_purged(connection, shared)
        chosen = [key for key in purged if metric in (None, shared.definitions[key[0]].name)]
        counted = read_cells(connection, "counts", chosen, shared.definitions)
        back = {key: purged[key][0] + counted[key] if key in counted else purged[key][0] for key in chosen}
        write_cells(connection, "counts", back)
        delete_cells(connection, "purged", chosen)
    return [(key, *purged[key]) for key in chosen]


def _write_purged(connection: Connection, key: MetricEpoch, cells: Cells, today: int) -> None:
    row = (*key, *blobs(cells))
    connection.execute(
        "insert into purged values (%s, %s, %b, %b, %s, %s) on conflict (metric_hash, epoch) do update set "
        "num_reports = excluded.num_reports, bit_counts = excluded.bit_counts, day = excluded.day, crc = excluded.crc",
        (*row, today, checksum("purged", row)),
    )
