"""Segments: public facts of a build, such as its platform and release, by which counts are kept apart.

A registry declares the keys and, for each, a closed list of values; `other` stands for all the rest. A segment goes
into the definition, and so into its hash: the wire says nothing more, a collector counts each segment by itself, and
totals are sums of counts. A segment is sent as it is, without noise: it must be a fact of the app, never of a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import prod

from hubbub.protocol.invalid import brief
from hubbub.protocol.names import METRIC, is_metric

OTHER = "other"
"""The value of every install whose own is not declared."""

NOT_SAID = "not said"
"""Where counts of a registry without a key lie beside those of one that has it."""

MAX_COMBINATIONS = 64
"""Segments an app may have in all, `other` counted: each divides the crowd, and shows something of the install."""

LONGEST = 64

Segment = tuple[tuple[str, str], ...]
"""A value for each key, in the order of keys; empty where nothing is declared."""

Declared = Mapping[str, tuple[str, ...]]
"""The values of each key, as the registry has them."""


def segment_of(declared: Declared, facts: Mapping[str, str]) -> Segment:
    """The segment of a build with these facts: what is not declared becomes `other`, or is left out."""
    return tuple((key, _known(facts.get(key), declared[key])) for key in sorted(declared))


def _known(value: str | None, values: tuple[str, ...]) -> str:
    return value if value is not None and value in values else OTHER


def all_segments(declared: Declared) -> Iterator[Segment]:
    """Every segment that can come; the empty one where nothing is declared."""
    keys = sorted(declared)
    for values in product(*((*declared[key], OTHER) for key in keys)):
        yield tuple(zip(keys, values, strict=True))


def num_segments(declared: Declared) -> int:
    return prod(len(values) + 1 for values in declared.values())


def segment_order(value: str) -> tuple[int, list[tuple[int, str]]]:
    """Sorts values as people do: 2.9 before 2.10, and last those that stand for the rest."""
    import re  # here, because no app sorts them

    parts = re.split(r"([0-9]+)", value)
    return (value == OTHER) + 2 * (value == NOT_SAID), [(int(p), "") if p.isdecimal() else (-1, p) for p in parts]


def in_words(segment: Iterable[tuple[str, str]]) -> str:
    """`platform linux, release 2.1`."""
    return ", ".join(f"{key} {value}" for key, value in sorted(segment))


def broken_declaration(declared: Declared) -> Iterator[str]:
    """What is wrong with a registry's segments."""
    for key, values in declared.items():
        if not is_metric(key):
            yield f"a segment's key must match {METRIC}, got {brief(key)}"
        if not values:
            yield f"segments.{key} must have at least one value, got none"
        if OTHER in values:
            yield f'segments.{key} must not list "{OTHER}", which is always there'
        twice = [value for i, value in enumerate(values) if value in values[:i]]
        if twice:
            yield f"segments.{key} must have each value once, got {brief(twice[0])} twice"
        yield from (f"segments.{key} {problem}" for value in values for problem in _broken_value(value))
    if num_segments(declared) > MAX_COMBINATIONS:
        sizes = " x ".join(f"{len(values) + 1} ({key})" for key, values in declared.items())
        yield (
            f'segments must have at most {MAX_COMBINATIONS} combinations, "{OTHER}" counted, got '
            f"{sizes} = {num_segments(declared):,}"
        )


def broken_segment(segment: Segment) -> Iterator[str]:
    """What is wrong with the segment of a definition."""
    keys = [key for key, _ in segment]
    if keys != sorted(set(keys)):
        yield f"segment must have each key once, in their order, got {', '.join(map(brief, keys))}"
    for key, value in segment:
        if not is_metric(key):
            yield f"a segment's key must match {METRIC}, got {brief(key)}"
        yield from (f"segment.{key} {problem}" for problem in _broken_value(value))


def _broken_value(value: str) -> Iterator[str]:
    if not 1 <= len(value) <= LONGEST or value != value.strip():
        yield f"must have values of 1 to {LONGEST} characters, without spaces at the ends, got {brief(value)}"
