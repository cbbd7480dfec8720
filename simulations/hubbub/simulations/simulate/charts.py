"""Pictures of a simulation: truth beside estimate, in one look and over time, in the style of the decoder's."""

from __future__ import annotations

from typing import Any

import numpy as np

from hubbub.analysis import decode
from hubbub.analysis.optional import need
from hubbub.analysis.render.charts import BLACK, BLUE, GREY, ORANGE, WIDTH, styled
from hubbub.analysis.result import ANSWER, NUMBER, Decoding
from hubbub.protocol.cadence import epoch_text
from hubbub.protocol.tally import Tally
from hubbub.simulations.kinds import kind_of
from hubbub.simulations.people.truth import cell_shares, truth_of
from hubbub.simulations.simulate.run import SimulationResult

MOST_ROWS = 20
MOST_LINES = 3
MOST_MOMENTS = 40
_TRUTH, _SEEN, _UNSEEN = "truth", "detected", "not told from noise"
_PALE = "#C9D3DA"
_LINES = (BLUE, ORANGE, "#009E73")


def truth_chart(result: SimulationResult) -> Any:
    """The estimates of all epochs together, each with its interval, on the truth."""
    return _rows(result) if result.decoding.distribution is None else _distribution(result)


def _rows(result: SimulationResult) -> Any:
    alt = _altair()
    decoding, truth = result.decoding, result.truth
    shares = ANSWER in decoding.roles
    rows = [0] if not shares else shown_rows(result)
    data = [
        {
            "value": decoding.values[i],
            "truth": _plain(truth[i]),
            "estimate": _plain(decoding.estimate[i]),
            "low": _plain(decoding.low[i]),
            "high": _plain(decoding.high[i]),
            "is": _SEEN if not shares or decoding.detected[i] else _UNSEEN,
            "bar": _TRUTH,
        }
        for i in rows
    ]
    unit = f" ({decoding.unit})" if decoding.unit else ""
    title = "share of reports" if shares else f"mean{unit}"
    form = alt.Axis(format=".2~%" if shares else "~g")
    colours = alt.Scale(domain=[_TRUTH, _SEEN, _UNSEEN], range=[_PALE, BLUE, GREY])
    legend = alt.Legend(orient="top", title=None, columnPadding=28, labelFontSize=11)
    base = alt.Chart(alt.Data(values=data)).encode(
        y=alt.Y("value:N", sort=None, title=None, axis=alt.Axis(labelLimit=180))
    )
    bars = base.mark_bar(height={"band": 0.7}).encode(
        x=alt.X("truth:Q", title=title, axis=form, scale=alt.Scale(zero=shares)),
        color=alt.Color("bar:N", scale=colours, legend=legend),
    )
    if not shares:  # a bar from nowhere would tell nothing: the truth is a mark
        bars = base.mark_tick(color=ORANGE, thickness=3, size=16).encode(
            x=alt.X("truth:Q", title=title, axis=form, scale=alt.Scale(zero=False))
        )
    whiskers = base.mark_rule(strokeWidth=1.5, color=BLACK).encode(x=alt.X("low:Q", title=title), x2="high:Q")
    dots = base.mark_point(size=42, filled=True, opacity=1).encode(
        x=alt.X("estimate:Q", title=title),
        color=alt.Color("is:N", scale=colours, legend=legend) if shares else alt.value(BLUE),
    )
    layers = [bars, whiskers, dots]
    if shares and np.isfinite(decoding.noise_floor):
        floor = alt.Chart(alt.Data(values=[{"floor": decoding.noise_floor}]))
        layers.append(floor.mark_rule(color=ORANGE, strokeDash=[6, 4], strokeWidth=1.5).encode(x="floor:Q"))
    told = (
        "orange mark: truth; blue: estimate and its 95 % interval"
        if not shares
        else "estimates with 95 % intervals; dashed: noise floor"
    )
    more = result.card.present + result.card.false - sum(decoding.roles[i] == ANSWER for i in rows)
    if shares and more > 0:
        told = f"the {len(rows)} largest; {more:,} more are not drawn; {told}"
    return _finished(alt.layer(*layers), result, told, alt.Step(20))


def shown_rows(result: SimulationResult) -> list[int]:
    """The answers worth a line: the most common ones, whatever is detected though nobody holds it, and the rest."""
    decoding, truth = result.decoding, result.truth
    answers = [i for i, role in enumerate(decoding.roles) if role == ANSWER and (truth[i] > 0 or decoding.detected[i])]
    if result.setting.metric.shape.open_list or len(answers) > MOST_ROWS:
        answers.sort(key=lambda i: (-float(truth[i]), -float(decoding.estimate[i])))
    false = [i for i in answers if truth[i] == 0]
    first = [i for i in answers if truth[i] > 0][:MOST_ROWS]
    others = [
        i
        for i, role in enumerate(decoding.roles)
        if role in ("absent", "other") and np.isfinite(truth[i]) and (truth[i] > 0 or decoding.detected[i])
    ]
    return first + false[:5] + others


def _distribution(result: SimulationResult) -> Any:
    alt = _altair()
    decoding, shape = result.decoding, result.setting.metric.shape
    assert decoding.distribution is not None
    band = decoding.distribution.cdf()
    leaves = cell_shares(shape, result.histories.counts(), len(decoding.distribution.leaves))
    below = np.concatenate([[0.0], np.cumsum(leaves)]) / max(float(leaves.sum()), 1e-300)
    known = np.interp(band.points, decoding.distribution.edges(), below)
    data = [
        {"x": float(x), "estimate": _plain(e), "low": _plain(lo), "high": _plain(hi), "truth": _plain(t)}
        for x, e, lo, hi, t in zip(
            band.points, *(np.clip(y, 0, 1) for y in (band.estimate, band.low, band.high)), known, strict=True
        )
    ]
    unit = f" ({decoding.unit})" if decoding.unit else ""
    base = alt.Chart(alt.Data(values=data)).encode(x=alt.X("x:Q", title=f"{decoding.metric}{unit}"))
    title = "share of answers below"
    y = alt.Y("low:Q", title=title, axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1]))
    area = base.mark_area(color=BLUE, opacity=0.22).encode(y=y, y2="high:Q")
    estimate = base.mark_line(color=BLUE, strokeWidth=2).encode(y=alt.Y("estimate:Q", title=title))
    truth = base.mark_line(color=ORANGE, strokeWidth=2, strokeDash=[6, 4]).encode(y=alt.Y("truth:Q", title=title))
    told = "blue: estimate and its 95 % band; orange, dashed: truth"
    return _finished(alt.layer(area, estimate, truth), result, told, 260)


# --- over time ----------------------------------------------------------------------------------------------------


def series_chart(result: SimulationResult) -> Any:
    """Each epoch decoded by itself: a few answers, truth as lines, estimates as points with whiskers."""
    alt = _altair()
    data = _series(result)
    names = list(dict.fromkeys(point["value"] for point in data))
    percent = not reads_a_number(result)
    unit = f" ({result.decoding.unit})" if result.decoding.unit else ""
    title = "share of reports" if percent else f"{names[0] if names else ''}{unit}"
    form = alt.Axis(format=".2~%" if percent else "~g")
    base = alt.Chart(alt.Data(values=data)).encode(
        x=alt.X("epoch:O", title="epoch", axis=alt.Axis(labelAngle=-40, labelOverlap=True)),
        color=alt.Color(
            "value:N",
            title=None,
            sort=names,
            scale=alt.Scale(domain=names, range=list(_LINES[: len(names)])),
            legend=alt.Legend(orient="top", columnPadding=28, labelFontSize=11) if len(names) > 1 else None,
        ),
    )
    y = alt.Y("truth:Q", title=title, axis=form, scale=alt.Scale(zero=False))
    truth = base.mark_line(strokeWidth=1.5, strokeDash=[6, 4]).encode(y=y)
    whiskers = base.mark_rule(strokeWidth=1.2).encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    dots = base.mark_point(size=30, filled=True, opacity=1).encode(y=alt.Y("estimate:Q", title=title))
    told = "dashed: truth; points: each epoch decoded by itself, with 95 % interval"
    return _finished(alt.layer(truth, whiskers, dots), result, told, 220, "over time")


def _series(result: SimulationResult) -> list[dict[str, Any]]:
    metric = result.setting.metric
    numbers = result.setting.epoch_numbers
    wanted = _watched(result)
    points = []
    for place in np.unique(np.linspace(0, len(numbers) - 1, min(len(numbers), MOST_MOMENTS)).astype(int)).tolist():
        epoch = numbers[place]
        if epoch not in result.tally.epochs:
            continue
        tally = Tally(metric, {epoch: result.tally.epochs[epoch]})
        decoding = decode(tally, result.setting.candidates)
        truth = truth_of(decoding, metric, result.histories.counts(place), 1)
        for i in wanted:
            points.append(
                {
                    "epoch": epoch_text(metric.every, epoch),
                    "value": _name(decoding, i),
                    "truth": _plain(truth[i]),
                    "estimate": _plain(decoding.estimate[i]),
                    "low": _plain(decoding.low[i]),
                    "high": _plain(decoding.high[i]),
                }
            )
    return points


def _watched(result: SimulationResult) -> list[int]:
    """The rows that are followed: the number that is read out, or the most common answers."""
    decoding = result.decoding
    row = kind_of(result.setting.metric.shape).headline_row(decoding)
    if row is not None and reads_a_number(result):
        return [row]
    answers = [i for i, role in enumerate(decoding.roles) if role == ANSWER]
    return sorted(answers, key=lambda i: -float(result.truth[i]))[:MOST_LINES]


def reads_a_number(result: SimulationResult) -> bool:
    """Whether the row that is read out is a number, a mean or a median, and not a share."""
    row = kind_of(result.setting.metric.shape).headline_row(result.decoding)
    return row is not None and result.decoding.roles[row] == NUMBER


def _name(decoding: Decoding, i: int) -> str:
    return "median" if decoding.values[i] == "quantile 0.5" else decoding.values[i]


def _finished(chart: Any, result: SimulationResult, told: str, height: Any, what: str = "") -> Any:
    alt = _altair()
    name = result.setting.metric.name
    title = alt.Title(f"{name} {what}".strip(), subtitle=told)
    room = {"left": 16, "right": 12, "top": 5, "bottom": 5}  # a browser's letters may be wider than those measured
    return styled(chart.properties(width=WIDTH, height=height, title=title, padding=room))


def _plain(number: float) -> float | None:
    """What is not known is not drawn."""
    return float(number) if np.isfinite(number) else None


def _altair() -> Any:
    return need("altair", "'hubbub[charts]'")
