"""Batches become durable: one statement, one transaction, wholly inside the server.

Ids are sorted before they are sent, so that two collectors never wait for each other in a circle. If the end of a
transaction is unknown, the same group is sent again: what had been stored comes back with the mark it was stored with.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import psycopg

from hubbub.collector.intake import Arrival
from hubbub.collector.message_layout import CRC_BYTES, ID_BYTES, Layout
from hubbub.collector.postgres.arrays import Int4s, Uuids
from hubbub.collector.postgres.session import Connection
from hubbub.collector.postgres.shared import Shared, Stale
from hubbub.collector.storage.store import Verdict
from hubbub.protocol.refusal import Refused

_TAKE = "select n, before from take(%s, %s, %s, %s, %b, %s)"
_STALE = "HB001"


def take(
    connection: Connection, shared: Shared, arrivals: Sequence[Arrival], databases: int = 1
) -> list[Verdict | Refused]:
    """Make a group of batches durable. Raises `Stale` if the collector must look first; then nothing was stored.

    `databases` is how many the collector knows. In the first, batches that may belong to another are refused.
    """
    refusal = _Refusal(shared, databases)
    answers = [refusal(arrival.layout) for arrival in arrivals]
    verdicts: list[Verdict | Refused] = [answer or Verdict.STORED for answer in answers]
    numbers = [number for number, answer in enumerate(answers) if answer is None]
    first: dict[bytes, int] = {}  # an id that comes twice in one group: the first decides
    for number in numbers:
        first.setdefault(arrivals[number].id_record[:ID_BYTES], number)
    if not first:
        return verdicts
    sent = sorted(first.values(), key=lambda number: (arrivals[number].layout.lot, arrivals[number].id_record))
    before = _ask(connection, shared, [arrivals[number] for number in sent])
    if not before and len(sent) == len(numbers):
        return verdicts  # all are new, as nearly always
    marks: dict[bytes, int] = {}
    for place, number in enumerate(sent, 1):
        record = arrivals[number].id_record
        marks[record[:ID_BYTES]] = before.get(place, _mark(record))
        verdicts[number] = _judge(before.get(place), record)
    for number in numbers:
        record = arrivals[number].id_record
        if first[record[:ID_BYTES]] != number:
            verdicts[number] = _judge(marks[record[:ID_BYTES]], record)
    return verdicts


def _ask(connection: Connection, shared: Shared, arrivals: Sequence[Arrival]) -> dict[int, int]:
    """The marks that came before with the ids that are not new, by number from 1."""
    new = sorted({arrival.layout.lot for arrival in arrivals} - shared.lots.keys())
    if new:
        connection.execute("select open_lots(%s::int[])", (new,))
        raise Stale
    records = [arrival.id_record for arrival in arrivals]
    try:
        rows = connection.execute(
            _TAKE,
            (
                shared.turn,
                Int4s([arrival.layout.lot for arrival in arrivals]),
                Uuids(b"".join([record[:ID_BYTES] for record in records])),
                Int4s([_mark(record) for record in records]),
                b"".join([arrival.message for arrival in arrivals]),
                Int4s(list(accumulate(len(arrival.message) for arrival in arrivals))),
            ),
            binary=True,
        ).fetchall()
    except psycopg.Error as error:
        if error.sqlstate == _STALE:
            raise Stale from None
        raise
    return dict(rows)


def _mark(record: bytes) -> int:
    """The crc of the message, which tells bodies apart that share an id."""
    return int.from_bytes(record[ID_BYTES : ID_BYTES + CRC_BYTES], "little", signed=True)


def _judge(before: int | None, record: bytes) -> Verdict:
    if before is None:
        return Verdict.STORED
    return Verdict.DUPLICATE if before == _mark(record) else Verdict.ID_REUSED


class _Refusal:
    """Why batches of a layout may not be stored, if so; found out once for each layout of a group."""

    def __init__(self, shared: Shared, databases: int) -> None:
        self._shared = shared
        self._databases = databases
        self._known: dict[Layout, Verdict | Refused | None] = {}

    def __call__(self, layout: Layout) -> Verdict | Refused | None:
        if layout not in self._known:
            self._known[layout] = self._find(layout)
        return self._known[layout]

    def _find(self, layout: Layout) -> Verdict | Refused | None:
        sealed = self._shared.sealed
        if (
            layout.closes <= self._shared.day
            or self._shared.is_closed(layout.lot)
            or any(column.epoch <= sealed.get(column.metric.metric_hash, -1) for column in layout.columns)
        ):
            return Verdict.EPOCH_CLOSED
        spread = self._shared.lots.get(layout.lot, 1)
        if self._shared.number == 0 and spread > self._databases:
            words = f"these batches are spread over {spread} databases, and this collector was started with"
            return Refused("store-unreachable", f"{words} {self._databases}")
        return None
