"""Registries with pairs, for tests: metrics of every sort, any two of them together."""

from __future__ import annotations

from hubbub.protocol.pair import Pair
from hubbub.protocol.registry import Registry
from tests.protocol.toml import HEAD, SHAPES, TERMS, Changes

_BITS = {"epsilon_one_report": None, "epsilon_permanent": None, "prob_f": "0.5", "prob_p": "0.25", "prob_q": "0.75"}
METRICS: dict[str, tuple[str, Changes]] = {
    "theme": ("flag", {}),
    "os": ("choice", {}),
    "editor": ("choice", {"choices": '["a", "b", "c", "d", "e", "f", "g"]'}),
    "bitwise": ("choice", _BITS),
    "page": ("string", {"num_bits": "16", "num_cohorts": "8"}),
    "site": ("string", {"num_bits": "8", "num_cohorts": "4"}),
    "start": ("mean", {}),
    "sizes": ("histogram", {"edges": "[0, 1, 3, 10, 30, 100]", "buckets_per_report": "2"}),
    "minutes": ("range", {"num_leaves": "16", "branching": "2"}),
    "tools": ("set", {"items": '["a", "b", "c"]', "items_per_report": "1"}),
    "host": ("discovery", {}),
    "daily": ("flag", {"every": '"day"'}),
    "first_os": ("choice", {"every": '"once"', "max_values": "1"}),
}


def text_with(*together: str, extra: str = "", changes: dict[str, Changes] | None = None) -> str:
    """A registry of all these metrics, and what stands in `[together]`: lines such as `both = ["theme", "os"]`."""
    head = {**HEAD, "lifetime_epsilon": "1000", "max_identifying_bits": "20"}
    lines = [f"{key} = {value}" for key, value in head.items() if value is not None]
    lines.append(extra)
    for name, (kind, own) in METRICS.items():
        keys = {"kind": f'"{kind}"', **TERMS, **SHAPES[kind], **own, **(changes or {}).get(name, {})}
        lines += [f"[metrics.{name}]", *(f"{key} = {value}" for key, value in keys.items() if value is not None)]
    for line in together:
        name, _, value = line.partition(" = ")
        lines += [f"[together.{name}]", f"metrics = {value}"]
    return "\n".join(lines) + "\n"


REGISTRY = Registry.parse(text_with())


def pair(first: str, second: str, name: str = "both") -> Pair:
    return Pair(name, (REGISTRY[first], REGISTRY[second]))
