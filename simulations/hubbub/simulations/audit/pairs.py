"""Two values that an audit tells apart, and where their masks differ.

The masks are the real encoding's. Of the values that a metric can have, two are taken whose masks lie far apart: that
is where most is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubbub.protocol.metric import Definition
from hubbub.protocol.shape import Shape
from hubbub.simulations.audit.scores import Counts
from hubbub.simulations.kinds import kind_of


@dataclass(frozen=True, slots=True)
class Pair:
    """Two masks of one install, and the positions where they differ: those the second lost, those it gained."""

    cohort: int
    masks: tuple[int, int]
    size: int
    lost: tuple[int, ...]
    gained: tuple[int, ...]

    @classmethod
    def of(cls, metric: Definition, values: tuple[Any, Any], cohort: int) -> Pair:
        one, other = (metric.shape.encode(value, cohort).mask for value in values)
        size = metric.vector_bytes(cohort)
        return cls(cohort, (one, other), size, _positions(one & ~other), _positions(other & ~one))

    @property
    def differences(self) -> tuple[int, int]:
        return len(self.lost), len(self.gained)

    def counts(self, bits: Sequence[int], reports: int) -> Counts:
        """How often each differing position is set, for each trial; `reports` numbers in a row belong to one."""
        width = self.size
        data = b"".join([number.to_bytes(width, "little") for number in bits])
        seen = np.frombuffer(data, dtype=np.uint8).reshape(-1, reports, width)
        columns = [(seen[:, :, i >> 3] >> (i & 7) & 1).sum(axis=1) for i in (*self.lost, *self.gained)]
        return np.stack(columns, axis=1).astype(np.int64)


def far_pairs(metric: Definition, most: int = 4) -> list[Pair]:
    """Pairs of far masks in up to `most` cohorts, all differing in the same way, so that they can be counted as one."""
    cohorts = metric.shape.num_cohorts
    chosen = sorted({cohorts * i // most for i in range(most)})
    found = [Pair.of(metric, far_values(metric.shape, cohort), cohort) for cohort in chosen]
    farthest = max(pair.differences for pair in found)
    return [pair for pair in found if pair.differences == farthest]


def far_values(shape: Shape, cohort: int) -> tuple[Any, Any]:
    """Two values whose masks differ as far as any two do in this cohort (hashed strings: of some tried)."""
    return kind_of(shape).far_values(cohort)


def _positions(mask: int) -> tuple[int, ...]:
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)
