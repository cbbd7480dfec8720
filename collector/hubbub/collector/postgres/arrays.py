"""Arrays as PostgreSQL's own binary form has them, made by numpy: a list of Python values would cost more than a batch.

int4 dimensions, int4 has_nulls, int4 type, int4 length, int4 lower bound, then for each: int4 size, bytes
"""

from __future__ import annotations

import struct

import numpy as np
from psycopg.adapt import Dumper
from psycopg.pq import Format

_INT4, _INT4S = 23, 1007
_UUID, _UUIDS = 2950, 2951
_HEAD = struct.Struct(">iiiii")


class Int4s:
    """Whole numbers of 32 bits, as `int4[]`."""

    def __init__(self, numbers: list[int]) -> None:
        rows = np.empty((len(numbers), 2), ">i4")
        rows[:, 0] = 4
        rows[:, 1] = numbers
        self.data = _HEAD.pack(1, 0, _INT4, len(numbers), 1) + rows.tobytes()


class Uuids:
    """Values of 16 bytes that lie one after the other, as `uuid[]`."""

    def __init__(self, values: bytes) -> None:
        count = len(values) // 16
        rows = np.empty((count, 20), np.uint8)
        rows[:, :4] = (0, 0, 0, 16)
        rows[:, 4:] = np.frombuffer(values, np.uint8).reshape(count, 16)
        self.data = _HEAD.pack(1, 0, _UUID, count, 1) + rows.tobytes()


class Int4sDumper(Dumper):
    """Hands the bytes over as they are."""

    format = Format.BINARY
    oid = _INT4S

    def dump(self, obj: Int4s) -> bytes:
        return obj.data


class UuidsDumper(Dumper):
    """Likewise."""

    format = Format.BINARY
    oid = _UUIDS

    def dump(self, obj: Uuids) -> bytes:
        return obj.data
