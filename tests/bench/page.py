"""The bench's findings as a page: one table for each question, one line for each defeat."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.bench.rows import US, Comparison, Row, compare

BEGIN, END = "<!-- made by make bench -->", "<!-- end -->"
TITLES = {
    "client": "The client",
    "accuracy": "Accuracy at equal epsilon",
    "collector": "The collector",
    "decode": "Decoding, as candidates grow",
    "simulate": "Simulating, as installs grow",
}


def _measured_again(tables: dict[str, str]) -> list[str]:
    """The tables that are newer than the rest, by the day."""
    days = dict.fromkeys(tables.values())
    return [f" Measured again, {day}: {'; '.join(t for t, when in tables.items() if when == day)}." for day in days]


def page(made: dict[str, Any], rows: list[Row]) -> str:
    """The part of docs/benchmarks.md between the markers."""
    compared = compare(rows)
    head = [
        f"{made['when']}; {made['machine']}; Python {made['python']}; hubbub {made['hubbub']}; "
        f"{made['seconds'] / 60:.0f} minutes in all." + "".join(_measured_again(made.get("again", {}))),
        "",
        "Peers: " + ", ".join(f"{name} {version}" for name, version in made["versions"].items()) + ".",
        "",
        *_behind(compared),
    ]
    parts = [part for part in TITLES if any(row.part == part for row in rows)]
    return "\n".join([*head, *(line for part in parts for line in _part(part, rows, compared))]).rstrip() + "\n"


def _behind(compared: list[Comparison]) -> list[str]:
    """Every rival that beats us, in words, before anything else."""
    lost = [one for one in compared if one.verdict == "behind"]
    counts = {verdict: sum(one.verdict == verdict for one in compared) for verdict in ("ahead", "level", "behind")}
    lines = [
        "### Where hubbub is not ahead",
        "",
        f"Of {sum(counts.values())} comparisons hubbub is ahead in {counts['ahead']}, level (within two standard "
        f"errors) in {counts['level']}, behind in {counts['behind']}:",
        "",
    ]
    grouped: dict[tuple[str, str, str], list[Comparison]] = {}
    for one in lost:
        grouped.setdefault((one.row.table, one.row.who, one.row.excused), []).append(one)
    for (table, who, excused), ones in grouped.items():
        cases = "; ".join(f"{one.row.case}: {1 / one.ratio:.2f} times" for one in ones)
        lines.append(f"* **{table}**, against {who}{f' ({excused})' if excused else ''}: {cases}.")
    return [*lines, ""] if lost else [*lines[:2], "Nowhere in this run.", ""]


def _part(part: str, rows: list[Row], compared: list[Comparison]) -> list[str]:
    lines = [f"### {TITLES[part]}", ""]
    mine = [row for row in rows if row.part == part]
    for table in dict.fromkeys(row.table for row in mine):
        lines += _table(table, [row for row in mine if row.table == table], compared)
    return lines


def _table(title: str, rows: list[Row], compared: list[Comparison]) -> list[str]:
    """Each cell: the figure, half its spread, and how many times better ours is. The longer side is down."""
    whos = sorted(dict.fromkeys(row.who for row in rows), key=lambda who: who != US)
    cases = list(dict.fromkeys(row.case for row in rows))
    ratio = {(one.row.case, one.row.who): one for one in compared if one.row in rows}
    cells = {(row.case, row.who): _cell(row, ratio.get((row.case, row.who))) for row in rows}
    if len(whos) > len(cases):
        across, table = cases, [[who, *(cells.get((case, who), "–") for case in cases)] for who in whos]
    else:
        across, table = whos, [[case, *(cells.get((case, who), "–") for who in whos)] for case in cases]
    lines = [
        f"**{title}** ({rows[0].unit})",
        "",
        "| | " + " | ".join(across) + " |",
        "|---|" + "---|" * len(across),
        *("| " + " | ".join(line) + " |" for line in table),
        "",
    ]
    notes = dict.fromkeys(f"* {row.who}: {row.note}." for row in rows if row.note)
    return [*lines, *notes, *([""] if notes else [])]


def _cell(row: Row, against: Comparison | None) -> str:
    value = _digits(row.value, 3)
    spread = (row.high - row.low) / 2
    if spread > 0.001 * abs(row.value):
        value += f" ±{_digits(spread, 2)}"
    if against is None:
        return value
    mark = {"behind": ", behind", "level": ", level"}.get(against.verdict, "")
    return f"{value} ({against.ratio:.3g}×{mark})"


def _digits(value: float, digits: int) -> str:
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}"


def replaced(document: str, made: str) -> str:
    """A document with what stands between its markers replaced."""
    before, rest = document.split(BEGIN, 1)
    return f"{before}{BEGIN}\n\n{made}\n{END}{rest.split(END, 1)[1]}"


def lines_of(rows: Iterable[Row]) -> str:
    """What a terminal shows as a part ends."""
    rows = list(rows)
    compared = {id(one.row): one for one in compare(rows)}
    shown = []
    for row in rows:
        one = compared.get(id(row))
        against = f"{one.ratio:8.2f}x {one.verdict}" if one else ""
        shown.append(f"  {row.table[:34]:34} {row.case[:28]:28} {row.who[:28]:28} {row.value:12.4g} {against}")
    return "\n".join(shown)
