"""What changes between two versions of a registry, and which of it asks more of people.

A consent is to a registry as it was. It lapses when a new one asks more, and only then: `asks_more` is what the client
obeys and what `hubbub diff` prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from hubbub.protocol.epsilon import show
from hubbub.protocol.label import how_often, span
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry
from hubbub.protocol.shape import ListShape


class Change(NamedTuple):
    """One difference, in words. `metric` is empty where the whole registry is meant."""

    metric: str
    text: str
    asks_more: bool

    def __str__(self) -> str:
        return f"{self.metric}: {self.text}" if self.metric else self.text


def asks_more(old: Registry, new: Registry) -> tuple[Change, ...]:
    """The changes for which people must be asked again."""
    return tuple(change for change in changes(old, new) if change.asks_more)


def changes(old: Registry, new: Registry) -> tuple[Change, ...]:
    """Every difference between two registries that a person could care about."""
    return tuple(_changes(old, new))


def _changes(old: Registry, new: Registry) -> Iterator[Change]:
    if old.app != new.app:
        yield Change("", f"this is another app, {new.app}, before {old.app}", True)
    if old.recipient != new.recipient:
        yield Change("", f"messages go to {new.recipient}, before to {old.recipient}", True)
    if old.lifetime_epsilon != new.lifetime_epsilon:
        raised = new.lifetime_epsilon > old.lifetime_epsilon
        limits = f"to epsilon {show(new.lifetime_epsilon)}, before {show(old.lifetime_epsilon)}"
        # An install keeps the smallest limit it has ever seen, so a raised one binds new installs only.
        yield Change("", f"the limit for a lifetime {'rises' if raised else 'falls'} {limits}", raised)
    if old.max_identifying_bits != new.max_identifying_bits:
        raised = new.max_identifying_bits > old.max_identifying_bits
        limits = f"{new.max_identifying_bits} bits of which install it comes from, before {old.max_identifying_bits}"
        yield Change("", f"a message may show up to {limits}", raised)
    if old.expected_installs != new.expected_installs and any(metric.shape.discovers for metric in new):
        # Among fewer, fewer need to share a text for it to be found.
        fewer = new.expected_installs < old.expected_installs
        yield Change("", f"{new.expected_installs:,} installs are expected, before {old.expected_installs:,}", fewer)
    yield from _changes_of_segments(old, new)
    for name, metric in new.metrics.items():
        if name not in old.metrics:
            yield Change(name, f"new: {metric.shape.question()}, {how_often(metric)}. {metric.why}", True)
        else:
            yield from _changes_of_metric(old.metrics[name], metric)
    for name in old.metrics:
        if name not in new.metrics:
            yield Change(name, "no longer asked", False)
    yield from _changes_of_pairs(old, new)


def _changes_of_segments(old: Registry, new: Registry) -> Iterator[Change]:
    for key, values in new.segments.items():
        before = old.segments.get(key)
        if before is None:
            yield Change("", f"messages say which {key} this is, as it is ({', '.join(values)} or other)", True)
        elif set(before) != set(values):
            # A new release asks nothing more of anybody; a fact of another sort does.
            yield Change("", f"{key} is told apart as {', '.join(values)} or other, before {', '.join(before)}", False)
    for key in old.segments:
        if key not in new.segments:
            yield Change("", f"messages no longer say which {key} this is", False)


def _changes_of_pairs(old: Registry, new: Registry) -> Iterator[Change]:
    before = {frozenset(pair) for pair in old.pairs_by_name.values()}
    after = {frozenset(pair) for pair in new.pairs_by_name.values()}
    for name, (first, second) in new.pairs_by_name.items():
        if {first, second} not in before:
            yield Change(name, f"new: {first} and {second} are also counted in pairs", True)
    for name, (first, second) in old.pairs_by_name.items():
        if {first, second} not in after:
            yield Change(name, f"{first} and {second} are no longer counted in pairs", False)


def _changes_of_metric(old: Metric, new: Metric) -> Iterator[Change]:
    name = new.name
    if old.metric_hash != new.metric_hash:
        # Even if it asks less: earlier answers stay known, and the new definition is answered on top of them.
        what = f"{_what_differs(old, new)}{_could_be_named(old, new)}"
        yield Change(name, f"asked anew and differently, on top of earlier answers: {what}", True)
    else:
        yield from _changes_of_names(old, new)
    if old.max_values != new.max_values and old.hold is new.hold is None:
        more = new.max_values > old.max_values
        yield Change(name, f"at most {_answers(new)} in a lifetime, before {old.max_values}", more)
    if old.expires != new.expires:
        yield Change(name, f"asked until {new.expires}, before until {old.expires}", new.expires > old.expires)
    if old.keep_reports != new.keep_reports:
        kept = "every single message is kept, before only counts"
        yield Change(name, kept if new.keep_reports else "only counts are kept, before every message", new.keep_reports)
    if old.retention_days != new.retention_days:
        more = new.retention_days > old.retention_days
        yield Change(name, f"kept for {span(new)}, before {span(old)}", more)
    if old.why != new.why:
        yield Change(name, f'another purpose: "{new.why}", before "{old.why}"', True)
    if old.owner != new.owner:
        yield Change(name, f"asked by {new.owner}, before by {old.owner}", True)


def _could_be_named(old: Metric, new: Metric) -> str:
    """What was added to a list that has spare places could have one of them."""
    if not (isinstance(old.shape, ListShape) and isinstance(new.shape, ListShape) and old.shape.spare):
        return ""
    added = [name for name in new.shape.declared if name not in old.shape.listed]
    if not added or len(added) > old.shape.spare:
        return ""
    names = ", ".join(f'"{name}"' for name in (*old.shape.named, *added))
    return f" (named = [{names}] gives spare places to what is added, and earlier answers, budget and counts go on)"


def _changes_of_names(old: Metric, new: Metric) -> Iterator[Change]:
    """Of spare places, which a hash does not tell apart: who agreed to a list has not agreed to a name that is new."""
    before, after = old.shape.later_names, new.shape.later_names
    for place, (was, now) in enumerate(zip(before, after, strict=False), 1):
        if was != now:
            yield Change(new.name, f"spare place {place} means {now}, before {was}: counts of both add up", True)
    for now in after[len(before) :]:
        yield Change(new.name, f"a spare place now means {now}; earlier answers, budget and counts go on", True)
    for was in before[len(after) :]:
        yield Change(new.name, f"{was} is no longer an answer, and its place is spare", False)


def _what_differs(old: Metric, new: Metric) -> str:
    before, after = old.to_json(), new.to_json()
    parts = [(key, after[key], before[key]) for key in ("kind", "every")]
    parts += [("accumulate", new.accumulate, old.accumulate), ("sample", str(new.sample), str(old.sample))]
    if old.kind == new.kind:
        was, now = old.shape.plain_fields(), new.shape.plain_fields()
        parts += [(key, now.get(key), was.get(key)) for key in (*now, *(key for key in was if key not in now))]
    forever = "epsilon_history" if old.hold is not None and new.hold is not None else "epsilon_permanent"
    parts += [
        ("epsilon_one_report", show(new.epsilon_one_report), show(old.epsilon_one_report)),
        (forever, show(new.epsilon_permanent), show(old.epsilon_permanent)),
    ]
    if old.hold is not None or new.hold is not None:
        parts += [(key, getattr(new, key), getattr(old, key)) for key in ("hold", "max_values")]
    differing = [f"{key} {_value(x)}, before {_value(y)}" for key, x, y in parts if x != y]
    return "; ".join(differing) or "its noise is drawn from other probabilities"


def _value(value: Any) -> str:
    match value:
        case None:
            return "not given"
        case list():
            return ", ".join(map(str, value)) or "none" if len(value) <= 12 else f"a list of {len(value)}"
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value) or "none"


def _answers(metric: Metric) -> str:
    return "one answer" if metric.max_values == 1 else f"{metric.max_values} different answers"
