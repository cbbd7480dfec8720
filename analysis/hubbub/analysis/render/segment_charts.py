"""Pictures of a metric by segment: small multiples on one scale, or one point for each segment where it is a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hubbub.analysis.render.charts import BLACK, BLUE, WIDTH, altair, intervals_in_words, styled, unit_of
from hubbub.analysis.result import ANSWER, NUMBER, Decoding
from hubbub.protocol.segments import NOT_SAID, in_words

MOST_BARS = 12
"""Values in each small picture."""

NARROW = 210


def segments_chart(decodings: Sequence[Decoding]) -> Any:
    """One metric, decoded for each segment by itself."""
    row = decodings[0].leading_row
    if row is not None and decodings[0].roles[row] == NUMBER:
        return _points(decodings, decodings[0].values[row])
    return _multiples(decodings)


def _points(decodings: Sequence[Decoding], value: str) -> Any:
    alt = altair()
    data = [_bar(decoding, decoding.index(value, NUMBER)) | {"segment": _name(decoding)} for decoding in decodings]
    title = f"{value}{unit_of(decodings[0])}"
    base = alt.Chart(alt.Data(values=data)).encode(y=alt.Y("segment:N", sort=None, title=None))
    whiskers = base.mark_rule(color=BLUE, strokeWidth=2).encode(
        x=alt.X("low:Q", title=title, scale=alt.Scale(zero=False)), x2="high:Q"
    )
    points = base.mark_point(color=BLUE, filled=True, size=70, opacity=1).encode(x=alt.X("estimate:Q", title=title))
    return _titled(alt.layer(whiskers, points).properties(width=WIDTH, height=alt.Step(28)), decodings)


def _multiples(decodings: Sequence[Decoding]) -> Any:
    alt = altair()
    values = _largest(decodings)
    data = [
        _bar(decoding, i) | {"segment": _name(decoding), "value": value}
        for decoding in decodings
        for value in values
        for i in [_row(decoding, value)]
        if i is not None
    ]
    base = alt.Chart().encode(y=alt.Y("value:N", sort=list(values), title=None, axis=alt.Axis(labelLimit=140)))
    axis = alt.Axis(format=".0%", tickCount=4)
    bars = base.mark_bar(height={"band": 0.62}, color=BLUE).encode(x=alt.X("estimate:Q", title=None, axis=axis))
    whiskers = base.mark_rule(color=BLACK, strokeWidth=1.5).encode(x=alt.X("low:Q", title=None), x2="high:Q")
    small = alt.layer(bars, whiskers, data=alt.Data(values=data)).properties(width=NARROW, height=alt.Step(20))
    header = alt.Header(title=None, labelAnchor="start", labelFontWeight="bold")
    names = [_name(decoding) for decoding in decodings]
    return _titled(small.facet(alt.Facet("segment:N", sort=names, header=header), columns=3), decodings)


def _titled(chart: Any, decodings: Sequence[Decoding]) -> Any:
    title = altair().Title(decodings[0].metric, subtitle=intervals_in_words(decodings[0]))
    return styled(chart.properties(title=title))


def _largest(decodings: Sequence[Decoding]) -> list[str]:
    """The values with the largest shares over all segments; in their own order where they have one."""
    sums: dict[str, float] = {}
    for decoding in decodings:
        for i, role in enumerate(decoding.roles):
            if role == ANSWER and np.isfinite(decoding.estimate[i]):
                value = decoding.values[i]
                sums[value] = sums.get(value, 0.0) + float(decoding.estimate[i]) * decoding.num_reports
    largest = sorted(sums, key=lambda value: -sums[value])[:MOST_BARS]
    return [value for value in sums if value in largest] if decodings[0].natural_order else largest


def _row(decoding: Decoding, value: str) -> int | None:
    i = decoding.find(value)
    return i if i is not None and np.isfinite(decoding.estimate[i]) else None


def _bar(decoding: Decoding, i: int) -> dict[str, Any]:
    return {"estimate": float(decoding.estimate[i]), "low": float(decoding.low[i]), "high": float(decoding.high[i])}


def _name(decoding: Decoding) -> str:
    return in_words(decoding.segment) or NOT_SAID
