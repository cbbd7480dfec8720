"""Randomised response: from a mask to a memo, from a memo to the bits of a report.

Nothing here reads the clock, the disk or the network; all chance comes from an argument: `random`, a function like
`os.urandom`, or the `Draws` made from it. No float decides anything: a position is set where a random 24-bit number is
below a threshold, and all positions are compared at once, digit by digit, with a fixed number of random bytes whatever
the outcome. A subset is one number below the units of all subsets. The truth flags of a metric with `hold` are a number
below their weight, on the side that 24 bits have chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import comb

from hubbub.protocol.channel import PRECISION, SUBSET_PRECISION, UNITS, SubsetChannel, Units
from hubbub.protocol.encoding import bytes_for
from hubbub.protocol.metric import Definition
from hubbub.protocol.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubbub.client.vocabulary import Draws, Random
    from hubbub.protocol.history import History


class RandomDraws:
    """Draws from random bytes. How many are taken depends neither on what is sent nor on what comes of it."""

    __slots__ = ("_random",)

    def __init__(self, random: Random) -> None:
        self._random = random

    def number(self, units: Units, width: int) -> int:
        return int.from_bytes(self._random(PRECISION // 8), "little")

    def digits(self, units: Units, width: int, sent: int) -> bytes:
        return self._random(PRECISION * bytes_for(width))

    def subset(self, channel: SubsetChannel, sent: int) -> int:
        # A number beyond all units (at most one in 2**11) is drawn again; the limit is the same whatever is sent.
        while (number := int.from_bytes(self._random(SUBSET_PRECISION // 8), "little")) >= channel.units:
            pass
        return number

    def below(self, limit: int) -> int:
        # The bits that the largest number has; what is beyond the limit, less than half, is drawn again.
        digits = (limit - 1).bit_length()
        size = bytes_for(digits)
        while (number := int.from_bytes(self._random(size), "little") >> 8 * size - digits) >= limit:
            pass
        return number

    def flags(self, history: History) -> int:
        above = int.from_bytes(self._random(PRECISION // 8), "little") < history.above * UNITS
        return flags_of(history, above, self.below(history.side(above)))

    def of_a_memo(self, random: Random) -> RandomDraws:
        return RandomDraws(random)


class Response(Value):
    """Both stages of one answer."""

    memo: int
    """The permanent response, which stays on the device."""
    bits: int
    """The instantaneous response, which leaves it."""


def respond(metric: Definition, mask: int, cohort: int, random: Random, memo: int | None = None) -> Response:
    """A report on this mask. Without a memo one is drawn; with one, the mask no longer matters."""
    if memo is None:
        memo = draw_memo(metric, mask, cohort, random)
    return Response(memo, draw_bits(metric, memo, cohort, random))


def draw_memo(metric: Definition, mask: int, cohort: int, random: Random) -> int:
    """The permanent response: drawn once for an answer, then kept for life."""
    return permanent_response(metric, mask, cohort, RandomDraws(random))


def draw_bits(metric: Definition, memo: int, cohort: int, random: Random) -> int:
    """The instantaneous response: drawn afresh for every report."""
    return _carry(metric, metric.noise.instantaneous_units, memo, cohort, RandomDraws(random))


def permanent_response(metric: Definition, mask: int, cohort: int, draws: Draws) -> int:
    """`draw_memo`, from draws instead of random bytes. Of a metric with `hold` it is one answer, seen by itself."""
    history = metric.noise.history
    if history is not None:
        own = draws.flags(history) & (1 << history.items) - 1
        return history_response(metric, history, mask, own, cohort, draws)
    channel = metric.noise.permanent
    if isinstance(channel, SubsetChannel):
        return carry_subset(mask, channel, draws.subset(channel, mask))
    return _carry(metric, metric.noise.permanent_units, mask, cohort, draws)


def instantaneous_response(metric: Definition, memo: int, cohort: int, draws: Draws) -> int:
    """`draw_bits`, from draws instead of random bytes."""
    return _carry(metric, metric.noise.instantaneous_units, memo, cohort, draws)


def history_response(metric: Definition, history: History, mask: int, flags: int, cohort: int, draws: Draws) -> int:
    """One answer of a metric with `hold`, given its own truth flags, which were drawn before there was an answer. What
    is drawn here is drawn whatever they are."""
    width = metric.shape.width(cohort)
    if metric.one_hot:
        return carry_flagged_category(mask, flags, draws.below(width - 1))
    if history.categories is not None:
        return carry_flagged_bits(mask, width, flags)
    units = int(history.chance * UNITS)
    return carry_flagged_position(mask, flags, _carry(metric, (units, units), 0, cohort, draws))


def _carry(metric: Definition, units: Units, sent: int, cohort: int, draws: Draws) -> int:
    width = metric.shape.width(cohort)
    if metric.one_hot:
        return carry_category(sent, width, units, draws.number(units, width))
    drawn = draws.digits(units, width, sent)
    if width == 1:
        return carry_bit(sent, units, int.from_bytes(drawn, "little"))
    number = int.from_bytes
    return carry_bits(sent, width, units, [number(word, "little") for word in _in_words(len(drawn))(drawn)])


@lru_cache(maxsize=64)
def _in_words(size: int) -> Callable[[bytes], tuple[bytes, ...]]:
    """Takes this many bytes apart into one word for each digit, at half the price of slices."""
    from struct import Struct  # here, because only an answer needs it

    return Struct(f"{size // PRECISION}s" * PRECISION).unpack


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


def carry_subset(sent: int, channel: SubsetChannel, number: int) -> int:
    """One category as a subset: the lowest numbers name the subsets that hold it, `held` numbers each; the rest name
    those that do not, `other` numbers each."""
    others, size = channel.categories - 1, channel.size
    beyond = number - channel.with_sent * channel.held
    if beyond < 0:
        rest, itself = _subset_of(number // channel.held, size - 1, others), sent
    else:
        rest, itself = _subset_of(beyond // channel.other, size, others), 0
    below = rest & sent - 1  # the other categories close the gap that the one sent leaves
    return below | (rest ^ below) << 1 | itself


def flags_of(history: History, above: bool, number: int) -> int:
    """The truth flags that this number, below the weight of the side, names on this side of the threshold. As many
    numbers name some flags as their probability says; fewer set come first, then their masks in ascending order."""
    counts = range(history.threshold, history.flags + 1) if above else range(history.threshold)
    for count in counts:
        weight = history.weights[count]
        if number < weight:
            return _subset_of(number // (weight // comb(history.flags, count)), count, history.flags)
        number -= weight
    raise AssertionError("unreachable: the number is below the weight of the side")


def carry_flagged_category(sent: int, flag: int, other: int) -> int:
    """The category sent where the flag is set, elsewhere the other one of this number."""
    return sent if flag else 1 << other + (other >= sent.bit_length() - 1)


def carry_flagged_bits(sent: int, width: int, flags: int) -> int:
    """Each position as it is where its flag is set, and the contrary elsewhere."""
    return (sent ^ ~flags) & (1 << width) - 1


def carry_flagged_position(sent: int, flag: int, noise: int) -> int:
    """The flag at the one position sent, if there is one, and noise at all others."""
    return noise & ~sent | (sent if flag else 0)


def _subset_of(rank: int, size: int, width: int) -> int:
    """The mask with this rank among those with `size` bits set, in ascending order (the combinatorial number system):
    comb(i, size) of them have all their bits below bit i."""
    bits = 0
    if not size:
        return bits
    for position in range(width - 1, -1, -1):
        below = comb(position, size)
        if rank >= below:
            rank -= below
            bits |= 1 << position
            size -= 1
            if not size:
                break
    return bits


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
