"""Pictures of a simulation: truth beside estimate, in one look and over time, in the style of the decoder's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hubbub.analysis import decode
from hubbub.analysis.render.glyphs import Axis, number_axis, round_above
from hubbub.analysis.render.plots import Legend, Panel, Plot, PlotRow, RowPlot, Scale, Series
from hubbub.analysis.result import ANSWER, NUMBER, Decoding
from hubbub.protocol.cadence import epoch_text
from hubbub.protocol.printed import plain_percent
from hubbub.protocol.tally import Tally
from hubbub.simulations.kinds import kind_of
from hubbub.simulations.people.truth import cell_shares, truth_of
from hubbub.simulations.simulate.run import SimulationResult

MOST_ROWS = 20
MOST_LINES = 3
MOST_MOMENTS = 40
_BLUE, _GREY, _ORANGE, _PALE = "blue", "grey", "orange", "pale"
_LINES = (_BLUE, _ORANGE, "green")
_TRUTH: Legend = ((_PALE, "truth"), (_BLUE, "detected, with 95 % interval"), (_GREY, "not detected"))


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn, and the words below it."""

    plot: Plot | RowPlot
    words: str


def truth_picture(result: SimulationResult) -> Picture:
    """The estimates of all epochs together, each with its interval, on the truth."""
    if result.decoding.distribution is not None:
        return _distribution(result)
    return _shares(result) if ANSWER in result.decoding.roles else _number(result)


def _shares(result: SimulationResult) -> Picture:
    decoding, truth = result.decoding, result.truth
    rows = shown_rows(result)
    highs = [x for i in rows for x in (decoding.high[i], truth[i]) if np.isfinite(x)]
    scale = Scale.linear(0, min(round_above(max(highs, default=1.0)), 1.0), plain_percent, "share of reports")
    drawn = tuple(
        PlotRow(
            name=decoding.values[i],
            bars=((_PALE, float(truth[i])),) if np.isfinite(truth[i]) else (),
            dot=(_BLUE if decoding.detected[i] else _GREY, float(decoding.estimate[i])),
            whisker=(float(decoding.low[i]), float(decoding.high[i])),
        )
        for i in rows
        if np.isfinite([decoding.estimate[i], decoding.low[i], decoding.high[i]]).all()
    )
    limit = float(decoding.noise_floor) if np.isfinite(decoding.noise_floor) else None
    words = "Estimates with 95 % intervals on the truth" + ("; dashed: noise floor." if limit is not None else ".")
    more = result.card.present + result.card.false - sum(decoding.roles[i] == ANSWER for i in rows)
    if more > 0:
        words = f"The {len(rows)} largest; {more:,} more are not drawn. {words}"
    return Picture(RowPlot(scale=scale, rows=drawn, legend=_TRUTH, limit=limit), words)


def _number(result: SimulationResult) -> Picture:
    decoding, truth = result.decoding, result.truth
    ends = [(float(decoding.low[0]), float(decoding.high[0])), (float(truth[0]), float(truth[0]))]
    axis = number_axis([(min(low for low, _ in ends), max(high for _, high in ends))])
    unit = f" ({decoding.unit})" if decoding.unit else ""
    row = PlotRow(
        name=decoding.values[0],
        dot=(_BLUE, float(decoding.estimate[0])),
        whisker=ends[0],
        mark=float(truth[0]),
    )
    scale = Scale.linear(axis.low, axis.high, _plain_number, f"mean{unit}")
    words = "Orange mark: truth; blue: estimate and its 95 % interval."
    return Picture(RowPlot(scale=scale, rows=(row,), names=14), words)


def _plain_number(x: float) -> str:
    return f"{x:,.6g}"


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


def _distribution(result: SimulationResult) -> Picture:
    decoding, shape = result.decoding, result.setting.metric.shape
    assert decoding.distribution is not None
    band = decoding.distribution.cdf()
    leaves = cell_shares(shape, result.histories.counts(), len(decoding.distribution.leaves))
    below = np.concatenate([[0.0], np.cumsum(leaves)]) / max(float(leaves.sum()), 1e-300)
    known = np.interp(band.points, decoding.distribution.edges(), below)
    estimate, low, high = (np.clip(y, 0, 1) for y in (band.estimate, band.low, band.high))
    places = band.points.tolist()
    unit = f" ({decoding.unit})" if decoding.unit else ""
    sure = np.flatnonzero(np.isfinite(low) & np.isfinite(high)).tolist()
    series = (
        Series(
            css=_BLUE,
            line=list(zip(places, estimate.tolist(), strict=True)),
            band=[(places[i], float(low[i]), float(high[i])) for i in sure],
        ),
        Series(css=_ORANGE, line=list(zip(places, known.tolist(), strict=True)), dashed=True),
    )
    x = Scale.linear(min(places), max(places), _plain_number, f"{decoding.metric}{unit}")
    y = Scale.linear(0, 1, plain_percent, "share of answers below")
    words = "Blue: estimate and its 95 % band; orange, dashed: truth."
    return Picture(Plot(rows=((Panel(x=x, y=y, series=series, height=260),),)), words)


# --- over time ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Moment:
    epoch: str
    value: str
    truth: float
    estimate: float
    low: float
    high: float


def series_picture(result: SimulationResult) -> Picture:
    """Each epoch decoded by itself: a few answers, truth as lines, estimates as points with whiskers."""
    moments = _series(result)
    names = list(dict.fromkeys(moment.value for moment in moments))
    epochs = {epoch: float(place) for place, epoch in enumerate(dict.fromkeys(moment.epoch for moment in moments))}
    is_share = not reads_a_number(result)
    known = [x for m in moments for x in (m.truth, m.low, m.high) if np.isfinite(x)]
    ends = number_axis([(min(known, default=0.0), max(known, default=1.0))])
    axis = Axis(max(ends.low, 0.0), ends.high) if is_share else ends
    unit = f" ({result.decoding.unit})" if result.decoding.unit else ""
    title = "share of reports" if is_share else f"{names[0] if names else ''}{unit}"
    y = Scale.linear(axis.low, axis.high, plain_percent if is_share else _plain_number, title)
    step = max(-(-len(epochs) // 5), 1)
    ticks = tuple((place, epoch) for epoch, place in list(epochs.items())[::step])
    x = Scale(low=-0.4, high=len(epochs) - 0.6, ticks=ticks, title="epoch")
    drawn = []
    for name, css in zip(names, _LINES, strict=False):
        mine = [(epochs[moment.epoch], moment) for moment in moments if moment.value == name]
        drawn.append(
            Series(
                css=css,
                line=[(place, moment.truth) for place, moment in mine],
                dashed=True,
                dots=[(place, moment.estimate) for place, moment in mine],
                whiskers=[(place, m.low, m.high) for place, m in mine if np.isfinite([m.low, m.high]).all()],
            )
        )
    legend = tuple(zip(_LINES, names, strict=False)) if len(names) > 1 else ()
    words = "Dashed: truth; points: each epoch decoded by itself, with 95 % interval."
    return Picture(Plot(rows=((Panel(x=x, y=y, series=tuple(drawn), height=220),),), legend=legend), words)


def _series(result: SimulationResult) -> list[_Moment]:
    metric = result.setting.metric
    numbers = result.setting.epoch_numbers
    wanted = _watched(result)
    moments = []
    for place in np.unique(np.linspace(0, len(numbers) - 1, min(len(numbers), MOST_MOMENTS)).astype(int)).tolist():
        epoch = numbers[place]
        if epoch not in result.tally.epochs:
            continue
        tally = Tally(metric, {epoch: result.tally.epochs[epoch]})
        decoding = decode(tally, result.setting.candidates)
        truth = truth_of(decoding, metric, result.histories.counts(place), 1)
        moments += [
            _Moment(
                epoch_text(metric.every, epoch),
                _name(decoding, i),
                float(truth[i]),
                float(decoding.estimate[i]),
                float(decoding.low[i]),
                float(decoding.high[i]),
            )
            for i in wanted
        ]
    return moments


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
