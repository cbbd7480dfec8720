"""Plans of metrics whose answers have a history: how often to ask, and what an epoch, a period and a change will show.

All answers of an install together have one epsilon. Asked more often, each is noisier, but an epoch rests on more
installs: over a life of so many epochs, so many answers are best, and which number follows from the least error of one
epoch. docs/planning.md derives the formulas.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, sqrt

from scipy.special import ndtri

from hubbub.analysis.planning.plan import Plan
from hubbub.protocol.epsilon import show
from hubbub.protocol.history import LONGEST_HOLD, MOST_ANSWERS
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.printed import points, short_percent


def best_history_plan(plan: Plan, life: int, hold: int | None, given: Collection[str]) -> Plan:
    """The number of answers in a life of so many epochs, and the period that comes of it, with the least error of one
    epoch for the plan's share; or those that `hold` leaves. `epsilon_permanent` is that of everything an install ever
    says, `given` the keys of its shape that are not to be chosen."""
    if plan.shape.num_hashes > 1:
        raise Invalid([f"num_hashes must be 1 where answers have a history, got {plan.shape.num_hashes}"])
    if life < 1:
        raise Invalid([f"life must be at least 1 epoch, got {life}"])
    if hold is not None and not 1 <= hold <= min(life, LONGEST_HOLD):
        raise Invalid([f"hold must be in [1, {min(life, LONGEST_HOLD)}], the epochs of a life at most, got {hold}"])
    most = min(MOST_ANSWERS, life, int(2 * plan.epsilon_permanent) + 2)
    answers = range(1, most + 1) if hold is None else [min(-(-life // hold), MOST_ANSWERS)]
    plans = [_with_history(plan, number, hold or min(-(-life // number), LONGEST_HOLD), given) for number in answers]
    return min(plans, key=lambda each: each.std_error())


def _with_history(plan: Plan, answers: int, hold: int, given: Collection[str]) -> Plan:
    epsilon = plan.epsilon_permanent
    shape = plan.shape.suited_to_history(epsilon, answers, given)
    return replace(plan, shape=shape, noise_given=shape.history_noise(shape.best_history(epsilon, hold, answers)))


CHANGE_POWER = 0.8


@dataclass(frozen=True, slots=True)
class Sight:
    """What will be seen: the standard error of the share looked for, the estimate from which an answer is detected,
    and the least change between two like these that is, with a power of 80 %."""

    std_error: float
    line: float
    change: float


def of_epoch(plan: Plan) -> Sight:
    """Two epochs have been answered by others, or by the same installs with other noise: errors add."""
    error = plan.std_error()
    return Sight(error, plan.line, sqrt(2) * error * float(ndtri(1 - plan.alpha / 2) + ndtri(CHANGE_POWER)))


def of_period(plan: Plan) -> Sight:
    """All epochs of a period together, in which everybody is asked once."""
    history = plan.noise.history
    assert history is not None
    return of_epoch(replace(plan, noise_given=plan.shape.history_noise(history.replace(hold=1))))


def history_words(plan: Plan) -> Iterator[str]:
    """How a plan with a history asks, and what it will show."""
    history = plan.noise.history
    assert history is not None
    epoch, period = of_epoch(plan), of_period(plan)
    times = "once in all" if history.answers == 1 else f"{history.answers} times in all"
    yield (
        f"hold = {history.hold}, max_values = {history.answers}, epsilon_history = {show(plan.epsilon_permanent)}: an "
        f"install is asked in one epoch out of {history.hold}, {times}, and whatever changes is covered."
    )
    yield (
        f"One epoch: standard error {short_percent(epoch.std_error)}, {_seen(epoch.line)}; "
        f"a change between two of them from {points(epoch.change, '.2g')} (with power {short_percent(CHANGE_POWER)})."
    )
    yield (
        f"{history.hold} epochs together: standard error {short_percent(period.std_error)}, "
        f"{_seen(period.line)}; a change between two such periods from {points(period.change, '.2g')}."
    )


def sights_to_json(plan: Plan) -> dict[str, object]:
    history = plan.noise.history
    assert history is not None
    return {
        "hold": history.hold,
        "max_values": history.answers,
        "epsilon_history": float(plan.epsilon_permanent),
        **{
            name: {
                "std_error": sight.std_error,
                "seen_from": None if sight.line == inf else sight.line,
                "change_seen_from": sight.change,
            }
            for name, sight in (("epoch", of_epoch(plan)), ("period", of_period(plan)))
        },
    }


def _seen(line: float) -> str:
    return "too few reports to promise anything" if line > 1 else f"seen from {short_percent(line)}"


def history_toml(plan: Plan) -> list[str]:
    """Its lines in a metrics.toml."""
    history, epsilon = plan.noise.history, Fraction(plan.epsilon_permanent)
    assert history is not None
    return [f"hold = {history.hold}", f"max_values = {history.answers}", f"epsilon_history = {float(epsilon):g}"]
