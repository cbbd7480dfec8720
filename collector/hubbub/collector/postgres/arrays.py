"""Values as PostgreSQL's own binary form has them, made by numpy: a list of Python values would cost more than a batch.

int4 dimensions, int4 has_nulls, int4 type, int4 length, int4 lower bound, then for each: int4 size, bytes
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BYTEA, INT8, INT4S, UUIDS = 17, 20, 1007, 2951
"""How the server numbers its types."""

_INT4, _UUID = 23, 2950
_HEAD = struct.Struct(">iiiii")
_INT8 = struct.Struct(">q")


def int8(number: int) -> bytes:
    """A whole number of 64 bits."""
    return _INT8.pack(number)


def int4s(numbers: Sequence[int] | NDArray[np.int32]) -> bytes:
    """Whole numbers of 32 bits, as `int4[]`."""
    rows = np.empty((len(numbers), 2), ">i4")
    rows[:, 0] = 4
    rows[:, 1] = numbers
    return _HEAD.pack(1, 0, _INT4, len(numbers), 1) + rows.tobytes()


def uuids(values: NDArray[np.uint8]) -> bytes:
    """Rows of 16 bytes, as `uuid[]`."""
    rows = np.empty((len(values), 20), np.uint8)
    rows[:, :4] = (0, 0, 0, 16)
    rows[:, 4:] = values
    return _HEAD.pack(1, 0, _UUID, len(values), 1) + rows.tobytes()
