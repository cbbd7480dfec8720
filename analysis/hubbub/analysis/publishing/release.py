"""Figures for the public: noise on every count, estimates from the noised counts alone, and what they tell.

What leaves this module was computed from noised counts and from nothing else that anybody sent: estimates, their errors
and intervals with the noise's own variance, and numbers of reports with noise. No cohorts, no exact number: one exact
share at eight digits would give the number of reports away. A ledger is charged before any noise is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import ceil
from pathlib import Path

import numpy as np

from hubbub.analysis.estimation.cells import pool_counts
from hubbub.analysis.estimation.threads import one_thread
from hubbub.analysis.kinds import kind_of
from hubbub.analysis.options import Options
from hubbub.analysis.publishing.count_noise import CountNoise, counts_of_a_report
from hubbub.analysis.publishing.discrete_noise import NoiseSource, Random
from hubbub.analysis.publishing.ledger import Item, Ledger
from hubbub.analysis.publishing.published_segments import (
    Division,
    choose,
    item_of_choice,
    reports_of_an_install,
    scores_of,
)
from hubbub.analysis.result import NUMBER, Decoding, epoch_span
from hubbub.protocol.cadence import epoch_text
from hubbub.protocol.invalid import Invalid, require
from hubbub.protocol.metric import Definition
from hubbub.protocol.segments import in_words
from hubbub.protocol.tally import Counts, Tally, undivided

_FEWEST = 10  # deviations of its noise that a count of reports must have, or its cohort is left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One published number. `is_share` says that it is a share of installs, and not a number in a unit."""

    epochs: str
    value: str
    estimate: float
    std_error: float
    low: float
    high: float
    is_share: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedMetric:
    """The figures of one metric, each epoch by itself and then all together. `reports` are noised. Of strings there are
    figures of those that were detected among so many `candidates`; None where the answers are known beforehand, or
    searched for among the noised counts."""

    metric: Definition
    reports: Mapping[int, int]
    figures: tuple[Figure, ...]
    candidates: int | None


Candidates = Mapping[str, Sequence[str]]
"""The strings to look for, by the name of the metric."""


def release(
    tallies: Sequence[Tally],
    noise: CountNoise,
    ledger: Ledger,
    random: Random,
    options: Options,
    candidates: Candidates | None = None,
    division: Division | None = None,
) -> list[PublishedMetric]:
    """Charge the ledger, draw the noise, estimate. With a `division` tallies are `divided`, and if it has a `top` only
    those of the values that are chosen are published. Raises `Invalid`, with nothing charged, for what cannot be."""
    lists = candidates or {}
    require(_problems(tallies, lists, ledger.budget.delta))
    source = NoiseSource(random)
    chosen = list(tallies) if division is None else _chosen(tallies, division, noise, ledger, source)
    ledger.charge([item for tally in chosen for item in items_of(tally, noise)])
    return [publish(tally, noise, source, options, lists.get(tally.metric.name, ())) for tally in chosen]


def _chosen(
    tallies: Sequence[Tally], division: Division, noise: CountNoise, ledger: Ledger, source: NoiseSource
) -> list[Tally]:
    """The tallies of the values that are chosen; the choice is charged before it is made, and only if there is room for
    the figures, too, which cost the same whichever are chosen."""
    if division.top is None:
        return list(tallies)
    choice = item_of_choice(tallies, division)
    ledger.require_room([choice, *(item for tally in tallies for item in items_of(tally, noise))])
    ledger.charge([choice])
    values = choose(scores_of(tallies, division), division, reports_of_an_install(tallies), source)
    return [tally for tally in tallies if dict(tally.metric.segment)[division.key] in values]


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """Of what was counted: that of which nothing was published yet, and what was left out, in words."""

    tallies: list[Tally]
    left_out: list[str]


def news(
    tallies: Sequence[Tally],
    noise: CountNoise,
    ledger: Ledger,
    *,
    again: bool = False,
    same_collector: bool = False,
    besides: Sequence[Tally] = (),
) -> News:
    """What a ledger has not seen: epochs that were never published, and with `again` those that have grown since. The
    others, and those `besides`, are there to show that it is the ledger of these tallies' collector; `same_collector`
    says so where no published epoch is left. Raises `Invalid` where it is another's, or there is nothing new."""
    items = [(tally, item) for tally in tallies for item in items_of(tally, noise)]
    known = [*(item for _, item in items), *(item for tally in besides for item in items_of(tally, noise))]
    require(ledger.strangers(known, vouched=same_collector))
    fresh: dict[str, dict[int, Counts]] = {tally.metric.metric_hash: {} for tally in tallies if not tally.epochs}
    left_out = []
    for tally, item in items:
        old = ledger.newest(item.key)
        if old is None and ledger.has_others(item):
            continue  # another segment was chosen then
        if old is None or (again and item.digest != old.digest):
            fresh.setdefault(item.metric_hash, {})[item.epoch] = tally.epochs[item.epoch]
        elif item.digest == old.digest:
            left_out.append(f"{item} was published before" + (f", with {old.noise}" if old.noise != item.noise else ""))
        else:
            left_out.append(f"{item} was published before and has grown since (--again publishes it and spends again)")
    if tallies and not fresh:
        raise Invalid([*left_out, "nothing is new: publish those files again; another draw would spend again"])
    metrics = {tally.metric.metric_hash: tally.metric for tally in tallies}
    return News(tallies=[Tally(metrics[key], epochs) for key, epochs in fresh.items()], left_out=left_out)


def name_of(metric: Definition) -> str:
    """`dark_theme`, or `dark_theme, platform linux`."""
    return ", ".join(filter(None, (metric.name, in_words(metric.segment))))


def items_of(tally: Tally, noise: CountNoise) -> list[Item]:
    """What a ledger writes down of a tally: its epochs."""
    metric = tally.metric
    return [
        Item(
            metric=name_of(metric),
            metric_hash=metric.metric_hash,
            every=metric.every,
            epoch=epoch,
            reports=sum(counts.num_reports),
            digest=blake2b(repr((counts.num_reports, counts.bit_counts)).encode(), digest_size=16).hexdigest(),
            noise=str(noise),
            counts=counts_of_a_report(metric),
            cells=tuple((n, *row) for n, row in zip(counts.num_reports, counts.bit_counts, strict=True)),
            question=metric.undivided.metric_hash,
            by=", ".join(key for key, _ in metric.segment),
        )
        for epoch, counts in tally.epochs.items()
    ]


def _problems(tallies: Sequence[Tally], candidates: Candidates, delta: float) -> list[str]:
    problems = [] if tallies else ["at least one tally must be given, got none"]
    for name, times in Counter(metric.name for metric in {tally.metric.undivided for tally in tallies}).items():
        if times > 1:
            problems.append(f"{name} must be published one definition at a time, got {times}")
    for tally in tallies:
        metric = tally.metric
        if kind_of(metric.shape.form).released is None:
            problems.append(f"{metric.name} is a {metric.kind}, whose errors do not yet allow for noise on counts")
        if metric.shape.open_list and not metric.shape.discovers and not candidates.get(metric.name):
            problems.append(
                f"{metric.name} is a {metric.kind}, of which those are published that are detected in a list: give "
                "--candidates FILE"
            )
        if not tally.epochs:
            problems.append(f"{metric.name} must have at least one epoch, got none")
    for tally in undivided(tallies):
        most = max((sum(counts.num_reports) for counts in tally.epochs.values()), default=0)
        if most and delta >= 1 / most:
            problems.append(
                f"the budget's delta must be below 1/{most}, or everything about one of the installs that reported "
                f"{tally.metric.name} could be published by chance, got {delta:g}"
            )
    return problems


def publish(
    tally: Tally, noise: CountNoise, source: NoiseSource, options: Options, candidates: Sequence[str] = ()
) -> PublishedMetric:
    """Noise and figures of one tally; `release` charges for it first."""
    noised = {epoch: _noised(counts, noise, source) for epoch, counts in tally.epochs.items()}
    figures = [
        figure
        for some in ([{epoch: counts} for epoch, counts in noised.items()] + ([noised] if len(noised) > 1 else []))
        for figure in _figures(tally.metric, some, noise, options, candidates)
    ]
    reports = {epoch: max(0, sum(counts.num_reports)) for epoch, counts in noised.items()}
    listed = len(set(candidates)) if tally.metric.shape.open_list and not tally.metric.shape.discovers else None
    return PublishedMetric(metric=tally.metric, reports=reports, figures=tuple(figures), candidates=listed)


def _noised(counts: Counts, noise: CountNoise, source: NoiseSource) -> Counts:
    return Counts(
        tuple(count + noise.draw(source) for count in counts.num_reports),
        tuple(tuple(count + noise.draw(source) for count in row) for row in counts.bit_counts),
    )


def _figures(
    metric: Definition, epochs: Mapping[int, Counts], noise: CountNoise, options: Options, candidates: Sequence[str]
) -> list[Figure]:
    kept = {epoch: _enough(counts, noise) for epoch, counts in epochs.items()}
    if not any(sum(counts.num_reports) for counts in kept.values()):
        return []  # so few reports that there is nothing to divide by
    kind = kind_of(metric.shape.form)
    assert kind.released is not None
    with one_thread(), np.errstate(under="ignore"):
        found: Decoding = kind.decode([pool_counts(metric, kept, noise.variance)], candidates, options)
    label = epoch_span(tuple(epoch_text(metric.every, epoch) for epoch in epochs))
    return [_figure(found, i, label) for i in kind.released(found) if np.isfinite(found.std_error[i])]


def _figure(found: Decoding, row: int, epochs: str) -> Figure:
    estimate, error = float(found.estimate[row]), float(found.std_error[row])
    low, high = float(found.low[row]), float(found.high[row])
    if np.isfinite(found.high_selected[row]):  # shown only because it was detected: ordinary intervals forget that
        low, high = min(float(found.low_selected[row]), estimate), max(float(found.high_selected[row]), estimate)
    return Figure(
        epochs=epochs,
        value=found.values[row],
        estimate=_rounded(estimate, error),
        std_error=_rounded(error, error),
        low=_rounded(low, error),
        high=_rounded(high, error),
        is_share=found.roles[row] != NUMBER,
    )


def _enough(counts: Counts, noise: CountNoise) -> Counts:
    """Cohorts with so few reports that a ratio of noised counts would mean nothing count as empty."""
    least = _FEWEST * noise.variance**0.5
    has = [number >= least for number in counts.num_reports]
    return Counts(
        tuple(number if kept else 0 for number, kept in zip(counts.num_reports, has, strict=True)),
        tuple(row if kept else (0,) * len(row) for row, kept in zip(counts.bit_counts, has, strict=True)),
    )


def _rounded(number: float, error: float) -> float:
    """To a hundredth of its error: more digits tell nothing."""
    digits = 2 - ceil(np.log10(error)) if error > 0 else 6
    return round(float(number), digits + 1)


def require_outputs(outputs: Sequence[str]) -> None:
    """Said before anything is charged: where figures can be written."""
    for path in outputs:
        if not path.endswith((".json", ".csv", ".html")):
            raise Invalid([f"--out must end in .json, .csv or .html, got {path!r}"])
        if not Path(path).absolute().parent.is_dir():
            raise Invalid([f"--out must be in a folder that is there, got {path!r}"])
