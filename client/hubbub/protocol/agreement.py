"""What a yes is to, as flat facts: whether it still holds for another release is then a comparison, key by key.

A client keeps them beside the yes, as they were. They are what is really done, not what a metrics.toml says: the hash
of a definition covers its shape and its noise as exact fractions, so a release of hubbub that makes other noise of the
same file is noticed like one of the app. `changes` says the same in words, from two registries.

A yes to old facts holds for new ones if every new key was there before, those of `same` with the same value, and those
of `at_most` with a number that is no larger now. A key that is gone asks nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

from hubbub.protocol.epsilon import MICRO
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry

_ORIGIN = date(1970, 1, 1).toordinal()

Agreement = dict[str, dict[str, Any]]
"""`same` and `at_most`, each with facts by key."""


def agreement(registry: Registry) -> Agreement:
    """The facts of a registry that a person agrees to."""
    same: dict[str, Any] = {
        "app": registry.app,
        "recipient.name": registry.recipient.name,
        "recipient.url": registry.recipient.url,
        **{f"segments.{key}": True for key in registry.segments},
        **{f"together.{' '.join(sorted(pair))}": True for pair in registry.pairs_by_name.values()},
    }
    at_most: dict[str, int] = {
        "lifetime_micro_epsilon": int(registry.lifetime_epsilon * MICRO),
        "max_identifying_bits": registry.max_identifying_bits,
    }
    if any(metric.shape.discovers for metric in registry):
        # Fewer ask more: among fewer, fewer need to share a text for it to be found.
        at_most["minus_expected_installs"] = -registry.expected_installs
    for metric in registry:
        same |= {f"metrics.{metric.name}.{key}": fact for key, fact in _same(metric).items()}
        at_most |= {f"metrics.{metric.name}.{key}": number for key, number in _at_most(metric).items()}
    return {"same": same, "at_most": at_most}


def beyond(old: Agreement, new: Agreement) -> Iterator[str]:
    """The keys of the new facts that a yes to the old ones does not cover."""
    for key, fact in new["same"].items():
        if key not in old["same"] or old["same"][key] != fact:
            yield key
    for key, number in new["at_most"].items():
        if key not in old["at_most"] or number > old["at_most"][key]:
            yield key


def _same(metric: Metric) -> dict[str, str]:
    names = {f"named.{place}": name for place, name in enumerate(metric.shape.later_names, 1)}
    return {"metric_hash": metric.metric_hash, "why": metric.why, "owner": metric.owner, **names}


def _at_most(metric: Metric) -> dict[str, int]:
    terms = {
        "expires_day": metric.expires.toordinal() - _ORIGIN,
        "keep_reports": int(metric.keep_reports),
        "retention_days": metric.retention_days,
    }
    # With `hold` it is part of the definition, so that any change of it is a new question.
    return terms if metric.hold is not None else {"max_values": metric.max_values, **terms}
