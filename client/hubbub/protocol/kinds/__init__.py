"""The kinds of question, one file each. A kind is loaded when a registry or a tally first asks for it.

To add one: a file here with a subclass of `Shape`, and its line in `KINDS`; then the same in `hubbub.analysis.kinds`
and `hubbub.simulations.kinds`. CONTRIBUTING.md walks through it.
There is no `Literal` of their names: the table is open, so that a kind of somebody else's is one more line in it.
"""

from __future__ import annotations

from collections.abc import Container
from functools import cache

from hubbub.protocol.door import loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubbub.protocol.kinds.choice import Choice
    from hubbub.protocol.kinds.cross import Cross
    from hubbub.protocol.kinds.discovery import Discovery
    from hubbub.protocol.kinds.flag import Flag
    from hubbub.protocol.kinds.histogram import Histogram
    from hubbub.protocol.kinds.mean import Mean
    from hubbub.protocol.kinds.range import Range
    from hubbub.protocol.kinds.set import Set
    from hubbub.protocol.kinds.string import String
    from hubbub.protocol.shape import Shape

__all__ = [
    "FORMS",
    "KINDS",
    "Choice",
    "Cross",
    "Discovery",
    "Flag",
    "Histogram",
    "Mean",
    "Range",
    "Set",
    "String",
    "shape_class",
]

KINDS = {
    "flag": "hubbub.protocol.kinds.flag:Flag",
    "choice": "hubbub.protocol.kinds.choice:Choice",
    "string": "hubbub.protocol.kinds.string:String",
    "mean": "hubbub.protocol.kinds.mean:Mean",
    "histogram": "hubbub.protocol.kinds.histogram:Histogram",
    "range": "hubbub.protocol.kinds.range:Range",
    "set": "hubbub.protocol.kinds.set:Set",
    "cross": "hubbub.protocol.kinds.cross:Cross",
}

FORMS = {("string", "discover"): "hubbub.protocol.kinds.discovery:Discovery"}
"""A kind that one key makes another question altogether, with keys, cohorts and an encoding of its own."""


def shape_class(kind: str, keys: Container[str] = ()) -> type[Shape]:
    """The class of a kind's shapes, if these keys are given. Raises KeyError for a kind that is not in the table."""
    places = (place for (one, key), place in FORMS.items() if one == kind and key in keys)
    return _class_at(next(places, KINDS[kind]))


@cache
def _class_at(place: str) -> type[Shape]:
    module, _, name = place.partition(":")
    found: type[Shape] = loaded(module, name)
    return found


def __getattr__(name: str) -> type[Shape]:
    for kind, place in KINDS.items():
        if place.endswith(f":{name}"):
            return shape_class(kind)
    for (kind, key), place in FORMS.items():
        if place.endswith(f":{name}"):
            return shape_class(kind, (key,))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
