"""The look of all pictures: few marks, direct words, colours that people with any colour vision tell apart.

Colours are stand-ins: `svg` turns them into CSS variables of the page, so that one picture suits light and dark. The
font has the same widths everywhere, so that what was laid out here fits there. Nothing is told by colour alone:
predictions are lines, what was found are points.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from hubbub.analysis.optional import need

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#767676"
INK, GRID = "#1A1B1C", "#E1E2E3"
WIDTH = 390
"""Of the plot itself, in pixels: with its axis a picture still reads at the width of a telephone."""

_VARIABLES = {
    INK: "--ink",
    GRID: "--grid",
    BLUE: "--blue",
    ORANGE: "--orange",
    GREEN: "--green",
    GREY: "--grey",
}

Datum = Mapping[str, Any]


def altair() -> Any:
    return need("altair", "'hubbub[charts]'")


def chart(rows: Sequence[Datum]) -> Any:
    alt = altair()
    return alt.Chart(alt.Data(values=[dict(row) for row in rows]))


def colours(series: Mapping[str, str], field: str = "series", columns: int = 1) -> Any:
    """Series by name, with a legend on top."""
    alt = altair()
    return alt.Color(
        f"{field}:N",
        title=None,
        scale=alt.Scale(domain=list(series), range=list(series.values())),
        legend=alt.Legend(orient="top", direction="vertical", columns=columns, symbolType="circle", offset=6),
    )


def lines_and_points(
    lines: Sequence[Datum], points: Sequence[Datum], x: Any, y: Any, series: Mapping[str, str], columns: int = 1
) -> Any:
    """What theory says as lines, what was found as points, for series told apart by `colours`."""
    alt = altair()
    colour = colours(series, columns=columns)
    drawn = chart(lines).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour)
    dots = chart(points).mark_point(filled=True, size=55, opacity=1).encode(x=x, y=y, color=colour)
    return alt.layer(drawn, dots)


def attack_bars(
    without: Mapping[str, float], with_checks: Mapping[str, float], *, checks: str, axis: str, form: str
) -> Any:
    """What each attack reaches where everything is believed, and where it is checked."""
    alt = altair()
    names = {"believing everything": ORANGE, checks: BLUE}
    rows = [
        {"attack": attack, "reached": reached, "series": series}
        for series, of in zip(names, (without, with_checks), strict=True)
        for attack, reached in of.items()
    ]
    bars = (
        chart(rows)
        .mark_bar(height={"band": 0.9})
        .encode(
            x=alt.X("reached:Q", title=axis, axis=alt.Axis(format=form, tickCount=5)),
            y=alt.Y("attack:N", title=None, sort=None, axis=alt.Axis(labelLimit=170, minExtent=145)),
            yOffset=alt.YOffset("series:N", sort=None),
            color=colours(names),
        )
    )
    return finished(bars.properties(width=300, height=alt.Step(15)))


def rule(value: float, words: str, left: float = 6, *, below: bool = False) -> Any:
    """A dashed horizontal line with its words on it, or below it."""
    alt = altair()
    data = chart([{"at": value, "words": words}])
    line = data.mark_rule(color=GREY, strokeDash=[5, 4], strokeWidth=1.5).encode(y="at:Q")
    text = data.mark_text(
        color=INK, align="left", baseline="top" if below else "bottom", dy=5 if below else -3, fontSize=13
    ).encode(y="at:Q", x=alt.value(left), text="words:N")
    return alt.layer(line, text)


def finished(picture: Any) -> Any:
    """The common look, on no background of its own."""
    return (
        picture.configure(background="transparent", font="Arial, Helvetica, 'Liberation Sans', sans-serif")
        .configure_axis(
            labelFontSize=13,
            titleFontSize=14,
            titleFontWeight="normal",
            labelColor=INK,
            titleColor=INK,
            gridColor=GRID,
            domainColor=GREY,
            tickColor=GREY,
            titlePadding=8,
        )
        .configure_legend(labelFontSize=13.5, labelColor=INK, labelLimit=420, rowPadding=3, columnPadding=28)
        .configure_title(anchor="start", fontSize=13.5, fontWeight=600, color=INK, offset=6)
        .configure_header(labelFontSize=12.5, labelColor=INK, labelFontWeight=600)
        .configure_view(stroke=None)
    )


def svg(picture: Any, name: str, words: str) -> str:
    """The picture as SVG for a page that has the variables. Needs no browser and no network."""
    convert = need("vl_convert", "'hubbub[charts]'")
    drawn: str = convert.vegalite_to_svg(picture.to_json())
    for colour, variable in _VARIABLES.items():
        drawn = re.sub(f'"{colour}"', f'"var({variable})"', drawn, flags=re.IGNORECASE)
    # Pictures share one page: what one calls clip0 must not be another's.
    drawn = re.sub(r'(id="|url\(#)(\w*\d)', rf"\g<1>{name}-\g<2>", drawn)
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{escape(words)}" ', 1)
