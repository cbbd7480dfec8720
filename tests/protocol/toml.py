"""Registries for tests, as text: a valid metrics.toml of one metric, and what to change in it."""

from __future__ import annotations

from collections.abc import Mapping

from hubbub.protocol.invalid import Invalid
from hubbub.protocol.registry import Registry

HEAD: dict[str, str | None] = {
    "app": '"org.example"',
    "recipient": '{ name = "Us", url = "https://t.example.org" }',
    "lifetime_epsilon": "60",
    "max_identifying_bits": None,
    "expected_installs": None,
    "segments": None,
}
TERMS = {
    "why": '"To learn"',
    "owner": '"us@example.org"',
    "expires": "2028-01-01",
    "every": '"week"',
    "epsilon_one_report": "1",
    "epsilon_permanent": "2",
    "max_values": "2",
}
SHAPES = {
    "flag": {},
    "choice": {"choices": '["a", "b", "c"]'},
    "string": {"num_bits": "64", "num_hashes": "1", "num_cohorts": "128"},
    "discovery": {"kind": '"string"', "discover": "true", "alphabet": '"host"', "max_length": "18"},
    "mean": {"low": "0", "high": "30", "absent": "0"},
    "histogram": {"edges": "[0, 1, 10, 100]", "buckets_per_report": "2"},
    "range": {"low": "0", "high": "60", "num_leaves": "256", "branching": "4"},
    "set": {"items": '["a", "b", "c", "d"]', "items_per_report": "2"},
    "cross": {"of": '["os", "crashed"]'},
}
BESIDE = {"cross": {"os": {"kind": '"choice"', "choices": '["linux", "macos"]'}, "crashed": {"kind": '"flag"'}}}
"""The metrics that one of a kind needs beside it."""

HISTORY = {
    "epsilon_one_report": None,
    "epsilon_permanent": None,
    "epsilon_history": "4",
    "hold": "13",
    "max_values": "4",
}
"""What to change for a metric with `hold`."""

Changes = Mapping[str, str | None]
"""Keys and their values in TOML; None leaves the key out."""


def source(kind: str = "flag", changes: Changes | None = None) -> str:
    """The text of a registry of one metric, `it`."""
    changed = dict(changes or {})
    head = {key: changed.pop(key, value) for key, value in HEAD.items()}
    metric = {"kind": f'"{kind}"', **TERMS, **SHAPES[kind], **changed}
    lines = [f"{key} = {value}" for key, value in head.items() if value is not None]
    lines += _table("it", metric)
    for name, shape in BESIDE.get(kind, {}).items():
        lines += _table(name, {**TERMS, **shape, **_asked_when_it_is(changed)})
    return "\n".join(lines) + "\n"


def _asked_when_it_is(changed: Changes) -> Changes:
    """What is changed in `it` and must be alike in the metrics beside it."""
    every = changed.get("every")
    return {**({"every": every} if every == '"day"' else {}), **(HISTORY if "hold" in changed else {})}


def _table(name: str, keys: Changes) -> list[str]:
    return [f"[metrics.{name}]", *(f"{key} = {value}" for key, value in keys.items() if value is not None)]


def registry(kind: str = "flag", /, **changes: str | None) -> Registry:
    return Registry.parse(source(kind, changes))


def problems_of(text: str) -> list[str]:
    """What is wrong with a registry, without the name of the metric; nothing if it loads."""
    try:
        Registry.parse(text)
    except Invalid as error:
        return [problem.removeprefix("[metrics.it] ") for problem in error.problems]
    return []
