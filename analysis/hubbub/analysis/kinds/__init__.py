"""One file for each kind of metric: from pooled tallies to a decoding, and what a plan needs to know.

A new kind is one file here and one line in `KINDS`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hubbub.analysis.kinds.kind import Kind
from hubbub.protocol.metric import Definition

KINDS = {
    "flag": "hubbub.analysis.kinds.flag:FLAG",
    "string": "hubbub.analysis.kinds.string:STRING",
    "discovery": "hubbub.analysis.kinds.discovery:DISCOVERY",
    "choice": "hubbub.analysis.kinds.choice:CHOICE",
    "mean": "hubbub.analysis.kinds.mean:MEAN",
    "mean_apart": "hubbub.analysis.kinds.mean_apart:MEAN_APART",
    "histogram": "hubbub.analysis.kinds.histogram:HISTOGRAM",
    "range": "hubbub.analysis.kinds.range:RANGE",
    "set": "hubbub.analysis.kinds.set:SET",
    "cross": "hubbub.analysis.kinds.cross:CROSS",
}
"""Where each kind is, by the `form` of its shape: its name in metrics.toml, but for strings that are discovered
and means that ask absence apart. Loaded when it is first asked for."""


def kind_of(name: str) -> Kind[Any]:
    """What the form of this name brings."""
    module, _, attribute = KINDS[name].partition(":")
    found: Kind[Any] = getattr(import_module(module), attribute)
    return found


def silence_counts_as(metric: Definition) -> str:
    """The answer that an install counts as which recorded nothing, in words; empty: it is absent."""
    return "0, the sum of nothing" if metric.accumulate == "sum" else kind_of(metric.shape.form).silent_as(metric.shape)
