"""A metric by platform or release, as plain values for `templates/_segments.html`: small pictures on one scale, a table
of values by segment, and two segments compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hubbub.analysis.comparison import compare
from hubbub.analysis.render.text import compared, percent
from hubbub.analysis.result import NUMBER, Decoding, Role
from hubbub.dashboard import tables
from hubbub.dashboard.figures import Scale
from hubbub.dashboard.lines import Line, line
from hubbub.dashboard.metric_inputs import MetricInputs
from hubbub.dashboard.query import Select
from hubbub.dashboard.row_choice import MOST_TABLE_ROWS, card_rows
from hubbub.dashboard.sentences import value_label
from hubbub.dashboard.series_view import Form
from hubbub.dashboard.tables import Table
from hubbub.protocol.invalid import Invalid


@dataclass(frozen=True, slots=True)
class Panel:
    """A small picture. All panels of a page share one scale, whose ends are its `limits`."""

    name: str
    lines: tuple[Line, ...]
    limits: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentsView:
    """Either a `note` that it is still coming, or pictures and table; and what two of the segments differ by."""

    key: str
    form: Form | None
    note: str = ""
    busy: bool = False
    panels: tuple[Panel, ...] = ()
    table: Table | None = None
    pair: Form | None = None
    lead: str = ""
    differences: Table | None = None


def segments_view(inputs: MetricInputs) -> SegmentsView | None:
    """None where the metric was not counted by segments, or only one is looked at."""
    key = inputs.view.by
    if key is None or not inputs.segments:
        return None
    form = _by_form(inputs, key)
    if any(decoded is None for _, decoded in inputs.segments):
        return SegmentsView(key=key, form=form, note="Decoding segment by segment …", busy=True)
    known = {value: decoded.decoding for value, decoded in inputs.segments if decoded and decoded.decoding is not None}
    if not known:
        return SegmentsView(key=key, form=form, note="No segment can be decoded by itself.")
    one, other = _pair(inputs, list(known))
    lead, differences = _compared(known, one, other)
    return SegmentsView(
        key=key,
        form=form,
        panels=_panels(known),
        table=tables.by_segment(known, key),
        pair=_pair_form(inputs, list(known), one, other),
        lead=lead,
        differences=differences,
    )


def _panels(known: dict[str, Decoding]) -> tuple[Panel, ...]:
    """Where there is one value to a segment, one panel with a line for each; else a panel for each segment."""
    first = max(known.values(), key=lambda decoding: decoding.num_reports)
    leading = first.leading_row
    is_number = leading is not None and first.roles[leading] == NUMBER
    rows_of = [leading] if leading is not None and is_number else card_rows(first)
    chosen = [(first.values[i], first.roles[i]) for i in rows_of]
    rows = {
        (value, key): row
        for value, decoding in known.items()
        for key in chosen
        if (row := _row(decoding, *key)) is not None
    }
    if not rows:
        return ()
    ends = [(known[value].low[row], known[value].high[row]) for (value, _), row in rows.items()]
    scale = _scale(ends, is_number=is_number)
    limits = tuple(f"{end:.3g}" if is_number else percent(end) for end in (scale.low, scale.high))
    if len(chosen) == 1:
        lines = tuple(line(known[value], row, value, scale) for (value, _), row in rows.items())
        return (Panel(value_label(*chosen[0]), lines, limits),)
    panels = []
    for value, decoding in known.items():
        found = [(key, rows[value, key]) for key in chosen if (value, key) in rows]
        panels.append(Panel(value, tuple(line(decoding, row, value_label(*key), scale) for key, row in found), limits))
    return tuple(panels)


def _row(decoding: Decoding, value: str, role: Role) -> int | None:
    row = decoding.find(value, role)
    if row is None:
        return None
    return row if np.isfinite([decoding.estimate[row], decoding.low[row], decoding.high[row]]).all() else None


def _scale(ends: list[tuple[float, float]], *, is_number: bool) -> Scale:
    low, high = min(float(low) for low, _ in ends), max(float(high) for _, high in ends)
    return Scale(low - (high - low) / 8, high + (high - low) / 8) if is_number else Scale(0.0, min(high, 1.0))


def _by_form(inputs: MetricInputs, key: str) -> Form | None:
    keys = [other for other, values in inputs.snapshot.segments(inputs.name).items() if len(values) > 1]
    if len(keys) < 2:
        return None
    kept = {name: value for name, value in inputs.view.kept.items() if name != "by"}
    return Form((Select("by", "By", tuple((other, other) for other in keys), key),), kept)


def _pair(inputs: MetricInputs, values: list[str]) -> tuple[str, str]:
    """The two to compare: those chosen, else the last two that are named."""
    named = [value for value in values if value != "other"]
    first, second = (named if len(named) > 1 else values)[-2:] if len(values) > 1 else (values[0], values[0])
    one, other = inputs.view.one or first, inputs.view.other or second
    return (one if one in values else first), (other if other in values else second)


def _pair_form(inputs: MetricInputs, values: list[str], one: str, other: str) -> Form | None:
    if len(values) < 2:
        return None
    choices = tuple((value, value) for value in values)
    return Form((Select("one", "Compare", choices, one), Select("other", "with", choices, other)), inputs.view.kept)


def _compared(known: dict[str, Decoding], one: str, other: str) -> tuple[str, Table | None]:
    if one == other:
        return "", None
    try:
        found = compare(known[one], known[other])
    except Invalid as error:
        return str(error), None
    changed = int(found.changed.sum())
    lead = (
        f"No significant difference between {one} and {other}."
        if not changed
        else f"{changed} of {len(found.values)} values differ between {one} and {other} by more than noise would."
    )
    return lead, tables.differences(found, compared(found, MOST_TABLE_ROWS))
