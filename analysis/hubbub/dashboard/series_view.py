"""A metric from epoch to epoch, as plain values for `templates/_series.html` and `_comparison.html`: one value as a
line, and two epochs side by side with what changed beyond noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hubbub.analysis.comparison import compare
from hubbub.analysis.render.text import compared
from hubbub.analysis.result import NUMBER
from hubbub.dashboard import tables
from hubbub.dashboard.figures import Figure, estimated, series_figure
from hubbub.dashboard.metric_inputs import MetricInputs
from hubbub.dashboard.query import Select
from hubbub.dashboard.row_choice import MOST_TABLE_ROWS, followed_value, table_rows
from hubbub.dashboard.sentences import value_label
from hubbub.dashboard.tables import Table
from hubbub.protocol.invalid import Invalid


@dataclass(frozen=True, slots=True)
class Form:
    """`kept` goes along unseen."""

    fields: tuple[Select, ...]
    kept: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesView:
    """Either a `note` why there is no line (yet: `busy`), or the line and its table."""

    form: Form | None
    note: str = ""
    busy: bool = False
    figure: Figure | None = None
    table: Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """A `note` or a `problem` why there is no comparison (yet: `busy`), or what changed, in words and tables."""

    form: Form | None
    note: str = ""
    busy: bool = False
    problem: str = ""
    lead: str = ""
    table: Table | None = None
    cells: Table | None = None
    """Of a range: its quantiles say more than its cells."""


def series_view(inputs: MetricInputs) -> SeriesView:
    decoding = inputs.whole.decoding if inputs.whole else None
    value = inputs.view.series or (followed_value(decoding) if decoding is not None else None)
    form = _series_form(inputs, value) if len(inputs.epochs) > 1 else None
    done = [decoded for _, decoded in inputs.series if decoded is not None]
    if len(inputs.epochs) < 2:
        return SeriesView(form=form, note="One epoch so far: a line needs two.")
    if len(done) < len(inputs.series) or inputs.whole is None:
        note = f"Decoding epoch by epoch: {len(done)} of {len(inputs.series)} …"
        return SeriesView(form=form, note=note, busy=True)
    if value is None:
        return SeriesView(form=form, note="There is no value to follow yet.")
    decodings = [decoded.decoding for decoded in done if decoded.decoding is not None]
    known = [decoding for decoding in decodings if estimated(decoding, value)]
    if not known:
        return SeriesView(form=form, note="It could be estimated in no single epoch.")
    role = known[0].roles[known[0].values.index(value)]
    return SeriesView(form=form, figure=series_figure(known, value, role), table=tables.by_epoch(known, value, role))


def _series_form(inputs: MetricInputs, value: str | None) -> Form | None:
    decoding = inputs.whole.decoding if inputs.whole else None
    if decoding is None:
        return None
    rows = [i for i in table_rows(decoding) if decoding.values[i] != "sum"]
    if len(rows) < 2:
        return None
    choices = tuple((decoding.values[i], value_label(decoding.values[i], decoding.roles[i])) for i in rows)
    return Form((Select("series", "Value", choices, value or ""),), inputs.view.kept)


def comparison_view(inputs: MetricInputs) -> ComparisonView:
    if inputs.pair is None:
        return ComparisonView(form=None, note="One epoch so far: there is nothing to compare it with.")
    form = _pair_form(inputs, *inputs.pair)
    if inputs.before is None or inputs.after is None:
        return ComparisonView(form=form, note="Decoding both …", busy=True)
    if inputs.before.decoding is None or inputs.after.decoding is None:
        return ComparisonView(form=form, problem=inputs.before.problem or inputs.after.problem)
    try:
        found = compare(inputs.before.decoding, inputs.after.decoding)
    except Invalid as error:
        return ComparisonView(form=form, problem=str(error))
    changed = int(found.changed.sum())
    lead = (
        "No change that noise could not have made."
        if not changed
        else f"{changed} of {len(found.values)} values changed by more than noise would."
    )
    rows = compared(found, MOST_TABLE_ROWS)
    numbers = [i for i in rows if found.roles[i] == NUMBER]
    shares = [i for i in rows if found.roles[i] != NUMBER]
    parts = [tables.differences(found, part) for part in (numbers, shares) if part]
    return ComparisonView(
        form=form,
        lead=lead,
        table=parts[0] if parts else None,
        cells=parts[1] if len(parts) == 2 else None,
    )


def _pair_form(inputs: MetricInputs, before: str, after: str) -> Form:
    epochs = tuple((epoch, epoch) for epoch in reversed(inputs.epochs))
    return Form((Select("before", "Before", epochs, before), Select("after", "After", epochs, after)), inputs.view.kept)
