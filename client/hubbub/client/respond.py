"""Randomised response: from a mask to a memo, from a memo to the bits of a report.

Nothing here reads the clock, the disk or the network; all chance comes from the `random` argument, a function like
`os.urandom`. No float decides anything: a position is set where a random 24-bit number is below a threshold, and all
positions are compared at once, digit by digit, with a fixed number of random bytes whatever the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from hubbub.protocol.channel import PRECISION, UNITS, Units
from hubbub.protocol.metric import Definition

Random = Callable[[int], bytes]


class Response(NamedTuple):
    memo: int
    bits: int


def respond(metric: Definition, mask: int, cohort: int, random: Random, memo: int | None = None) -> Response:
    """A report on this mask. Without a memo one is drawn; with one, the mask no longer matters."""
    if memo is None:
        memo = draw_memo(metric, mask, cohort, random)
    return Response(memo, draw_bits(metric, memo, cohort, random))


def draw_memo(metric: Definition, mask: int, cohort: int, random: Random) -> int:
    """The permanent response: drawn once for an answer, then kept for life."""
    return _carry(metric, metric.noise.permanent_units, mask, cohort, random)


def draw_bits(metric: Definition, memo: int, cohort: int, random: Random) -> int:
    """The instantaneous response: drawn afresh for every report."""
    return _carry(metric, metric.noise.instantaneous_units, memo, cohort, random)


def _carry(metric: Definition, units: Units, sent: int, cohort: int, random: Random) -> int:
    width = metric.shape.width(cohort)
    if metric.one_hot:
        return carry_category(sent, width, units, int.from_bytes(random(PRECISION // 8), "little"))
    size = (width + 7) // 8
    drawn = random(PRECISION * size)
    if width == 1:
        return carry_bit(sent, units, int.from_bytes(drawn, "little"))
    words = [int.from_bytes(drawn[i : i + size], "little") for i in range(0, PRECISION * size, size)]
    return carry_bits(sent, width, units, words)


def carry_bits(sent: int, width: int, units: Units, words: Sequence[int]) -> int:
    """Each position through a bit channel. `words[i]` holds digit i, the least significant first, of every position's
    random number; one number serves both thresholds, because a position looks at one of them only."""
    when_one, when_zero = units
    everywhere = (1 << width) - 1
    if when_one + when_zero == UNITS:  # symmetric: to arrive wrong is to be flipped, whatever was sent
        return (sent ^ _set_with(when_zero, words, everywhere)) & everywhere
    ones, zeros = _set_with(when_one, words, everywhere), _set_with(when_zero, words, everywhere)
    return (sent & ones | ~sent & zeros) & everywhere


def carry_bit(sent: int, units: Units, digits: int) -> int:
    """`carry_bits` for a single position, in one comparison: digit i of its random number is bit 8 i of `digits`, and
    numbers whose digits are spread out compare as the numbers do."""
    when_one, when_zero = units
    number = ~digits & _EVERY_DIGIT  # the complements, as below
    if when_one + when_zero == UNITS:
        return sent ^ (number < _spread(when_zero))
    return int(number < _spread(when_one if sent else when_zero))


def carry_category(sent: int, width: int, units: Units, number: int) -> int:
    """One category through a k-ary channel: the numbers below (width - 1) x other name another category, evenly;
    all the rest name the one that was sent."""
    other = units[1]
    if number >= other * (width - 1):
        return sent
    category = number // other
    return 1 << category + (category >= sent.bit_length() - 1)


@lru_cache(maxsize=256)
def _spread(threshold: int) -> int:
    """A number with its binary digits 8 apart."""
    return sum((threshold >> i & 1) << 8 * i for i in range(PRECISION + 1))


_EVERY_DIGIT = _spread(UNITS - 1)


def _set_with(numerator: int, words: Sequence[int], everywhere: int) -> int:
    """Positions set independently with probability numerator / 2**24.

    A random number is below a threshold t iff, at the highest digit where they differ, t has the 1. Going up from the
    lowest digit, with random digits r (their complements are as random, and save a NOT): where t has 1 the answer is
    r or the answer so far, where t has 0 it is r and the answer so far.
    """
    if numerator in (0, UNITS):
        return everywhere if numerator else 0
    lowest = (numerator & -numerator).bit_length() - 1  # up to here the threshold's digits are 0, and so is the answer
    below = words[lowest]
    for i in range(lowest + 1, PRECISION):
        below = below | words[i] if numerator >> i & 1 else below & words[i]
    return below
