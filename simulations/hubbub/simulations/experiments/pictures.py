"""What all pictures of experiments share: colours that people with any colour vision tell apart, and their forms.

Nothing is told by colour alone: predictions are lines, what was found are points. `hubbub.analysis.render.plots` draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from hubbub.analysis.render.glyphs import round_above
from hubbub.analysis.render.plots import Legend, Panel, Plot, PlotRow, Point, RowPlot, Scale, Series
from hubbub.simulations.html_page import picture_style

BLUE, ORANGE, GREEN, GREY, INK = "blue", "orange", "green", "grey", "ink"
"""Classes of the page's stylesheet."""

Points = Mapping[str, Sequence[Point]]
"""Of each series."""


def whole(x: float) -> str:
    return f"{x:,.0f}"


def thousands(x: float) -> str:
    """`10k`, `1M`, `1B`."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if x >= size:
            return f"{x / size:g}{letter}"
    return f"{x:g}"


def points_of(rows: Iterable[Mapping[str, object]], x: str, y: str, series: str = "series") -> dict[str, list[Point]]:
    """Rows of figures as points, by the series that each names."""
    found: dict[str, list[Point]] = {}
    for row in rows:
        found.setdefault(str(row[series]), []).append((float(str(row[x])), float(str(row[y]))))
    return found


def legend(series: Mapping[str, str]) -> Legend:
    return tuple((css, words) for words, css in series.items())


def lines_and_points(
    lines: Points,
    points: Points,
    x: Scale,
    y: Scale,
    series: Mapping[str, str],
    *,
    title: str = "",
    height: int = 230,
    rules: tuple[tuple[float, str], ...] = (),
) -> Panel:
    """What theory says as lines, what was found as points, for series told apart by colour."""
    drawn = tuple(
        Series(css=css, line=tuple(lines.get(name, ())), dots=tuple(points.get(name, ())))
        for name, css in series.items()
    )
    return Panel(x=x, y=y, series=drawn, title=title, height=height, rules=rules)


def one(panel: Panel, series: Mapping[str, str]) -> Plot:
    """A picture of one panel."""
    return Plot(rows=((panel,),), legend=legend(series))


def attack_bars(
    without: Mapping[str, float],
    with_checks: Mapping[str, float],
    *,
    checks: str,
    title: str,
    show: Callable[[float], str],
) -> RowPlot:
    """What each attack reaches where everything is believed, and where it is checked."""
    sides = ((ORANGE, without), (BLUE, with_checks))
    rows = tuple(
        PlotRow(name=attack, bars=tuple((css, side[attack]) for css, side in sides if attack in side))
        for attack in dict.fromkeys([*without, *with_checks])
    )
    reached = [*without.values(), *with_checks.values()]
    scale = Scale.linear(min(0.0, *reached), round_above(max(reached)), show, title)
    return RowPlot(scale=scale, rows=rows, legend=((ORANGE, "believing everything"), (BLUE, checks)), names=36)


def save(picture: Plot | RowPlot, words: str, path: str | Path) -> None:
    """An SVG file of its own, light or dark as its reader's screen; `words` say what it shows."""
    opening, _, rest = picture.drawn(words).markup.partition(">")
    opening = opening.replace(
        "<svg ", '<svg xmlns="http://www.w3.org/2000/svg" width="560" font-family="sans-serif" ', 1
    )
    Path(path).write_text(
        f"{opening}><style>{picture_style()}.plot {{ width: 560px; }}</style>{rest}\n", encoding="utf-8"
    )
