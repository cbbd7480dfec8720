"""The journal: batches that are durable and not yet in the counts. Read, and folded into the counts.

A fold takes rows out of the journal and adds them to the counts in one transaction: a death anywhere leaves both as
they were. One collector folds at a time, whichever comes first (`FOLD_LOCK`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from hubbub.collector.message_layout import Layout, Layouts, layout_of
from hubbub.collector.postgres.cells_rows import read_cells, write_cells
from hubbub.collector.postgres.session import Connection, one
from hubbub.collector.postgres.shared import Shared, check_turn
from hubbub.collector.storage.checked_rows import checksum
from hubbub.collector.storage.counting import Cells, MetricEpoch
from hubbub.collector.storage.kept_reports import shuffled
from hubbub.collector.storage.log import Damaged
from hubbub.collector.storage.pair_counting import PairedColumns, Together, add_pairs
from hubbub.collector.storage.stacking import Gathered, stacked, stacks
from hubbub.protocol.metric import Definition
from hubbub.protocol.refusal import Refused
from hubbub.protocol.report import by_short_hash
from hubbub.protocol.wire import CRC, crc_of, message_end, unpack

FOLD_LOCK = 0x68756262  # "hubb"; whoever changes counts has it
_FOLD_BYTES = 32 << 20
_TAKE_OUT = (
    "with chosen as (select seq from "
    "(select seq, sum(octet_length(body)) over (order by seq) as size from journal) as sizes "
    "where size <= greatest(%s, (select octet_length(body) from journal order by seq limit 1))) "
    "delete from journal using chosen where journal.seq = chosen.seq returning body, turn"
)

Reports = tuple[str, int, bytes, bytes]


class JournalReader:
    """Reads batches out of rows of the journal. Remembers the layouts it has seen."""

    def __init__(self) -> None:
        self._layouts = Layouts()
        self._turn = -1

    def read(self, bodies: Iterable[bytes], shared: Shared) -> dict[Layout, list[bytes]]:
        """Messages by layout. Raises `Damaged` if anything is not as it was written."""
        if shared.turn != self._turn:
            self._layouts.forget()  # a definition that was not known then may be now
            self._turn = shared.turn
        pending: dict[Layout, list[bytes]] = {}
        for body in bodies:
            at = 0
            while at < len(body):
                end = message_end(body, at)
                message = body[at:end]
                if message[CRC] != crc_of(message).to_bytes(4, "little"):
                    raise Damaged("table journal: damaged, the checksum of a batch does not fit")
                layout = self._layouts.find(message) or self._new_layout(message, shared)
                pending.setdefault(layout, []).append(message)
                at = end
        return pending

    def _new_layout(self, message: bytes, shared: Shared) -> Layout:
        metrics = by_short_hash(metric for metric in shared.definitions.values() if isinstance(metric, Definition))
        try:
            batch = unpack(message, metrics, check=lambda block: None)  # its reports were checked when they came
        except Refused as error:
            raise Damaged(f"table journal: a batch cannot be read with the definitions there are: {error}") from None
        layout = layout_of(batch, 0)
        self._layouts.remember(message, layout)
        return layout


def fold(connection: Connection, reader: JournalReader, shared: Shared, wait: bool = False) -> bool:
    """Add a part of the journal to the counts. False if there is nothing left, or if another collector does it now."""
    with connection.transaction():
        if not has_lock(connection, wait):
            return False
        rows = connection.execute(_TAKE_OUT, (_FOLD_BYTES,), binary=True).fetchall()
        if not rows:
            return False
        check_turn(connection, shared)
        changed: dict[MetricEpoch, Cells] = {}
        kept: list[Reports] = []
        to_count, together = _to_count(rows, reader, shared)
        keys = {key for reports in to_count for key in _keys(reports)}
        keys |= {(found.pair.metric_hash, found.epoch) for found in together}
        changed.update(read_cells(connection, "counts", keys, shared.definitions))
        for reports in to_count:
            _count(reports, changed)
            for number, column in enumerate(reports.columns):
                if shared.terms[column.metric.metric_hash].keep_reports:
                    cohorts, vectors = reports.of(number)
                    mixed = shuffled(column.metric, cohorts.tobytes(), vectors.tobytes())
                    kept.append((column.metric.metric_hash, column.epoch, *mixed))
        for found in together:
            add_pairs(changed.setdefault((found.pair.metric_hash, found.epoch), Cells(found.pair)), found)
        write_cells(connection, "counts", changed)
        for row in kept:
            values = (*row, checksum("kept", row))
            connection.execute("insert into kept values (%s, %s, %b, %b, %s)", values)
    return True


def has_lock(connection: Connection, wait: bool) -> bool:
    """Whether this transaction may change counts; with `wait`, once it may."""
    if wait:
        connection.execute("select pg_advisory_xact_lock(%s)", (FOLD_LOCK,))
        return True
    (got,) = one(connection, "select pg_try_advisory_xact_lock(%s)", (FOLD_LOCK,))
    return bool(got)


def unfolded(
    connection: Connection, reader: JournalReader, shared: Shared, wanted: Callable[[MetricEpoch], bool]
) -> dict[MetricEpoch, Cells]:
    """What the journal would add to the counts wanted."""
    rows = connection.execute("select body, turn from journal", binary=True).fetchall()
    check_turn(connection, shared)
    found: dict[MetricEpoch, Cells] = {}
    to_count, together = _to_count(rows, reader, shared)
    for reports in to_count:
        if any(map(wanted, _keys(reports))):
            _count(reports, found)
    for both in together:
        key = both.pair.metric_hash, both.epoch
        if wanted(key):
            add_pairs(found.setdefault(key, Cells(both.pair)), both)
    return {key: cells for key, cells in found.items() if wanted(key)}


def _keys(reports: Gathered) -> list[MetricEpoch]:
    return [(column.metric.metric_hash, column.epoch) for column in reports.columns]


def _count(reports: Gathered, cells: dict[MetricEpoch, Cells]) -> None:
    """Add them to counters, which are made where there are none."""
    pairs = zip(_keys(reports), reports.columns, strict=True)
    reports.add_to([cells.setdefault(key, Cells(column.metric)) for key, column in pairs])


class _ToCount(NamedTuple):
    """Reports by question, epoch and level; and batches in which two metrics come together."""

    reports: list[Gathered]
    together: list[Together]


def _to_count(rows: Iterable[tuple[Any, ...]], reader: JournalReader, shared: Shared) -> _ToCount:
    """What is in rows of the journal: every batch in the pairs that were counted in the turn in which it was taken."""
    by_turn: dict[int, list[bytes]] = {}
    for body, turn in rows:
        by_turn.setdefault(turn, []).append(body)
    found = _ToCount([], [])
    for turn, bodies in by_turn.items():
        messages = stacks(reader.read(bodies, shared))
        found.reports.extend(stacked(messages))
        found.together.extend(PairedColumns(shared.pairs_in(turn)).find(messages))
    return found
