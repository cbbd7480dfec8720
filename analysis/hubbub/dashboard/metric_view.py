"""One metric as plain values for `templates/_metric.html`, in the order in which it is read: a sentence that answers
the question, the chart, the table, what it costs people, and folded what statisticians check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hubbub.analysis.render.digits import Digits
from hubbub.analysis.render.glyphs import Axis, Look, Moment, Svg, line
from hubbub.analysis.result import ABSENT, ANSWER, NUMBER, Decoding
from hubbub.dashboard import aside_view, tables
from hubbub.dashboard.aside_view import Download, Privacy
from hubbub.dashboard.beginnings_view import Accounted, Branch, accounted_view, beginnings_view
from hubbub.dashboard.chart_rows import Chart, ChartRow, RowStyle, axis_of, decoding_rows, digits_of
from hubbub.dashboard.filters_view import OptionsView, options_view
from hubbub.dashboard.metric_inputs import MetricInputs
from hubbub.dashboard.periods import named, since
from hubbub.dashboard.row_choice import MOST_CHART_ROWS, card_rows, table_rows
from hubbub.dashboard.segments_view import SegmentsView, segments_view
from hubbub.dashboard.sentences import (
    Change,
    Fact,
    Headline,
    change,
    headline,
    row_digits,
    several,
    withheld_in_words,
)
from hubbub.dashboard.series_view import ComparisonView, SeriesView, comparison_view, series_view
from hubbub.dashboard.tables import Table
from hubbub.dashboard.where_view import where
from hubbub.protocol.epsilon import show
from hubbub.protocol.label import how_often
from hubbub.protocol.metric import Definition
from hubbub.protocol.printed import intervals_of
from hubbub.protocol.segments import in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultView:
    """What was found, or why nothing was."""

    state: Literal["no answers", "too few", "decoding", "failed", "found"]
    problem: str = ""
    lead: str = ""
    moved: str = ""
    """What changed since the period before, and for whom."""
    note: str = ""
    period: str = ""
    said: Headline | None = None
    change: Change | None = None
    facts: tuple[Fact, ...] = ()
    chart: Chart | None = None
    picture: Svg | None = None
    """Of a range: the share of answers under each number."""
    table: Table | None = None
    cells: Table | None = None
    """Of a range, whose quantiles say more."""
    num_cells: int = 0
    num_hidden: int = 0
    beginnings: tuple[Branch, ...] = ()
    accounted: Accounted | None = None
    news: str = ""
    """What `new` means beside a text."""
    remarks: tuple[str, ...] = ()
    withheld: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatesView:
    """`words` say which list is used; `problem` what is wrong with one that was uploaded just now."""

    words: str
    listed: bool
    needed: bool
    """Without a list nothing is found."""
    problem: str
    can_upload: bool
    can_forget: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricView:
    """All between bar and foot; the same for every viewer of the same counts."""

    name: str
    kind: str
    why: str
    asked: str
    query: str
    epsilon: str
    single: bool
    """One value: over time is its main picture."""
    candidates: CandidatesView | None
    result: ResultView
    options: OptionsView
    segments: SegmentsView | None
    series: SeriesView | None
    comparison: ComparisonView | None
    """None of texts that nobody listed: what is found in one period may have no row in another."""
    crosstab: str
    """Of two answers at once: the address of their table."""
    downloads: tuple[Download, ...]
    privacy: Privacy
    diagnostics: tuple[Fact, ...]


def metric_view(inputs: MetricInputs, *, public: bool) -> MetricView:
    definition = inputs.snapshot.definitions(inputs.name)[-1]
    terms = inputs.snapshot.terms_of(inputs.name)
    decoding = inputs.decoding
    has_numbers = bool(inputs.epochs) and not definition.shape.discovers
    has_series = has_numbers and (definition.every != "once" or len(inputs.epochs) > 1)
    series = series_view(inputs) if has_series else None
    return MetricView(
        name=inputs.name,
        kind=f"{definition.shape.in_short()}, {how_often(definition)}",
        why=terms.why if terms else "",
        asked=_asked(definition),
        query=inputs.view.query(),
        epsilon=show(definition.epsilon_one_report),
        single=definition.shape.one_figure and series is not None and series.picture is not None,
        candidates=_candidates(inputs, public=public) if definition.shape.open_list else None,
        result=_result(inputs),
        options=options_view(inputs),
        segments=segments_view(inputs),
        series=series,
        comparison=comparison_view(inputs) if has_numbers else None,
        crosstab=f"/crosstab/{inputs.name}" if definition.shape.factors else "",
        downloads=aside_view.downloads(inputs.name, inputs.view, decoding) if decoding is not None else (),
        privacy=aside_view.privacy(definition, terms, inputs.snapshot),
        diagnostics=aside_view.diagnostics(decoding, inputs.snapshot) if decoding is not None else (),
    )


def _asked(definition: Definition) -> str:
    if definition.shape.discovers:
        return "A text that nobody listed beforehand: it shows up once enough installs share it."
    question = definition.shape.question()
    return f"{question[:1].upper()}{question[1:]}."


def _result(inputs: MetricInputs) -> ResultView:
    number, at_least = inputs.snapshot.withheld_of(inputs.name)
    withheld = withheld_in_words(number, at_least)
    if not inputs.epochs:
        return ResultView(state="too few" if withheld else "no answers", withheld=withheld)
    if inputs.whole is None:
        return ResultView(state="decoding")
    if inputs.whole.decoding is None:
        return ResultView(state="failed", problem=inputs.whole.problem)
    decoding = inputs.whole.decoding
    shown = _chart_rows(decoding)
    listed = set(inputs.candidates.texts) if inputs.candidates and decoding.beginnings else None
    digits = digits_of([decoding], [shown]) if shown else None
    said = headline(decoding, digits)
    moved = change(_previous(inputs), decoding, since(inputs.chosen, inputs.every))
    whom = f"Only {in_words(inputs.view.only)}: " if inputs.view.only else ""
    older = "" if inputs.whole.fresh else " Newer counts are being decoded."
    table, cells, num_cells = _tables(decoding)
    return ResultView(
        state="found",
        lead=said.sentence,
        moved=" ".join(filter(None, (f"{moved.words}." if moved else "", where(inputs, moved)))),
        note=f"{whom}{several(decoding.num_reports, 'report')}; {named(inputs.chosen, inputs.every)}.{older}",
        period=named(inputs.chosen, inputs.every),
        said=said,
        change=moved,
        facts=tuple(_facts(inputs, decoding, said, moved)),
        chart=_chart(decoding, shown, digits, listed),
        picture=_distribution(decoding),
        table=table,
        cells=cells,
        num_cells=num_cells,
        num_hidden=len(decoding) - len(table_rows(decoding)),
        beginnings=beginnings_view(decoding),
        accounted=accounted_view(decoding),
        news=f"New: not in your list of {len(listed):,}." if listed is not None else "",
        remarks=tuple(decoding.notes),
        withheld=withheld,
    )


def _previous(inputs: MetricInputs) -> Decoding | None:
    return inputs.previous.decoding if inputs.previous else None


def _facts(inputs: MetricInputs, decoding: Decoding, said: Headline, moved: Change | None) -> Iterator[Fact]:
    if said.found and said.row is not None:
        digits, i = row_digits(decoding, said.row), said.row
        yield Fact(intervals_of(decoding.confidence), digits.interval(decoding.low[i], decoding.high[i]))
    if moved is not None and moved.sign:
        yield Fact("Change", moved.interval)
    yield Fact("Reports" if len(inputs.chosen) > 1 else "Installs that reported", f"{decoding.num_reports:,}")
    absent = next((i for i, role in enumerate(decoding.roles) if role == ABSENT), None)
    if absent is not None and np.isfinite(decoding.std_error[absent]):
        digits = row_digits(decoding, absent)
        ends = digits.interval(decoding.low[absent], decoding.high[absent])
        yield Fact("Gave no answer", f"{digits.value(decoding.estimate[absent])}, {ends}")


def _chart_rows(decoding: Decoding) -> list[int]:
    if NUMBER in decoding.roles:
        return card_rows(decoding)
    rows = table_rows(decoding)
    answers = [i for i in rows if decoding.roles[i] == ANSWER]
    if len(answers) > MOST_CHART_ROWS:
        answers = card_rows(decoding, MOST_CHART_ROWS)
    elif not decoding.natural_order:
        answers.sort(key=lambda i: -float(np.nan_to_num(decoding.estimate[i], nan=-1.0)))
    return answers + [i for i in rows if decoding.roles[i] != ANSWER and np.isfinite(decoding.std_error[i])]


def _chart(decoding: Decoding, rows: list[int], digits: Digits | None, listed: set[str] | None) -> Chart | None:
    """`listed`: texts that were searched for and are not among these are new."""
    if not rows or digits is None:
        return None
    style = RowStyle(axis=axis_of([decoding], [rows]), digits=digits, height=16, spread=True)
    shown = decoding_rows(decoding, rows, style)
    if listed is not None:
        new = [decoding.roles[i] == ANSWER and decoding.values[i] not in listed for i in rows]
        shown = tuple(replace(row, is_new=is_new) for row, is_new in zip(shown, new, strict=True))
    answers = sum(role == ANSWER for role in decoding.roles) if NUMBER not in decoding.roles else 0
    hidden = answers - sum(decoding.roles[i] == ANSWER for i in rows)
    if hidden > 0:
        found = int(decoding.detected.sum()) - sum(bool(decoding.detected[i]) for i in rows)
        shown = (*shown, ChartRow(f"{hidden:,} more", None, f"{found:,} detected", css="more"))
    return Chart(caption=f"{decoding.metric}: estimates with intervals", rows=shown, css="wide")


def _distribution(decoding: Decoding) -> Svg | None:
    """The share of answers under each number, in its band."""
    distribution = decoding.distribution
    if distribution is None or not np.isfinite(decoding.estimate).all():
        return None
    band = distribution.cdf()
    where = np.searchsorted(distribution.edges(), band.points)
    smooth = distribution.best_guess_cdf()[np.minimum(where, distribution.num_leaves)]
    low, high = np.clip(band.low, 0, 1), np.clip(band.high, 0, 1)
    start, end = float(band.points[0]), float(band.points[-1])
    unit = f" {decoding.unit}" if decoding.unit else ""
    moments = [
        Moment(f"{x:g}{unit}", float(s), float(a), float(b))
        for x, s, a, b in zip(band.points, smooth, low, high, strict=True)
    ]
    look = Look(
        words=f"Share of answers under each number, from {start:g} to {end:g}{unit}. {headline(decoding).sentence}",
        show=Digits(0, is_share=True).value,
        axis=Axis(0, 1),
        height=260,
        places=[(float(x) - start) / (end - start) for x in band.points],
    )
    return line(moments, look)


def _tables(decoding: Decoding) -> tuple[Table, Table | None, int]:
    """The table in sight; of a range also that of its cells, and how many there are."""
    rows = table_rows(decoding)
    if decoding.distribution is None:
        return tables.estimates(decoding, rows, "Estimates"), None, 0
    numbers = [i for i in rows if decoding.roles[i] == NUMBER]
    others = [i for i in rows if decoding.roles[i] != NUMBER]
    num_cells = sum(decoding.roles[i] == ANSWER for i in others)
    return tables.estimates(decoding, numbers, "Quantiles"), tables.estimates(decoding, others, "Shares"), num_cells


def _candidates(inputs: MetricInputs, *, public: bool) -> CandidatesView:
    """Strings can only be found among those somebody thought of."""
    listed = inputs.candidates
    if listed is not None:
        words = f"{len(listed.texts):,} candidates, {listed.origin}."
    elif inputs.snapshot.definitions(inputs.name)[-1].shape.discovers:
        words = "No list is needed: what enough installs share is found. Texts that you list are tested besides."
    else:
        words = (
            "No candidates yet. Strings are found only among those listed: give a list of what people may have "
            "answered, one a line."
        )
    return CandidatesView(
        words=words,
        listed=listed is not None,
        needed=not inputs.snapshot.definitions(inputs.name)[-1].shape.discovers,
        problem=inputs.problem,
        can_upload=not public,
        can_forget=not public and listed is not None and listed.uploaded,
    )
