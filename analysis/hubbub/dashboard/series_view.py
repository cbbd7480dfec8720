"""A metric over time, as plain values for `templates/_series.html` and `_comparison.html`: one value as a line in its
band with releases marked, and two days, weeks or months side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hubbub.analysis.render.glyphs import Axis, Look, Moment, Svg, line, time_axis
from hubbub.analysis.result import NUMBER, Decoding, Role
from hubbub.analysis.trends import releases
from hubbub.dashboard import tables
from hubbub.dashboard.chart_rows import digits_of, is_below, limit_of, under
from hubbub.dashboard.decode_jobs import Decoded
from hubbub.dashboard.differences_view import OVER_TIME, DifferencesView, differences_view
from hubbub.dashboard.metric_inputs import MetricInputs
from hubbub.dashboard.periods import UNITS, named, short
from hubbub.dashboard.query import Select
from hubbub.dashboard.row_choice import followed_value, table_rows
from hubbub.dashboard.sentences import value_label
from hubbub.dashboard.tables import Table
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.printed import intervals_of
from hubbub.protocol.tally import Tally
from hubbub.protocol.vocabulary import Cadence


@dataclass(frozen=True, slots=True)
class Form:
    """`kept` goes along unseen."""

    fields: tuple[Select, ...]
    kept: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesView:
    """Either a `note` why there is no line (yet: `busy`), or the line and its table."""

    unit: str
    form: Form | None
    note: str = ""
    busy: bool = False
    words: str = ""
    picture: Svg | None = None
    table: Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """A `note` or a `problem` why there is no comparison (yet: `busy`), or what changed, in words and tables."""

    unit: str
    form: Form | None
    note: str = ""
    busy: bool = False
    problem: str = ""
    found: DifferencesView | None = None


def marks_of(tallies: Sequence[Tally], periods: Sequence[str]) -> dict[int, str]:
    """Where on a line of these periods a release came out."""
    places = {period: place for place, period in enumerate(periods)}
    found = [(note.epoch, note.text.removesuffix(" is out")) for note in releases(tallies)]
    marks: dict[int, str] = {}
    for period, name in found:
        if period in places:
            marks[places[period]] = ", ".join(filter(None, (marks.get(places[period]), name)))
    return marks


def moments_of(decodings: Sequence[Decoding], value: str, role: Role, every: Cadence) -> list[Moment]:
    """The points of one value, a share kept between 0 and 100 %."""
    found = []
    for decoding in decodings:
        i, when = decoding.index(value, role), short(decoding.epochs[0], every)
        if is_below(decoding, i):
            found.append(Moment(when, 0.0, 0.0, limit_of(decoding), hidden=True))
            continue
        estimate, low, high = (float(column[i]) for column in (decoding.estimate, decoding.low, decoding.high))
        if role != NUMBER:
            estimate, low, high = (min(max(x, 0.0), 1.0) for x in (estimate, low, high))
        found.append(Moment(when, estimate, low, high))
    return found


def known_in(series: Sequence[tuple[str, Decoded | None]], value: str, role: Role) -> list[Decoding]:
    """Those decodings of a series in which a value has an interval with two ends."""
    decodings = [decoded.decoding for _, decoded in series if decoded is not None and decoded.decoding is not None]
    return [decoding for decoding in decodings if _estimated(decoding, value, role)]


def _estimated(decoding: Decoding, value: str, role: Role) -> bool:
    i = decoding.find(value, role)
    if i is None or not decoding.epochs:
        return False
    return bool(np.isfinite([decoding.estimate[i], decoding.low[i], decoding.high[i]]).all())


def line_of(
    inputs: MetricInputs,
    decodings: Sequence[Decoding],
    value: str,
    role: Role,
    *,
    words: str,
    axis: Axis | None = None,
    context: Sequence[float] = (),
    height: int = 345,
) -> Svg:
    """A line of one value over periods that were decoded one by one."""
    digits = digits_of(decodings, [[decoding.index(value, role)] for decoding in decodings])
    moments = moments_of(decodings, value, role, inputs.every)
    axis = axis or time_axis([(m.low, m.high) for m in moments], is_share=role != NUMBER)
    last, row = decodings[-1], decodings[-1].index(value, role)
    newest = under(limit_of(last), digits) if is_below(last, row) else digits.value(float(last.estimate[row]))
    small = height < 200
    return line(
        moments,
        Look(
            words=words,
            show=digits.exact(axis.ticks()).value,
            axis=axis,
            height=height,
            marks=marks_of(inputs.snapshot.tallies.get(inputs.name, ()), [d.epochs[0] for d in decodings]),
            context=context,
            label="" if small else newest,
            most_dates=3 if small else 5,
        ),
    )


def followed(inputs: MetricInputs) -> tuple[str, Role] | None:
    """The value that is drawn over time: the one chosen, else the one that says most."""
    decoding = inputs.decoding
    if decoding is None:
        return None
    value = inputs.view.series or followed_value(decoding)
    return None if value is None else (value, decoding.roles[decoding.values.index(value)])


def series_view(inputs: MetricInputs) -> SeriesView:
    unit = UNITS[inputs.every]
    if len(inputs.epochs) < 2:
        return SeriesView(unit=unit, form=None, note=f"One {unit} so far: a line needs two.")
    form = _series_form(inputs)
    done = sum(decoded is not None for _, decoded in inputs.series)
    if done < len(inputs.series) or inputs.whole is None:
        note = f"Decoding {unit} by {unit}: {done} of {len(inputs.series)} …"
        return SeriesView(unit=unit, form=form, note=note, busy=True)
    chosen = followed(inputs)
    known = known_in(inputs.series, *chosen) if chosen else []
    if chosen is None or not known:
        return SeriesView(unit=unit, form=form, note=f"It could be estimated in no single {unit}.")
    value, role = chosen
    last = known[-1]
    i = last.index(value, role)
    digits = digits_of([last], [[i]])
    label = value_label(last, i)
    words = (
        f"{label} over {len(known)} {unit}s. {named(last.epochs, inputs.every)}: {digits.value(last.estimate[i])}, "
        f"{digits.interval(last.low[i], last.high[i])}."
    )
    confidence = intervals_of(last.confidence)
    has_releases = bool(marks_of(inputs.snapshot.tallies.get(inputs.name, ()), [d.epochs[0] for d in known]))
    said = f"{label.capitalize() if role == NUMBER else label} by {unit}, with {confidence}."
    return SeriesView(
        unit=unit,
        form=form,
        words=said + (" Dotted lines are releases." if has_releases else ""),
        picture=line_of(inputs, known, value, role, words=words),
        table=tables.by_period(known, value, role, inputs.every),
    )


def _series_form(inputs: MetricInputs) -> Form | None:
    decoding = inputs.decoding
    if decoding is None:
        return None
    rows = [i for i in table_rows(decoding) if decoding.values[i] != "sum"]
    chosen = followed(inputs)
    if len(rows) < 2 or chosen is None:
        return None
    choices = tuple((decoding.values[i], value_label(decoding, i)) for i in rows)
    return Form((Select("series", "Value", choices, chosen[0]),), inputs.view.kept)


def comparison_view(inputs: MetricInputs) -> ComparisonView:
    unit = UNITS[inputs.every]
    if inputs.pair is None:
        return ComparisonView(unit=unit, form=None, note=f"One {unit} so far: there is nothing to compare it with.")
    form = _pair_form(inputs, *inputs.pair)
    if inputs.before is None or inputs.after is None:
        return ComparisonView(unit=unit, form=form, note="Decoding both …", busy=True)
    if inputs.before.decoding is None or inputs.after.decoding is None:
        return ComparisonView(unit=unit, form=form, problem=inputs.before.problem or inputs.after.problem)
    one, other = (short(period, inputs.every) for period in inputs.pair)
    try:
        found = differences_view(inputs.before.decoding, inputs.after.decoding, (one, other), OVER_TIME)
    except Invalid as error:
        return ComparisonView(unit=unit, form=form, problem=str(error))
    return ComparisonView(unit=unit, form=form, found=found)


def _pair_form(inputs: MetricInputs, before: str, after: str) -> Form:
    choices = tuple((epoch, named([epoch], inputs.every)) for epoch in reversed(inputs.epochs))
    fields = (Select("before", "Before", choices, before), Select("after", "After", choices, after))
    return Form(fields, inputs.view.kept)
