"""Tables of text: columns side by side, words to the left and numbers to the right."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def text_table(
    rows: Sequence[Sequence[str]], left: Collection[int] = (), *, widths: Sequence[int] = (), gap: str = "  "
) -> list[str]:
    """The lines of a table whose first row is its header. Columns in `left` are flush left; they are as wide as their
    widest cell, unless `widths` are given."""
    widths = widths or [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        gap.join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
