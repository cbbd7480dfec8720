"""The ids of batches already counted, in about 30 bytes of memory each, without a pause as they grow.

Records lie back to back in small buckets; a bucket is searched by the C code behind `bytearray.find`. The table grows
by linear hashing (Litwin 1980): one bucket is split in two after every few insertions, so no single one is slow.
The hash is Python's, keyed anew in each process, so nobody who chooses ids can make a bucket long.

An id is kept until the day its batch could no longer be accepted, and never less.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hubbub.collector.message_layout import CRC_BYTES, ID_BYTES, RECORD_BYTES

RECORD_CRC = slice(ID_BYTES, ID_BYTES + CRC_BYTES)
_PER_BUCKET = 20
_FIRST_BUCKETS = 64


class BatchIds:
    """A set of records: an id, the crc of the message it came with, the day it may be forgotten. Found by id."""

    def __init__(self) -> None:
        self._buckets = [bytearray() for _ in range(_FIRST_BUCKETS)]
        self._level = _FIRST_BUCKETS  # buckets at the start of this round of splitting
        self._split = 0  # the next bucket to be split
        self._count = 0
        self._room = _PER_BUCKET * _FIRST_BUCKETS
        self._swept_to = 0

    def __len__(self) -> int:
        return self._count

    def claim(self, record: bytes) -> bytes | None:
        """Keep a record if its id is new. If not, keep nothing and return the crc that came with the id before."""
        batch_id = record[:ID_BYTES]
        number = hash(batch_id)
        index = number & (self._level - 1)  # as in `_index`, without the cost of a call
        bucket = self._buckets[index if index >= self._split else number & (2 * self._level - 1)]
        at = bucket.find(batch_id)
        while at > 0 and at % RECORD_BYTES:  # a match across the border of two records is none
            at = bucket.find(batch_id, at + 1)
        if at >= 0:
            return bytes(bucket[at + ID_BYTES : at + ID_BYTES + CRC_BYTES])
        bucket += record
        self._count += 1
        if self._count > self._room:
            self._split_one()
        return None

    def forget(self, records: Iterable[bytes]) -> None:
        """Undo claims, because their batches could not be written."""
        for record in records:
            bucket = self._buckets[self._index(record[:ID_BYTES])]
            at = next(at for at in range(0, len(bucket), RECORD_BYTES) if bucket.startswith(record, at))
            del bucket[at : at + RECORD_BYTES]
            self._count -= 1

    def load(self, records: bytes) -> None:
        """Keep many records, as a checkpoint wrote them."""
        for at in range(0, len(records), RECORD_BYTES):
            self.claim(records[at : at + RECORD_BYTES])

    def sweep(self, today: int, buckets: int) -> bool:
        """Drop ids whose day has come, in the next so many buckets; True once all have been looked at."""
        end = min(self._swept_to + buckets, len(self._buckets))
        for number in range(self._swept_to, end):
            bucket = self._buckets[number]
            rows = np.frombuffer(bucket, np.uint8).reshape(-1, RECORD_BYTES)
            closes = rows[:, -2].astype(np.uint16) | (rows[:, -1].astype(np.uint16) << 8)
            stay = closes > today
            if not stay.all():
                kept = bytearray(rows[stay].tobytes())
                self._count -= len(rows) - int(stay.sum())
                self._buckets[number] = kept
        self._swept_to = 0 if end == len(self._buckets) else end
        return self._swept_to == 0

    def _index(self, batch_id: bytes) -> int:
        # Buckets before the split pointer have been divided already: there one more bit of the hash decides.
        number = hash(batch_id)
        index = number & (self._level - 1)
        return index if index >= self._split else number & (2 * self._level - 1)

    def _split_one(self) -> None:
        bucket = self._buckets[self._split]
        bit = self._level
        stay, move = bytearray(), bytearray()
        for at in range(0, len(bucket), RECORD_BYTES):
            record = bytes(bucket[at : at + RECORD_BYTES])
            (move if hash(record[:ID_BYTES]) & bit else stay).extend(record)
        self._buckets[self._split] = stay
        self._buckets.append(move)
        self._room += _PER_BUCKET
        self._split += 1
        if self._split == self._level:
            self._level, self._split = 2 * self._level, 0
