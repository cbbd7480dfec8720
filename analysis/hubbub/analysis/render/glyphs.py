"""All small pictures of pages, as SVG: bars with whiskers, numbers on a rail, lines with bands, spark lines.

Coordinates are per cent of the width, so that words keep their size and shapes stretch; lines and bands lie in an inner
picture that is stretched as a whole. Colours are classes of the page's stylesheet, nothing needs a style of its own.
No bar, whisker or band leaves its scale, so none is ever negative. Every word is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise
from math import floor, isfinite, log10

_ROUND = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
SMALLEST_BOX = 9.0
"""Per cent of the width: a box below the detection limit can be seen, however low the limit."""


@dataclass(frozen=True, slots=True)
class Svg:
    """A picture. Templates show it as it is: whatever was a word in it has been escaped here."""

    markup: str

    def __html__(self) -> str:
        return self.markup


@dataclass(frozen=True, slots=True)
class Axis:
    """From numbers to per cent of the width; what lies beyond an end is drawn at the end."""

    low: float
    high: float

    def at(self, x: float) -> float:
        span = self.high - self.low
        if not span > 0 or not isfinite(x):
            return 0.0
        return min(max(100 * (x - self.low) / span, 0.0), 100.0)

    def ticks(self, most: int = 4) -> list[float]:
        """Round numbers on it, so many at most."""
        span = self.high - self.low
        if not span > 0:
            return [self.low]
        size = 10.0 ** floor(log10(span / most))
        for step in (factor * power for power in (size, 10 * size) for factor in _STEPS):
            first = -floor(1e-9 - self.low / step)
            found = [step * i for i in range(first, first + most + 1) if step * i <= self.high * (1 + 1e-9)]
            if len(found) <= most:
                return found
        return [self.low]


def round_above(x: float) -> float:
    """The next round number that is no smaller."""
    if not isfinite(x) or x <= 0:
        return 1.0
    size = 10.0 ** floor(log10(x))
    return next(factor * size for factor in _ROUND if factor * size >= x * (1 - 1e-12))


def share_axis(highs: Iterable[float], *, whole: bool = False) -> Axis:
    """For shares: from 0 to a round number above the largest interval; to 100 % if the `whole` is looked at."""
    largest = max((high for high in highs if isfinite(high)), default=1.0)
    return Axis(0.0, 1.0 if whole else min(round_above(largest), 1.0))


def number_axis(intervals: Iterable[tuple[float, float]]) -> Axis:
    """For numbers on a rail: around all intervals, with an eighth of their span on each side, to the next round end."""
    low, high = _ends(intervals)
    room = (high - low) / 8
    size = 10.0 ** floor(log10(room))
    step = next(factor * size for factor in _STEPS if factor * size >= room)
    return Axis(step * floor((low - room) / step + 1e-9), step * -floor(1e-9 - (high + room) / step))


def time_axis(intervals: Iterable[tuple[float, float]], *, is_share: bool = False) -> Axis:
    """For lines: all bands, and a quarter of their height on each side, so that a band never fills the picture."""
    low, high = _ends(intervals)
    room = (high - low) / 4
    return Axis(max(low - room, 0.0), min(high + room, 1.0)) if is_share else Axis(low - room, high + room)


def _ends(intervals: Iterable[tuple[float, float]]) -> tuple[float, float]:
    known = [(low, high) for low, high in intervals if isfinite(low) and isfinite(high)]
    if not known:
        return 0.0, 1.0
    low, high = min(low for low, _ in known), max(high for _, high in known)
    return (low, high) if high > low else (low - abs(low) / 2 - 0.5, high + abs(high) / 2 + 0.5)


# -- one row: it stands beside its number, so it is not read out -------------------------------------------------------


def bar(axis: Axis, estimate: float, low: float, high: float, height: int = 12) -> Svg:
    """A share: a bar from zero, and its interval as a whisker."""
    y = height / 2
    shapes = f'<rect class="fill" x="0" y="{y - 4:g}" height="8" width="{_at(axis, estimate)}" rx="1"/>'
    return _row(height, shapes + stroke("whisker", _at(axis, low), _at(axis, high), f"{y:g}", f"{y:g}"))


def plain_bar(axis: Axis, x: float, height: int = 12, css: str = "fill") -> Svg:
    """An exact number: a bar, and nothing to be unsure of."""
    return _row(height, f'<rect class="{css}" x="0" y="{height / 2 - 4:g}" height="8" width="{_at(axis, x)}" rx="1"/>')


def rail(axis: Axis, estimate: float, low: float, high: float, mark: float | None = None, height: int = 12) -> Svg:
    """A number on a scale: a dot in its interval, where zero means nothing; `mark` is that of all installs."""
    y = height / 2
    width = max(axis.at(high) - axis.at(low), 0.5)
    start = min(axis.at(low), 100 - width)
    shapes = stroke("rail", "0", "100%", f"{y:g}", f"{y:g}")
    if mark is not None:
        shapes += stroke("ctx", _at(axis, mark), _at(axis, mark), "0", str(height))
    shapes += f'<rect class="soft" x="{start:.2f}%" width="{width:.2f}%" y="{y - 3:g}" height="6" rx="3"/>'
    return _row(height, f'{shapes}<circle class="fill" cx="{_at(axis, estimate)}" cy="{y:g}" r="3.5"/>')


def below_limit(axis: Axis, limit: float, height: int = 12) -> Svg:
    """Nothing was detected: an empty dashed box up to where it would be. No estimate is drawn, as it says nothing."""
    width = max(axis.at(limit), SMALLEST_BOX)
    return _row(height, f'<rect class="limit" x=".5" y="{height / 2 - 3.5:g}" height="7" width="{width:.2f}%" rx="1"/>')


def guess_bar(right: int, *, protected: bool = True) -> Svg:
    """Of 100 guesses so many can be right: on a rail from a coin toss (50) to certainty (100)."""
    width = f"{min(max(2 * (right - 50), 0), 100):g}%"
    rail = stroke("rail", "0", "100%", "7", "7") if protected else ""
    shape = f'<rect class="{"fill" if protected else "none"}" x="0" y="3" height="8" width="{width}" rx="1"/>'
    return _row(14, rail + shape + stroke("whisker", "0", "0", "0", "14"))


def parts_bar(parts: Iterable[tuple[str, float]], height: int = 18) -> Svg:
    """The whole, cut into its parts: the class of each and its share, side by side with a gap between them."""
    shapes, at = [], 0.0
    known = [(css, share) for css, share in parts if share > 0]
    scale = 100 / max(sum(share for _, share in known), 1e-9)
    for css, share in known:
        width = share * scale
        place = f'x="{at:.2f}%" width="{max(width - 0.4, 0.2):.2f}%"'
        shapes.append(f'<rect class="{css}" {place} y="1" height="{height - 2}" rx="2"/>')
        at += width
    return _row(height, "".join(shapes))


def ends_of(axis: Axis, show: Callable[[float], str], *, start: str, end: str, mark: tuple[float, str] | None) -> Svg:
    """The words below rows: both ends of their scale, and the mark on it. `start` and `end` are where rows begin and
    end, in per cent of the whole width."""
    words = words_at(show(axis.low), start, "12") + words_at(show(axis.high), end, "12", "right")
    if mark is not None:
        left, right = float(start.rstrip("%")), float(end.rstrip("%"))
        place = left + (right - left) * axis.at(mark[0]) / 100
        if left + 12 < place < right - 12:
            words += words_at(mark[1], f"{place:.1f}%", "12", "mid")
    return _row(16, words)


def _row(height: int, shapes: str) -> Svg:
    return Svg(f'<svg class="plot" height="{height}" aria-hidden="true">{shapes}</svg>')


# -- over time ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moment:
    """One point of a line: when, as the axis says it, and the estimate in its interval."""

    when: str
    estimate: float
    low: float
    high: float
    hidden: bool = False
    """Below the detection limit: no line goes there, and its band is all that noise would hide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a line is drawn besides its points. `show` writes a number of the axis."""

    words: str
    show: Callable[[float], str]
    axis: Axis
    height: int = 345
    marks: Mapping[int, str] | None = None
    """At which points something happened: releases."""
    context: Sequence[float] = ()
    """The grey line behind it: all installs."""
    places: Sequence[float] = ()
    """Where on the width each point lies, from 0 to 1; else all are as far apart."""
    area: bool = False
    """Only exact counts from zero are filled."""
    label: str = ""
    """Beside the last point."""
    most_dates: int = 5


def line(moments: Sequence[Moment], look: Look) -> Svg:
    """A line in its band, grid lines with their words above them, releases as dotted lines named above the plot."""
    left = min(4 + 1.3 * max(len(look.show(tick)) for tick in look.axis.ticks()), 16.0)  # words never lie on the data
    wide = 97 - left if look.height < 200 else 96 - left
    top, bottom = 22, look.height - 24
    places = list(look.places) or [i / max(len(moments) - 1, 1) for i in range(len(moments))]

    def across(place: float) -> float:
        return left + wide * place

    def down(x: float) -> float:
        return bottom - (bottom - top) * look.axis.at(x) / 100

    parts = [_grid(look, down), _marks(look, [across(place) for place in places], bottom)]
    parts.append(_dates(moments, [across(place) for place in places], look))
    parts.append(
        f'<svg x="{left:g}%" y="{top}" width="{wide:g}%" height="{bottom - top}" viewBox="0 0 1000 1000" '
        f'preserveAspectRatio="none">{_curves(moments, places, look)}</svg>'
    )
    if moments:
        x, y = across(places[-1]), down(moments[-1].estimate)
        if not moments[-1].hidden:
            parts.append(f'<circle class="fill" cx="{x:.2f}%" cy="{y:.1f}" r="4"/>')
        if look.label:
            parts.append(words_at(look.label, "100%", f"{max(down(moments[-1].high) - 8, 34):.1f}", "strong right"))
    label = f'role="img" aria-label="{escape(printable(look.words))}"'
    return Svg(f'<svg class="plot" height="{look.height}" {label}>{"".join(parts)}</svg>')


def spark(moments: Sequence[Moment], words: str) -> Svg:
    """A small line in its band, without words on it."""
    axis = time_axis([(moment.low, moment.high) for moment in moments])
    places = [i / max(len(moments) - 1, 1) for i in range(len(moments))]
    curves = _curves(moments, places, Look(words=words, show=str, axis=axis), 100)
    y = 34 - 34 * axis.at(moments[-1].estimate) / 100 if moments else 17
    end = f'<circle class="fill" cx="97%" cy="{y:.1f}" r="3"/>' if moments and not moments[-1].hidden else ""
    return Svg(
        f'<svg class="plot" height="34" role="img" aria-label="{escape(printable(words))}"><svg width="97%" '
        f'height="34" viewBox="0 0 1000 100" preserveAspectRatio="none">{curves}</svg>{end}</svg>'
    )


def _curves(moments: Sequence[Moment], places: Sequence[float], look: Look, size: int = 1000) -> str:
    """The band and the lines, in a square that is stretched."""

    def points(values: Iterable[float], at: Iterable[float]) -> str:
        return " ".join(
            f"{1000 * place:.0f},{size - size * look.axis.at(value) / 100:.{1 if size < 1000 else 0}f}"
            for place, value in zip(at, values, strict=True)
        )

    backwards = list(reversed(places))
    line = points((moment.estimate for moment in moments), places)
    if look.area:
        band = f'<polygon class="band area" points="{line} 1000,{size} 0,{size}"/>'
    else:
        upper = points((moment.high for moment in moments), places)
        lower = points((moment.low for moment in reversed(moments)), backwards)
        band = f'<polygon class="band" points="{upper} {lower}"/>'
    context = f'<polyline class="ctx" points="{points(look.context, places)}"/>' if look.context else ""
    return f"{band}{context}{''.join(_lines(moments, places, points))}"


def _lines(
    moments: Sequence[Moment], places: Sequence[float], points: Callable[[Iterable[float], Iterable[float]], str]
) -> Iterator[str]:
    """A line for each run of moments that are not hidden; one that stands by itself is a stroke as long as wide."""
    for hidden, run in groupby(zip(moments, places, strict=True), key=lambda pair: pair[0].hidden):
        if not hidden:
            shown = list(run)
            ends = shown * 2 if len(shown) == 1 else shown
            css = "line one" if len(shown) == 1 else "line"
            yield f'<polyline class="{css}" points="{points([m.estimate for m, _ in ends], [at for _, at in ends])}"/>'


def _grid(look: Look, down: Callable[[float], float]) -> str:
    found = []
    for tick in look.axis.ticks():
        y = down(tick)
        found.append(
            stroke("grid", "0", "100%", f"{y:.1f}", f"{y:.1f}") + words_at(look.show(tick), "0", f"{y - 4:.1f}")
        )
    return "".join(found)


def _marks(look: Look, across: Sequence[float], bottom: int) -> str:
    """A name is left out where it would lie on the one before."""
    found, last = [], -100.0
    for place, name in sorted((look.marks or {}).items()):
        x = across[place]
        found.append(stroke("release", f"{x:.2f}%", f"{x:.2f}%", "16", str(bottom)))
        if x - last > 1.2 * min(len(name), 12) + 2:
            found.append(words_at(name if len(name) <= 12 else name[:11] + "…", f"{x:.2f}%", "11", "mid"))
            last = x
    return "".join(found)


def _dates(moments: Sequence[Moment], across: Sequence[float], look: Look) -> str:
    """The first and the last, and some between them, nearly as far apart."""
    if not moments:
        return ""
    last = len(moments) - 1
    chosen = _spread(last, min(look.most_dates, len(moments)))
    y = str(look.height - 6)
    return "".join(
        words_at(
            moments[i].when, "100%" if i == last and last else f"{across[i]:.2f}%", y, "right" if i == last else "mid"
        )
        for i in chosen
    )


def _spread(last: int, most: int) -> list[int]:
    """At most so many whole numbers from 0 to the last, both of them among these, no gap half as wide again as another
    and more: two dates side by side would run into each other."""
    for some in range(most, 2, -1):
        chosen = [round(i * last / (some - 1)) for i in range(some)]
        gaps = [after - before for before, after in pairwise(chosen)]
        if 2 * max(gaps) <= 3 * min(gaps):
            return chosen
    return sorted({0, last})


def _at(axis: Axis, x: float) -> str:
    return f"{axis.at(x):.2f}%"


def stroke(css: str, x1: str, x2: str, y1: str, y2: str) -> str:
    return f'<line class="{css}" x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}"/>'


def words_at(words: str, x: str, y: str, css: str = "") -> str:
    kind = f' class="{css}"' if css else ""
    return f'<text{kind} x="{x}" y="{y}">{escape(printable(words))}</text>'


def printable(words: str) -> str:
    """What is no character for people to read is shown as missing."""
    return "".join(c if c.isprintable() or c == "\N{NO-BREAK SPACE}" else "\N{REPLACEMENT CHARACTER}" for c in words)
