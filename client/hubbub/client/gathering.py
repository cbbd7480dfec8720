"""What lies in plain in the state until its epoch is over: answers that several records make together (`accumulate`),
and answers of which a cross is made.

It is one value for each such metric; of one whose first record counts, and which is needed for a cross only, its
category. At the end it is encoded once, and deleted. Everything here runs inside a caller's transaction, so that
threads and processes add to one sum.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from hubbub.client.identity import Identity
from hubbub.protocol.encoding import ABSENT, exact_number
from hubbub.protocol.metric import Definition, Metric


def combined(metric: Definition, before: Any, value: Any) -> Any:
    """What counts of an earlier value and one more of the same epoch."""
    match metric.accumulate:
        case "sum":
            return exact_number(before) + exact_number(value)
        case "max":
            return max(exact_number(before), exact_number(value))
        case "any":
            return metric.shape.either(before, value)
        case "last":
            return value
    raise AssertionError("of a metric whose first record counts nothing is gathered")


def gather(db: sqlite3.Connection, metric: Definition, epoch: int, value: Any) -> None:
    """One more record of this epoch, as far as this install keeps it. `Definition.check` has let it pass."""
    if value is ABSENT:
        return
    before = _kept(db, metric, epoch)
    if before is not ABSENT:
        value = combined(metric, before, value)
    row = (metric.metric_hash, epoch, metric.every, _written(metric, value))
    db.execute("INSERT OR REPLACE INTO gathered VALUES (?, ?, ?, ?)", row)


def answer_of(db: sqlite3.Connection, metric: Definition, epoch: int) -> Any:
    """What all records of this epoch come to. Nothing added is a sum of 0, and no item recorded is a set of none;
    otherwise nothing is `ABSENT`."""
    kept = _kept(db, metric, epoch)
    if kept is not ABSENT:
        return kept
    return Fraction(0) if metric.accumulate == "sum" else metric.shape.in_silence


def keep_category(db: sqlite3.Connection, metric: Definition, epoch: int, category: int) -> bool:
    """Keep which answer the first record of this epoch gave, for the crosses made of it; False: there was one."""
    row = (metric.metric_hash, epoch, metric.every, json.dumps({"category": category}))
    return db.execute("INSERT OR IGNORE INTO gathered VALUES (?, ?, ?, ?)", row).rowcount > 0


def categories_of(
    db: sqlite3.Connection, who: Identity, cross: Definition, metrics: Mapping[str, Metric], epoch: int
) -> tuple[tuple[int, ...], bool]:
    """What the records of this epoch come to for a cross: a category of each factor; and whether there were any."""
    found, any_kept = [], False
    for factor in cross.shape.factors:
        metric = metrics[factor.name]
        kept = _kept(db, metric, epoch)
        any_kept = any_kept or kept is not ABSENT
        known = metric.accumulate == "first" and kept is not ABSENT
        found.append(kept if known else factor.category(kept, who.dither(metric)))
    return tuple(found), any_kept


def in_words(text: str, metric: Definition | None = None) -> str:
    """A value that is kept, as a person reads it. Without its metric, a category is a number."""
    kept = json.loads(text)
    if isinstance(kept, dict) and "category" in kept:
        return metric.shape.told_apart[kept["category"]] if metric else f"answer {kept['category']}"
    if isinstance(kept, dict):
        number = Fraction(kept["number"])
        return str(number) if number.denominator == 1 else f"{float(number):.12g}"
    if isinstance(kept, list):
        return ", ".join(kept)
    return ("yes" if kept else "no") if isinstance(kept, bool) else str(kept)


def _written(metric: Definition, value: Any) -> str:
    if metric.shape.is_number:
        return json.dumps({"number": str(exact_number(value))})
    if isinstance(value, frozenset):
        return json.dumps(sorted(value), ensure_ascii=False)
    return json.dumps(value if isinstance(value, str) else bool(value))


def _kept(db: sqlite3.Connection, metric: Definition, epoch: int) -> Any:
    query = "SELECT value FROM gathered WHERE metric_hash = ? AND epoch = ?"
    row = db.execute(query, (metric.metric_hash, epoch)).fetchone()
    if row is None:
        return ABSENT
    kept = json.loads(row[0])
    if metric.accumulate == "first":
        return kept["category"]
    if metric.shape.is_number:
        return Fraction(kept["number"])
    return metric.shape.still_listed(frozenset(kept) if isinstance(kept, list) else kept)
