"""A simulation as one HTML page: sentences first, then figures, then pictures. No other computer is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hubbub.analysis.render.glyphs import Svg
from hubbub.analysis.result import NUMBER
from hubbub.protocol.asked_parts import as_sentence
from hubbub.protocol.epsilon import show
from hubbub.protocol.invalid import plural
from hubbub.protocol.label import how_often
from hubbub.protocol.printed import percent
from hubbub.simulations.html_page import html_page
from hubbub.simulations.kinds import kind_class
from hubbub.simulations.simulate.charts import Picture, reads_a_number, series_picture, shown_rows, truth_picture
from hubbub.simulations.simulate.run import Setting, SimulationResult
from hubbub.simulations.simulate.scorecard import Scorecard, share_of_stale


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture, and the words below it."""

    svg: Svg
    words: str

    @classmethod
    def of(cls, picture: Picture, label: str) -> Figure:
        return cls(picture.plot.drawn(f"{label}. {picture.words}"), picture.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSection:
    """What the page says of one metric. In `rows` a truth value says whether the interval holds the truth."""

    name: str
    sentence: str
    facts: str
    why: str
    pictures: list[Figure]
    rows: list[list[str | bool]]


def page(app: str, results: Sequence[SimulationResult], command: str) -> str:
    """The whole page."""
    values = {
        "app": app,
        "crowd": _crowd(results[0].setting),
        "scorecard": [_score_cells(result.card) for result in results],
        "metrics": [_section(result) for result in results],
        "command": command,
        "repeatable": _repeatable(results),
    }
    return html_page("hubbub.simulations.simulate", "simulation", values)


def _crowd(setting: Setting) -> str:
    agreed = f", of which {percent(setting.behaviour.consent)} agree" if setting.behaviour.consent < 1 else ""
    return f"{setting.installs:,} simulated installs{agreed}, {plural(setting.epochs, 'epoch')}"


def _repeatable(results: Sequence[SimulationResult]) -> str:
    if any(result.way == "clients" for result in results):
        return "The people are those of the seed; the noise of real clients differs every time."
    return "The same command gives the same page."


def _score_cells(card: Scorecard) -> list[str]:
    counted = kind_class(card.kind).counts_answers
    counts = [str(number) if counted else "" for number in (card.found, card.missed, card.false)]
    return [
        f"{card.metric} ({card.kind})",
        *counts,
        percent(card.distance),
        f"{card.covered:,} of {card.intervals:,}",
        percent(card.error),
        percent(card.theory),
        share_of_stale(card),
    ]


def _section(result: SimulationResult) -> MetricSection:
    metric = result.setting.metric
    return MetricSection(
        name=metric.name,
        sentence=result.sentence.partition(":")[2],
        facts=_facts(result.setting),
        why=as_sentence(metric.why),
        pictures=list(_pictures(result)),
        rows=list(_rows(result)),
    )


def _facts(setting: Setting) -> str:
    metric = setting.metric
    one, permanent = show(metric.epsilon_one_report), show(metric.epsilon_permanent)
    cadence = "once" if metric.every == "once" else f"every {metric.every}"
    if metric.hold is not None:
        cadence = how_often(metric)
    return (
        f"{metric.kind}, {cadence}; people: {setting.people.words}; {setting.behaviour.words()}. "
        f"One report tells at most epsilon {one}, all reports of one answer {permanent}; "
        f"at most {metric.max_values} answers in a life."
    )


def _pictures(result: SimulationResult) -> Iterator[Figure]:
    name = result.setting.metric.name
    yield Figure.of(truth_picture(result), f"Truth beside estimate of {name}")
    if len(result.tally.epochs) > 1:
        yield Figure.of(series_picture(result), f"{name} over time")


def _rows(result: SimulationResult) -> Iterator[list[str | bool]]:
    decoding, truth = result.decoding, result.truth
    if reads_a_number(result):
        shown = [i for i, role in enumerate(decoding.roles) if role == NUMBER and np.isfinite(truth[i])]
    else:
        shown = shown_rows(result)
    for i in shown:
        number = decoding.roles[i] == NUMBER
        true, estimate, low, high = (
            f"{x:,.5g}" if number else percent(x)
            for x in (truth[i], decoding.estimate[i], decoding.low[i], decoding.high[i])
        )
        verdict = "" if number else "detected" if decoding.detected[i] else "not detected"
        holds = bool(decoding.low[i] <= truth[i] <= decoding.high[i])
        yield [decoding.values[i], true, estimate, f"{low} to {high}", holds, verdict]
