"""A table as HTML for notebooks, with what must be known of it below: a bare install of the analysis has no Jinja2."""

from __future__ import annotations

from collections.abc import Iterable

from hubbub.protocol.markup import Markup, fill, join

_TABLE = "<table><caption>$caption</caption><thead>$head</thead><tbody>$body</tbody></table><ul>$remarks</ul>"
_ROW = "<tr>$cells</tr>"
_HEADING = "<th>$cell</th>"
_CELL = "<td>$cell</td>"
_REMARK = "<li>$remark</li>"


def html_table(caption: str, header: Iterable[str], rows: Iterable[Iterable[str]], remarks: Iterable[str]) -> str:
    """All of it is text, and escaped."""
    table = fill(
        _TABLE,
        caption=caption,
        head=_row(header, _HEADING),
        body=join(_row(cells, _CELL) for cells in rows),
        remarks=join(fill(_REMARK, remark=remark) for remark in remarks),
    )
    return str(table)


def _row(cells: Iterable[str], template: str) -> Markup:
    return fill(_ROW, cells=join(fill(template, cell=cell) for cell in cells))
