"""Batches become durable: one statement, one transaction, wholly inside the server.

Nearly always every batch of a group is new, and `take_new` stores them all; if any is not, it stores nothing, and
`take` stores the new ones and says what it knows of the others. Ids are sorted before they are sent, so that two
collectors never wait for each other in a circle. If the end of a transaction is unknown, the same group is sent again:
what had been stored comes back with the mark it was stored with.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import psycopg

from hubbub.collector.intake import Arrival
from hubbub.collector.message_layout import CRC_BYTES, ID_BYTES, RECORD_BYTES, Layout
from hubbub.collector.postgres.arrays import BYTEA, INT4S, INT8, UUIDS, int4s, int8, uuids
from hubbub.collector.postgres.prepared import Prepared
from hubbub.collector.postgres.session import Connection
from hubbub.collector.postgres.shared import Shared, Stale
from hubbub.collector.storage.store import Verdict
from hubbub.protocol.refusal import Refused

_GROUP = (INT8, INT4S, UUIDS, INT4S, BYTEA)
_TAKE_NEW = Prepared("take_new", "select take_new($1, $2, $3, $4, $5)", _GROUP)
_TAKE = Prepared("take", "select n, before from take($1, $2, $3, $4, $5, $6)", (*_GROUP, INT4S))
_ALL_NEW = [(b"\x01",)]
_STALE = "HB001"


def take(
    connection: Connection,
    shared: Shared,
    arrivals: Sequence[Arrival],
    databases: int = 1,
    expect_new: bool = True,
) -> list[Verdict | Refused]:
    """Make a group of batches durable. Raises `Stale` if the collector must look first; then nothing was stored.

    `databases` is how many the collector knows. In the first, batches that may belong to another are refused. To expect
    that all are new where some are not costs more than not to, and rows that the server must clear away.
    """
    refusals = {layout: _refusal(layout, shared, databases) for layout in {arrival.layout for arrival in arrivals}}
    verdicts: list[Verdict | Refused] = [refusals[arrival.layout] or Verdict.STORED for arrival in arrivals]
    first: dict[bytes, int] = {}  # an id that comes twice in one group: the first decides
    numbers = [number for number, verdict in enumerate(verdicts) if verdict is Verdict.STORED]
    for number in numbers:
        first.setdefault(arrivals[number].id_record[:ID_BYTES], number)
    if not first:
        return verdicts
    sent = [number for _, number in sorted(first.items())]
    before = _ask(connection, shared, [arrivals[number] for number in sent], expect_new and not shared.imported)
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


def _ask(connection: Connection, shared: Shared, arrivals: Sequence[Arrival], expect_new: bool) -> dict[int, int]:
    """Store what is new; the marks that came before with the ids that are not, by number from 1."""
    lots = [arrival.layout.lot for arrival in arrivals]
    unknown = sorted(set(lots) - shared.lots.keys())
    if unknown:
        connection.execute("select open_lots(%s::int[])", (unknown,))
        raise Stale
    joined = b"".join([arrival.id_record for arrival in arrivals])
    records = np.frombuffer(joined, np.uint8).reshape(len(arrivals), RECORD_BYTES)
    marks = np.ascontiguousarray(records[:, ID_BYTES : ID_BYTES + CRC_BYTES]).view("<i4")[:, 0]
    messages = [arrival.message for arrival in arrivals]
    group = (int8(shared.turn), int4s(lots), uuids(records[:, :ID_BYTES]), int4s(marks), b"".join(messages))
    try:
        if expect_new and _TAKE_NEW.run(connection, group) == _ALL_NEW:
            return {}
        rows = _TAKE.run(connection, (*group, int4s(list(accumulate(map(len, messages))))))
    except psycopg.Error as error:
        if error.sqlstate == _STALE:
            raise Stale from None
        raise
    return {_number(place): _number(mark) for place, mark in rows}


def _number(value: bytes | None) -> int:
    assert value is not None
    return int.from_bytes(value, "big", signed=True)


def _mark(record: bytes) -> int:
    """The crc of the message, which tells bodies apart that share an id."""
    return int.from_bytes(record[ID_BYTES : ID_BYTES + CRC_BYTES], "little", signed=True)


def _judge(before: int | None, record: bytes) -> Verdict:
    if before is None:
        return Verdict.STORED
    return Verdict.DUPLICATE if before == _mark(record) else Verdict.ID_REUSED


def _refusal(layout: Layout, shared: Shared, databases: int) -> Verdict | Refused | None:
    """Why batches of a layout may not be stored, if so."""
    if (
        layout.closes <= shared.day
        or shared.is_closed(layout.lot)
        or any(column.epoch <= shared.sealed.get(column.metric.metric_hash, -1) for column in layout.columns)
    ):
        return Verdict.EPOCH_CLOSED
    spread = shared.lots.get(layout.lot, 1)
    if shared.number == 0 and spread > databases:
        words = f"these batches are spread over {spread} databases, and this collector was started with"
        return Refused("store-unreachable", f"{words} {databases}")
    return None
