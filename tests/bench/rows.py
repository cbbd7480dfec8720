"""What the bench finds, one row for each thing that was measured; how a row compares with hubbub's own."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

US = "hubbub"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure. `low` and `high` are its spread: the quartiles of a time, one standard error of a mean.

    Less is better unless `more_is_better`. A `limit` is no rival: it is no defeat to be behind it. What is `unranked`
    is to be read and not compared. Why a defeat was to be expected stands in `excused`; it is shown all the same.
    """

    part: str
    table: str
    case: str
    who: str
    value: float
    low: float
    high: float
    repeats: int
    unit: str
    more_is_better: bool = False
    limit: bool = False
    unranked: bool = False
    excused: str = ""
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        return {key: _short(value) for key, value in asdict(self).items() if value != "" and value is not False}

    @classmethod
    def of_json(cls, kept: dict[str, Any]) -> Row:
        return cls(**{"value": 0.0, "low": 0.0, "high": 0.0, **kept})


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def times(samples: Sequence[float]) -> dict[str, Any]:
    """Median and quartiles of repeated times."""
    low, middle, high = statistics.quantiles(samples, n=4) if len(samples) > 1 else [samples[0]] * 3
    return {"value": middle, "low": low, "high": high, "repeats": len(samples)}


def averages(samples: Sequence[float]) -> dict[str, Any]:
    """Mean and one standard error to both sides."""
    mean = statistics.fmean(samples)
    error = statistics.stdev(samples) / len(samples) ** 0.5 if len(samples) > 1 else 0.0
    return {"value": mean, "low": mean - error, "high": mean + error, "repeats": len(samples)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A rival's figure against ours: `ratio` above 1 says how many times better ours is."""

    row: Row
    ours: Row
    ratio: float
    error: float

    @property
    def verdict(self) -> str:
        if self.row.limit:
            return "limit"
        if abs(self.ratio - 1) <= 2 * self.error:
            return "level"
        return "ahead" if self.ratio > 1 else "behind"


def compare(rows: Iterable[Row]) -> list[Comparison]:
    """Every row that has a row of ours beside it. A spread counts as one standard error to both sides."""
    rows = list(rows)
    ours = {(row.part, row.table, row.case): row for row in rows if row.who == US}
    found = []
    for row in rows:
        own = ours.get((row.part, row.table, row.case))
        if own is None or own is row or row.unranked or not own.value or not row.value:
            continue
        ratio = own.value / row.value if row.more_is_better else row.value / own.value
        relative = [(one.high - one.low) / 2 / abs(one.value) for one in (row, own)]
        found.append(Comparison(row=row, ours=own, ratio=ratio, error=ratio * sum(r * r for r in relative) ** 0.5))
    return found
