"""An experiment: figures predicted before anything is drawn, a run of the real code, and a verdict on each figure.

`predict` sees the setting and nothing else; `run` draws, and gives one figure for each prediction. `run.conduct` asks
for the predictions first and puts both together, so no range can have been fitted to what came out. A prediction that
rests on chance says how often it would fail though all is right (`false_alarm`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubbub.analysis.progress import Progress
from hubbub.analysis.render.plots import Plot, RowPlot
from hubbub.protocol.invalid import require


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A figure, and the range in which it must be found if the theory and the code are right."""

    what: str
    low: float
    high: float
    why: str
    false_alarm: float = 0.0
    form: str = ".3g"

    def __post_init__(self) -> None:
        require(self._broken_rules())

    def _broken_rules(self) -> Iterator[str]:
        if not self.low <= self.high:
            yield f"low must be at most high={self.high}, got {self.low}: {self.what}"
        if not 0 <= self.false_alarm < 1:
            yield f"false_alarm must be at least 0 and below 1, got {self.false_alarm}: {self.what}"

    def say(self, value: float) -> str:
        return format(value, self.form)

    @property
    def expected(self) -> str:
        """The range in words."""
        low, high = self.say(self.low), self.say(self.high)
        if low == high:
            return low
        if self.low == -np.inf:
            return f"at most {high}"
        return f"at least {low}" if self.high == np.inf else f"{low} to {high}"


@dataclass(frozen=True, slots=True)
class CheckedPrediction:
    """A prediction and what was found."""

    prediction: Prediction
    found: float

    @property
    def met(self) -> bool:
        return self.prediction.low <= self.found <= self.prediction.high

    def to_json(self) -> dict[str, Any]:
        p = self.prediction
        return {
            "what": p.what,
            "low": None if np.isinf(p.low) else p.low,
            "high": None if np.isinf(p.high) else p.high,
            "found": self.found,
            "met": self.met,
            "why": p.why,
            "false_alarm": p.false_alarm,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A figure of the literature beside ours, and why they agree or differ."""

    what: str
    theirs: str
    ours: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOutput:
    """What a run gives back: a figure for each prediction, a table, a picture, and what it means."""

    figures: Mapping[str, float]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    chart: Plot | RowPlot
    caption: str
    meaning: tuple[str, ...]
    published: tuple[Published, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A question with a setting of full size and a quick one. `describe`, `predict` and `run` take a setting."""

    name: str
    title: str
    question: str
    source: str
    full: Any
    quick: Any
    describe: Callable[[Any], Mapping[str, str]]
    predict: Callable[[Any], Mapping[str, Prediction]]
    run: Callable[[Any, np.random.Generator, Progress], StudyOutput]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentResult:
    """An experiment that was run."""

    name: str
    title: str
    question: str
    source: str
    setting: Mapping[str, str]
    findings: tuple[CheckedPrediction, ...]
    output: StudyOutput
    seconds: float

    @property
    def met(self) -> bool:
        return all(finding.met for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        output = self.output
        return {
            "name": self.name,
            "title": self.title,
            "question": self.question,
            "source": self.source,
            "setting": dict(self.setting),
            "met": self.met,
            "findings": [finding.to_json() for finding in self.findings],
            "table": {"columns": list(output.columns), "rows": [list(row) for row in output.rows]},
            "meaning": list(output.meaning),
            "published": [{"what": p.what, "theirs": p.theirs, "ours": p.ours, "why": p.why} for p in output.published],
            "cpu_seconds": round(self.seconds, 2),
        }
