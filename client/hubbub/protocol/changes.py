"""What changes between two versions of a registry, and which of it asks more of people.

A consent is to a registry as it was. It lapses when a new one asks more, and only then: `asks_more` is what the client
obeys and what `hubbub diff` prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hubbub.protocol.epsilon import show
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry


@dataclass(frozen=True, slots=True)
class Change:
    """One difference, in words. `metric` is empty where the whole registry is meant."""

    metric: str
    text: str
    asks_more: bool


def asks_more(old: Registry, new: Registry) -> tuple[Change, ...]:
    """The changes for which people must be asked again."""
    return tuple(change for change in changes(old, new) if change.asks_more)


def changes(old: Registry, new: Registry) -> tuple[Change, ...]:
    """Every difference between two registries that a person could care about."""
    return tuple(_changes(old, new))


def _changes(old: Registry, new: Registry) -> Iterator[Change]:
    if old.app != new.app:
        yield Change("", f"it is another app: {old.app} became {new.app}", True)
    if old.lifetime_epsilon != new.lifetime_epsilon:
        before, after = show(old.lifetime_epsilon), show(new.lifetime_epsilon)
        raised = new.lifetime_epsilon > old.lifetime_epsilon
        # An install keeps the smallest limit it has ever seen, so a raised one binds new installs only.
        yield Change("", f"the lifetime limit {'rises' if raised else 'falls'} from {before} to {after}", raised)
    for name, metric in new.metrics.items():
        if name not in old.metrics:
            yield Change(name, f"is new: {metric.why}", True)
        else:
            yield from _changes_of_metric(old.metrics[name], metric)
    for name in old.metrics:
        if name not in new.metrics:
            yield Change(name, "is no longer asked", False)


def _changes_of_metric(old: Metric, new: Metric) -> Iterator[Change]:
    name = new.name
    if old.metric_hash != new.metric_hash:
        # Even with less noise removed: old answers stay known, and the new definition is answered on top of them.
        yield Change(name, f"is asked anew, in another way: {_what_differs(old, new)}", True)
    if old.max_values != new.max_values:
        more = new.max_values > old.max_values
        yield Change(name, f"may give {new.max_values} different answers in a lifetime, not {old.max_values}", more)
    if old.hold != new.hold:
        yield Change(name, _hold_in_words(old.hold, new.hold), new.hold is None or (old.hold or 0) > new.hold)
    if old.expires != new.expires:
        yield Change(name, f"ends on {new.expires}, not on {old.expires}", new.expires > old.expires)
    if old.keep_reports != new.keep_reports:
        kept = "single reports are kept, not only counts" if new.keep_reports else "only counts are kept"
        yield Change(name, kept, new.keep_reports)
    if old.retention_days != new.retention_days:
        more = new.retention_days > old.retention_days
        yield Change(name, f"is kept for {new.retention}, not {old.retention}", more)
    if old.why != new.why:
        yield Change(name, f'has another purpose: "{new.why}", before "{old.why}"', False)
    if old.owner != new.owner:
        yield Change(name, f"is answered for by {new.owner}, before by {old.owner}", False)


def _what_differs(old: Metric, new: Metric) -> str:
    before, after = old.to_json(), new.to_json()
    parts = []
    for key in ("kind", "every"):
        if before[key] != after[key]:
            parts.append(f"{key} {before[key]} became {after[key]}")
    if old.kind == new.kind:
        for key in sorted(before["shape"].keys() | after["shape"].keys()):
            if before["shape"].get(key) != after["shape"].get(key):
                parts.append(f"{key} {before['shape'].get(key)} became {after['shape'].get(key)}")
    for key in ("epsilon_one_report", "epsilon_permanent"):
        was, now = show(getattr(old, key)), show(getattr(new, key))
        if was != now:
            parts.append(f"{key} {was} became {now}")
    return "; ".join(parts) or "its noise is drawn from other probabilities"


def _hold_in_words(old: int | None, new: int | None) -> str:
    if new is None:
        return f"no longer keeps an answer for {old} epochs: that it changes becomes visible"
    if old is None:
        return f"keeps an answer for {new} epochs, whatever changes meanwhile"
    return f"keeps an answer for {new} epochs, not {old}"
