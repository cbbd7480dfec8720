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
from hubbub.analysis.accounting.trade_off import TradeOff, lower, profile_of, pure_profile, trade_off
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
    for_groups = _for_groups(metric, delta)
    bit = _all_epochs(metric, crowds, delta)
    if bit is None:
        return None
    left = delta - for_groups
    life, holds_for = _largest(_of_a_life(metric, bit), left), _scope(metric)
    kept, weight = _of_a_kept_answer(metric, bit)
    one_answer = min(_largest(kept, min(left / weight, 0.999)), life)
    if isinstance(metric, Metric):
        one_answer = min(one_answer, float(metric.epsilon_same_answer))
        if metric.epsilon_lifetime < life:
            life = float(metric.epsilon_lifetime)
            holds_for = ANY_HISTORIES if metric.whole_history else CHANGE_TOGETHER
    return ReaderBound(
        one_answer=one_answer,
        life=life,
        holds_for=holds_for,
        one_release=_one_release(metric, crowds, for_groups, left),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderCurves:
    """The same as smallest pairs of errors: which of two kept answers it was, and which of two histories."""

    one_answer: TradeOff
    life: TradeOff


def reader_curves(metric: Definition, crowds: Crowds, delta: float) -> ReaderCurves | None:
    """The trade-off curves behind `reader_bound`; None where it is None. Of `delta` only the part that is set aside for
    small groups counts: the curve itself is over all deltas."""
    bit = _all_epochs(metric, crowds, delta)
    if bit is None:
        return None
    aside = _for_groups(metric, delta)
    life = profile_of(_of_a_life(metric, bit), aside=aside)
    kept, weight = _of_a_kept_answer(metric, bit)
    one_answer = lower(profile_of(kept, weight=weight, aside=aside), life)
    if isinstance(metric, Metric):
        life = lower(life, pure_profile(float(metric.epsilon_lifetime)))
        same = pure_profile(float(metric.epsilon_same_answer))
        one_answer = lower(one_answer, same)
    return ReaderCurves(one_answer=trade_off(one_answer), life=trade_off(life))


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


def _for_groups(metric: Definition, delta: float) -> float:
    return delta * _OF_GROUPS if metric.shape.num_cohorts > 1 else 0.0


def _all_epochs(metric: Definition, crowds: Crowds, delta: float) -> Both | None:
    """What all published epochs together tell about one bit, or about two categories."""
    require(reader_problems(crowds, delta))
    if metric.hold is not None:
        return None  # no noise is drawn on top of what was drawn ahead
    pairs = [
        (crowd_loss(metric.noise.instantaneous, _others(metric, installs, _for_groups(metric, delta))), epochs)
        for installs, epochs in sorted(crowds.items())
    ]
    if any(pair is None for pair, _ in pairs):
        return None
    return reduce(_both_then, (_both_times(pair, epochs) for pair, epochs in pairs if pair is not None))


def _of_a_life(metric: Definition, bit: Both) -> list[PrivacyLoss]:
    """For each way in which two answers can differ; a k-ary channel's pair is one of answers already."""
    if metric.one_hot:
        return [bit[0]]
    return [bit[0].times(lost).then(bit[1].times(gained)) for lost, gained in metric.shape.flips]


def _largest(losses: list[PrivacyLoss], delta: float) -> float:
    return max(loss.epsilon(delta) for loss in losses)


def _of_a_kept_answer(metric: Definition, bit: Both) -> tuple[list[PrivacyLoss], float]:
    """The reader does not know the kept answer of this very install: it was drawn through the permanent channel. With
    the probability that there is anything to tell at all."""
    match metric.noise.permanent:
        case KaryChannel(truth=truth, other=other):
            # Granted besides: whether the kept answer is one of the two in question; if not, nothing is learnt.
            either = float(truth + other)
            return list(kept_answer(bit[0], float(truth) / either, float(other) / either)), either
        case BitChannel(when_one=when_one, when_zero=when_zero):
            return _of_a_life(metric, kept_answer(bit[0], float(when_one), float(when_zero))), 1.0
    raise Invalid([f"nothing is known of what published figures of {metric.name} tell"])


def _one_release(metric: Definition, crowds: Crowds, for_groups: float, delta: float) -> float | None:
    """As if the kept answers themselves had been counted once, beside the smallest crowd."""
    permanent: Channel = metric.noise.permanent
    both = crowd_loss(permanent, _others(metric, min(crowds), for_groups))
    return None if both is None else min(_largest(_of_a_life(metric, both), delta), float(metric.epsilon_permanent))
