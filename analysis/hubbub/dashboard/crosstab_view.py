"""Two answers at once as plain values for `templates/_crosstab.html`: a sentence that answers, the table as a heat map,
one outcome as bars, how sure that is, what it costs people, and folded what statisticians check."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hubbub.analysis.crosstab_result import Crosstab
from hubbub.analysis.render.crosstab_words import (
    Conclusion,
    View,
    answer,
    p_in_words,
    view,
)
from hubbub.analysis.render.digits import Digits
from hubbub.analysis.render.glyphs import guess_bar
from hubbub.dashboard.aside_view import DOWNLOADS, Download
from hubbub.dashboard.chart_rows import Chart, ChartRow
from hubbub.dashboard.crosstab_inputs import EVERYBODY, CrosstabInputs, Together
from hubbub.dashboard.crosstab_pictures import Heat, chart_of, heat_of
from hubbub.dashboard.periods import choices, named
from hubbub.dashboard.query import ONLY, Select
from hubbub.dashboard.sentences import Fact
from hubbub.protocol.epsilon import show
from hubbub.protocol.invalid import plural
from hubbub.protocol.label import PER
from hubbub.protocol.printed import percent
from hubbub.protocol.privacy_page import guesses


@dataclass(frozen=True, slots=True)
class Tab:
    words: str
    address: str
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """What was found."""

    lead: Conclusion
    period: str
    title: str
    tabs: tuple[Tab, ...]
    heat: Heat
    chart_title: str
    chart: Chart | None
    facts: tuple[Fact, ...]
    downloads: tuple[Download, ...]
    absent: str
    notes: tuple[str, ...]
    diagnostics: tuple[Fact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrosstabView:
    name: str
    title: str
    kind: str
    about: str
    fields: tuple[Select, ...]
    kept: tuple[tuple[str, str], ...]
    state: Literal["no answers", "decoding", "failed", "found"]
    problem: str
    table: TableView | None
    guesses: Chart
    privacy: str
    epsilon: str


def crosstab_view(inputs: CrosstabInputs) -> CrosstabView:
    of, found = inputs.of, inputs.decoded
    table = found.crosstab if found else None
    state: Literal["no answers", "decoding", "failed", "found"] = "found"
    if not inputs.chosen:
        state = "no answers"
    elif found is None:
        state = "decoding"
    elif table is None:
        state = "failed"
    given = inputs.choice.given
    return CrosstabView(
        name=of.name,
        title=" × ".join(of.factors),
        kind=_kind(of, table),
        about=_about(of, inputs.why),
        fields=tuple(_fields(inputs)),
        kept=(("given", given),) if given else (),
        state=state,
        problem=found.problem if found else "",
        table=_table(inputs, table) if table is not None else None,
        guesses=_guesses(of),
        privacy=_privacy(of),
        epsilon=show(_together(of)),
    )


def _kind(of: Together, table: Crosstab | None) -> str:
    size = f" of {table.shape[0]} × {table.shape[1]}" if table else ""
    return f"{'pair' if of.is_pair else 'cross'}{size}, {PER[of.every]}"


def _about(of: Together, why: str) -> str:
    how = (
        "Two questions; the collector counts which noisy answers arrive together."
        if of.is_pair
        else "Asked together as one question, with a privacy limit of its own."
    )
    return f"{how} {why}".strip()


def _fields(inputs: CrosstabInputs) -> list[Select]:
    of, chosen = inputs.of, dict(inputs.choice.only)
    found = [Select("epoch", "Period", choices(of.periods, of.every), inputs.choice.epoch)] if of.periods else []
    for key, values in of.segments.items():
        words = (("", f"All {key}s"), *((value, value) for value in values))
        found.append(Select(f"{ONLY}{key}", key.capitalize(), words, chosen.get(key, "")))
    return found


@dataclass(frozen=True, slots=True)
class TogetherCard:
    """On the overview."""

    title: str
    kind: str
    address: str
    headline: str
    details: str
    foot: str
    busy: bool


def together_card(inputs: CrosstabInputs) -> TogetherCard:
    found = inputs.decoded
    table = found.crosstab if found else None
    if table is not None:
        said, foot = answer(table), f"{table.num_reports:,} reports"
    elif not inputs.chosen:
        said, foot = Conclusion("Collecting.", "No reports for a finished period of these installs yet."), "0 reports"
    elif found is None:
        said, foot = Conclusion("Decoding …", ""), ""
    else:
        said, foot = Conclusion("This cannot be decoded.", found.problem), ""
    return TogetherCard(
        title=" × ".join(inputs.of.factors),
        kind=_kind(inputs.of, table),
        address=f"/crosstab/{inputs.of.name}{inputs.choice.query()}",
        headline=said.headline,
        details=said.details,
        foot=foot,
        busy=found is None and bool(inputs.chosen),
    )


# --- the table -----------------------------------------------------------------------------------------------------


def _table(inputs: CrosstabInputs, table: Crosstab) -> TableView:
    side = inputs.choice.side(inputs.of)
    seen = view(table, side)
    title = f"{seen.columns.name}, given {seen.rows.name}" if side is not None else "Of all installs"
    chart_title, chart = chart_of(table, seen, side)
    return TableView(
        lead=answer(table, side or 0),
        period=named(inputs.chosen, inputs.of.every),
        title=title,
        tabs=tuple(_tabs(inputs)),
        heat=heat_of(table, seen, side),
        chart_title=chart_title,
        chart=chart,
        facts=tuple(_facts(table, side or 0, seen)),
        downloads=tuple(
            Download(f"/crosstab/{table.name}/{table.name}.{kind}{inputs.choice.query()}", words)
            for kind, words in DOWNLOADS.items()
        ),
        absent=f"{percent(table.absent)} of installs gave no answer to one of the two and are left out."
        if table.of == "answered"
        else "",
        notes=table.notes,
        diagnostics=tuple(_diagnostics(table)),
    )


def _tabs(inputs: CrosstabInputs) -> list[Tab]:
    first, second = inputs.of.factors
    now = inputs.choice.given or first
    return [
        Tab(words, f"/crosstab/{inputs.of.name}{inputs.choice.query(given=value)}", value == now)
        for value, words in (
            (first, f"{second} given {first}"),
            (second, f"{first} given {second}"),
            (EVERYBODY, "Of all installs"),
        )
    ]


# --- how sure, and what it costs ------------------------------------------------------------------------------------


def _facts(table: Crosstab, side: int, seen: View) -> list[Fact]:
    test, found = table.independence, table.given[side].clearest
    facts = [Fact("Related?", f"{'yes' if table.related else 'not detected'}, {p_in_words(test.p_value)}")]
    if found is not None:
        groups, contrast = table.factors[side].values, found.contrast
        digits = Digits.of([(contrast.low, contrast.high)], is_share=True)
        facts.append(
            Fact(
                f"Difference, {groups[found.more]} against {groups[found.less]}",
                f"{digits.difference(contrast.difference)} ({digits.signed(contrast.low, contrast.high)})",
            )
        )
        facts.append(Fact("Difference detected 9 times in 10", digits.difference(found.detectable)))
    facts.append(
        Fact(
            "Installs that reported both" if table.way == "pair" else "Installs that reported", f"{table.installs:,.0f}"
        )
    )
    return facts


def _diagnostics(table: Crosstab) -> list[Fact]:
    test = table.independence
    return [
        Fact("Test of independence", f"χ² = {test.statistic:.4g}, {plural(test.degrees, 'degree')} of freedom"),
        Fact("Strength of the relation (Cramér’s V)", f"{test.strength:.2g}"),
        Fact(f"Strength detected {10 * test.power:.0f} times in 10", f"{min(test.detectable, 1):.2g}"),
        Fact(
            f"If {percent(table.fake_share)} of reports were fake",
            f"a cell could be off by {percent(table.attack_radius)}",
        ),
    ]


def _together(of: Together) -> Fraction:
    return sum((metric.epsilon_one_report for metric in of.definitions), Fraction(0))


def _guesses(of: Together) -> Chart:
    rows = [ChartRow("tossing a coin", guess_bar(50), "50 of 100")]
    for metric in of.definitions:
        right = guesses(metric.epsilon_one_report)
        rows.append(ChartRow(f"with one report of {metric.name}", guess_bar(right), f"{right} of 100"))
    if of.is_pair:
        right = guesses(_together(of))
        rows.append(ChartRow("with one report of both", guess_bar(right), f"{right} of 100"))
    rows.append(ChartRow("unprotected", guess_bar(100, protected=False), "100 of 100", css="more"))
    return Chart(
        caption="How often a guess between two answers can be right, at most", rows=tuple(rows), css="wide guess"
    )


def _privacy(of: Together) -> str:
    if of.is_pair:
        return (
            "Nothing more leaves a device for this table: both noisy answers are sent anyway, and the collector counts "
            "which arrive together without keeping them. Experts call this privacy loss (epsilon), upper bound: "
            f"{show(_together(of))} for one report of both."
        )
    metric = of.definitions[0]
    return (
        "The two answers are sent as one, with noise of their own. Experts call this privacy loss (epsilon), upper "
        f"bound: {show(metric.epsilon_one_report)} for one report, {show(metric.epsilon_permanent)} for all reports of "
        "one answer."
    )
