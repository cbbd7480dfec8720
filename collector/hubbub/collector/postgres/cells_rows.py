"""Counts as rows: each has a checksum over its key and its numbers, verified whenever it is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np

from hubbub.collector.postgres.session import Connection
from hubbub.collector.storage.checked_rows import checksum
from hubbub.collector.storage.counting import Cells, Integers, MetricEpoch
from hubbub.collector.storage.log import Damaged
from hubbub.protocol.pair import Counted

Table = Literal["counts", "handed_out"]
_COUNTS = np.dtype("<i8")


def revisions(connection: Connection, table: Table) -> dict[MetricEpoch, int]:
    """Which counts there are, each with a number that changes whenever they do."""
    rows = connection.execute(f"select metric_hash, epoch, revision from {table}")  # noqa: S608
    return {(metric_hash, epoch): revision for metric_hash, epoch, revision in rows}


def read_cells(
    connection: Connection, table: Table, keys: Iterable[MetricEpoch], definitions: Mapping[str, Counted]
) -> dict[MetricEpoch, Cells]:
    """These counts, as far as there are any. Raises `Damaged`."""
    hashes, epochs = _columns(keys)
    if not hashes:
        return {}
    rows = connection.execute(
        f"select c.metric_hash, c.epoch, c.num_reports, c.bit_counts, c.crc from {table} as c "  # noqa: S608
        "join unnest(%s::text[], %s::int[]) as w (metric_hash, epoch) "
        "on c.metric_hash = w.metric_hash and c.epoch = w.epoch",
        (hashes, epochs),
        binary=True,
    )
    return {
        (metric_hash, epoch): checked_cells(table, definitions[metric_hash], epoch, num_reports, bit_counts, crc)
        for metric_hash, epoch, num_reports, bit_counts, crc in rows
    }


def write_cells(connection: Connection, table: Table, changed: Mapping[MetricEpoch, Cells]) -> None:
    """Put counts in the place of those that were there."""
    if not changed:
        return
    with connection.cursor() as cursor:
        cursor.executemany(
            f"insert into {table} values (%s, %s, %b, %b, nextval('revisions'), %s) "  # noqa: S608
            "on conflict (metric_hash, epoch) do update set num_reports = excluded.num_reports, "
            "bit_counts = excluded.bit_counts, revision = excluded.revision, crc = excluded.crc",
            [(*key, *blobs(cells), crc_of(table, key, cells)) for key, cells in sorted(changed.items(), key=_first)],
        )


def delete_cells(connection: Connection, table: str, keys: Iterable[MetricEpoch]) -> None:
    hashes, epochs = _columns(keys)
    connection.execute(
        f"delete from {table} as c using unnest(%s::text[], %s::int[]) as w (metric_hash, epoch) "  # noqa: S608
        "where c.metric_hash = w.metric_hash and c.epoch = w.epoch",
        (hashes, epochs),
    )


def checked_cells(
    table: str, definition: Counted, epoch: int, num_reports: bytes, bit_counts: bytes, crc: int
) -> Cells:
    if crc != checksum(table, (definition.metric_hash, epoch, num_reports, bit_counts)):
        key = f"{definition.name} ({definition.metric_hash}), epoch {epoch}"
        raise Damaged(f"table {table}, row {key}: damaged, its checksum does not fit")
    return Cells(definition, _integers(num_reports), _integers(bit_counts))


def crc_of(table: str, key: MetricEpoch, cells: Cells) -> int:
    return checksum(table, (*key, *blobs(cells)))


def blobs(cells: Cells) -> tuple[bytes, bytes]:
    return cells.num_reports.astype(_COUNTS).tobytes(), cells.bit_counts.astype(_COUNTS).tobytes()


def _integers(data: bytes) -> Integers:
    return np.frombuffer(data, _COUNTS).astype(np.int64)


def _columns(keys: Iterable[MetricEpoch]) -> tuple[list[str], list[int]]:
    pairs = list(keys)
    return [metric_hash for metric_hash, _ in pairs], [epoch for _, epoch in pairs]


def _first(item: tuple[MetricEpoch, Cells]) -> MetricEpoch:
    return item[0]
