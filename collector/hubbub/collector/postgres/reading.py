"""Counts for readers: everything that was acknowledged by any collector, as far as it may be seen, at one moment.

Counts and journal are read in one snapshot. What readers see grows in steps of `min_reports` (`storage.handing_out`);
a step is committed before it is shown, and readers of other collectors wait for it, so that all see the same steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hubbub.collector.postgres.cells_rows import Table, read_cells, revisions, write_cells
from hubbub.collector.postgres.journal import JournalReader, fold, unfolded
from hubbub.collector.postgres.session import Connection, one
from hubbub.collector.postgres.shared import Shared
from hubbub.collector.storage.counting import Cells, MetricEpoch
from hubbub.collector.storage.handing_out import Condition, HandingOut, ReadableCounts
from hubbub.protocol.pair import Counted

_CACHE_BYTES = 128 << 20


class CellsReader:
    """Reads counts. Those that have not changed are not fetched again, and are the very object they were."""

    def __init__(self) -> None:
        self._journal = JournalReader()
        self._cached: dict[tuple[Table, MetricEpoch], tuple[int, Cells]] = {}

    def select(self, connection: Connection, shared: Shared, wanted: Condition) -> ReadableCounts:
        while fold(connection, self._journal, shared, wait=True):  # so that what has not changed can be known again
            pass
        with connection.transaction():
            connection.execute("set transaction isolation level repeatable read")
            # Before the snapshot is taken: a step that another collector shows must be in it.
            connection.execute("lock table handed_out in share row exclusive mode")
            (min_reports,) = one(connection, "select min_reports from state")
            cells = self._read(connection, "counts", shared.definitions, wanted)
            added = unfolded(connection, self._journal, shared, lambda key: wanted(shared.definitions[key[0]], key[1]))
            for key, more in added.items():
                cells[key] = cells[key] + more if key in cells else more
            seen = self._read(connection, "handed_out", shared.definitions, wanted) if min_reports else {}
            handing_out = HandingOut(min_reports, seen, cells)
            steps = handing_out.take_steps(cells)
            write_cells(connection, "handed_out", steps)
        handing_out.saved(steps)
        return handing_out.readable(cells, wanted)

    def _read(
        self, connection: Connection, table: Table, definitions: Mapping[str, Counted], wanted: Condition
    ) -> dict[MetricEpoch, Cells]:
        there = revisions(connection, table)
        self._forget(table, there.keys())
        chosen = {key: revision for key, revision in there.items() if wanted(definitions[key[0]], key[1])}
        missing = [key for key in chosen if self._cached.get((table, key), (-1, None))[0] != chosen[key]]
        for key, cells in read_cells(connection, table, missing, definitions).items():
            self._cached[table, key] = chosen[key], cells
        found = {key: self._cached[table, key][1] for key in chosen}
        for (metric_hash, _), cells in found.items():
            cells.rename(definitions[metric_hash])
        self._make_room()
        return found

    def _forget(self, table: Table, there: Iterable[MetricEpoch]) -> None:
        gone = {key for of, key in self._cached if of == table} - set(there)
        for key in gone:
            del self._cached[table, key]

    def _make_room(self) -> None:
        """Whatever was read first goes first."""
        size = sum(cells.bit_counts.nbytes + cells.num_reports.nbytes for _, cells in self._cached.values())
        for name in list(self._cached):
            if size <= _CACHE_BYTES:
                break
            _, cells = self._cached.pop(name)
            size -= cells.bit_counts.nbytes + cells.num_reports.nbytes
