"""A crosstab as a heat map: a cell for each pair of answers, with its figure, and its interval on hover."""

from __future__ import annotations

from typing import Any

import numpy as np

from hubbub.analysis.crosstab_result import Crosstab
from hubbub.analysis.render.charts import BLACK, altair
from hubbub.analysis.render.crosstab_words import View, answer, cell_of, view
from hubbub.analysis.result import epoch_span
from hubbub.protocol.printed import intervals_of

_DARK = 0.6  # of the largest share: from there on words are white


def crosstab_chart(crosstab: Crosstab, given: int | None = 0) -> Any:
    """Given the first factor (0), the second (1), or of all installs (None)."""
    alt = altair()
    seen = view(crosstab, given)
    data = _data(seen)
    largest = max((each["share"] for each in data if each["share"] is not None), default=1.0)
    base = alt.Chart(alt.Data(values=data)).encode(
        x=alt.X(
            "column:N", sort=None, title=seen.columns.name, axis=alt.Axis(orient="top", labelAngle=0, labelLimit=120)
        ),
        y=alt.Y("row:N", sort=None, title=seen.rows.name, axis=alt.Axis(labelLimit=180)),
        tooltip=[
            alt.Tooltip("row:N", title=seen.rows.name),
            alt.Tooltip("column:N", title=seen.columns.name),
            alt.Tooltip("text:N", title="share"),
            alt.Tooltip("interval:N", title=intervals_of(crosstab.confidence)),
        ],
    )
    whole = "share of all installs" if given is None else f"share, given {seen.rows.name}"
    heat = base.mark_rect(stroke="white", strokeWidth=2).encode(
        color=alt.condition(
            "datum.share == null",
            alt.value("#EEEEEE"),
            alt.Color(
                "share:Q",
                title=whole,
                scale=alt.Scale(scheme="blues", domain=[0, largest]),
                legend=alt.Legend(format=".0%", orient="bottom", titleLimit=400),
            ),
        )
    )
    words = base.mark_text(fontSize=13, dy=-6).encode(
        text="text:N",
        color=alt.condition(f"datum.share > {_DARK * largest}", alt.value("white"), alt.value(BLACK)),
    )
    small = base.mark_text(fontSize=10, dy=10).encode(
        text="interval:N",
        color=alt.condition(f"datum.share > {_DARK * largest}", alt.value("white"), alt.value(BLACK)),
    )
    said = answer(crosstab, given or 0)
    title = alt.TitleParams(
        crosstab.title,
        subtitle=[said.headline, f"{epoch_span(crosstab.epochs)}, {crosstab.num_reports:,} reports".lstrip(", ")],
        anchor="start",
    )
    width = max(440, 110 * len(seen.columns))
    return alt.layer(heat, words, small).properties(width=width, height=alt.Step(46), title=title)


def _data(seen: View) -> list[dict[str, Any]]:
    """A record for each cell; no share where none was detected."""
    data: list[dict[str, Any]] = []
    for i, row in enumerate(seen.rows.values):
        for j, column in enumerate(seen.columns.values):
            cell = cell_of(seen.shares, (i, j), seen.digits)
            if np.isnan(seen.shares.estimate[i, j]):
                continue
            data.append(
                {
                    "row": row,
                    "column": column,
                    "share": float(np.clip(seen.shares.estimate[i, j], 0, 1)) if cell.detected else None,
                    "text": cell.figure,
                    "interval": f"{cell.interval} %" if cell.detected else cell.interval,
                }
            )
    return data
