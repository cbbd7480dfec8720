"""The picture of a sweep: measured errors as points, theory as lines, the bound below which nobody can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hubbub.analysis.optional import need
from hubbub.analysis.render.charts import BLACK, BLUE, GREY, ORANGE, styled
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.printed import plain_percent

_COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", BLACK, "#56B4E9", GREY)
_TITLES = {
    "epsilon": "epsilon of one report",
    "installs": "installs",
    "change": "share of answers that change in an epoch",
    "bits": "num_bits",
    "cohorts": "num_cohorts",
    "hashes": "num_hashes",
}
_FIRST = ("installs", "epsilon", "change", "cohorts", "bits", "hashes")
"""The axis that varies and comes first here lies on the horizontal."""


def sweep_chart(rows: Sequence[dict[str, Any]], varying: Sequence[str]) -> Any:
    """At most three axes that vary: one across, one in colour, one in panels."""
    if not varying:
        raise Invalid(["--chart needs an axis with at least two values, got none"])
    if len(varying) > 3:
        raise Invalid([f"--chart shows at most three axes that vary, got {', '.join(varying)}"])
    alt = need("altair", "'hubbub[charts]'")
    across, *others = sorted(varying, key=_FIRST.index)
    colour, panel = [*others, None, None][:2]
    data = [
        {
            **{name: row[name] for name in ("error", "theory", "bound")},
            "across": row[across],
            "colour": _name(colour, row),
            "order": row[colour] if colour else 0,
            "panel": _name(panel, row),
        }
        for row in rows
    ]
    names = list(dict.fromkeys(point["colour"] for point in sorted(data, key=lambda point: float(point["order"]))))
    log = across in ("installs", "cohorts", "bits")
    x = alt.X(
        "across:Q",
        title=_TITLES[across],
        scale=alt.Scale(type="log" if log else "linear", zero=False, nice=False, padding=14),
        axis=alt.Axis(format="~s" if log else "~%" if across == "change" else "~g", values=_ticks(data)),
    )
    scale = alt.Scale(domain=names, range=[_COLOURS[i % len(_COLOURS)] for i in range(len(names))])
    legend = alt.Legend(title=None, labelFontSize=11) if colour else None
    base = alt.Chart().encode(x=x, color=alt.Color("colour:N", scale=scale, sort=names, legend=legend))

    def y(name: str) -> Any:
        return alt.Y(
            f"{name}:Q",
            title="root mean square error of a share",
            scale=alt.Scale(type="log", nice=False, padding=14),
            axis=alt.Axis(format="~%", tickCount=6),
        )

    theory = base.mark_line(strokeWidth=1.5).encode(y=y("theory"))
    least = base.mark_line(strokeWidth=1.5, strokeDash=[2, 3]).encode(y=y("bound"))
    points = base.mark_point(size=46, filled=True, opacity=1).encode(y=y("error"))
    layers = alt.layer(least, theory, points, data=alt.Data(values=data)).properties(width=360, height=260)
    title = alt.Title("Error over settings", subtitle="points: measured; lines: theory; dotted: the bound")
    if panel:
        layers = layers.facet(facet=alt.Facet("panel:N", title=None), columns=3)
    return styled(layers.properties(title=title))


def _ticks(data: Sequence[dict[str, Any]]) -> list[float]:
    """The values that were tried, as far as there is room for them."""
    tried = sorted({float(point["across"]) for point in data})
    return tried[:: -(-len(tried) // 8)]


def _name(axis: str | None, row: dict[str, Any]) -> str:
    """A value of an axis as a legend has it: `num_bits 64`, `change 2 %`."""
    if axis is None:
        return "measured"
    if axis == "change":
        return f"change {plain_percent(row[axis])}"
    prefix = "num_" if axis in ("bits", "cohorts", "hashes") else ""
    return f"{prefix}{axis} {row[axis]:g}"
