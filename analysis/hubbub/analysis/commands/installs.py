"""`hubbub decode --installs`: active installs over time, as a table, CSV or JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import groupby

from hubbub.analysis.installs import ActiveInstalls
from hubbub.analysis.render.terminal import Style
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.printed import fixed_percent, text_table
from hubbub.protocol.segments import in_words

_WHO = (
    "Who is counted: installs that agreed, ran, and whose message has arrived by now. Late ones still come while an "
    "epoch is open, so the newest numbers grow."
)
_COLUMNS = ("counts", "segment", "every", "period", "installs", "metric")
_PER = {"once": "month", "day": "day", "week": "week", "month": "month"}


def installs_text(found: Sequence[ActiveInstalls], form: str, style: Style) -> str:
    """The result as it is written. Raises `Invalid` for a form that it does not have."""
    match form:
        case "table":
            return "\n\n".join([*_tables(found, style), _WHO]) + "\n"
        case "csv":
            out = StringIO()
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(_COLUMNS)
            writer.writerows(_row(each).values() for each in found)
            return out.getvalue()
        case "json":
            return json.dumps([_row(each) for each in found], indent=2) + "\n"
    raise Invalid([f"--installs writes a table, csv or json, got --format {form}"])


def _row(each: ActiveInstalls) -> dict[str, str | int]:
    cells = (each.counts, in_words(each.segment), each.every, each.period, each.installs, each.metric)
    return dict(zip(_COLUMNS, cells, strict=True))


def _tables(found: Sequence[ActiveInstalls], style: Style) -> Iterator[str]:
    for (every, segment), each in groupby(found, key=lambda installs: (installs.every, installs.segment)):
        rows, before = [], None
        for installs in (series := list(each)):
            rows.append(
                [installs.period, f"{installs.installs:,}", _change(before, installs.installs), installs.metric]
            )
            before = installs.installs
        whom = f", {in_words(segment)}" if segment else ""
        title = style.bold(f"{series[0].counts.capitalize()} per {_PER[every]}{whom}")
        header = ["period", "installs", "change", "as counted by"]
        yield "\n".join([title, *text_table(header, rows, left=(0, 3))])


def _change(before: int | None, now: int) -> str:
    if not before:
        return ""
    return fixed_percent(now / before - 1, sign="+")
