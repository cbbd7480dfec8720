"""Which cohorts of two metrics an install can have, and where the counters of a pair lie. Nothing here counts."""

from __future__ import annotations

from itertools import accumulate
from math import gcd
from typing import ClassVar

from hubbub.protocol.shape import Shape
from hubbub.protocol.value import Value, cached_property


class PairShape(Value):
    """Where the counters of a pair lie: for each cohort pair, a row with the bits of the first report, those of the
    second, and then, bit by bit of the first, those of the second that came with it."""

    first: Shape
    second: Shape
    later_names: ClassVar[tuple[str, ...]] = ()  # lists with spare places are not counted in pairs

    @property
    def equal_widths(self) -> bool:
        """Whether all rows have the same number of counters."""
        return self.first.equal_widths and self.second.equal_widths

    @cached_property
    def num_cohorts(self) -> int:
        """How many cohort pairs there are. Cohorts are pieces of one line, so each border begins a new pair, and
        borders that both metrics share begin one."""
        m, n = self.first.num_cohorts, self.second.num_cohorts
        return m + n - gcd(m, n)

    @cached_property
    def cohort_pairs(self) -> tuple[tuple[int, int], ...]:
        """The cohorts of both metrics that an install can have, ascending."""
        m, n = self.first.num_cohorts, self.second.num_cohorts
        found, i, j = [], 0, 0
        while i < m and j < n:
            found.append((i, j))
            one, other = (i + 1) * n, (j + 1) * m  # where the two pieces end, on a line as long as m times n
            i, j = i + (one <= other), j + (other <= one)
        return tuple(found)

    def place(self, first: int, second: int) -> int | None:
        """Which cohort pair these two are; None if no install has both."""
        m, n = self.first.num_cohorts, self.second.num_cohorts
        if first * n >= (second + 1) * m or second * m >= (first + 1) * n:
            return None
        return first + second - first // (m // gcd(m, n))

    def widths(self, place: int) -> tuple[int, int]:
        """The bits of both reports of a cohort pair."""
        first, second = (0, 0) if self.equal_widths else self.cohort_pairs[place]
        return self.first.width(first), self.second.width(second)

    def width(self, place: int) -> int:
        """The counters of a cohort pair, but for the batches themselves."""
        first, second = self.widths(place)
        return first + second + first * second

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the row of each cohort pair begins, of all counters one after the other."""
        return (0, *accumulate(self.width(place) for place in range(self.num_cohorts - 1)))

    @cached_property
    def num_cells(self) -> int:
        if self.equal_widths:
            return self.num_cohorts * self.width(0)
        return sum(self.width(place) for place in range(self.num_cohorts))
