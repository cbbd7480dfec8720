"""A number, by bucket. Each cohort is asked about a few buckets only. Microsoft's dBitFlip."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from hubbub.protocol.channel import Flips
from hubbub.protocol.encoding import ABSENT, Encoded, number_within
from hubbub.protocol.invalid import say
from hubbub.protocol.shape import MAX_BITS, MAX_CELLS, ONE_BIT, ONE_OF_MANY, NumberShape
from hubbub.protocol.value import cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Histogram(NumberShape, kw_only=True):
    """A number in buckets between `edges`; an install is asked about `buckets_per_report` of them."""

    kind = "histogram"
    natural_order = True
    edges: tuple[Fraction, ...]
    buckets_per_report: int
    unit: str = ""

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

    @cached_property
    def num_buckets(self) -> int:
        return len(self.edges) - 1

    @cached_property
    def num_cohorts(self) -> int:
        return 1 if self.buckets_per_report == self.num_buckets else self.num_buckets

    @cached_property
    def limits(self) -> tuple[Fraction, Fraction]:
        return self.edges[0], self.edges[-1]

    @cached_property
    def asks_part(self) -> bool:
        return self.buckets_per_report < self.num_buckets

    @cached_property
    def answers(self) -> tuple[str, ...]:
        return tuple(f"{say(low)} to {say(high)}" for low, high in pairwise(self.edges))

    @cached_property
    def num_masks(self) -> int:
        return self.buckets_per_report + 1  # and the empty one

    @cached_property
    def flips(self) -> Flips:
        return ONE_BIT if self.buckets_per_report == 1 else ONE_OF_MANY

    def width(self, cohort: int) -> int:
        return self.buckets_per_report

    def bucket(self, cohort: int, position: int) -> int:
        """The bucket that this position of this cohort asks about."""
        return (cohort + position) % self.num_buckets

    def encode(self, value: Any, cohort: int, dither: int = 0) -> Encoded:
        if value is ABSENT:
            return Encoded(0)
        bucket, clamped = self._bucket_of(value)
        position = (bucket - cohort) % self.num_buckets
        return Encoded(1 << position if position < self.buckets_per_report else 0, clamped)

    def port_facts(self) -> dict[str, Any]:
        return self.plain_fields()

    def _bucket_of(self, value: Any) -> tuple[int, bool]:
        """The bucket of a number, and whether it had to be moved into the limits."""
        number, clamped = number_within(value, self.edges[0], self.edges[-1])
        from bisect import bisect_right  # here, because only an answer needs it

        return min(bisect_right(self.edges, number) - 1, self.num_buckets - 1), clamped

    @cached_property
    def told_apart(self) -> tuple[str, ...]:
        return self.answers

    def told_as(self, value: Any, dither: int) -> int:
        """All buckets are told apart, and silence from each of them."""
        return self.num_buckets if value is ABSENT else self._bucket_of(value)[0]

    def question(self) -> str:
        return f"{self.limits_in_words()}, in {self.num_buckets} steps"
