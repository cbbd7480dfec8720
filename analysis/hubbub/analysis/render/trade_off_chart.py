"""The picture of trade-off curves: how often a test must miss, for each share of false alarms it allows itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hubbub.analysis.accounting.trade_off import TradeOff
from hubbub.analysis.optional import need
from hubbub.analysis.render.charts import BLUE, GREY, ORANGE, styled

GUESSING = "blind guessing"
_SIDE = 190
_IN_A_ROW = 3
_LOOKS = ((BLUE, [1, 0]), (ORANGE, [6, 3]), ("#009E73", [2, 2]))


def trade_off_chart(panels: Mapping[str, Mapping[str, TradeOff]], *, title: str, subtitle: Sequence[str] = ()) -> Any:
    """A square for each panel, with up to three named curves and the diagonal of blind guessing. Curves are told apart
    by colour and by dashes; below a curve there is no test."""
    alt = need("altair", "'hubbub[charts]'")
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    looks = [*_LOOKS[: len(names)], (GREY, [1, 3])]
    data = [row for panel, curves in panels.items() for row in _rows(panel, curves)]
    with alt.utils.schemapi.debug_mode(False):  # else every point of the curves is compared with the schema: seconds
        return _drawn(alt, data, [*names, GUESSING], looks, list(panels), alt.Title(title, subtitle=list(subtitle)))


def _drawn(
    alt: Any,
    data: Sequence[Mapping[str, str | float]],
    domain: list[str],
    looks: Sequence[Any],
    order: list[str],
    title: Any,
) -> Any:
    scale = alt.Scale(domain=[0, 1], nice=False)
    axis = alt.Axis(format="~%", values=[0, 0.25, 0.5, 0.75, 1])
    lines = (
        alt.Chart(alt.Data(values=data))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("false_alarm:Q", title="false alarms", scale=scale, axis=axis),
            y=alt.Y("missed:Q", title="missed, at least", scale=scale, axis=axis),
            order="place:Q",
            color=alt.Color(
                "curve:N",
                title=None,
                scale=alt.Scale(domain=domain, range=[colour for colour, _ in looks]),
                legend=alt.Legend(orient="top", labelLimit=300, symbolSize=500),
            ),
            strokeDash=alt.StrokeDash(
                "curve:N", title=None, scale=alt.Scale(domain=domain, range=[dashes for _, dashes in looks])
            ),
        )
        .properties(width=_SIDE, height=_SIDE)
    )
    facet = alt.Facet("panel:N", title=None, sort=order, header=alt.Header(labelFontSize=13, labelAnchor="start"))
    return styled(lines.facet(facet, columns=min(_IN_A_ROW, len(order))).properties(title=title))


def _rows(panel: str, curves: Mapping[str, TradeOff]) -> list[dict[str, str | float]]:
    drawn = [*((name, curve.false_alarms.tolist(), curve.missed.tolist()) for name, curve in curves.items())]
    return [
        {"panel": panel, "curve": name, "place": place, "false_alarm": alarm, "missed": miss}
        for name, alarms, missed in [*drawn, (GUESSING, [0.0, 1.0], [1.0, 0.0])]
        for place, (alarm, miss) in enumerate(zip(alarms, missed, strict=True))
    ]
