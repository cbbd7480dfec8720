"""A number whose average is wanted. Microsoft's 1-bit mean: the bit says which end of the range."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any

from hubbub.protocol.channel import Flips
from hubbub.protocol.encoding import ABSENT, DITHER_BITS, Encoded, number_within
from hubbub.protocol.invalid import say
from hubbub.protocol.shape import ONE_BIT, NumberShape, broken_limits


class Mean(NumberShape, kw_only=True):
    """A number from `low` to `high`; `absent` stands for an epoch in which nothing was recorded."""

    kind = "mean"
    low: Fraction
    high: Fraction
    absent: Fraction
    unit: str = ""

    def _broken_rules(self) -> Iterator[str]:
        yield from broken_limits(self.low, self.high)
        if not self.low <= self.absent <= self.high:
            yield f"absent must be in [low={say(self.low)}, high={say(self.high)}], got {say(self.absent)}"

    @cached_property
    def limits(self) -> tuple[Fraction, Fraction]:
        return self.low, self.high

    @cached_property
    def asks_part(self) -> bool:
        return True

    @cached_property
    def num_masks(self) -> int:
        return 2

    @cached_property
    def flips(self) -> Flips:
        return ONE_BIT

    def width(self, cohort: int) -> int:
        return 1

    def encode(self, value: Any, cohort: int, dither: int = 0) -> Encoded:
        number, clamped = number_within(self.absent if value is ABSENT else value, self.low, self.high)
        return Encoded(_end(number, self.low, self.high, dither), clamped)

    def question(self) -> str:
        return f"{self.limits_in_words()}, for its average"


def _end(number: Fraction, low: Fraction, high: Fraction, dither: int) -> int:
    """Alpha-point rounding (Ding, Kulkarni, Yekhanin 2017): the high end iff number + alpha (high - low) reaches it.

    alpha = dither / 2**64 is uniform over installs, so the high end has probability (number - low) / (high - low);
    it is fixed for one install, so small changes of the number seldom change the mask. In whole numbers: number - high
    + alpha (high - low) >= 0, times 2**64 and all three denominators.
    """
    (x, x_of), (a, a_of), (b, b_of) = (exact.as_integer_ratio() for exact in (number, low, high))
    return int((x * b_of - b * x_of) * a_of << DITHER_BITS >= -dither * (b * a_of - a * b_of) * x_of)
