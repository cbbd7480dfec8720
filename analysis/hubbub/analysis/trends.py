"""How a metric goes over time: each epoch by itself, what changed since the one before, and what happened meanwhile.

A change is tested as `compare` does it, corrected over the values of one epoch. Over many epochs a false alarm now and
then is to be expected; `decode --fail-on-change` is for those who want to be woken.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hubbub.analysis.comparison import Comparison, compare
from hubbub.analysis.result import ANSWER, NUMBER, Decoding, Role
from hubbub.protocol.cadence import epoch_of, epoch_text
from hubbub.protocol.invalid import Invalid, brief, require
from hubbub.protocol.segments import NOT_SAID, OTHER, Segment, in_words, segment_order
from hubbub.protocol.tally import Tally, by_segment
from hubbub.protocol.vocabulary import Cadence

VALUES = 5
"""So many values are followed, unless they are named."""

ARRIVED = 0.01
"""A release counts as out in the first period in which it has this share of the reports."""

COLUMNS = (
    *("metric", "segment", "epoch", "value", "estimate", "low", "high"),
    *("change", "change_low", "change_high", "p_value", "changed", "annotation"),
)


@dataclass(frozen=True, slots=True)
class Annotation:
    """Something that happened, beside what was measured."""

    epoch: str  # the day, week or month, as tables name it
    text: str  # what happened: "2.1 is out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One value in one epoch, and what changed since the epoch before; there is no change in the first."""

    metric: str  # its name
    segment: Segment  # the installs it is about; empty: all
    epoch: str  # the day, week or month
    value: str  # the answer, or what the number is
    role: Role  # what the row is: an answer, absent, other, or a number
    unit: str  # of numbers
    estimate: float  # as decoded
    low: float  # lower end of its interval
    high: float  # upper end
    change: float | None = None  # since the epoch before
    change_low: float | None = None  # lower end of its interval
    change_high: float | None = None  # upper end
    p_value: float | None = None  # of no change, two-sided, corrected over the values of this epoch
    changed: bool | None = None  # whether it is more than noise; None: not tested
    annotation: str = ""  # what happened in this epoch

    def row(self) -> dict[str, Any]:
        """The point as a row of a tidy table."""
        cells = {name: getattr(self, name) for name in COLUMNS}
        return cells | {"segment": in_words(self.segment)}


def trend(
    decodings: Sequence[Decoding], values: Sequence[str] = (), annotations: Iterable[Annotation] = ()
) -> list[Point]:
    """The points of decodings of one metric, each of one epoch; by segment, then by value, then in order of time."""
    notes: dict[str, str] = {}
    for note in annotations:
        notes[note.epoch] = "; ".join(filter(None, (notes.get(note.epoch), note.text)))
    return [
        point
        for _, group in groupby(decodings, key=lambda decoding: (decoding.metric, decoding.segment))
        for point in _points(list(group), values, notes)
    ]


def followed(decodings: Sequence[Decoding], values: Sequence[str] = ()) -> list[tuple[str, Role]]:
    """The rows that a trend is about: those named; else what says most, of shares the largest over all epochs."""
    keys = [list(zip(decoding.values, decoding.roles, strict=True)) for decoding in decodings]
    everywhere = [key for key in keys[0] if all(key in others for others in keys[1:])]
    if values:
        found = {value: (value, role) for value, role in everywhere}
        require(
            f"the value must be one of {', '.join(found) or 'none'}, which every epoch has, got {value!r}"
            for value in values
            if value not in found
        )
        return [found[value] for value in values]
    row = decodings[0].leading_row
    if row is not None and decodings[0].roles[row] == NUMBER:
        return [(decodings[0].values[row], NUMBER)]
    answers = [key for key in everywhere if key[1] == ANSWER]
    sizes = {key: sum(float(decoding.estimate[decoding.index(*key)]) for decoding in decodings) for key in answers}
    return sorted(answers, key=lambda key: -sizes[key])[:VALUES]


def _points(decodings: Sequence[Decoding], values: Sequence[str], notes: dict[str, str]) -> Iterator[Point]:
    changes = [None, *(compare(before, after) for before, after in pairwise(decodings))]
    for value, role in followed(decodings, values):
        for decoding, change in zip(decodings, changes, strict=True):
            i = decoding.index(value, role)
            epoch = decoding.epochs[-1] if decoding.epochs else ""
            yield Point(
                metric=decoding.metric,
                segment=decoding.segment,
                epoch=epoch,
                value=value,
                role=role,
                unit=decoding.unit,
                estimate=float(decoding.estimate[i]),
                low=float(decoding.low[i]),
                high=float(decoding.high[i]),
                annotation=notes.get(epoch, ""),
                **({} if change is None else _change(change, value, role)),
            )


def _change(made: Comparison, value: str, role: Role) -> dict[str, Any]:
    i = list(zip(made.values, made.roles, strict=True)).index((value, role))
    return {
        "change": float(made.difference[i]),
        "change_low": float(made.low[i]),
        "change_high": float(made.high[i]),
        "p_value": float(made.p_adjusted[i]) if np.isfinite(made.p_adjusted[i]) else None,
        "changed": bool(made.changed[i]) if made.tested[i] else None,
    }


# --- what happened meanwhile ----------------------------------------------------------------------------------------


def read_annotations(path: str, every: Cadence) -> list[Annotation]:
    """From a small TOML file: `[[annotations]]` with a `date` and a `text` each. Raises `Invalid` and OSError."""
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid([f"{path}: not TOML: {error}"]) from None
    rows = data.get("annotations")
    if set(data) != {"annotations"} or not isinstance(rows, list):
        raise Invalid(
            [f"{path}: must hold tables [[annotations]] and nothing else, got {', '.join(data) or 'nothing'}"]
        )
    return [_annotation(path, row, every) for row in rows]


def _annotation(path: str, row: Any, every: Cadence) -> Annotation:
    if not isinstance(row, dict) or set(row) != {"date", "text"}:
        raise Invalid([f"{path}: an annotation must have a date and a text, got {brief(row)}"])
    day, text = row["date"], row["text"]
    if not isinstance(day, date) or isinstance(day, datetime):
        raise Invalid([f"{path}: date must be a day such as 2026-11-16, without quotes, got {brief(day)}"])
    if not isinstance(text, str) or not text.strip():
        raise Invalid([f"{path}: text must say what happened, got {brief(text)}"])
    moment = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
    return Annotation(epoch_text(every, epoch_of(every, moment)), text)


def releases(tallies: Sequence[Tally], key: str = "release") -> list[Annotation]:
    """When each release came out, by the reports: nothing where tallies do not say, or for those that were there from
    the first period on."""
    if not any(key in dict(tally.metric.segment) for tally in tallies):
        return []
    apart = by_segment(tallies, key)
    reports = {value: _reports(some) for value, some in apart.items() if value not in (OTHER, NOT_SAID)}
    epochs = sorted({epoch for tally in tallies for epoch in tally.epochs})
    totals = _reports(tallies)
    found = []
    for value in sorted(reports, key=segment_order):
        out = [epoch for epoch in epochs if reports[value].get(epoch, 0) >= max(1, ARRIVED * totals[epoch])]
        if out and out[0] > epochs[0]:
            found.append(Annotation(epoch_text(tallies[0].metric.every, out[0]), f"{value} is out"))
    return found


def _reports(tallies: Iterable[Tally]) -> dict[int, int]:
    found: dict[int, int] = {}
    for tally in tallies:
        for epoch, counts in tally.epochs.items():
            found[epoch] = found.get(epoch, 0) + sum(counts.num_reports)
    return found
