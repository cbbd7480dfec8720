"""Pictures of results: bars with whiskers, distributions, time series, what reports reveal over time.

Every function returns an Altair chart; `save` writes it as PNG, SVG or a self-contained HTML page, by the file's
ending. Colours are Okabe and Ito's, which people with any colour vision tell apart; nothing is told by colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hubbub.analysis.installs import ActiveInstalls
from hubbub.analysis.optional import need
from hubbub.analysis.render.text import row_name
from hubbub.analysis.result import ANSWER, NUMBER, Decoding, epoch_span
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.metric import Definition
from hubbub.protocol.printed import intervals_of
from hubbub.protocol.segments import NOT_SAID, in_words

BLUE, ORANGE, GREY, BLACK = "#0072B2", "#D55E00", "#767676", "#222222"
COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", BLACK, GREY)
ENDINGS = (".png", ".svg", ".html")
WIDTH = 440  # of the plot itself; with labels a picture is about 600 px wide
MOST_BARS = 30


def decoding_chart(decoding: Decoding) -> Any:
    """The picture that suits a result."""
    if decoding.distribution is not None:
        return cdf_chart(decoding)
    row = decoding.leading_row
    if not decoding.has_shares and row is not None:
        return _bars(decoding, [row], f"{decoding.values[row]}{unit_of(decoding)}", percent=False)
    return bar_chart(decoding)


def bar_chart(decoding: Decoding, most: int = MOST_BARS) -> Any:
    """A bar for each value with its interval; a dashed line where noise begins to look like something."""
    rows = [i for i, role in enumerate(decoding.roles) if role != NUMBER and np.isfinite(decoding.estimate[i])]
    if decoding.is_open or len(rows) > most:
        rows = decoding.largest_answers(most) + [i for i in rows if decoding.roles[i] != ANSWER]
    whom = "installs that answered" if decoding.of == "answered" else "installs"
    return _bars(decoding, rows, f"share of {whom}", percent=True)


def _bars(decoding: Decoding, rows: Sequence[int], axis: str, *, percent: bool) -> Any:
    alt = altair()
    data = [
        {
            "value": _label(decoding, i),
            "estimate": float(decoding.estimate[i]),
            "low": float(decoding.low[i]),
            "high": float(decoding.high[i]),
            "verdict": "detected" if decoding.detected[i] or not percent else "below the noise floor",
        }
        for i in rows
    ]
    base = alt.Chart(alt.Data(values=data)).encode(
        y=alt.Y("value:N", sort=None, title=None, axis=alt.Axis(labelLimit=180))
    )
    # So few marks that each has room for its label, on a wide page too.
    form = alt.Axis(format=".1%" if percent else "~g", tickCount=8)
    bars = base.mark_bar(height={"band": 0.62}).encode(
        x=alt.X("estimate:Q", title=axis, axis=form),
        color=alt.Color(
            "verdict:N",
            title=None,
            scale=alt.Scale(domain=["detected", "below the noise floor"], range=[BLUE, "#B8C4CC"]),
            legend=alt.Legend(orient="top") if percent else None,
        ),
    )
    whiskers = base.mark_rule(color=BLACK, strokeWidth=1.5).encode(x=alt.X("low:Q", title=axis), x2="high:Q")
    layers = [bars, whiskers]
    if percent and np.isfinite(decoding.noise_floor):
        line = alt.Chart(alt.Data(values=[{"floor": decoding.noise_floor}]))
        layers.append(line.mark_rule(color=ORANGE, strokeDash=[6, 4], strokeWidth=1.5).encode(x="floor:Q"))
    return _finished(alt.layer(*layers), decoding, height=alt.Step(22))


def cdf_chart(decoding: Decoding) -> Any:
    """The share of answers below each number, with its band, and the quartiles' place."""
    distribution = decoding.distribution
    if distribution is None:
        raise Invalid([f"a distribution needs a range metric, {decoding.metric} is a {decoding.kind}"])
    alt = altair()
    band = distribution.cdf()
    where = np.searchsorted(distribution.edges(), band.points)
    smooth = distribution.best_guess_cdf()[np.minimum(where, distribution.num_leaves)]
    data = [
        {
            "x": float(x),
            "estimate": float(s),
            "low": float(np.clip(low, 0, 1)),
            "high": float(np.clip(high, 0, 1)),
        }
        for x, s, low, high in zip(band.points, smooth, band.low, band.high, strict=True)
    ]
    base = alt.Chart(alt.Data(values=data)).encode(x=alt.X("x:Q", title=f"{decoding.metric}{unit_of(decoding)}"))
    title = "share of answers below"
    area = base.mark_area(color=BLUE, opacity=0.22).encode(
        y=alt.Y("low:Q", title=title, axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1])), y2="high:Q"
    )
    line = base.mark_line(color=BLUE, strokeWidth=2).encode(y=alt.Y("estimate:Q", title=title))
    quartiles = alt.Chart(alt.Data(values=[{"q": q} for q in (0.25, 0.5, 0.75)]))
    marks = quartiles.mark_rule(color=GREY, strokeDash=[2, 4]).encode(y="q:Q")
    return _finished(alt.layer(area, line, marks), decoding, height=280)


def installs_chart(found: Sequence[ActiveInstalls]) -> Any:
    """Installs over time, of the one cadence that there is. Raises `Invalid` where there are several."""
    cadences = sorted({each.every for each in found})
    if len(cadences) != 1:
        raise Invalid([f"a chart of installs needs tallies of one cadence, got {', '.join(cadences) or 'none'}"])
    alt = altair()
    data = [
        {"period": each.period, "installs": each.installs, "line": in_words(each.segment) or NOT_SAID} for each in found
    ]
    line = (
        alt.Chart(alt.Data(values=data))
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=36))
        .encode(
            x=alt.X("period:O", title=None, axis=alt.Axis(labelAngle=-40, labelOverlap="greedy")),
            y=alt.Y("installs:Q", title="installs", axis=alt.Axis(format=",d"), scale=alt.Scale(zero=True)),
            color=line_colours([str(row["line"]) for row in data]),
        )
    )
    return styled(line.properties(width=WIDTH, height=260, title=alt.Title(found[0].counts.capitalize())))


def epsilon_chart(metric: Definition, most: int = 30) -> Any:
    """What a growing number of reports of one value reveals at most, and the ceiling that the memo sets."""
    alt = altair()
    data = [{"reports": t, "epsilon": float(metric.epsilon_after(t))} for t in range(1, most + 1)]
    ceiling = float(metric.epsilon_permanent)
    base = alt.Chart(alt.Data(values=data)).encode(x=alt.X("reports:Q", title="reports of one value"))
    title = "privacy loss (epsilon), upper bound"
    line = base.mark_line(color=BLUE, strokeWidth=2, point=alt.OverlayMarkDef(color=BLUE, size=30)).encode(
        y=alt.Y("epsilon:Q", title=title, scale=alt.Scale(zero=True))
    )
    limit = alt.Chart(alt.Data(values=[{"epsilon": ceiling, "text": f"the memo's own epsilon, {ceiling:.2f}"}]))
    rule = limit.mark_rule(color=ORANGE, strokeDash=[6, 4], strokeWidth=1.5).encode(y="epsilon:Q")
    words = limit.mark_text(color=ORANGE, align="left", dy=-8, fontSize=12).encode(
        x=alt.value(8), y="epsilon:Q", text="text:N"
    )
    chart = alt.layer(line, rule, words)
    return styled(chart.properties(width=WIDTH, height=260, title=alt.Title(f"{metric.name}: privacy over time")))


def save(chart: Any, path: str) -> None:
    """Write a chart as its file's ending says. Needs no browser and no network."""
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise Invalid([f"a chart's file must end in one of {', '.join(ENDINGS)}, got {path!r}"])
    convert = need("vl_convert", "'hubbub[charts]'")
    spec = chart.to_json(validate=False)  # tests compare every kind of chart with the schema
    target = Path(path)
    match ending:
        case ".png":
            target.write_bytes(png_of(spec))
        case ".svg":
            target.write_bytes(svg_of(spec))
        case _:
            target.write_text(convert.vegalite_to_html(spec, bundle=True), encoding="utf-8")


def png_of(spec: str) -> bytes:
    """The picture of a chart's JSON, at twice its size so that it is sharp on any screen."""
    picture: bytes = need("vl_convert", "'hubbub[charts]'").vegalite_to_png(spec, scale=2)
    return picture


def svg_of(spec: str) -> bytes:
    """The same as lines and words."""
    picture: str = need("vl_convert", "'hubbub[charts]'").vegalite_to_svg(spec)
    return picture.encode()


def _finished(chart: Any, decoding: Decoding, *, height: Any, subtitle: str = "") -> Any:
    alt = altair()
    percent = intervals_in_words(decoding)
    dashed = "; dashed: noise floor" if decoding.distribution is None and np.isfinite(decoding.noise_floor) else ""
    when = ", ".join(part for part in (epoch_span(decoding.epochs), f"{decoding.num_reports:,} reports") if part)
    facts = f"{subtitle}; {percent}" if subtitle else f"{when}; {percent}{dashed}"
    title = alt.Title(decoding.title, subtitle=facts)
    return styled(chart.properties(width=WIDTH, height=height, title=title))


def intervals_in_words(decoding: Decoding) -> str:
    """Of which confidence they are, and which installs they describe."""
    return f"{intervals_of(decoding.confidence)}s ({decoding.estimand})"


def line_colours(lines: Sequence[str]) -> Any:
    """A colour for each line, with a legend where there are several."""
    alt = altair()
    names = list(dict.fromkeys(lines))
    legend = alt.Legend(orient="top", columns=3) if len(names) > 1 else None
    return alt.Color("line:N", title=None, scale=alt.Scale(domain=names, range=list(COLOURS)), legend=legend)


def styled(chart: Any) -> Any:
    """The look that all pictures share."""
    return (
        chart.configure_title(anchor="start", fontSize=15, subtitleFontSize=11, subtitleColor=GREY)
        .configure_axis(labelFontSize=11, titleFontSize=12, gridColor="#E6E6E6", domainColor=GREY)
        .configure_view(stroke=None)
    )


def altair() -> Any:
    """The library, or a sentence that says how to install it."""
    return need("altair", "'hubbub[charts]'")


def unit_of(decoding: Decoding) -> str:
    """` (ms)`, for the title of an axis."""
    return f" ({decoding.unit})" if decoding.unit else ""


def _label(decoding: Decoding, i: int) -> str:
    """Two rows of one name would share a bar."""
    return row_name(decoding, decoding.values[i], decoding.roles[i])
