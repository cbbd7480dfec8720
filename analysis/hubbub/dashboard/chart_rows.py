"""Estimates as rows that are a chart and its own table at once: a name, a picture, a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hubbub.analysis.render.digits import Digits
from hubbub.analysis.render.glyphs import Axis, Svg, bar, below_limit, number_axis, rail, share_axis
from hubbub.analysis.result import ANSWER, NUMBER, Decoding
from hubbub.dashboard.sentences import value_label


@dataclass(frozen=True, slots=True)
class ChartRow:
    """`css`: `under` the detection limit, or `more` that are not shown. `spread` stands quietly behind the words."""

    name: str
    picture: Svg | None
    words: str
    spread: str = ""
    css: str = ""
    is_new: bool = False
    """Found, and in no list of anybody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    caption: str
    rows: tuple[ChartRow, ...]
    css: str = ""
    foot: Svg | None = None


def digits_of(decodings: Sequence[Decoding], rows: Sequence[Sequence[int]]) -> Digits:
    """One number of decimals for these rows of these decodings: that of the narrowest interval of those detected."""
    pairs = [(decoding, i) for decoding, some in zip(decodings, rows, strict=True) for i in some]
    pairs = [(decoding, i) for decoding, i in pairs if not is_below(decoding, i)] or pairs
    is_number = bool(pairs) and pairs[0][0].roles[pairs[0][1]] == NUMBER
    intervals = [(float(decoding.low[i]), float(decoding.high[i])) for decoding, i in pairs]
    if not is_number:
        intervals = [(max(low, 0.0), min(high, 1.0)) for low, high in intervals]
    return Digits.of(intervals, unit=decodings[0].unit if is_number and decodings else "", is_share=not is_number)


def axis_of(decodings: Sequence[Decoding], rows: Sequence[Sequence[int]]) -> Axis:
    """One scale for all of them."""
    pairs = [(decoding, i) for decoding, some in zip(decodings, rows, strict=True) for i in some]
    if pairs and pairs[0][0].roles[pairs[0][1]] == NUMBER:
        return number_axis([(float(decoding.low[i]), float(decoding.high[i])) for decoding, i in pairs])
    whole = any(decoding.has_one_answer for decoding in decodings)
    reach = [limit_of(decoding) if is_below(decoding, i) else float(decoding.high[i]) for decoding, i in pairs]
    return share_axis(reach, whole=whole and max(reach, default=1.0) > 0.3)


def limit_of(decoding: Decoding) -> float:
    """The detection limit, as far as it is known."""
    return float(decoding.noise_floor) if np.isfinite(decoding.noise_floor) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStyle:
    """What the rows of a chart share."""

    axis: Axis
    digits: Digits
    height: int = 12
    spread: bool = False
    mark: float | None = None


def chart_row(decoding: Decoding, i: int, name: str, style: RowStyle) -> ChartRow:
    """One row. Below the detection limit there is no estimate, only how much noise would hide."""
    estimate, low, high = (float(column[i]) for column in (decoding.estimate, decoding.low, decoding.high))
    if not np.isfinite([estimate, low, high]).all():
        return ChartRow(name, None, "unknown", css="under")
    if is_below(decoding, i):
        limit = limit_of(decoding)
        return ChartRow(name, below_limit(style.axis, limit, style.height), under(limit, style.digits), css="under")
    spread = style.digits.spread(estimate, low, high) if style.spread else ""
    if decoding.roles[i] == NUMBER:
        picture = rail(style.axis, estimate, low, high, style.mark, style.height)
        words = style.digits.figure(estimate) if style.spread else style.digits.value(estimate)
        return ChartRow(name, picture, words, spread)
    return ChartRow(name, bar(style.axis, estimate, low, high, style.height), style.digits.value(estimate), spread)


def is_below(decoding: Decoding, i: int) -> bool:
    """Whether the answer of a row was tested and not detected. The limit is that of answers: who gave none, or one that
    is not listed, is known less well, and has an interval of its own."""
    tested = decoding.roles[i] == ANSWER and np.isfinite(decoding.p_adjusted[i])
    return bool(tested and not decoding.detected[i])


def under(limit: float, digits: Digits) -> str:
    """`< 2.1 %`, with at least as many digits as show something."""
    places = digits.decimals if digits.decimals is not None else 1
    while places < 4 and round(100 * limit, places) == 0:
        places += 1
    return f"< {Digits(places, is_share=True).value(limit)}"


def decoding_rows(decoding: Decoding, rows: Sequence[int], style: RowStyle) -> tuple[ChartRow, ...]:
    return tuple(chart_row(decoding, i, value_label(decoding, i), style) for i in rows)
