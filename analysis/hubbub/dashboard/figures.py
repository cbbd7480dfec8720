"""Charts as the page draws them: the very specifications of `hubbub decode --chart`, each with its words.

The page gives them its width and its colours; the numbers in them are not touched.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hubbub.analysis.render.charts import decoding_chart, epsilon_chart, series_chart
from hubbub.analysis.result import ANSWER, Decoding, epoch_span
from hubbub.dashboard.html import Html, data, el
from hubbub.dashboard.sentences import cell, headline, interval_of, value_label
from hubbub.protocol.epsilon import show
from hubbub.protocol.metric import Definition


def decoding_figure(decoding: Decoding) -> Html | None:
    """Bars, a mean or a distribution; nothing where nothing could be estimated."""
    if not drawable(decoding):
        return None
    kind = "distribution" if decoding.distribution is not None else "bars with intervals"
    return _figure("chart", decoding_chart(decoding), f"{decoding.metric}, {kind}. {headline(decoding).sentence}")


def series_figure(decodings: Sequence[Decoding], value: str, role: str) -> Html:
    """One value over the epochs in which it could be estimated."""
    rows = [(decoding, decoding.values.index(value)) for decoding in decodings]
    last, i = rows[-1]
    words = (
        f"{value_label(value, role)} over {len(rows)} epochs. In {epoch_span(last.epochs)}: "
        f"{cell(last, i, last.estimate[i])}, {interval_of(last, i)}."
    )
    return _figure("series-chart", series_chart([decoding for decoding, _ in rows], value), words)


def epsilon_figure(definition: Definition) -> Html:
    words = (
        f"What reports of one value reveal at most: epsilon {show(definition.epsilon_one_report)} after one, "
        f"{show(definition.epsilon_after(7))} after seven, never more than {show(definition.epsilon_permanent)}."
    )
    return _figure("epsilon-chart", epsilon_chart(definition), words)


def default_series(decoding: Decoding) -> str | None:
    """The value most would like to see over time."""
    match decoding.kind:
        case "mean":
            return "mean"
        case "range":
            return "quantile 0.5"
    answers = [i for i, role in enumerate(decoding.roles) if role == ANSWER and np.isfinite(decoding.estimate[i])]
    return decoding.values[max(answers, key=lambda i: float(decoding.estimate[i]))] if answers else None


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
    return bool(finite[0]) if decoding.kind == "mean" else bool(finite.any())


def _figure(name: str, chart: object, words: str) -> Html:
    spec = chart.to_dict(validate=False)  # type: ignore[attr-defined]
    spec.pop("title", None)  # the page has a heading
    return el(
        "figure",
        el("div", el("div", class_="plot", aria_hidden="true"), class_="canvas", role="img", aria_label=words),
        data(spec, class_="spec"),
        el("noscript", el("p", "The chart needs JavaScript; the table has the same numbers.", class_="note")),
        id=name,
        class_="chart",
        data_live=True,
    )
