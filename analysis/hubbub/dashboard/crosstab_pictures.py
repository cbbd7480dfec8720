"""A table of two answers as a heat map that is its own table, and one outcome of it as bars or averages on a scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hubbub.analysis.crosstab_result import Crosstab
from hubbub.analysis.render.crosstab_words import Cell, View, cell_of, outcome_in_words, rest_of
from hubbub.analysis.render.digits import Digits
from hubbub.analysis.render.glyphs import Axis, bar, below_limit, number_axis, rail, share_axis
from hubbub.analysis.result import ABSENT
from hubbub.dashboard.chart_rows import Chart, ChartRow
from hubbub.protocol.printed import intervals_of

HEAT = (
    (0.03, "under 3 %"),
    (0.07, "3 to 7"),
    (0.12, "7 to 12"),
    (0.3, "12 to 30"),
    (0.6, "30 to 60"),
    (2.0, "over 60 %"),
)
MOST_NARROW = 5
"""Columns that fit a phone; a wider table scrolls by itself."""


@dataclass(frozen=True, slots=True)
class HeatCell:
    figure: str
    interval: str
    css: str


@dataclass(frozen=True, slots=True)
class HeatRow:
    name: str
    share: str
    cells: tuple[HeatCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """A table that is its own picture."""

    caption: str
    corner: str
    over: str
    columns: tuple[str, ...]
    rows: tuple[HeatRow, ...]
    wide: bool
    hatched: bool
    legend: tuple[tuple[str, str], ...]


def heat_of(table: Crosstab, seen: View, side: int | None) -> Heat:
    rows = [i for i, role in enumerate(seen.rows.roles) if table.of == "all" or role != ABSENT]
    columns = [j for j, role in enumerate(seen.columns.roles) if table.of == "all" or role != ABSENT]
    body = [
        HeatRow(
            seen.rows.values[i],
            f"{cell_of(seen.of_rows, i, seen.digits).figure} of installs",
            tuple(_cell(seen, (i, j)) for j in columns),
        )
        for i in rows
    ]
    everyone = tuple(_styled(seen.of_columns.estimate[j], cell_of(seen.of_columns, j, seen.digits)) for j in columns)
    body.append(HeatRow("all installs", "", everyone))
    adds_up = "Each row adds up to 100 %." if side is not None else "All cells together add up to 100 %."
    return Heat(
        caption=f"{adds_up} Small: {intervals_of(table.confidence)}.",
        corner=seen.rows.name,
        over=seen.columns.name,
        columns=tuple(seen.columns.values[j] for j in columns),
        rows=tuple(body),
        wide=len(columns) > MOST_NARROW,
        hatched=any(cell.css == "under" for row in body for cell in row.cells),
        legend=tuple((f"h{place}", words) for place, (_, words) in enumerate(HEAT, 1)),
    )


def _cell(seen: View, place: tuple[int, int]) -> HeatCell:
    return _styled(seen.shares.estimate[place], cell_of(seen.shares, place, seen.digits))


def _styled(share: float, cell: Cell) -> HeatCell:
    if not cell.detected:
        return HeatCell(cell.figure, cell.interval, "under")
    level = next(place for place, (end, _) in enumerate(HEAT, 1) if share < end or place == len(HEAT))
    return HeatCell(cell.figure, cell.interval, f"h{level}")


# --- one outcome as bars -------------------------------------------------------------------------------------------


def chart_of(table: Crosstab, seen: View, side: int | None) -> tuple[str, Chart | None]:
    """Of a number its average, else the outcome that differs most, in each category of the given factor."""
    if side is None:
        return "", None
    rows = [i for i, role in enumerate(seen.rows.roles) if role != ABSENT]
    means, found = table.given[side].means, table.given[side].clearest
    if means is not None:
        known = [i for i in rows if np.isfinite(means.low[i]) and np.isfinite(means.high[i])]
        ends = [(float(means.low[i]), float(means.high[i])) for i in known]
        axis, digits = number_axis(ends), Digits.of(ends, unit=seen.columns.unit)
        some = tuple(
            ChartRow(
                seen.rows.values[i],
                rail(axis, float(means.estimate[i]), *ends[place], height=16),
                digits.value(float(means.estimate[i])),
                _short(digits.spread(float(means.estimate[i]), *ends[place])),
            )
            for place, i in enumerate(known)
        )
        title = f"Average {seen.columns.name}, by {seen.rows.name}"
        return title, Chart(caption=title, rows=some, css="wide") if some else None
    if found is None:
        return "", None
    outcome = found.outcome
    title = f"{outcome_in_words(seen.columns, found)}, by {seen.rows.name}"
    if found.complement:
        return title, _rest_chart(seen, rows, outcome, title)
    shares = seen.shares
    axis = share_axis(
        float(shares.high[i, outcome] if shares.detected[i, outcome] else shares.limit[i, outcome]) for i in rows
    )
    return title, Chart(
        caption=f"Share with {title}", rows=tuple(_bar_row(seen, i, outcome, axis) for i in rows), css="wide"
    )


def _rest_chart(seen: View, rows: list[int], outcome: int, title: str) -> Chart:
    """Of all who have any other category."""
    known = {i: rest_of(seen.shares, (i, outcome)) for i in rows}
    axis = share_axis(high for _, _, high in known.values())
    shown = (
        ChartRow(
            seen.rows.values[i],
            bar(axis, estimate, low, high, 16),
            seen.digits.value(estimate),
            _short(seen.digits.spread(estimate, low, high)),
        )
        if np.isfinite([estimate, low, high]).all()
        else ChartRow(seen.rows.values[i], None, "unknown", css="under")
        for i, (estimate, low, high) in known.items()
    )
    return Chart(caption=f"Share with {title}", rows=tuple(shown), css="wide")


def _short(spread: str) -> str:
    """On a phone there is room for `± 0.9`, and for no more."""
    return spread if spread.startswith("±") else ""


def _bar_row(seen: View, row: int, outcome: int, axis: Axis) -> ChartRow:
    cell, shares = cell_of(seen.shares, (row, outcome), seen.digits), seen.shares
    estimate, low, high, limit = (
        float(each[row, outcome]) for each in (shares.estimate, shares.low, shares.high, shares.limit)
    )
    name = seen.rows.values[row]
    if cell.detected and np.isfinite(low) and np.isfinite(high):
        picture = bar(axis, estimate, low, high, 16)
        return ChartRow(name, picture, cell.figure, _short(seen.digits.spread(estimate, low, high)))
    if cell.detected is False:
        return ChartRow(name, below_limit(axis, limit, 16), cell.figure, css="under")
    return ChartRow(name, None, cell.figure, css="under")
