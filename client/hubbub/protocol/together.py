"""`[together.NAME]` in metrics.toml: which two metrics a collector counts together, and on what terms.

    [together.theme_os]
    metrics = ["dark_theme", "os"]

It is declared so that people are told, and asked again where it is new. A device does nothing else for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hubbub.protocol.fields import did_you_mean, list_of, read_fields, text
from hubbub.protocol.invalid import Invalid, brief, require
from hubbub.protocol.metric import Metric
from hubbub.protocol.pair import Pair

MAX_PAIRS = 64
"""In a registry. Each is counted for every segment by itself."""

_READERS = {"metrics": list_of(text)}


def read_together(raw: Any, metrics: Mapping[str, Metric], declared: Mapping[str, Any]) -> dict[str, Pair]:
    """The pairs that a file declares. `metrics` are those that were understood, `declared` all that stand there.
    Raises `Invalid` with every problem."""
    stray = [raw] if not isinstance(raw, dict) else [table for table in raw.values() if not isinstance(table, dict)]
    if stray:
        got = brief(stray[0])
        raise Invalid([f"together must hold tables such as [together.theme_os] and nothing else, got {got}"])
    problems: list[str] = []
    pairs = {}
    for name, table in raw.items():
        try:
            pair = _pair(name, table, metrics, declared)
        except Invalid as error:
            shown = name if name.isidentifier() else brief(name)
            problems += [f"[together.{shown}] {problem}" for problem in error.problems]
        else:
            if pair is not None:
                pairs[name] = pair
    require(problems)
    return pairs


def _pair(
    name: str, table: Mapping[str, Any], metrics: Mapping[str, Metric], declared: Mapping[str, Any]
) -> Pair | None:
    """None where a metric is meant that has problems of its own, which have been said."""
    problems: list[str] = []
    names = read_fields(table, _READERS, _READERS, problems).get("metrics")
    if names is not None and len(names) != 2:
        problems.append(f"metrics must be the names of two metrics, got {len(names)}")
    problems += [
        f"metrics must be names of metrics in this file, got {brief(unknown)}{did_you_mean(unknown, declared)}"
        for unknown in names or ()
        if unknown not in declared
    ]
    require(problems)
    first, second = names or ("", "")
    return Pair(name, (metrics[first], metrics[second])) if {first, second} <= metrics.keys() else None


def broken_together(together: Mapping[str, Pair], metrics: Mapping[str, Metric]) -> Iterator[str]:
    """What is wrong with the pairs of a registry."""
    if len(together) > MAX_PAIRS:
        yield f"together must hold at most {MAX_PAIRS} pairs, got {len(together)}"
    seen: dict[frozenset[str], str] = {}
    for name, pair in together.items():
        of = frozenset(metric.name for metric in pair.metrics)
        if name != pair.name:
            yield f"[together.{name}] must be the pair of that name, got {pair.name}"
        if name in metrics:
            yield f"[together.{name}] must have a name of its own, got that of a metric"
        if any(m.name not in metrics or metrics[m.name].metric_hash != m.metric_hash for m in pair.metrics):
            yield f"[together.{name}] metrics must be those of this registry, got {' and '.join(sorted(of))}"
        if of in seen:
            yield f"[together.{name}] metrics must not be counted together twice, got those of {seen[of]}"
        seen.setdefault(of, name)
