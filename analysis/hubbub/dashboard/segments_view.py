"""A metric by platform or release, as plain values for `templates/_segments.html`: small multiples on one scale, over
time and for two keys at once, a table of values by segment, and two segments compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hubbub.analysis.render.glyphs import Svg, ends_of, time_axis
from hubbub.analysis.result import NUMBER, Decoding, Role
from hubbub.dashboard import tables
from hubbub.dashboard.chart_rows import Chart, RowStyle, axis_of, chart_row, digits_of, is_below, limit_of, under
from hubbub.dashboard.differences_view import APART, DifferencesView, differences_view
from hubbub.dashboard.metric_inputs import MetricInputs
from hubbub.dashboard.periods import since
from hubbub.dashboard.query import Select
from hubbub.dashboard.row_choice import card_rows
from hubbub.dashboard.sentences import Change, change, value_label
from hubbub.dashboard.series_view import Form, followed, known_in, line_of, moments_of
from hubbub.dashboard.tables import Table
from hubbub.protocol.invalid import Invalid

MOST_PANELS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Small:
    """One of the small multiples: over time, with the newest figure above it."""

    name: str
    figure: str
    spread: str
    change: Change | None
    picture: Svg


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentsView:
    """Either a `note` that it is still coming, or pictures and table; and what two of the segments differ by."""

    key: str
    note: str = ""
    busy: bool = False
    lines: tuple[Small, ...] = ()
    panels: tuple[tuple[str, Chart], ...] = ()
    panels_title: str = ""
    panels_note: str = ""
    table: Table | None = None
    crossed: Table | None = None
    """By two keys at once, where that was counted."""
    pair: Form | None = None
    problem: str = ""
    compared: DifferencesView | None = None


def segments_view(inputs: MetricInputs) -> SegmentsView | None:
    """None where the metric was not counted by segments, or only one is looked at."""
    key = inputs.view.by
    if key is None or not inputs.segments:
        return None
    apart = [decoded for _, decoded in inputs.segments] + list(inputs.crossed.values())
    if any(decoded is None for decoded in apart):
        return SegmentsView(key=key, note=f"Decoding each {key} …", busy=True)
    known = {value: decoded.decoding for value, decoded in inputs.segments if decoded and decoded.decoding is not None}
    if not known:
        return SegmentsView(key=key, note=f"No {key} can be decoded by itself.")
    one, other = _pair(inputs, list(known))
    compared, problem = _compared(known, one, other)
    title, note, panels, crossed = _panels(inputs, known, key)
    return SegmentsView(
        key=key,
        lines=_lines(inputs),
        panels=panels,
        panels_title=title,
        panels_note=note,
        table=tables.by_segment(known, key),
        crossed=crossed,
        pair=None if _searched(known) else _pair_form(inputs, list(known), one, other),
        problem=problem,
        compared=compared,
    )


def _lines(inputs: MetricInputs) -> tuple[Small, ...]:
    """Each segment over time, all on one scale, with all installs as the grey line."""
    chosen = followed(inputs)
    if chosen is None:
        return ()
    value, role = chosen
    known = {name: known_in(series, value, role) for name, series in inputs.segment_series.items()}
    known = {name: decodings for name, decodings in known.items() if len(decodings) > 1}
    if not known:
        return ()
    everyone = {d.epochs[0]: d for d in known_in(inputs.series, value, role)}
    ends = [(m.low, m.high) for decodings in known.values() for m in moments_of(decodings, value, role, inputs.every)]
    axis = time_axis(ends, is_share=role != NUMBER)
    found = []
    for name, decodings in known.items():
        last = decodings[-1]
        i = last.index(value, role)
        digits = digits_of([last], [[i]])
        behind = [everyone.get(decoding.epochs[0]) for decoding in decodings]
        rows = [(d, d.index(value, role)) for d in behind if d is not None]
        context = [float(d.estimate[row]) for d, row in rows if not is_below(d, row)]
        below = is_below(last, i)
        figure = under(limit_of(last), digits) if below else digits.value(last.estimate[i])
        found.append(
            Small(
                name=name,
                figure=figure,
                spread="" if below else digits.spread(last.estimate[i], last.low[i], last.high[i]),
                change=_change(inputs, name, len(known)),
                picture=line_of(
                    inputs, decodings, value, role, words=f"{name}: {value} over time, {figure} in the last",
                    axis=axis, context=context if len(context) == len(decodings) else (), height=150,
                ),
            )
        )  # fmt: skip
    return tuple(found)


def _change(inputs: MetricInputs, name: str, segments: int) -> Change | None:
    """Corrected for the segments that stand beside each other."""
    both = inputs.segment_previous.get(name), dict(inputs.segments).get(name)
    before, after = (None if each is None else each.decoding for each in both)
    return change(before, after, since(inputs.chosen, inputs.every), metrics=segments)


_Panels = tuple[str, str, tuple[tuple[str, Chart], ...], Table | None]


def _panels(inputs: MetricInputs, known: dict[str, Decoding], key: str) -> _Panels:
    """Heading, note and charts. Of one value: a row for each segment, or for each pair of two keys. Of several: a chart
    for each segment."""
    chosen = _chosen_rows(known)
    if not chosen:
        return "", "", (), None
    single = len(chosen) == 1
    if single and inputs.crossed:
        return _crossed(inputs, key, *chosen[0])
    if single:
        return f"By {key}", *_one_chart(inputs, known, key, *chosen[0]), None
    pairs = {name: _rows(decoding, chosen) for name, decoding in list(known.items())[:MOST_PANELS]}
    axis = axis_of([known[name] for name in pairs], list(pairs.values()))
    digits = digits_of([known[name] for name in pairs], list(pairs.values()))
    style = RowStyle(axis=axis, digits=digits)
    charts = tuple(
        (
            name,
            Chart(
                caption=f"{inputs.name}, {key} {name}",
                rows=tuple(chart_row(known[name], i, value_label(known[name], i), style) for i in rows),
            ),
        )
        for name, rows in pairs.items()
    )
    hidden = len(known) - len(pairs)
    return f"By {key}", "Same scale everywhere." + (f" {hidden} more in the table." if hidden else ""), charts, None


def _chosen_rows(known: dict[str, Decoding]) -> list[tuple[str, Role]]:
    first = max(known.values(), key=lambda decoding: decoding.num_reports)
    leading = first.leading_row
    is_number = leading is not None and first.roles[leading] == NUMBER
    rows = [leading] if leading is not None and is_number else card_rows(first)
    return [(first.values[i], first.roles[i]) for i in rows]


def _rows(decoding: Decoding, chosen: list[tuple[str, Role]]) -> list[int]:
    found = [decoding.find(value, role) for value, role in chosen]
    return [i for i in found if i is not None and np.isfinite(decoding.std_error[i])]


def _one_chart(
    inputs: MetricInputs, known: dict[str, Decoding], key: str, value: str, role: Role
) -> tuple[str, tuple[tuple[str, Chart], ...]]:
    some = {name: decoding for name, decoding in known.items() if _rows(decoding, [(value, role)])}
    if not some:
        return "", ()
    rows = [[decoding.index(value, role)] for decoding in some.values()]
    mark = _mark(inputs, value, role)
    style = RowStyle(
        axis=axis_of(list(some.values()), rows), digits=digits_of(list(some.values()), rows), height=16, spread=True,
        mark=mark,
    )  # fmt: skip
    chart = Chart(
        caption=f"{inputs.name} by {key}",
        rows=tuple(chart_row(d, d.index(value, role), name, style) for name, d in some.items()),
        css="wide",
    )
    return _note(style, role), ((value_label(next(iter(some.values())), rows[0][0]), chart),)


def _crossed(inputs: MetricInputs, key: str, value: str, role: Role) -> _Panels:
    known = {
        pair: decoded.decoding
        for pair, decoded in inputs.crossed.items()
        if decoded and decoded.decoding is not None and _rows(decoded.decoding, [(value, role)])
    }
    if not known:
        return "", "", (), None
    rows = [[decoding.index(value, role)] for decoding in known.values()]
    decodings = list(known.values())
    style = RowStyle(
        axis=axis_of(decodings, rows), digits=digits_of(decodings, rows), height=16, spread=True,
        mark=_mark(inputs, value, role),
    )  # fmt: skip
    groups: dict[str, dict[str, Decoding]] = {}
    other = ""
    for pair, decoding in known.items():
        (_, first), (other, second) = pair
        groups.setdefault(first, {})[second] = decoding
    mark = None if style.mark is None else (style.mark, f"all {style.digits.figure(style.mark)}")
    ends = style.digits.exact([style.axis.low, style.axis.high])
    foot = ends_of(style.axis, ends.value, start="19%", end="63%", mark=mark)
    charts = tuple(
        (
            name,
            Chart(
                caption=f"{name}, by {other}",
                rows=tuple(chart_row(d, d.index(value, role), second, style) for second, d in found.items()),
                css="wide slim",
                foot=foot,
            ),
        )
        for name, found in groups.items()
    )
    table = tables.crossed(groups, (value, role), (key, other))
    return f"By {key} and {other}", _note(style, role), charts, table


def _mark(inputs: MetricInputs, value: str, role: Role) -> float | None:
    decoding = inputs.decoding
    row = None if decoding is None or role != NUMBER else decoding.find(value, role)
    return None if decoding is None or row is None else float(decoding.estimate[row])


def _note(style: RowStyle, role: Role) -> str:
    if role != NUMBER or style.mark is None:
        return "Bar: estimate. Line: 95 % interval. Same scale everywhere."
    return f"Dot: estimate. Band: 95 % interval. Vertical line: all installs, {style.digits.value(style.mark)}."


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


def _compared(known: dict[str, Decoding], one: str, other: str) -> tuple[DifferencesView | None, str]:
    if one == other or _searched(known):
        return None, ""
    try:
        return differences_view(known[one], known[other], (one, other), APART, f" between {one} and {other}"), ""
    except Invalid as error:
        return None, str(error)


def _searched(known: dict[str, Decoding]) -> bool:
    """Texts that nobody listed are not compared: what is found in one segment may have no row in another."""
    return any(decoding.tested_besides for decoding in known.values())
