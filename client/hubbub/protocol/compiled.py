"""A registry for clients in other languages: everything they need, so that they need no TOML, no BLAKE2b and no e**x.

What differs between kinds is said by the kinds themselves (`Shape.port_facts`); a kind that says nothing is refused.
docs/compiled-registry.md describes every field, tests/vectors/compiled.json has examples from a second implementation.
Numbers are whole and below 2**53, but those that can be larger, which are texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from hubbub.protocol.agreement import agreement
from hubbub.protocol.channel import UNITS, BitChannel, Channel, KaryChannel, SubsetChannel
from hubbub.protocol.encoding import ABSENT
from hubbub.protocol.epsilon import MICRO
from hubbub.protocol.history import History
from hubbub.protocol.invalid import require
from hubbub.protocol.label import short, words
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry
from hubbub.protocol.segments import all_segments

FORMAT, VERSION = "hubbub.compiled", 1
_PLACES = frozenset(
    ("name", "kind", "every", "accumulate", "segment", "shape", "permanent", "instantaneous", "history")
)
"""What of a definition is said here. Another key would change a question without a word to clients that read this."""


def compiled_text(registry: Registry) -> str:
    """The file: ASCII JSON that is the same for the same registry, with a line break at its end."""
    return json.dumps(compiled(registry), indent=1) + "\n"


def compiled(registry: Registry) -> dict[str, Any]:
    """All that a client needs. Raises `Invalid` for what the format has no place for."""
    require(_not_compiled(registry))
    combinations = [dict(segment) for segment in all_segments(registry.segments)]
    return {
        "format": FORMAT,
        "version": VERSION,
        "app": registry.app,
        "fingerprint": registry.fingerprint,
        "recipient": {"name": registry.recipient.name, "url": registry.recipient.url},
        "lifetime_micro_epsilon": int(registry.lifetime_epsilon * MICRO),
        "max_identifying_bits": registry.max_identifying_bits,
        "segments": {
            "values": {key: list(registry.segments[key]) for key in sorted(registry.segments)},
            "combinations": combinations,
        },
        "agreement": agreement(registry),
        "consent": {"short": short(registry), "label": words(registry)},
        "metrics": [_metric(registry, metric) for metric in registry],
    }


def _not_compiled(registry: Registry) -> Iterator[str]:
    for metric in registry:
        place = f"the compiled format, version {VERSION}, has no place for it"
        if metric.shape.spare or metric.shape.later_names:
            yield f"[metrics.{metric.name}] reserve must be 0 for clients in other languages: {place}"
        elif metric.sample < 1:
            got = f"got {metric.sample}: {place}"
            yield f"[metrics.{metric.name}] sample must be 1 for clients in other languages, {got}"
        elif metric.noise.history is not None and metric.turns is None:
            yield f"[metrics.{metric.name}] items_per_report must be 1 for a set that is asked once: {place}"
        elif metric.shape.port_facts() is None:
            yield (
                f"[metrics.{metric.name}] kind must be one that clients in other languages know, "
                f"got {metric.shape.form!r}: the compiled format, version {VERSION}, has no place for it"
            )
        else:
            for key in sorted(metric.to_json().keys() - _PLACES):
                yield f"[metrics.{metric.name}] {key} must be left out for clients in other languages: {place}"


def _metric(registry: Registry, metric: Metric) -> dict[str, Any]:
    shape = metric.shape
    cohorts = range(1 if shape.equal_widths else shape.num_cohorts)
    return {
        "name": metric.name,
        "kind": metric.kind,
        "every": metric.every,
        "accumulate": metric.accumulate,
        "metric_hash": metric.metric_hash,
        "hashes": [metric.in_segment(segment).metric_hash for segment in all_segments(registry.segments)],
        "num_cohorts": shape.num_cohorts,
        "widths": [shape.width(cohort) for cohort in cohorts],
        "encoding": {"form": shape.form, **(shape.port_facts() or {})},
        "silence": _silence(metric),
        "noise": _noise(metric),
        "keeps_by_bit": metric.keeps_by_bit,
        "slots": metric.charges,
        "micro_epsilon": int(metric.epsilon_permanent * MICRO),
        "max_values": metric.max_values,
        "expires_at": int(datetime.combine(metric.expires, datetime.min.time(), tzinfo=UTC).timestamp()),
        "why": metric.why,
        "owner": metric.owner,
    }


def _silence(metric: Metric) -> dict[str, Any] | None:
    """What an epoch without a record answers, as tests/vectors writes values; None: it is absent."""
    if metric.accumulate == "sum":
        return {"number": "0"}
    value = metric.shape.in_silence
    return None if value is ABSENT else {"texts": sorted(value)}


def _noise(metric: Metric) -> dict[str, Any]:
    noise = metric.noise
    if noise.history is not None:
        return {"history": _history(noise.history, metric.one_hot)}
    return {"permanent": _channel(noise.permanent), "instantaneous": _channel(noise.instantaneous)}


def _channel(channel: Channel) -> dict[str, Any]:
    match channel:
        case BitChannel(when_one, when_zero):
            return {"sort": "bits", "when_one": _units(when_one), "when_zero": _units(when_zero)}
        case KaryChannel(categories, _, other):
            return {"sort": "category", "categories": categories, "other": _units(other)}
        case SubsetChannel(categories, size, held, other_units):
            law = {"categories": categories, "size": size, "held": held, "other": other_units}
            return {"sort": "subset", **law, "units": channel.units}


def _history(history: History, one_hot: bool) -> dict[str, Any]:
    sort = "category" if one_hot else "position" if history.categories is None else "bits"
    hit, of = history.chance.as_integer_ratio()
    return {
        "sort": sort,
        "hold": history.hold,
        "answers": history.answers,
        "flags_per_answer": history.items,
        "threshold": history.threshold,
        "above": _units(history.above),
        "hit": hit,
        "miss": of - hit,
        **({"chance": _units(history.chance)} if sort == "position" else {}),
    }


def _units(probability: Fraction) -> int:
    units = probability * UNITS
    assert units.denominator == 1, "what is drawn is a multiple of 2**-24"
    return int(units)
