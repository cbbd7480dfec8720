"""Charts and small drawings as plain values, each with its words or beside its number.

A chart is the very specification of `hubbub decode --chart`: the page gives it its width and its colours, the numbers
in it are not touched. Lengths of drawings are attributes, because the page allows no styles of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hubbub.analysis.render.charts import decoding_chart, epsilon_chart
from hubbub.analysis.render.trends import series_chart
from hubbub.analysis.result import Decoding, epoch_span
from hubbub.dashboard.sentences import cell, headline, interval_of, value_label
from hubbub.protocol.epsilon import show
from hubbub.protocol.metric import Definition


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart for `page.js` to draw. `words` say what is seen on it to those who do not see it."""

    id: str
    words: str
    spec: Mapping[str, object]


def decoding_figure(decoding: Decoding) -> Figure | None:
    """Bars, a mean or a distribution; nothing where nothing could be estimated."""
    if not drawable(decoding):
        return None
    kind = "distribution" if decoding.distribution is not None else "bars with intervals"
    return _figure("chart", decoding_chart(decoding), f"{decoding.metric}, {kind}. {headline(decoding).sentence}")


def series_figure(decodings: Sequence[Decoding], value: str, role: str) -> Figure:
    """One value over the epochs in which it could be estimated."""
    last = decodings[-1]
    i = last.values.index(value)
    words = (
        f"{value_label(value, role)} over {len(decodings)} epochs. In {epoch_span(last.epochs)}: "
        f"{cell(last, i, last.estimate[i])}, {interval_of(last, i)}."
    )
    return _figure("series-chart", series_chart(list(decodings), [value]), words)


def epsilon_figure(definition: Definition) -> Figure:
    """What one, two, three ... reports reveal at most."""
    words = (
        f"What reports of one value reveal at most: epsilon {show(definition.epsilon_one_report)} after one, "
        f"{show(definition.epsilon_after(7))} after seven, never more than {show(definition.epsilon_permanent)}."
    )
    return _figure("epsilon-chart", epsilon_chart(definition), words)


class _Chart(Protocol):
    """As much of an Altair chart as is used here."""

    def to_dict(self, *, validate: bool) -> dict[str, object]: ...


def _figure(name: str, chart: _Chart, words: str) -> Figure:
    spec = chart.to_dict(validate=False)
    spec.pop("title", None)  # the page has a heading
    return Figure(id=name, words=words, spec=spec)


def estimated(decoding: Decoding, value: str) -> bool:
    """Whether a value stands in a decoding with an interval that has two ends."""
    if value not in decoding.values:
        return False
    i = decoding.values.index(value)
    return bool(np.isfinite([decoding.estimate[i], decoding.low[i], decoding.high[i]]).all())


def drawable(decoding: Decoding) -> bool:
    """Whether there is anything to draw."""
    finite = np.isfinite(decoding.estimate) & np.isfinite(decoding.low) & np.isfinite(decoding.high)
    if decoding.distribution is not None:
        return bool(finite.all())
    return bool(finite.any()) if decoding.has_shares else bool(finite[0])


@dataclass(frozen=True, slots=True)
class Scale:
    """From numbers to per cent of the width."""

    low: float
    high: float

    def at(self, x: float) -> float:
        span = self.high - self.low
        return float(np.clip(100 * (x - self.low) / span, 0, 100)) if span > 0 and np.isfinite(x) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """An estimate and its interval, small, in per cent of the width: a bar from nothing with a whisker, or a point on a
    scale within a band. It stands beside its number, so screen readers pass over it."""

    is_point: bool
    certain: bool
    estimate: str
    low: str
    high: str
    width: str
    """Of the band, never too narrow to be seen."""


def draw(scale: Scale, estimate: float, low: float, high: float, *, is_point: bool, certain: bool) -> Drawing:
    return Drawing(
        is_point=is_point,
        certain=certain,
        estimate=f"{scale.at(estimate):.2f}",
        low=f"{scale.at(low):.2f}",
        high=f"{scale.at(high):.2f}",
        width=f"{max(scale.at(high) - scale.at(low), 0.5):.2f}",
    )
