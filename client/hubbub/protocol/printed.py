"""How shares, numbers and tables are printed, the same everywhere.

Shares are shares elsewhere, and percent only where a person reads them. Nothing that an app loads at its start is here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import isfinite, log10

from hubbub.protocol.invalid import plural


def percent(share: float) -> str:
    """An estimate: with as many digits as its size deserves."""
    if not isfinite(share):
        return "unknown"
    if share == 0:
        return "0 %"
    text = fixed_percent(share, decimals(share))
    return "0 %" if float(text[:-2]) == 0 else text


def decimals(share: float) -> int:
    """How many of them a share has in percent."""
    return 1 if abs(share) >= 0.1 else 2 if abs(share) >= 0.001 else 4


def plain_percent(share: float, digits: int = 6) -> str:
    """As few digits as say it, for axes and round numbers: `5 %`, `0.1 %`. At most this many."""
    return f"{100 * share:.{digits}g} %"


def fixed_percent(share: float, decimals: int = 1, sign: str = "") -> str:
    """With this many decimals, whatever its size; `sign` is that of a format, `+` where a plus is to be shown."""
    return f"{100 * share:{sign}.{decimals}f} %"


def short_percent(share: float) -> str:
    """With two digits that say something, however small the share."""
    return fixed_percent(share, min(max(0, 1 - int(log10(share * 100) // 1)), 8) if share > 0 else 0)


def in_points(difference: float, form: str = "g") -> str:
    """How far apart two shares are, in points of percent and in this format: the number alone."""
    return f"{100 * difference:{form}}" if isfinite(difference) else "unknown"


def points(difference: float, form: str = "g") -> str:
    """With its unit: `5 points`."""
    return plural(in_points(difference, form), "point")


def intervals_of(confidence: float) -> str:
    """What intervals are called: `95 % interval`."""
    return f"{plain_percent(confidence)} interval"


def number(value: float) -> str:
    """Any number that was estimated."""
    return f"{value:,.6g}" if isfinite(value) else "unknown"


def short_number(number: float) -> str:
    """As many installs as one would say aloud: `12,000`, `1.23 M`, `4 billion`."""
    for size, name in ((1e9, " billion"), (1e6, " M"), (1e4, ",000")):
        if number >= size:
            return f"{number / 1e3:,.0f}{name}" if name == ",000" else f"{number / size:.3g}{name}"
    return f"{number:,.0f}"


def text_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: Collection[int] = (0,),
    longest: int | None = 40,
    widths: Sequence[int] = (),
    gap: str = "  ",
) -> list[str]:
    """A line for the header and for each row: columns side by side, those of `left` to the left, numbers to the right.

    A cell may hold anything: what is longer than `longest` is cut (None: nothing is), and a terminal gets no control
    characters. Columns are as wide as their widest cell, unless `widths` say so beforehand: for a table that is
    written as it grows. Without a header there is no line for it.
    """
    printed = [[_printable(cell, longest) for cell in row] for row in ([header] if header else []) + list(rows)]
    widths = widths or [max(map(len, column)) for column in zip(*printed, strict=True)]
    return [
        gap.join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in printed
    ]


def _printable(text: str, longest: int | None) -> str:
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return plain if longest is None or len(plain) <= longest else plain[: longest - 1] + "\N{HORIZONTAL ELLIPSIS}"
