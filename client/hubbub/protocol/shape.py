"""What a metric asks: six kinds of question, each with its cohorts, its bits, and how two of its answers can differ.

A shape knows nothing of noise, names or time. It is checked at birth; nobody downstream checks it again. All shapes
answer the same questions: `num_cohorts`; `width(cohort)`, the bits of a report; `num_masks`, how many different
answers one install could ever give; `flips`, how two of them can differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import comb
from typing import Any, ClassVar

from hubbub.protocol.channel import Flips
from hubbub.protocol.invalid import require, say

MAX_BITS = 65_536
MAX_COHORTS = 65_536
MAX_CELLS = 1 << 24
"""Bits times cohorts: what a collector counts for one metric and epoch must fit its memory many times over."""

ONE_BIT: Flips = ((1, 0), (0, 1))
_ONE_OF_MANY: Flips = ((1, 1),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A yes or a no. Warner's randomized response."""

    kind: ClassVar[str] = "flag"
    absent: bool = False

    num_cohorts: ClassVar[int] = 1
    num_masks: ClassVar[int] = 2
    flips: ClassVar[Flips] = ONE_BIT

    def width(self, cohort: int) -> int:
        return 1

    def to_json(self) -> dict[str, Any]:
        return {"absent": self.absent}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of a declared list. Without a declared `absent`, that nothing was recorded is a category of its own."""

    kind: ClassVar[str] = "choice"
    choices: tuple[str, ...]
    absent: str | None = None
    places: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """Where each choice stands in the list: found at once, however long it is."""

    num_cohorts: ClassVar[int] = 1
    flips: ClassVar[Flips] = _ONE_OF_MANY

    def __post_init__(self) -> None:
        require(self._broken_rules())
        object.__setattr__(self, "places", {choice: i for i, choice in enumerate(self.choices)})

    def _broken_rules(self) -> Iterator[str]:
        if not 2 <= len(self.choices) <= MAX_BITS - 1:
            yield f"choices must list from 2 to {MAX_BITS - 1} values, got {len(self.choices)}"
        repeated = sorted(choice for choice, times in Counter(self.choices).items() if times > 1)
        if repeated:
            yield f"choices must all differ, got {', '.join(map(repr, repeated))} more than once"
        if self.absent is not None and self.absent not in self.choices:
            yield f"absent must be one of the choices, got {self.absent!r}"

    @property
    def categories(self) -> int:
        return len(self.choices) + (self.absent is None)

    @property
    def num_masks(self) -> int:
        return self.categories

    def width(self, cohort: int) -> int:
        return self.categories

    def to_json(self) -> dict[str, Any]:
        return {"choices": list(self.choices), "absent": self.absent}


@dataclass(frozen=True, slots=True, kw_only=True)
class String:
    """Any text, hashed to a few positions that depend on the cohort. RAPPOR; with one bit, BiLOLOHA's parity."""

    kind: ClassVar[str] = "string"
    num_bits: int
    num_hashes: int
    num_cohorts: int

    def __post_init__(self) -> None:
        require(self._broken_rules())

    def _broken_rules(self) -> Iterator[str]:
        if not 1 <= self.num_bits <= MAX_BITS:
            yield f"num_bits must be in [1, {MAX_BITS}], got {self.num_bits}"
        if not 1 <= self.num_hashes <= min(self.num_bits, 64):
            yield f"num_hashes must be in [1, num_bits={self.num_bits}], and at most 64, got {self.num_hashes}"
        if not 1 <= self.num_cohorts <= MAX_COHORTS or self.num_cohorts & (self.num_cohorts - 1):
            yield f"num_cohorts must be a power of two in [1, {MAX_COHORTS}], got {self.num_cohorts}"
        if self.num_bits * self.num_cohorts > MAX_CELLS:
            yield f"num_bits x num_cohorts must be at most {MAX_CELLS}, got {self.num_bits} x {self.num_cohorts}"

    @property
    def num_masks(self) -> int:
        return 2 if self.num_bits == 1 else comb(self.num_bits, self.num_hashes) + 1  # and the empty one

    @property
    def flips(self) -> Flips:
        if self.num_bits == 1:
            return ONE_BIT
        moved = min(self.num_hashes, self.num_bits - self.num_hashes)
        return ((moved, moved), (self.num_hashes, 0), (0, self.num_hashes))

    def width(self, cohort: int) -> int:
        return self.num_bits

    def to_json(self) -> dict[str, Any]:
        return {"num_bits": self.num_bits, "num_hashes": self.num_hashes, "num_cohorts": self.num_cohorts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A number whose average is wanted. Microsoft's 1-bit mean: the bit says which end of the range."""

    kind: ClassVar[str] = "mean"
    low: Fraction
    high: Fraction
    absent: Fraction
    unit: str = ""

    num_cohorts: ClassVar[int] = 1
    num_masks: ClassVar[int] = 2
    flips: ClassVar[Flips] = ONE_BIT

    def __post_init__(self) -> None:
        require(self._broken_rules())

    def _broken_rules(self) -> Iterator[str]:
        yield from _bad_limits(self.low, self.high)
        if not self.low <= self.absent <= self.high:
            yield f"absent must be in [low={say(self.low)}, high={say(self.high)}], got {say(self.absent)}"

    def width(self, cohort: int) -> int:
        return 1

    def to_json(self) -> dict[str, Any]:
        return {"low": str(self.low), "high": str(self.high), "absent": str(self.absent), "unit": self.unit}


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """A number, by bucket. Each cohort is asked about a few buckets only. Microsoft's dBitFlip."""

    kind: ClassVar[str] = "histogram"
    edges: tuple[Fraction, ...]
    buckets_per_report: int
    unit: str = ""

    def __post_init__(self) -> None:
        require(self._broken_rules())

    def _broken_rules(self) -> Iterator[str]:
        if not 3 <= len(self.edges) <= MAX_BITS + 1:
            yield f"edges must list from 3 to {MAX_BITS + 1} numbers, got {len(self.edges)}"
        elif not 1 <= self.buckets_per_report <= self.num_buckets:
            yield (
                f"buckets_per_report must be in [1, {self.num_buckets}], the number of buckets, "
                f"got {self.buckets_per_report}"
            )
        elif self.buckets_per_report * self.num_cohorts > MAX_CELLS:
            yield (
                f"buckets_per_report x the number of buckets must be at most {MAX_CELLS}, "
                f"got {self.buckets_per_report} x {self.num_buckets}"
            )
        for low, high in pairwise(self.edges):
            if not low < high:
                yield f"edges must ascend, got {say(high)} after {say(low)}"

    @property
    def num_buckets(self) -> int:
        return len(self.edges) - 1

    @property
    def num_cohorts(self) -> int:
        return 1 if self.buckets_per_report == self.num_buckets else self.num_buckets

    @property
    def num_masks(self) -> int:
        return self.buckets_per_report + 1  # and the empty one

    @property
    def flips(self) -> Flips:
        return ONE_BIT if self.buckets_per_report == 1 else _ONE_OF_MANY

    def width(self, cohort: int) -> int:
        return self.buckets_per_report

    def bucket(self, cohort: int, position: int) -> int:
        """The bucket that this position of this cohort asks about."""
        return (cohort + position) % self.num_buckets

    def to_json(self) -> dict[str, Any]:
        return {
            "edges": [str(edge) for edge in self.edges],
            "buckets_per_report": self.buckets_per_report,
            "unit": self.unit,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A number whose distribution is wanted. Each cohort reports one level of a tree over equal cells of the range."""

    kind: ClassVar[str] = "range"
    low: Fraction
    high: Fraction
    num_leaves: int
    branching: int
    unit: str = ""

    flips: ClassVar[Flips] = _ONE_OF_MANY

    def __post_init__(self) -> None:
        require(self._broken_rules())

    def _broken_rules(self) -> Iterator[str]:
        yield from _bad_limits(self.low, self.high)
        if not 2 <= self.branching <= MAX_BITS:
            yield f"branching must be in [2, {MAX_BITS}], got {self.branching}"
        elif not self.branching <= self.num_leaves <= MAX_BITS or self.branching**self.num_levels != self.num_leaves:
            yield (
                f"num_leaves must be a power of branching={self.branching}, at most {MAX_BITS}, got {self.num_leaves}"
            )

    @property
    def num_levels(self) -> int:
        levels, leaves = 0, 1
        while leaves < self.num_leaves:
            levels, leaves = levels + 1, leaves * self.branching
        return levels

    @property
    def num_cohorts(self) -> int:
        return self.num_levels

    @property
    def num_masks(self) -> int:
        return self.num_leaves + 1  # and the empty one

    def width(self, cohort: int) -> int:
        # Cohort = level - 1: the root is not asked, everyone is in it.
        nodes: int = self.branching ** (cohort + 1)
        return nodes

    def to_json(self) -> dict[str, Any]:
        return {
            "low": str(self.low),
            "high": str(self.high),
            "num_leaves": self.num_leaves,
            "branching": self.branching,
            "unit": self.unit,
        }


Shape = Flag | Choice | String | Mean | Histogram | Range
SHAPES: dict[str, type[Shape]] = {shape.kind: shape for shape in (Flag, Choice, String, Mean, Histogram, Range)}


def _bad_limits(low: Fraction, high: Fraction) -> Iterator[str]:
    if not low < high:
        yield f"low must be below high={say(high)}, got {say(low)}"
