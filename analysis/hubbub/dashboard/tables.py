"""Every table of the pages as plain values: a caption, columns, rows of text. `templates/_table.html` shows them all.

The cells are those of `hubbub decode`; they are text, whatever a value may look like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hubbub.analysis.comparison import Comparison
from hubbub.analysis.render.text import cells, comparison_cells, comparison_header
from hubbub.analysis.result import ANSWER, NUMBER, Decoding, Role
from hubbub.dashboard.health import WHY_REFUSED, Health
from hubbub.dashboard.row_choice import table_rows
from hubbub.dashboard.sentences import cell, value_label, verdict_in_words


@dataclass(frozen=True, slots=True)
class Column:
    """`css` is the class of its cells; that of the first column is never used, for it names the rows."""

    name: str
    css: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`unsure`: noise is all there may be. `set_apart`: its name is ours and no value, so it is set in italics."""

    name: str
    cells: tuple[str, ...]
    set_apart: bool = False
    unsure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A caption that is not `visible` is for those who hear the page."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    css: str = ""
    visible: bool = False


def estimates(decoding: Decoding, rows: Sequence[int], caption: str) -> Table:
    """The table of `hubbub decode`; columns that would be empty are left out."""
    columns = (
        Column("value"),
        Column("estimate", "number"),
        Column(f"{100 * decoding.confidence:g} % interval", "number"),
        Column("installs", "number wide"),
        Column("best guess", "number wide"),
        Column("verdict", "verdict"),
    )
    lines = [[*cells(decoding, i)[:-1], verdict_in_words(decoding, i)] for i in rows]
    kept = [place for place in range(len(columns)) if any(line[place] for line in lines)]
    return Table(
        caption=caption,
        columns=tuple(columns[place] for place in kept),
        rows=tuple(
            _row(line[0], decoding.roles[i], [line[place] for place in kept[1:]], unsure="noise floor" in line[-1])
            for i, line in zip(rows, lines, strict=True)
        ),
        css="estimates",
    )


def differences(comparison: Comparison, rows: Sequence[int]) -> Table:
    """The table of `hubbub decode --against`."""
    names = [*comparison_header(comparison)[:-1], "verdict"]
    kinds = ("", "number wide", "number wide", "number", "number", "verdict")
    lines = {i: comparison_cells(comparison, i) for i in rows}
    return Table(
        caption="Differences",
        columns=tuple(Column(name, kind) for name, kind in zip(names, kinds, strict=True)),
        rows=tuple(
            _row(line[0], comparison.roles[i], line[1:], unsure=not comparison.changed[i]) for i, line in lines.items()
        ),
    )


def by_epoch(decodings: Sequence[Decoding], value: str, role: str) -> Table:
    """One value in each of these epochs, the newest first."""
    rows = []
    for decoding in reversed(decodings):
        i = decoding.values.index(value)
        figures = [cell(decoding, i, x) for x in (decoding.estimate[i], decoding.low[i], decoding.high[i])]
        estimate, low, high = figures
        rows.append(Row(name=decoding.epochs[0], cells=(estimate, f"{low} to {high}", f"{decoding.num_reports:,}")))
    columns = (Column("epoch"), *(Column(name, "number") for name in ("estimate", "interval", "reports")))
    return Table(caption=f"{value_label(value, role)}, epoch by epoch", columns=columns, rows=tuple(rows))


def by_segment(decodings: Mapping[str, Decoding], key: str) -> Table:
    """A row for each value, a column for each segment."""
    shown = dict.fromkeys(
        (decoding.values[i], decoding.roles[i]) for decoding in decodings.values() for i in table_rows(decoding)
    )
    rows = []
    for value, role in shown:
        figures = [_figure_of(decoding, value, role) for decoding in decodings.values()]
        rows.append(_row(value, role, [words for words, _ in figures], unsure=all(unsure for _, unsure in figures)))
    rows.append(Row(name="reports", cells=tuple(f"{d.num_reports:,}" for d in decodings.values()), set_apart=True))
    columns = (Column("value"), *(Column(value, "number") for value in decodings))
    return Table(caption=f"By {key}", columns=columns, rows=tuple(rows), css="by-segment")


def _figure_of(decoding: Decoding, value: str, role: Role) -> tuple[str, bool]:
    """A cell, and whether noise is all there may be."""
    i = decoding.find(value, role)
    if i is None:
        return "", True
    if not np.isfinite(decoding.std_error[i]):
        return "unknown", True
    unsure = not np.isnan(decoding.p_adjusted[i]) and not decoding.detected[i]
    low, high = (cell(decoding, i, x) for x in (decoding.low[i], decoding.high[i]))
    return f"{cell(decoding, i, decoding.estimate[i])} ({low} to {high})", unsure


def refusals(health: Health) -> Table:
    """What a collector refused, and what each reason means."""
    by_count = sorted(health.refused.items(), key=lambda item: -item[1])
    return Table(
        caption="Requests refused, by reason",
        columns=(Column("reason"), Column("times", "number"), Column("what that means")),
        rows=tuple(Row(name=reason, cells=(f"{count:,}", WHY_REFUSED.get(reason, ""))) for reason, count in by_count),
        visible=True,
    )


def _row(value: str, role: str, cells: Sequence[str], *, unsure: bool) -> Row:
    is_value = role in (ANSWER, NUMBER)
    name = value_label(value, role) if is_value else value
    return Row(name=name, cells=tuple(cells), set_apart=not is_value, unsure=unsure)
