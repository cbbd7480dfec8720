"""What simulations know of each kind of metric, one file each. A kind is loaded when a simulation first asks for it.

To add one: a file here with a subclass of `kind.Kind`, and its line in `KINDS`. Code elsewhere asks `kind_of(shape)`
and never for a kind.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

from hubbub.protocol.shape import Shape
from hubbub.simulations.kinds.kind import Kind

__all__ = ["KINDS", "Kind", "kind_class", "kind_of"]

KINDS = {
    "flag": "hubbub.simulations.kinds.flag:FlagKind",
    "choice": "hubbub.simulations.kinds.choice:ChoiceKind",
    "string": "hubbub.simulations.kinds.string:StringKind",
    "discovery": "hubbub.simulations.kinds.discovery:DiscoveryKind",
    "mean": "hubbub.simulations.kinds.mean:MeanKind",
    "mean_apart": "hubbub.simulations.kinds.mean_apart:MeanApartKind",
    "histogram": "hubbub.simulations.kinds.histogram:HistogramKind",
    "range": "hubbub.simulations.kinds.range:RangeKind",
    "set": "hubbub.simulations.kinds.set:SetKind",
    "cross": "hubbub.simulations.kinds.cross:CrossKind",
}


def kind_class(kind: str) -> type[Kind[Any]]:
    """The class of a kind. Raises KeyError for a kind that is not in the table."""
    module, _, name = KINDS[kind].partition(":")
    found: type[Kind[Any]] = getattr(import_module(module), name)
    return found


@lru_cache(maxsize=32)
def kind_of(shape: Shape) -> Kind[Any]:
    """What simulations know of metrics of this shape. Remembered, as is what a kind has found out of values."""
    return kind_class(shape.form)(shape)
