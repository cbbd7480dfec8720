"""What can be chosen on a metric's page, as plain values for `templates/_filters.html`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hubbub.analysis.kinds import silence_counts_as
from hubbub.analysis.options import CORRECTIONS, ESTIMANDS
from hubbub.dashboard.metric_inputs import MetricInputs
from hubbub.dashboard.periods import choices
from hubbub.dashboard.query import CONFIDENCES, ONLY, Select
from hubbub.protocol.printed import plain_percent

ESTIMANDS_IN_WORDS = {"reporting": "installs that reported", "population": "the population behind"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionsView:
    """`fields` are in sight, `more` are folded unless one of them was chosen."""

    fields: tuple[Select, ...]
    more: tuple[Select, ...]
    has_absent: bool
    exclude_absent: bool
    open: bool


def _pickers(inputs: MetricInputs) -> Iterator[Select]:
    """For each key of segments, which installs to look at."""
    chosen = dict(inputs.view.only)
    for key, values in inputs.snapshot.segments(inputs.name).items():
        words = (("", f"All {key}s"), *((value, value) for value in values))
        yield Select(f"{ONLY}{key}", key.capitalize(), words, chosen.get(key, ""))


def _by(inputs: MetricInputs) -> Iterator[Select]:
    keys = [key for key, values in inputs.snapshot.segments(inputs.name).items() if len(values) > 1]
    if len(keys) > 1:
        yield Select("by", "By", tuple((key, key.capitalize()) for key in keys), inputs.view.by or "")


def options_view(inputs: MetricInputs) -> OptionsView:
    view = inputs.view
    confidences = tuple((text, plain_percent(float(text))) for text in CONFIDENCES)
    estimands = tuple((name, ESTIMANDS_IN_WORDS[name]) for name in ESTIMANDS)
    corrections = tuple((name, name.title()) for name in CORRECTIONS)
    more = (
        Select("confidence", "Confidence", confidences, view.confidence),
        Select("estimand", "Intervals describe", estimands, view.estimand),
        Select("correction", "Many values", corrections, view.correction),
    )
    period = Select("epoch", "Period", choices(inputs.epochs, inputs.every), view.epoch)
    return OptionsView(
        fields=(*([period] if inputs.epochs else ()), *_pickers(inputs), *_by(inputs)),
        more=more,
        has_absent=not silence_counts_as(inputs.snapshot.definitions(inputs.name)[-1]),
        exclude_absent=view.exclude_absent,
        open=view.exclude_absent or (view.confidence, view.estimand, view.correction) != _PLAIN,
    )


_PLAIN = ("0.95", "reporting", "bonferroni")
