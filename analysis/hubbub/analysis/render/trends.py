"""A trend for people, for programs, and as a picture: lines with bands, and marks for what happened."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from hubbub.analysis.render.charts import COLOURS, WIDTH, altair, line_colours, styled
from hubbub.analysis.render.export import csv_cell
from hubbub.analysis.render.terminal import Style
from hubbub.analysis.render.text import change_in_words
from hubbub.analysis.result import NUMBER, Decoding
from hubbub.analysis.trends import COLUMNS, Annotation, Point, followed, trend
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.printed import number, percent, text_table
from hubbub.protocol.segments import in_words


def trend_text(points: Sequence[Point], form: str, style: Style) -> str:
    """As a table, CSV or JSON."""
    match form:
        case "csv":
            out = io.StringIO()
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows([csv_cell(cell) for cell in point.row().values()] for point in points)
            return out.getvalue()
        case "json":
            return json.dumps([point.row() for point in points], indent=1, ensure_ascii=False) + "\n"
    return "\n\n".join(_tables(points, style)) + "\n"


def _tables(points: Sequence[Point], style: Style) -> Iterator[str]:
    for (metric, segment), group in groupby(points, key=lambda point: (point.metric, point.segment)):
        rows, marks = [], []
        for point in group:
            rows.append(_cells(point))
            marks.append(bool(point.changed))
        header, *lines = text_table(_HEADER, rows, left=(0, 1, 5, 6))
        lines = [line if mark else style.faint(line) for line, mark in zip(lines, marks, strict=True)]
        yield "\n".join([style.bold(", ".join(filter(None, (metric, in_words(segment))))), "", header, *lines])
    yield _NOTE


_HEADER = ["value", "period", "estimate", "interval", "change", "", "meanwhile"]
_NOTE = (
    "Each change is since the period before, tested for all values of a period together: where nothing changes, at "
    "most one period in twenty shows a change. The two periods are taken as independent, which is the careful side."
)


def _cells(point: Point) -> list[str]:
    show = number if point.role == NUMBER else percent
    measured = [point.value, point.epoch, show(point.estimate), f"{show(point.low)} to {show(point.high)}"]
    if point.change is None:
        return [*measured, "", "", point.annotation]
    verdict = {True: "changed", False: "no significant change", None: "not tested"}[point.changed]
    assert point.change_low is not None
    assert point.change_high is not None
    change, _ = change_in_words(
        point.change,
        (point.change_low, point.change_high),
        (point.estimate - point.change, point.estimate),
        is_number=point.role == NUMBER,
    )
    return [*measured, change, verdict, point.annotation]


def trend_chart(points: Sequence[Point], annotations: Iterable[Annotation] = ()) -> Any:
    """A line with its band for each value and segment; dashed where something happened."""
    alt = altair()
    first = points[0]
    is_number = first.role == NUMBER
    names = {(point.segment, point.value): _line_name(point, points) for point in points}
    data = [
        {
            "epoch": point.epoch,
            "line": names[point.segment, point.value],
            "estimate": point.estimate,
            "low": point.low,
            "high": point.high,
        }
        for point in points
    ]
    lines = list(names.values())
    values = {point.value for point in points}
    one = first.value if len(values) == 1 else ""
    unit = f" ({first.unit})" if first.unit else ""
    title = f"{one or 'estimate'}{unit}" if is_number else f"share of installs{': ' if one else ''}{one}"
    form = alt.Axis(format="~g" if is_number else ".1%")
    x = alt.X("epoch:O", title=None, axis=alt.Axis(labelAngle=-40, labelOverlap="greedy"))
    base = alt.Chart(alt.Data(values=data)).encode(x=x, color=line_colours(lines))
    band = base.mark_area(opacity=0.2).encode(
        y=alt.Y("low:Q", title=title, axis=form, scale=alt.Scale(zero=False)), y2="high:Q"
    )
    line = base.mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=36)).encode(y=alt.Y("estimate:Q", title=title))
    layers = [band, line]
    epochs = {point.epoch for point in points}
    marks = [{"epoch": note.epoch, "text": note.text} for note in annotations if note.epoch in epochs]
    if marks:
        happened = alt.Chart(alt.Data(values=marks)).encode(x=x)
        layers.append(happened.mark_rule(color="#222222", strokeDash=[4, 4]))
        words = happened.mark_text(align="left", dx=4, dy=8, baseline="top")
        layers.append(words.encode(y=alt.value(0), text="text:N"))
    chart = alt.layer(*layers).properties(width=WIDTH, height=260)
    whom = in_words(first.segment) if len({point.segment for point in points}) == 1 else ""
    title = ", ".join(filter(None, (first.metric, whom)))
    return styled(chart.properties(title=alt.Title(title, subtitle=f"{len(epochs)} periods")))


def series_chart(
    decodings: Sequence[Decoding], values: Sequence[str] = (), annotations: Iterable[Annotation] = ()
) -> Any:
    """Values over epochs that were decoded one by one, with their intervals; by default those that say most."""
    if not decodings:
        raise Invalid(["a time series needs at least one decoding, got none"])
    if not values and len({decoding.segment for decoding in decodings}) > 1:
        values = [followed(decodings)[0][0]]  # a line for each segment is enough
    points = trend(decodings, values)
    lines = len({(point.segment, point.value) for point in points})
    if lines > len(COLOURS):
        raise Invalid([f"a chart over time has at most {len(COLOURS)} lines, got {lines}; name fewer values"])
    return trend_chart(points, annotations)


def _line_name(point: Point, points: Sequence[Point]) -> str:
    """What tells this line from the others."""
    values, segments = ({getattr(each, name) for each in points} for name in ("value", "segment"))
    parts = [in_words(point.segment)] if len(segments) > 1 else []
    return ", ".join([*parts, point.value] if len(values) > 1 or not parts else parts) or point.value
