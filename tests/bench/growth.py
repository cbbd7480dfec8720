"""Fitted growth: the exponent a of value ~ size^a, by least squares of the logarithms."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

from tests.bench.rows import US, Row


def exponent(found: Mapping[int, float]) -> float:
    x, y = [math.log(size) for size in found], [math.log(value) for value in found.values()]
    return statistics.linear_regression(x, y).slope


def exponents(part: str, table: str, found: Mapping[int, float]) -> list[Row]:
    """Over all sizes, and over the larger half, where what is fixed no longer hides what grows."""
    larger = dict(list(found.items())[-max(2, len(found) // 2) :])
    return [
        Row(
            part=part,
            table=f"{table}: growth",
            case=name,
            who=US,
            value=(value := exponent(sizes)),
            low=value,
            high=value,
            repeats=len(sizes),
            unit="fitted exponent; 1 is in proportion",
        )
        for name, sizes in (("all sizes", found), (f"the largest {len(larger)}", larger))
    ]
