"""Every table of the pages as plain values: a caption, columns, rows of text. `templates/_table.html` shows them all.

A column has one number of decimals, that of its narrowest interval; the downloads have all digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hubbub.analysis.comparison import Comparison
from hubbub.analysis.render.digits import Digits
from hubbub.analysis.result import ANSWER, NUMBER, Decoding, Role
from hubbub.dashboard.chart_rows import digits_of, is_below, limit_of, under
from hubbub.dashboard.health import WHY_REFUSED, Health
from hubbub.dashboard.periods import UNITS, short
from hubbub.dashboard.row_choice import table_rows
from hubbub.dashboard.sentences import limit_in_words, row_digits, value_label
from hubbub.dashboard.steps import Step, steps
from hubbub.protocol.printed import intervals_of
from hubbub.protocol.vocabulary import Cadence

NUMBERS = "n"
QUIET = "quiet w"


@dataclass(frozen=True, slots=True)
class Column:
    """`css` is the class of its cells; that of the first column is never used, as it names the rows."""

    name: str
    css: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """`under`: below the detection limit. `set_apart`: its name is ours and no value, so it is set in italics."""

    name: str
    cells: tuple[str, ...]
    set_apart: bool = False
    under: bool = False
    again: bool = False
    """Its name is that of the row above, and is not shown once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A caption that is not `visible` is for those who hear the page."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    css: str = ""
    visible: bool = False


def estimates(decoding: Decoding, rows: Sequence[int], caption: str) -> Table:
    """Estimate, interval and installs of each row; below the detection limit only how much noise would hide."""
    apart = {i for i in rows if decoding.roles[i] == NUMBER and decoding.values[i] == "sum"}
    if NUMBER in decoding.roles and not decoding.has_shares:  # beside a mean, who gave no answer
        apart |= {i for i in rows if decoding.roles[i] != NUMBER}
    digits = digits_of([decoding], [[i for i in rows if i not in apart]])
    is_share = any(decoding.roles[i] != NUMBER for i in rows)
    confidence = intervals_of(decoding.confidence)
    names = ["Value", "Estimate", confidence, *(["Installs"] if is_share else [])]
    found = []
    for i in rows:
        own = row_digits(decoding, i) if i in apart else digits  # neither is a mean, and has digits of its own
        found.append(_row(decoding, i, _cells(decoding, i, own, is_share=is_share), is_below(decoding, i)))
    return Table(
        caption=caption,
        columns=(Column(names[0]), *(Column(name, NUMBERS) for name in names[1:]), Column("", QUIET)),
        rows=tuple(found),
        css="estimates",
    )


def _cells(decoding: Decoding, i: int, digits: Digits, *, is_share: bool) -> list[str]:
    installs = [""] if is_share else []
    if not np.isfinite(decoding.std_error[i]):
        return ["unknown", "", *installs, "cannot be estimated"]
    if is_below(decoding, i):
        words = f"below the detection limit ({limit_in_words(decoding)})"
        return [under(float(decoding.noise_floor), digits), "", *installs, words]
    if is_share and decoding.roles[i] != NUMBER:
        installs = [f"{max(float(decoding.estimate[i]), 0.0) * decoding.installs:,.0f}"]
    tested = decoding.roles[i] == ANSWER and np.isfinite(decoding.p_adjusted[i])
    interval = digits.interval(decoding.low[i], decoding.high[i])
    return [digits.value(decoding.estimate[i]), interval, *installs, "detected" if tested else ""]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The words for what two sides differ by: as a noun, as a verb, and for a row that does not."""

    noun: str
    verb: str
    unchanged: str


def differences(comparison: Comparison, rows: Sequence[int], sides: tuple[str, str], verdicts: Verdicts) -> Table:
    """Before, after, and how far apart; of each the digits that its interval can tell."""
    names = ("Value", *sides, "Difference", intervals_of(comparison.after.confidence), "")
    styles = ("", "n w", "n w", NUMBERS, NUMBERS, QUIET)
    what = "Numbers" if all(comparison.roles[i] == NUMBER for i in rows) else "Shares"
    found = []
    for i in rows:
        is_number = comparison.roles[i] == NUMBER
        unit = comparison.after.unit if is_number else ""
        digits = Digits.of([(float(comparison.low[i]), float(comparison.high[i]))], unit=unit, is_share=not is_number)
        cells = (
            _side(comparison.before, comparison, i, digits),
            _side(comparison.after, comparison, i, digits),
            digits.signed(comparison.difference[i], comparison.difference[i]),
            digits.signed(comparison.low[i], comparison.high[i]),
            f"significant {verdicts.noun}" if comparison.changed[i] else verdicts.unchanged,
        )
        row = comparison.after.index(comparison.values[i], comparison.roles[i])
        found.append(_row(comparison.after, row, cells, not comparison.changed[i]))
    return Table(
        caption=f"{what}: {sides[0]} and {sides[1]} compared",
        columns=tuple(Column(name, css) for name, css in zip(names, styles, strict=True)),
        rows=tuple(found),
    )


def _side(decoding: Decoding, comparison: Comparison, i: int, digits: Digits) -> str:
    row = decoding.index(comparison.values[i], comparison.roles[i])
    return under(limit_of(decoding), digits) if is_below(decoding, row) else digits.value(decoding.estimate[row])


def by_period(decodings: Sequence[Decoding], value: str, role: Role, every: Cadence) -> Table:
    """One value in each of these periods, the newest first."""
    rows_of = [decoding.index(value, role) for decoding in decodings]
    digits = digits_of(decodings, [[i] for i in rows_of])
    rows = [
        TableRow(
            name=short(decoding.epochs[0], every),
            cells=(*_two_cells(decoding, i, digits), f"{decoding.num_reports:,}"),
            under=is_below(decoding, i),
        )
        for decoding, i in reversed(list(zip(decodings, rows_of, strict=True)))
    ]
    unit = UNITS[every].capitalize()
    columns = (Column(unit), *(Column(name, NUMBERS) for name in ("Estimate", "Interval", "Reports")))
    label = value_label(decodings[0], rows_of[0])
    return Table(caption=f"{label}, {unit.lower()} by {unit.lower()}", columns=columns, rows=tuple(rows))


def _two_cells(decoding: Decoding, i: int, digits: Digits) -> tuple[str, str]:
    """Estimate and interval; below the detection limit only how much noise would hide."""
    if is_below(decoding, i):
        return under(limit_of(decoding), digits), ""
    return digits.value(decoding.estimate[i]), digits.interval(decoding.low[i], decoding.high[i])


def by_segment(decodings: Mapping[str, Decoding], key: str) -> Table:
    """A row for each value, a column for each segment. Of a range the quantiles: its cells are in the downloads."""
    shown = dict.fromkeys(
        (decoding.values[i], decoding.roles[i])
        for decoding in decodings.values()
        for i in table_rows(decoding)
        if decoding.values[i] != "sum" and not (decoding.distribution is not None and decoding.roles[i] == ANSWER)
    )
    first = next(iter(decodings.values()))
    rows = []
    for value, role in shown:
        known = [(decoding, decoding.find(value, role)) for decoding in decodings.values()]
        some = [(decoding, i) for decoding, i in known if i is not None]
        digits = digits_of([decoding for decoding, _ in some], [[i] for _, i in some])
        cells = [_figure_of(decoding, i, digits) for decoding, i in known]
        decoding, i = some[0]
        is_under = all(is_below(decoding, i) for decoding, i in some)
        rows.append(TableRow(name=value_label(decoding, i), cells=tuple(cells), set_apart=_ours(role), under=is_under))
    rows.append(TableRow(name="reports", cells=tuple(f"{d.num_reports:,}" for d in decodings.values()), set_apart=True))
    columns = (Column("Value"), *(Column(value, NUMBERS) for value in decodings))
    return Table(caption=f"{first.metric} by {key}", columns=columns, rows=tuple(rows), css="by-segment")


def crossed(groups: Mapping[str, Mapping[str, Decoding]], row: tuple[str, Role], keys: tuple[str, str]) -> Table:
    """A row for each pair of two keys: of releases with what differs from the one before, corrected for all rows."""
    all_of = [decoding for found in groups.values() for decoding in found.values()]
    digits = digits_of(all_of, [[decoding.index(*row)] for decoding in all_of])
    tests = sum(max(len(found) - 1, 0) for found in groups.values())
    with_steps = keys[1] == "release"
    rows = []
    for name, found in groups.items():
        beside = steps(found, row, tests) if with_steps else {}
        for place, (second, decoding) in enumerate(found.items()):
            i = decoding.index(*row)
            cells = (second, *_two_cells(decoding, i, digits), f"{decoding.num_reports:,}", _step(beside.get(second)))
            rows.append(TableRow(name=name, cells=cells, again=place > 0, under=is_below(decoding, i)))
    first = all_of[0]
    names = (
        keys[1].capitalize(),
        value_label(first, first.index(*row)).capitalize(),
        intervals_of(first.confidence),
        "Reports",
    )
    columns = [Column(name, NUMBERS if place else "") for place, name in enumerate(names)]
    last = Column("Compared with the release before" if with_steps else "", QUIET)
    return Table(
        caption=f"{first.metric} by {keys[0]} and {keys[1]}",
        columns=(Column(keys[0].capitalize()), *columns, last),
        rows=tuple(rows),
    )


def _step(step: Step | None) -> str:
    if step is None:
        return ""
    return f"{step.way} than {step.older}" if step.way else f"no significant difference from {step.older}"


def _figure_of(decoding: Decoding, i: int | None, digits: Digits) -> str:
    if i is None:
        return ""
    if not np.isfinite(decoding.std_error[i]):
        return "unknown"
    if is_below(decoding, i):
        return under(float(decoding.noise_floor), digits)
    estimate, low, high = decoding.estimate[i], decoding.low[i], decoding.high[i]
    return f"{digits.value(estimate)} ({digits.interval(low, high)})"


def refusals(health: Health) -> Table:
    """What a collector refused, in words; a reason that is not known here is named as the collector does."""
    by_count = sorted(health.refused.items(), key=lambda item: -item[1])
    return Table(
        caption="Requests refused, by reason",
        columns=(Column("Reason"), Column("Times", NUMBERS)),
        rows=tuple(TableRow(name=WHY_REFUSED.get(reason, reason), cells=(f"{count:,}",)) for reason, count in by_count),
        visible=True,
    )


def _row(decoding: Decoding, i: int, cells: Sequence[str], under: bool) -> TableRow:
    return TableRow(name=value_label(decoding, i), cells=tuple(cells), set_apart=_ours(decoding.roles[i]), under=under)


def _ours(role: str) -> bool:
    return role not in (ANSWER, NUMBER)
