"""A crosstab as text for a terminal, and as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hubbub.analysis.crosstab_result import Crosstab
from hubbub.analysis.render.crosstab_words import Cell, answer, cell_of, means_in_words, remarks, view
from hubbub.analysis.render.digits import SPACE
from hubbub.analysis.render.html_table import html_table
from hubbub.analysis.render.terminal import PLAIN, Style
from hubbub.analysis.result import epoch_span
from hubbub.protocol.invalid import plural
from hubbub.protocol.printed import intervals_of, percent, text_table

_MOST_COLUMNS = 12
_LONGEST_CELL = 30


def crosstab_table(crosstab: Crosstab, given: int | None = 0, style: Style = PLAIN) -> str:
    """One sentence that answers, the table, and what else must be known."""
    lines = [style.bold(_title(crosstab)), str(answer(crosstab, given or 0)), "", _caption(crosstab, given), ""]
    header, *rows = text_table(*_plain(_cells(crosstab, given)), longest=_LONGEST_CELL)
    lines += [header, *rows, *_hidden(crosstab, given), ""]
    means = means_in_words(crosstab, given) if given is not None else []
    means = [[cell.replace(SPACE, " ") for cell in row] for row in means]
    if means and given is not None:
        group, other = crosstab.factors[given], crosstab.factors[1 - given]
        lines += [*text_table([group.name, f"average of {other.name}", _interval(crosstab)], means), ""]
    # A terminal breaks no lines, and shows a no-break space as it likes.
    return "\n".join([*lines, *remarks(crosstab)]).replace(SPACE, " ")


def crosstab_html(crosstab: Crosstab, given: int | None = 0) -> str:
    """For notebooks."""
    caption = f"{_title(crosstab)}. {answer(crosstab, given or 0)}"
    return html_table(caption, *_cells(crosstab, given), [*_hidden(crosstab, given), *remarks(crosstab)])


def _title(crosstab: Crosstab) -> str:
    first, second = (factor.name for factor in crosstab.factors)
    epochs = f", {epoch_span(crosstab.epochs)}" if crosstab.epochs else ""
    reports = plural(crosstab.num_reports, "report", ",")
    of = " of both" if crosstab.way == "pair" else ""
    return f"{crosstab.title} ({crosstab.way} of {first} and {second}){epochs}, {reports}{of}"


def _caption(crosstab: Crosstab, given: int | None) -> str:
    if given is None:
        return f"Shares of all installs; all cells add up to 100 %. {_interval(crosstab)} in brackets."
    group, other = crosstab.factors[given], crosstab.factors[1 - given]
    return f"{other.name}, given {group.name}: each row adds up to 100 %. {_interval(crosstab)} in brackets."


def _interval(crosstab: Crosstab) -> str:
    return intervals_of(crosstab.confidence)


def _cells(crosstab: Crosstab, given: int | None) -> tuple[list[str], list[list[str]]]:
    seen = view(crosstab, given)
    columns = _shown(seen.columns.roles, crosstab.of)[:_MOST_COLUMNS]
    rows = [
        [
            seen.rows.values[i],
            percent(float(seen.of_rows.estimate[i])),
            *(_written(cell_of(seen.shares, (i, j), seen.digits)) for j in columns),
        ]
        for i in _shown(seen.rows.roles, crosstab.of)
    ]
    everyone = [_written(cell_of(seen.of_columns, j, seen.digits)) for j in columns]
    header = [seen.rows.name, "of installs", *(seen.columns.values[j] for j in columns)]
    return header, [*rows, ["all installs", "100 %", *everyone]]


def _plain(cells: tuple[list[str], list[list[str]]]) -> tuple[list[str], list[list[str]]]:
    header, rows = cells
    return header, [[cell.replace(SPACE, " ") for cell in row] for row in rows]


def _shown(roles: Iterable[str], of: str) -> list[int]:
    """All categories, or those of the installs that answered."""
    return [i for i, role in enumerate(roles) if of == "all" or role != "absent"]


def _written(cell: Cell) -> str:
    return f"{cell.figure} ({cell.interval})" if cell.detected else cell.figure


def _hidden(crosstab: Crosstab, given: int | None) -> list[str]:
    seen = view(crosstab, given)
    hidden = len(_shown(seen.columns.roles, crosstab.of)) - _MOST_COLUMNS
    found = [f"{hidden} more columns are not shown; --format csv has them all."] if hidden > 0 else []
    below = int(np.count_nonzero(~seen.shares.detected & ~np.isnan(seen.shares.estimate)))
    return [*found, *(["<: below the detection limit, which is shown."] if below else [])]
