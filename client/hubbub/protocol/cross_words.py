"""What a label says of crosses: what the device keeps in plain for them, and what all tell that share an answer."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hubbub.protocol.epsilon import certainty, show
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry


def keeps_for_crosses(metric: Metric, registry: Registry, period: str) -> str:
    """Of a metric whose first record counts: what is kept because of crosses; nothing if there are none."""
    until = f"in the app's files until the app next runs after that {period}"
    if metric.shape.made_of_others:
        return (
            f"The answer follows from what is recorded of {_names(metric.shape.factors)} in a {period}. Your device "
            f"keeps both as they are, without noise, {until}; then they are deleted there."
        )
    crosses = registry.crosses.get(metric.name, ())
    if not crosses:
        return ""
    return (
        f"For {_names(crosses)}, your device keeps which answer is recorded first in a {period}, as it is, without "
        f"noise, {until}; then it is deleted there."
    )


def in_all_with_crosses(metric: Metric, registry: Registry) -> str:
    """What all messages tell that share an answer with this metric's: epsilons add up. Nothing if only its own do."""
    others = _sharing(metric, registry)
    if not others:
        return ""
    one, same, life = (f"{certainty(sum_)} sure (epsilon {show(sum_)})" for sum_ in _sums(metric, registry))
    by_themselves, in_others = "Both answers are also asked by themselves", f"This answer is also in {_names(others)}"
    return (
        f"{by_themselves if metric.shape.made_of_others else in_others}. Together with {_names(others)} at most {one} "
        f"after one message, {same} after all messages while the answer stays as it is, {life} after a whole life."
    )


def facts_with_crosses(metric: Metric, registry: Registry) -> dict[str, Any]:
    """The same as data, and of a cross what it is made of."""
    others = _sharing(metric, registry)
    if not others:
        return {}
    keys = ("epsilon_one_report", "epsilon_same_answer", "epsilon_lifetime")
    sums: dict[str, str | None] = {}
    sums |= {key: show(epsilon, 6) for key, epsilon in zip(keys, _sums(metric, registry), strict=True)}
    more = one_more_with_crosses(metric, registry)
    sums["epsilon_one_more"] = None if more is None else show(more, 6)
    return {"together_with": {"metrics": [other.name for other in others], **sums}}


def one_more_with_crosses(metric: Metric, registry: Registry) -> Fraction | None:
    """What one more message tells at most about whether the answer has just changed, to one who knows every memo. None:
    everything. The crosses that it is in change with it, and with a cross both answers may; what repeats its first
    answer for ever, or has `hold`, is the same before and after."""
    told = [each.epsilon_one_more for each in (metric, *_sharing(metric, registry)) if not each.whole_history]
    return None if None in told else sum((more for more in told if more is not None), Fraction(0))


def _sharing(metric: Metric, registry: Registry) -> tuple[Metric, ...]:
    """The crosses that it is in; of a cross, the metrics it is made of."""
    factors = tuple(registry[factor.name] for factor in metric.shape.factors)
    return factors or registry.crosses.get(metric.name, ())


def _sums(metric: Metric, registry: Registry) -> tuple[Fraction, Fraction, Fraction]:
    """Of it and of them: what one message tells at most, all while the answer stays as it is, and all."""
    asked = (metric, *_sharing(metric, registry))
    if metric.shape.made_of_others:
        same = sum((each.epsilon_same_answer for each in asked), Fraction(0))
    else:
        same = registry.epsilon_same_answer(metric)
    one, life = (sum((getattr(each, key) for each in asked), Fraction(0)) for key in _ONE_AND_LIFE)
    return one, same, life


_ONE_AND_LIFE = ("epsilon_one_report", "epsilon_lifetime")


def _names(named: Any) -> str:
    return " and ".join(each.name for each in named)
