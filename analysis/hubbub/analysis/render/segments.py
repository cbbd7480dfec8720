"""A metric by segment, for a person: a row for each value, a column for each platform or release."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from hubbub.analysis.render.terminal import Style
from hubbub.analysis.render.text import SHOWN, described, row_name
from hubbub.analysis.result import NUMBER, Decoding, Role, epoch_span
from hubbub.protocol.printed import number, percent, text_table
from hubbub.protocol.segments import in_words

_LONGEST_CELL = 34


def segment_tables(decodings: Sequence[Decoding], style: Style) -> Iterator[str]:
    """A table for each metric. The decodings of a metric follow each other."""
    for _, group in groupby(decodings, key=lambda decoding: decoding.metric):
        yield _table(list(group), style)


def _table(decodings: Sequence[Decoding], style: Style) -> str:
    first = decodings[0]
    unit = f", in {first.unit}" if first.unit else ""
    epochs = tuple(sorted({epoch for decoding in decodings for epoch in decoding.epochs}))
    title = ", ".join(filter(None, (f"{first.metric} ({first.kind}{unit})", epoch_span(epochs))))
    rows = [
        [row_name(first, value, role), *(_cell(decoding, value, role) for decoding in decodings)]
        for value, role in _rows(decodings)
    ]
    rows.append(["reports", *(f"{decoding.num_reports:,}" for decoding in decodings)])
    header = ["value", *(in_words(decoding.segment) or "not said" for decoding in decodings)]
    lines = text_table(header, rows, longest=_LONGEST_CELL)
    said = dict.fromkeys(map(described, decodings))  # other remarks differ by segment, and are in the other formats
    empty = [_EMPTY] if any(cell == "" for row in rows for cell in row[1:]) else []
    return "\n".join([style.bold(title), "", *lines, "", *said, *empty, _ADVICE])


_EMPTY = "An empty cell: not found in that segment, or not among the rows that are shown for it."
_ADVICE = (
    "Each cell: estimate (interval); ? marks one that is not statistically different from zero. "
    "Segments are different installs; a difference between two is tested by --only KEY=VALUE --against-only KEY=VALUE."
)


def _rows(decodings: Sequence[Decoding]) -> list[tuple[str, Role]]:
    """What any segment would show, in the order in which it comes first."""
    found: dict[tuple[str, Role], None] = {}
    for decoding in decodings:
        for i in decoding.top_rows(SHOWN):
            found.setdefault((decoding.values[i], decoding.roles[i]))
    return list(found)


def _cell(decoding: Decoding, value: str, role: Role) -> str:
    i = decoding.find(value, role)
    if i is None:
        return ""
    if not np.isfinite(decoding.std_error[i]):
        return "unknown"
    show = number if role == NUMBER else percent
    unsure = "" if np.isnan(decoding.p_adjusted[i]) or decoding.detected[i] else " ?"
    return f"{show(decoding.estimate[i])} ({show(decoding.low[i])} to {show(decoding.high[i])}){unsure}"
