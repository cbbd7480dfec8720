"""What published figures tell about one install to someone who sees nothing else, whoever joins, leaves or changes.

The reader is granted every kept answer of all other installs. Each published epoch is then one release through the
instantaneous channel, hidden by that epoch's crowd (`accounting.crowd`), and releases compose. The tempting shortcut,
that all epochs together are one release through the permanent channel, is false as soon as anybody joins, leaves or
changes; it is kept apart as `one_release`, with its condition.

None of this is the device's promise: it holds only if the collector is trusted to publish figures and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from hubbub.analysis.accounting.crowd import Both, crowd_loss, fewest
from hubbub.analysis.accounting.mechanisms import kept_answer
from hubbub.analysis.accounting.privacy_loss import PrivacyLoss
from hubbub.protocol.channel import BitChannel, Channel, KaryChannel
from hubbub.protocol.invalid import Invalid, require
from hubbub.protocol.metric import Definition, Metric

ANY_HISTORIES = "any two histories"
CHANGE_TOGETHER = "histories that change together"
_OF_GROUPS = 0.1  # the part of delta that is set aside for small groups

Crowds = Mapping[int, int]
"""For each number of installs that reported, how many epochs of so many were published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderBound:
    """Epsilons at one delta. `holds_for` says between which histories `life` holds."""

    one_answer: float  # about one kept answer, in all epochs together
    life: float  # about all answers of an install
    holds_for: str
    one_release: float | None  # about one kept answer, if nobody joins, leaves or changes


def reader_bound(metric: Definition, crowds: Crowds, delta: float) -> ReaderBound | None:
    """What the published epochs of a metric tell about one install. None: one report is as clear as the kept answer, so
    that nothing can be said. A `Metric` also has terms, which cap it; a definition alone, as in a tally, has none."""
    require(reader_problems(crowds, delta))
    for_groups = delta * _OF_GROUPS if metric.shape.num_cohorts > 1 else 0.0
    pairs = [
        (crowd_loss(metric.noise.instantaneous, _others(metric, installs, for_groups)), epochs)
        for installs, epochs in sorted(crowds.items())
    ]
    if any(pair is None for pair, _ in pairs):
        return None
    bit = reduce(_both_then, (_both_times(pair, epochs) for pair, epochs in pairs if pair is not None))
    left = delta - for_groups
    life, holds_for = _worst(metric, bit).epsilon(left), _scope(metric)
    one_answer = min(_mixed(metric, bit, left), life)
    if isinstance(metric, Metric):
        redrawn = metric.hold is not None and sum(crowds.values()) > metric.hold
        one_answer = min(life if redrawn else one_answer, float(metric.epsilon_same_answer))
        if metric.epsilon_lifetime < life:
            life = float(metric.epsilon_lifetime)
            holds_for = ANY_HISTORIES if metric.whole_history else CHANGE_TOGETHER
    return ReaderBound(
        one_answer=one_answer,
        life=life,
        holds_for=holds_for,
        one_release=_one_release(metric, crowds, for_groups, left),
    )


def reader_problems(crowds: Crowds, delta: float) -> list[str]:
    """What is wrong with such crowds, or with this delta beside them."""
    problems = []
    if not 0 < delta < 1:
        problems.append(f"delta must be above 0 and below 1, got {delta:g}")
    if not crowds:
        problems.append("at least one epoch must be published, got none")
    for installs, epochs in crowds.items():
        if installs < 1 or epochs < 1:
            problems.append(f"installs and epochs must be at least 1, got {installs} and {epochs}")
        elif delta >= 1 / installs:
            problems.append(
                f"delta must be below 1/{installs}, or everything about one install of {installs} could be published "
                f"by chance, got {delta:g}"
            )
    return problems


def _others(metric: Definition, installs: int, chance: float) -> int:
    """Those in one install's group, which the reader may know."""
    return fewest(installs, metric.shape.num_cohorts, chance)


def _scope(metric: Definition) -> str:
    """Two histories that change together differ in the bits that two answers set. Otherwise all bits of a kept answer
    may differ: of a single bit, or of one category, that is no more."""
    single = metric.one_hot or all(metric.shape.width(c) == 1 for c in range(metric.shape.num_cohorts))
    whole = isinstance(metric, Metric) and metric.whole_history
    return ANY_HISTORIES if single or whole else CHANGE_TOGETHER


def _both_times(both: Both, times: int) -> Both:
    return both[0].times(times), both[1].times(times)


def _both_then(one: Both, two: Both) -> Both:
    return one[0].then(two[0]), one[1].then(two[1])


def _worst(metric: Definition, bit: Both) -> PrivacyLoss:
    """Over the bits in which two answers can differ; a k-ary channel's pair is one of answers already."""
    if metric.one_hot:
        return bit[0]
    found = [bit[0].times(lost).then(bit[1].times(gained)) for lost, gained in metric.shape.flips]
    return max(found, key=lambda loss: loss.epsilon(1e-12))


def _mixed(metric: Definition, bit: Both, delta: float) -> float:
    """The reader does not know the kept answer of this very install: it was drawn through the permanent channel."""
    match metric.noise.permanent:
        case KaryChannel(truth=truth, other=other):
            # Granted besides: whether the kept answer is one of the two in question; if not, nothing is learnt.
            either = float(truth + other)
            there, back = kept_answer(bit[0], float(truth) / either, float(other) / either)
            return max(loss.epsilon(min(delta / either, 0.999)) for loss in (there, back))
        case BitChannel(when_one=when_one, when_zero=when_zero):
            there, back = kept_answer(bit[0], float(when_one), float(when_zero))
            return _worst(metric, (there, back)).epsilon(delta)
    raise Invalid([f"nothing is known of what published figures of {metric.name} tell"])


def _one_release(metric: Definition, crowds: Crowds, for_groups: float, delta: float) -> float | None:
    """As if the kept answers themselves had been counted once, beside the smallest crowd."""
    permanent: Channel = metric.noise.permanent
    both = crowd_loss(permanent, _others(metric, min(crowds), for_groups))
    return None if both is None else min(_worst(metric, both).epsilon(delta), float(metric.epsilon_permanent))
