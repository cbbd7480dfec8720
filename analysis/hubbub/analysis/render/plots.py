"""Pictures with scales for reports, as SVG, in the manner of `glyphs`: lines, points, bands and bars on two scales, and
rows of bars beside their names.

Coordinates across are per cent of the width, so that a picture suits a telephone and a screen and its words keep their
size; colours are classes of the page's stylesheet (`blue`, `orange`, `green`, `grey`, `pale`, `ink`), so that one
picture suits light and dark. What lies beyond a scale is drawn at its end. Every word is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from math import isfinite, log

from hubbub.analysis.render.glyphs import Axis, Svg, printable, stroke, words_at

Point = tuple[float, float]
Interval = tuple[float, float, float]
"""Where across, and from where to where."""

_LINE = 18  # pixels that a line of words takes
_ROW = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """From numbers to per cent; `ticks` are numbers on it and their words."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    title: str = ""
    log: bool = False

    @classmethod
    def linear(cls, low: float, high: float, show: Callable[[float], str], title: str = "", most: int = 5) -> Scale:
        ticks = sorted({*Axis(low, high).ticks(most), *([0.0] if low == 0 else [])})
        return cls(low=low, high=high, ticks=tuple((tick, show(tick)) for tick in ticks), title=title)

    @classmethod
    def logarithmic(
        cls, values: Sequence[float], show: Callable[[float], str], title: str = "", ends: Point | None = None
    ) -> Scale:
        """With a tick at each of these values, and as long as they reach unless `ends` are given."""
        low, high = ends or (min(values), max(values))
        return cls(low=low, high=high, ticks=tuple((value, show(value)) for value in values), title=title, log=True)

    def at(self, x: float) -> float:
        if not self.log:
            return Axis(self.low, self.high).at(x)
        return Axis(log(self.low), log(self.high)).at(log(max(x, self.low)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What belongs together, in one colour."""

    css: str
    line: Sequence[Point] = ()
    dashed: bool = False
    dots: Sequence[Point] = ()
    whiskers: Sequence[Interval] = ()
    band: Sequence[Interval] = ()
    bars: Sequence[Point] = ()
    """From zero up or down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Two scales and what is drawn on them. `rules` are dashed lines across with words on them."""

    x: Scale
    y: Scale
    series: tuple[Series, ...]
    title: str = ""
    height: int = 230
    bar_width: float = 0.7  # per cent of the width
    rules: tuple[tuple[float, str], ...] = ()


Legend = tuple[tuple[str, str], ...]
"""Colours and their words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Panels side by side and below each other, with one legend."""

    rows: tuple[tuple[Panel, ...], ...]
    legend: Legend = ()

    def drawn(self, words: str) -> Svg:
        """The picture; `words` say what it shows to those who cannot see it."""
        parts, top = [_legend(self.legend)], _LINE * len(self.legend) + (6 if self.legend else 0)
        for row in self.rows:
            wide = 100 / len(row)
            height = max(_height(panel) for panel in row)
            for place, panel in enumerate(row):
                inside = _panel(panel, gutter=13 + 6 * (len(row) - 1))
                parts.append(
                    f'<svg x="{place * wide:.2f}%" y="{top}" width="{wide - (2 if len(row) > 1 else 0):.2f}%" '
                    f'height="{height}" overflow="visible">{inside}</svg>'
                )
            top += height + 10
        return _picture(top, words, parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotRow:
    """A name and what stands beside it: bars one below the other (or, `stacked`, behind each other), an estimate in its
    interval, a mark."""

    name: str
    bars: tuple[tuple[str, float], ...] = ()
    stacked: bool = False
    dot: tuple[str, float] | None = None
    whisker: Point | None = None
    mark: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPlot:
    """Rows on one scale, below which its numbers stand."""

    scale: Scale
    rows: tuple[PlotRow, ...]
    legend: Legend = ()
    limit: float | None = None
    """A dashed line through all rows."""
    names: int = 30
    """Per cent of the width for the names."""
    sizes: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        sizes = tuple(_ROW if row.stacked or len(row.bars) < 2 else 13 * len(row.bars) + 4 for row in self.rows)
        object.__setattr__(self, "sizes", sizes)

    def drawn(self, words: str) -> Svg:
        top = _LINE * len(self.legend) + (6 if self.legend else 0)
        height = sum(self.sizes)
        names, inside, place = [], [_ticks_across(self.scale, height)], 0
        for row, size in zip(self.rows, self.sizes, strict=True):
            names.append(
                words_at(_cut(row.name, 26), f"{self.names - 1.5}%", f"{top + place + size / 2 + 4:g}", "right")
            )
            inside.append(_row_marks(row, self.scale, place, size))
            place += size
        if self.limit is not None:
            x = f"{self.scale.at(self.limit):.2f}%"
            inside.append(stroke("rule", x, x, "0", str(height)))
        below = _LINE * (2 if self.scale.title else 1) + 4
        inner = (
            f'<svg x="{self.names}%" y="{top}" width="{100 - self.names - 4}%" height="{height + below}" '
            f'overflow="visible">{"".join(inside)}</svg>'
        )
        return _picture(top + height + below, words, [_legend(self.legend), *names, inner])


def _row_marks(row: PlotRow, scale: Scale, top: int, size: int) -> str:
    middle, found, start = top + size / 2, [], 0.0
    zero = scale.at(max(scale.low, min(0.0, scale.high)))
    for place, (css, value) in enumerate(row.bars):
        if row.stacked:
            left, right = scale.at(start), scale.at(start + value)
            start += value
            y, height = top + 4.0, size - 8.0
        else:
            left, right = sorted((zero, scale.at(value)))
            many = len(row.bars) > 1
            y, height = (top + 2.0 + 13 * place, 11.0) if many else (top + 4.0, size - 8.0)
        found.append(_box(css, left, y, right - left, height))
    if row.mark is not None:
        x = f"{scale.at(row.mark):.2f}%"
        found.append(stroke("mark orange", x, x, f"{middle - 8:g}", f"{middle + 8:g}"))
    if row.whisker is not None:
        ends = [f"{scale.at(end):.2f}%" for end in row.whisker]
        found.append(stroke("whisker", ends[0], ends[1], f"{middle:g}", f"{middle:g}"))
    if row.dot is not None:
        found.append(_dot(row.dot[0], scale.at(row.dot[1]), middle))
    return "".join(found)


def _height(panel: Panel) -> int:
    return panel.height + _LINE * (bool(panel.title) + bool(panel.y.title) + 1 + bool(panel.x.title)) + 8


def _panel(panel: Panel, gutter: int) -> str:
    heads = [(panel.title, "strong"), (panel.y.title, "")]
    parts, top = [], 0
    for words, css in heads:
        if words:
            parts.append(words_at(words, "0", str(top + 13), css))
            top += _LINE
    top += 6
    size = panel.height

    def down(value: float) -> float:
        return size - size * panel.y.at(value) / 100

    inside = []
    for tick, words in panel.y.ticks:
        y = down(tick)
        inside.append(stroke("grid", "0", "100%", f"{y:.1f}", f"{y:.1f}"))
        parts.append(words_at(words, f"{gutter - 1.5}%", f"{top + y + 4:.1f}", "right"))
    inside.append(_stretched(panel, size))
    for value, words in panel.rules:
        y = down(value)
        inside.append(stroke("rule", "0", "100%", f"{y:.1f}", f"{y:.1f}"))
        inside.append(words_at(words, "100%", f"{y - 5 if y > _LINE else y + 15:.1f}", "right"))
    for series in panel.series:
        for x, low, high in series.whiskers:
            at = f"{panel.x.at(x):.2f}%"
            inside.append(stroke(f"whisker {series.css}", at, at, f"{down(low):.1f}", f"{down(high):.1f}"))
        inside += [_dot(series.css, panel.x.at(x), down(y)) for x, y in series.dots if isfinite(y)]
    inside.append(_ticks_across(panel.x, size, lines=False))
    parts.append(
        f'<svg x="{gutter}%" y="{top}" width="{100 - gutter - 2}%" height="{size + 2 * _LINE}" overflow="visible">'
        f"{''.join(inside)}</svg>"
    )
    return "".join(parts)


def _stretched(panel: Panel, size: int) -> str:
    """Bands, bars and lines, in a square that is stretched as a whole."""

    def place(x: float, y: float) -> str:
        return f"{10 * panel.x.at(x):.1f},{1000 - 10 * panel.y.at(y):.1f}"

    found = []
    zero = 1000 - 10 * panel.y.at(max(panel.y.low, min(0.0, panel.y.high)))
    for series in panel.series:
        if series.band:
            upper = [place(x, high) for x, _, high in series.band]
            lower = [place(x, low) for x, low, _ in reversed(series.band)]
            found.append(f'<polygon class="band {series.css}" points="{" ".join(upper + lower)}"/>')
        for x, y in series.bars:
            end, half = 1000 - 10 * panel.y.at(y), 5 * panel.bar_width
            found.append(
                f'<rect class="fill {series.css}" x="{10 * panel.x.at(x) - half:.1f}" y="{min(zero, end):.1f}" '
                f'width="{2 * half:g}" height="{abs(zero - end):.1f}"/>'
            )
    for series in panel.series:
        if series.line:
            css = f"line {series.css}{' dashed' if series.dashed else ''}"
            points = " ".join(place(x, y) for x, y in series.line if isfinite(y))
            found.append(f'<polyline class="{css}" points="{points}"/>')
    return (
        f'<svg width="100%" height="{size}" viewBox="0 0 1000 1000" preserveAspectRatio="none">{"".join(found)}</svg>'
    )


def _ticks_across(scale: Scale, height: int, *, lines: bool = True) -> str:
    found = []
    for tick, words in scale.ticks:
        x = f"{scale.at(tick):.2f}%"
        if lines:
            found.append(stroke("grid", x, x, "0", str(height)))
        found.append(words_at(words, x, str(height + 15), "mid"))
    if scale.title:
        found.append(words_at(scale.title, "50%", str(height + 15 + _LINE), "mid"))
    return "".join(found)


def _legend(legend: Legend) -> str:
    found = []
    for place, (css, words) in enumerate(legend):
        y = 9 + _LINE * place
        found.append(f'<circle class="fill {css}" cx="6" cy="{y}" r="5"/>' + words_at(words, "18", str(y + 4)))
    return "".join(found)


def _dot(css: str, x: float, y: float) -> str:
    return f'<circle class="fill {css}" cx="{x:.2f}%" cy="{y:.1f}" r="4"/>'


def _box(css: str, left: float, y: float, width: float, height: float) -> str:
    return f'<rect class="fill {css}" x="{left:.2f}%" y="{y:g}" width="{width:.2f}%" height="{height:g}"/>'


def _cut(words: str, longest: int) -> str:
    return words if len(words) <= longest else words[: longest - 1] + "…"


def _picture(height: int, words: str, parts: Sequence[str]) -> Svg:
    label = f'role="img" aria-label="{escape(printable(words))}"'
    return Svg(f'<svg class="plot" height="{height}" {label}>{"".join(parts)}</svg>')
