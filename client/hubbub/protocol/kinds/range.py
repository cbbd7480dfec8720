"""A number whose distribution is wanted. Each cohort reports one level of a tree over equal cells of the range."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from hubbub.protocol.channel import Flips
from hubbub.protocol.encoding import ABSENT, Encoded, number_within
from hubbub.protocol.shape import MAX_BITS, ONE_OF_MANY, NumberShape, broken_limits
from hubbub.protocol.value import cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Range(NumberShape, kw_only=True):
    """A number from `low` to `high`, in `num_leaves` equal cells; a node of their tree has `branching` children."""

    kind = "range"
    natural_order = True
    equal_widths = False
    low: Fraction
    high: Fraction
    num_leaves: int
    branching: int
    unit: str = ""

    def _broken_rules(self) -> Iterator[str]:
        yield from broken_limits(self.low, self.high)
        if not 2 <= self.branching <= MAX_BITS:
            yield f"branching must be in [2, {MAX_BITS}], got {self.branching}"
        elif not self.branching <= self.num_leaves <= MAX_BITS or self.branching**self.num_levels != self.num_leaves:
            yield (
                f"num_leaves must be a power of branching={self.branching}, at most {MAX_BITS}, got {self.num_leaves}"
            )

    @cached_property
    def num_levels(self) -> int:
        levels, leaves = 0, 1
        while leaves < self.num_leaves:
            levels, leaves = levels + 1, leaves * self.branching
        return levels

    @cached_property
    def num_cohorts(self) -> int:
        return self.num_levels

    @cached_property
    def limits(self) -> tuple[Fraction, Fraction]:
        return self.low, self.high

    @cached_property
    def asks_part(self) -> bool:
        return True

    @cached_property
    def num_masks(self) -> int:
        return self.num_leaves + 1  # and the empty one

    @cached_property
    def flips(self) -> Flips:
        return ONE_OF_MANY

    def width(self, cohort: int) -> int:
        # Cohort = level - 1: the root is not asked, everyone is in it.
        nodes: int = self.branching ** (cohort + 1)
        return nodes

    def encode(self, value: Any, cohort: int, dither: int = 0) -> Encoded:
        if value is ABSENT:
            return Encoded(0)
        number, clamped = number_within(value, self.low, self.high)
        leaf = min(int((number - self.low) * self.num_leaves / (self.high - self.low)), self.num_leaves - 1)
        return Encoded(1 << leaf // self.branching ** (self.num_levels - 1 - cohort), clamped)

    def port_facts(self) -> dict[str, Any]:
        return self.plain_fields()

    def question(self) -> str:
        return f"{self.limits_in_words()}, for its distribution"
