"""What a registry may do and yet should not do lightly, in words. It refuses nothing: that is the registry's own part.

Today's date is an argument.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from datetime import date
from fractions import Fraction

from hubbub.protocol.epsilon import certainty, show
from hubbub.protocol.history import History
from hubbub.protocol.metric import Metric
from hubbub.protocol.printed import fixed_percent
from hubbub.protocol.registry import Registry

MUCH_OF_AN_ANSWER = Fraction(8)
MUCH_OF_A_LIFE = Fraction(60)
MANY_GROUPS = 1 << 10
LONG = 5 * 366
NEARLY_ALWAYS = Fraction(19, 20)
WORTH_MORE_POINTS = 0.9  # of the standard error: less of a gain is not worth a larger budget


def warnings(registry: Registry, today: date) -> tuple[str, ...]:
    """Every doubt about this registry, each with the key, its value and what it means for a person."""
    doubts = (
        (metric.name, doubt)
        for metric in registry
        for of_it in (_of_metric(metric, today), few_points(metric, registry), _of_crosses(metric, registry))
        for doubt in of_it
    )
    return (*_of_all(registry), *(f"[metrics.{name}] {doubt}" for name, doubt in doubts))


def forgotten_silence(registry: Registry) -> Iterator[str]:
    """Of these doubts, the one that a programmer wants to hear while writing: `slots_of_silence`."""
    return (f"[metrics.{metric.name}] {doubt}" for metric in registry for doubt in slots_of_silence(metric))


def _of_all(registry: Registry) -> Iterator[str]:
    limit = registry.lifetime_epsilon
    if limit >= MUCH_OF_A_LIFE:
        yield (
            f"lifetime_epsilon is {show(limit)}: over a life, messages may make an observer {certainty(limit)} sure of "
            f"what somebody answered; below {show(MUCH_OF_A_LIFE)} is usual"
        )
    groups = registry.num_groups
    if groups > MANY_GROUPS:
        what = "segments and cohorts" if registry.segments else "cohorts"
        yield (
            f"{what} divide installs into {groups:,} groups, which messages show: with fewer than {100 * groups:,} "
            "installs, a group is a small crowd"
        )


def _of_metric(metric: Metric, today: date) -> Iterator[str]:
    permanent, history = metric.epsilon_permanent, metric.turns
    if history is not None:
        yield from _of_history(history, permanent)
    elif _reaches(permanent, MUCH_OF_AN_ANSWER):
        yield (
            f"epsilon_permanent is {show(permanent)}: messages about one kept answer make an observer up to "
            f"{certainty(permanent)} sure of it, which is hardly noise"
        )
    most = metric.shape.most_slots
    if metric.shape.only_categories and metric.every != "once" and history is None and metric.max_values < most:
        yield (
            f"max_values is {metric.max_values} and {metric.shape.slots_in_words}: a number that moves over more of "
            "them repeats older answers, which no interval knows of"
        )
    yield from slots_of_silence(metric)
    if metric.keep_reports:
        yield "keep_reports is true: the collector keeps every single message, not only counts"
    if metric.expires <= today:
        yield f"expires is {metric.expires}, which is past: nothing is asked any more"
    elif (metric.expires - today).days > LONG:
        yield f"expires is {metric.expires}, more than five years away: a purpose should be looked at again before that"


def _of_crosses(metric: Metric, registry: Registry) -> Iterator[str]:
    own, everything = metric.epsilon_same_answer, registry.epsilon_same_answer(metric)
    if _reaches(everything, MUCH_OF_AN_ANSWER) and not _reaches(own, MUCH_OF_AN_ANSWER):
        names = " and ".join(cross.name for cross in registry.crosses[metric.name])
        yield (
            f"its answer is also in {names}, which makes epsilon {show(everything)} in all: messages about one answer "
            f"make an observer up to {certainty(everything)} sure of it, which is hardly noise"
        )


def slots_of_silence(metric: Metric) -> Iterator[str]:
    """Where `max_values` forgets that an epoch without a record is an answer, too."""
    kept_in_slots = metric.every != "once" and metric.noise.history is None
    if not kept_in_slots or not metric.shape.silence_is_an_answer:
        return
    trap, instead = f"a {metric.every} without a record is an answer, too, and takes", metric.max_values + 1
    if metric.max_values == 1:
        yield (
            f"max_values is 1 and {trap} it: whoever records nothing in the first {metric.every} says nothing for "
            f"ever; max_values = {instead} has room for both"
        )
    elif metric.max_values == metric.shape.most_slots - 1:
        yield (
            f"max_values is {metric.max_values}, as many as there are choices, and {trap} one of them: somebody who "
            f"gives all of them and skips a {metric.every} repeats an older answer; name one of the choices as absent, "
            f"or set max_values = {instead}"
        )


def few_points(metric: Metric, registry: Registry) -> Iterator[str]:
    """Where `max_values` leaves a number fewer points than would be best, and nobody asked for so few."""
    if metric.every == "once" or metric.noise.history is not None or metric.max_values < 2:
        return
    better = metric.shape.with_more_slots(metric.epsilon_one_report)
    if better is None or better[1] > WORTH_MORE_POINTS or _names_points(registry, metric.name):
        return
    slots, error = better
    spent = show(metric.epsilon_lifetime / metric.max_values * slots)
    yield (
        f"max_values is {metric.max_values} and so {metric.shape.slots_in_words}: max_values = {slots} gives as many "
        f"points as are best at this epsilon, and intervals up to {fixed_percent(1 - error, 0)} narrower, for a "
        f"lifetime epsilon of {spent} instead of {show(metric.epsilon_lifetime)}"
    )


def _names_points(registry: Registry, name: str) -> bool:
    table = tomllib.loads(registry.source)["metrics"][name] if registry.source else {}
    return "points" in table


def _of_history(history: History, epsilon: Fraction) -> Iterator[str]:
    if _reaches(epsilon, MUCH_OF_AN_ANSWER):
        yield (
            f"epsilon_history is {show(epsilon)}: all answers together make an observer up to {certainty(epsilon)} "
            "sure of what somebody answered, which is hardly noise"
        )
    if history.truth > NEARLY_ALWAYS:
        true = fixed_percent(float(history.truth))
        yield (
            f"max_values is {history.answers} and epsilon_history {show(epsilon)}: {true} of answers are true; "
            "a smaller epsilon_history would do nearly as well"
        )


def _reaches(epsilon: Fraction, limit: Fraction) -> bool:
    """As it is shown: a channel for epsilon 8 is drawn a little below it."""
    return Fraction(show(epsilon)) >= limit
