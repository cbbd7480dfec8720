"""All metrics at a glance, as plain values for `templates/_overview.html`: active installs, what changed, a card for
each metric with five rows in its chart, and how the collector is doing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hubbub.analysis.render.glyphs import Axis, Svg, bar, below_limit, rail, share_axis, spark
from hubbub.analysis.result import ANSWER, NUMBER, Decoding
from hubbub.dashboard.chart_rows import Chart, ChartRow, RowStyle, axis_of, chart_row, decoding_rows, digits_of
from hubbub.dashboard.collector_view import CollectorView, collector_view
from hubbub.dashboard.crosstab_view import TogetherCard
from hubbub.dashboard.health import Health
from hubbub.dashboard.installs_view import InstallsView, installs_view
from hubbub.dashboard.overview_inputs import CardInputs, OverviewChoice, all_segments
from hubbub.dashboard.periods import ALL, LAST, UNITS, named, next_numbers, short, since
from hubbub.dashboard.query import ONLY, Select
from hubbub.dashboard.row_choice import MOST_CARD_ROWS, card_rows
from hubbub.dashboard.sentences import Change, change, headline, several
from hubbub.dashboard.series_view import known_in, moments_of
from hubbub.dashboard.snapshot import Snapshot
from hubbub.protocol.epsilon import show
from hubbub.protocol.privacy_page import guesses
from hubbub.protocol.vocabulary import Cadence

MOST_CHANGES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """`figure` is a number with its `unit`, or (`word`) why there is none. `note` stands where the chart would."""

    name: str
    query: str
    kind: str
    why: str
    epsilon: str
    sure: int
    figure: str = ""
    unit: str = ""
    word: bool = False
    caption: str = ""
    change: Change = field(default_factory=lambda: Change(""))
    spark: Svg | None = None
    chart: Chart | None = None
    note: str = ""
    busy: bool = False
    reports: str = ""


@dataclass(frozen=True, slots=True)
class Changed:
    """A panel of "What changed": a metric, or a value of one, and where to look closer."""

    name: str
    sign: str
    words: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewView:
    title: str
    fields: tuple[Select, ...]
    installs: InstallsView | None
    changes_title: str
    changes: tuple[Changed, ...]
    others: str
    """Over the panel of the metrics that did not change."""
    unchanged: str
    cards: tuple[Card, ...]
    keys: tuple[tuple[Svg, str], ...]
    collector: CollectorView | None
    pending: bool
    together: tuple[TogetherCard, ...] = ()
    """Two answers at once."""


def overview_view(
    snapshot: Snapshot, choice: OverviewChoice, known: Mapping[str, CardInputs], health: Health | None, now: float
) -> OverviewView:
    changes = {name: found for name in known if (found := _change(snapshot, name, known)) is not None}
    changed = [(name, found) for name, found in changes.items() if found.sign]
    cards = tuple(_card(snapshot, name, choice, inputs, changes.get(name), now) for name, inputs in known.items())
    address = {card.name: f"/metric/{card.name}{card.query}" for card in cards}
    newest = max((each.chosen[-1] for each in known.values() if each.chosen), default="")
    every: Cadence = next(
        (snapshot.definitions(n)[-1].every for n, each in known.items() if newest in each.chosen), "day"
    )
    newest_unit = "on this day" if UNITS[every] == "day" else f"this {UNITS[every]}"
    when = {"": newest_unit, ALL: "in all"}.get(choice.epoch, "in this period")
    return OverviewView(
        title=f"{snapshot.app or 'Metrics'}, {named([newest], every)}" if newest else snapshot.app or "Metrics",
        fields=tuple(_fields(snapshot, choice, newest, every)),
        installs=installs_view(snapshot, choice.only),
        changes_title=f"What changed {when}",
        changes=tuple(
            Changed(f"{name}: {found.value}" if found.value else name, found.sign, found.moved, address[name])
            for name, found in changed[:MOST_CHANGES]
        ),
        others=several(len(changes) - len(changed), "other metric") if changed and len(changes) > len(changed) else "",
        unchanged=_unchanged(len(changes), len(changed)),
        cards=cards,
        keys=_KEYS,
        collector=None if health is None else collector_view(health),
        pending=any(inputs.pending for inputs in known.values()),
    )


def _fields(snapshot: Snapshot, choice: OverviewChoice, newest: str, every: Cadence) -> Iterator[Select]:
    if not newest:
        return
    unit = UNITS[every]
    periods = [("", named([newest], every)), *((value, f"Last {n} {unit}s") for value, n in LAST.items())]
    yield Select("epoch", "Period", (*periods, (ALL, "All together")), choice.epoch)
    chosen = dict(choice.only)
    for key, values in all_segments(snapshot).items():
        words = (("", f"All {key}s"), *((value, value) for value in values))
        yield Select(f"{ONLY}{key}", key.capitalize(), words, chosen.get(key, ""))


def _change(snapshot: Snapshot, name: str, known: Mapping[str, CardInputs]) -> Change | None:
    """Corrected for all metrics on the page."""
    inputs = known[name]
    before, after = (None if each is None else each.decoding for each in (inputs.before, inputs.whole))
    compared = sum(bool(each.earlier) for each in known.values())
    return change(before, after, since(inputs.chosen, snapshot.definitions(name)[-1].every), metrics=max(compared, 1))


def _unchanged(tested: int, changed: int) -> str:
    if not tested:
        return "There is nothing to compare with yet."
    return (
        f"No significant change. A change is called significant at 5 %, corrected for {several(tested, 'metric')}."
        if changed < tested
        else f"Significant at 5 %, corrected for {several(tested, 'metric')}."
    )


def _card(
    snapshot: Snapshot, name: str, choice: OverviewChoice, inputs: CardInputs, changed: Change | None, now: float
) -> Card:
    definition, terms = snapshot.definitions(name)[-1], snapshot.terms_of(name)
    decoding = inputs.whole.decoding if inputs.whole else None
    card = Card(
        name=name,
        query=choice.query(list(snapshot.segments(name))),
        kind=definition.shape.in_short(),
        why=terms.why if terms else "",
        epsilon=show(definition.epsilon_one_report),
        sure=guesses(definition.epsilon_one_report),
        busy=inputs.whole is None and bool(inputs.chosen),
    )
    if decoding is None or not decoding.num_reports:
        figure, caption, trend, note, reports = _nothing(snapshot, name, inputs, choice, now)
        said_why = Change(trend)
        return replace(card, figure=figure, word=True, caption=caption, change=said_why, note=note, reports=reports)
    rows = card_rows(decoding)
    digits = digits_of([decoding], [rows]) if rows else None
    said = headline(decoding, digits)
    return replace(
        card,
        figure=said.figure,
        unit=said.unit,
        word=not said.found,
        caption=said.caption,
        change=changed or Change(_no_change(inputs, definition.shape.discovers)),
        spark=_spark(decoding, inputs, definition.every) if said.found else None,
        chart=_chart(decoding, inputs, definition.every),
        reports=several(decoding.num_reports, "report"),
    )


def _no_change(inputs: CardInputs, discovers: bool) -> str:
    if inputs.whole is not None and not inputs.whole.fresh:
        return "Newer counts are being decoded"
    # What a search finds in one period may have no row in another.
    return "Changes are not tested" if discovers and inputs.earlier else "Nothing to compare with yet"


def _nothing(
    snapshot: Snapshot, name: str, inputs: CardInputs, choice: OverviewChoice, now: float
) -> tuple[str, str, str, str, str]:
    """Figure, caption, trend, note and reports of a card without numbers."""
    every = snapshot.definitions(name)[-1].every
    unit = UNITS[every]
    withheld, at_least = snapshot.withheld_of(name)
    if inputs.whole is not None and inputs.whole.decoding is None:
        return "Cannot be decoded", inputs.whole.problem, "", "", ""
    if inputs.chosen and inputs.whole is None:
        return "Decoding …", "The counts are being turned into estimates.", "", "", ""
    if withheld:
        longer = "Choose a longer period or all installs" if choice.only or inputs.chosen else f"Wait for more {unit}s"
        note = (
            f"Counts of fewer than {at_least} reports are not shown. This is a courtesy; what protects people is the "
            "noise."
        )
        return "Too few reports", f"fewer than {at_least} in this {unit}", longer, note, f"under {at_least} reports"
    if choice.only and snapshot.epochs(name):
        return "No reports", "none of these installs", "Choose all installs", "", "0 reports"
    note = f"A {unit} is shown when it is over, so that a number never moves while you look at it."
    when = f"First numbers on {next_numbers(every, now)}"
    return "Collecting", f"no reports for a finished {unit} yet", when, note, "0 reports"


def _spark(decoding: Decoding, inputs: CardInputs, every: Cadence) -> Svg | None:
    row = headline(decoding).row
    if row is None or len(inputs.spark) < 2 or any(each is None for each in inputs.spark):
        return None
    value, role = decoding.values[row], decoding.roles[row]
    known = known_in([("", each) for each in inputs.spark], value, role)
    if len(known) < 2:
        return None
    digits = digits_of(known, [[each.index(value, role)] for each in known])
    ends = [digits.value(each.estimate[each.index(value, role)]) for each in (known[0], known[-1])]
    words = f"{len(known)} {UNITS[every]}s, from {ends[0]} to {ends[1]}"
    return spark(moments_of(known, value, role, every), words)


def _chart(decoding: Decoding, inputs: CardInputs, every: Cadence) -> Chart | None:
    """Five rows: of a single value by platform and release, or its newest periods; else its largest answers."""
    apart = {name: each.decoding for name, each in inputs.apart if each and each.decoding is not None}
    if apart:
        return _apart(decoding, apart)
    if decoding.has_one_answer or not decoding.has_shares:
        return _by_period(decoding, inputs, every)
    rows = card_rows(decoding)
    if not rows:
        return None
    style = RowStyle(axis=axis_of([decoding], [rows]), digits=digits_of([decoding], [rows]))
    shown = decoding_rows(decoding, rows, style)
    answers = [i for i, role in enumerate(decoding.roles) if role == ANSWER and np.isfinite(decoding.estimate[i])]
    hidden = 0 if NUMBER in decoding.roles else len(answers) - len(rows)
    if hidden:
        detected = sum(bool(decoding.detected[i]) for i in answers if i not in rows)
        shown = (*shown, ChartRow(f"{hidden:,} more", None, f"{detected:,} found", css="more"))
    return Chart(caption=f"{decoding.metric}, estimates", rows=shown)


def _by_period(decoding: Decoding, inputs: CardInputs, every: Cadence) -> Chart | None:
    """A value that is counted by no segment: the newest first."""
    row = decoding.leading_row
    if row is None:
        return None
    key = decoding.values[row], decoding.roles[row]
    newest = [each.decoding for each in inputs.spark if each and each.decoding is not None][-MOST_CARD_ROWS:]
    some = [each for each in reversed(newest) if each.find(*key) is not None] or [decoding]
    rows = [[each.index(*key)] for each in some]
    style = RowStyle(axis=axis_of(some, rows), digits=digits_of(some, rows))
    shown = (chart_row(each, each.index(*key), short(each.epochs[-1], every), style) for each in some if each.epochs)
    return Chart(caption=f"{decoding.metric}, the newest {UNITS[every]}s", rows=tuple(shown))


def _apart(decoding: Decoding, apart: Mapping[str, Decoding]) -> Chart | None:
    row = decoding.leading_row
    if row is None:
        return None
    value, role = decoding.values[row], decoding.roles[row]
    known = {name: each for name, each in apart.items() if each.find(value, role) is not None}
    rows = [[each.index(value, role)] for each in known.values()]
    mark = float(decoding.estimate[row]) if role == NUMBER else None
    some = list(known.values())
    style = RowStyle(axis=axis_of(some, rows), digits=digits_of(some, rows), mark=mark)
    shown = tuple(chart_row(each, each.index(value, role), name, style) for name, each in known.items())
    return Chart(caption=f"{decoding.metric} by platform and release", rows=shown)


_KEYS = (
    (bar(share_axis([1.0]), 0.7, 0.55, 0.85), "share and 95 % interval"),
    (rail(Axis(0, 1), 0.5, 0.3, 0.7), "number and 95 % interval"),
    (below_limit(Axis(0, 1), 0.7), "below the detection limit"),
)
