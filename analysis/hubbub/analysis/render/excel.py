"""Results as an Excel workbook: one sheet of rows, one of what holds for each metric. Needs `hubbub[excel]`.

Shares are numbers shown in percent, days are dates, and no text is ever a formula or a link: a candidate may be
anybody's text. The same results give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any

from hubbub.analysis.crosstab_result import COLUMNS as CROSSTAB_COLUMNS
from hubbub.analysis.crosstab_result import Crosstab
from hubbub.analysis.optional import need
from hubbub.analysis.result import COLUMNS, NUMBER, Decoding
from hubbub.protocol.invalid import Invalid

MOST_ROWS = 1_048_575
"""Of a sheet, below its header."""

SHARES = ("estimate", "std_error", "low", "high", "best_guess", "low_selected", "high_selected")
"""Columns that are shares, in rows that are no numbers in their unit."""

_DATES = ("from", "to")
_WIDTHS = {"metric": 18, "segment": 18, "epochs": 24, "value": 28}
_FACTS = (
    "metric",
    "segment",
    "kind",
    "unit",
    "estimand",
    "of",
    "confidence",
    "correction",
    "num_reports",
    "noise_floor",
)


def write_excel(decodings: Sequence[Decoding], path: str) -> None:
    """The rows of `to_csv` with types, ready to be sorted and drawn; and a sheet `about` with notes. Raises `Invalid`
    if the package is missing, and for more rows than a sheet can have."""
    with _workbook(path, sum(map(len, decodings))) as (book, styles):
        _write_rows(book.add_worksheet("estimates"), decodings, styles)
        _write_facts(book.add_worksheet("about"), decodings, styles)


def write_crosstabs_excel(tables: Sequence[Crosstab], path: str) -> None:
    """The rows of `crosstabs_to_csv`, likewise."""
    rows = [row for table in tables for row in table.rows()]
    with _workbook(path, len(rows)) as (book, styles):
        sheet = book.add_worksheet("estimates")
        _write_head(sheet, CROSSTAB_COLUMNS, styles)
        for line, row in enumerate(rows, start=1):
            for column, name in enumerate(CROSSTAB_COLUMNS):
                _write_cell(sheet, line, column, row[name], styles["share"] if name in SHARES else None)
        sheet.autofilter(0, 0, len(rows), len(CROSSTAB_COLUMNS) - 1)
        about = book.add_worksheet("about")
        _write_head(about, ("table", "notes"), styles)
        for line, table in enumerate(tables, start=1):
            _write_cell(about, line, 0, table.name, None)
            _write_cell(about, line, 1, " ".join(table.notes), None)


@contextmanager
def _workbook(path: str, rows: int) -> Iterator[tuple[Any, dict[str, Any]]]:
    """An empty one with its styles, for so many rows of one sheet."""
    if rows > MOST_ROWS:
        raise Invalid([f"a sheet of Excel must have at most {MOST_ROWS:,} rows, got {rows:,}: write CSV or Parquet"])
    xlsxwriter = need("xlsxwriter", "'hubbub[excel]'")
    plain = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with xlsxwriter.Workbook(path, plain) as book:
        book.set_properties({"created": datetime(2000, 1, 1)})  # or each writing of it would be another file
        yield (
            book,
            {
                "head": book.add_format({"bold": True, "bottom": 1}),
                "share": book.add_format({"num_format": "0.0%"}),
                "date": book.add_format({"num_format": "yyyy-mm-dd"}),
            },
        )


def _write_head(sheet: Any, names: Sequence[str], styles: dict[str, Any]) -> None:
    for column, name in enumerate(names):
        sheet.set_column(column, column, 60 if name == "notes" else _WIDTHS.get(name, 12))
        sheet.write_string(0, column, name, styles["head"])
    sheet.freeze_panes(1, 0)


def _write_rows(sheet: Any, decodings: Sequence[Decoding], styles: dict[str, Any]) -> None:
    _write_head(sheet, COLUMNS, styles)
    line = 0
    for decoding in decodings:
        for role, row in zip(decoding.roles, decoding.rows(), strict=True):
            line += 1
            for column, (name, cell) in enumerate(row.items()):
                kind = "date" if name in _DATES else "share" if name in SHARES and role != NUMBER else ""
                _write_cell(sheet, line, column, cell, styles.get(kind))
    sheet.autofilter(0, 0, line, len(COLUMNS) - 1)


def _write_facts(sheet: Any, decodings: Sequence[Decoding], styles: dict[str, Any]) -> None:
    _write_head(sheet, (*_FACTS, "notes"), styles)
    for line, decoding in enumerate(decodings, start=1):
        facts = {name: getattr(decoding, name) for name in _FACTS if name != "segment"}
        facts["segment"] = next(iter(decoding.columns()["segment"]), "")
        facts["noise_floor"] = float(decoding.noise_floor)
        for column, name in enumerate(_FACTS):
            _write_cell(sheet, line, column, facts[name], styles["share"] if name == "noise_floor" else None)
        sheet.write_string(line, len(_FACTS), " ".join(decoding.notes))


def _write_cell(sheet: Any, line: int, column: int, cell: Any, style: Any) -> None:
    """By its type: `write` would guess."""
    match cell:
        case None:
            pass
        case bool():
            sheet.write_boolean(line, column, cell)
        case int() | float():
            if cell == cell and abs(cell) != float("inf"):
                sheet.write_number(line, column, cell, style)
        case _ if style is not None:
            sheet.write_datetime(line, column, date.fromisoformat(cell), style)
        case _:
            sheet.write_string(line, column, str(cell))
