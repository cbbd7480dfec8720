"""The exact epsilon of the code that draws: fed with every random number it could get, not sampled, not a formula.

`carry_bits` compares all positions at once, so 2**24 positions whose random numbers are 0, 1, 2, ... let it work
through its whole random space in one call; a count of the bits is a probability. For categories the numbers at which
the outcome changes are found by bisection. From these, the odds of every outcome at the positions where two masks
differ follow in whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from math import prod

from hubbub.client.respond import carry_bits, carry_category, carry_subset
from hubbub.protocol.channel import PRECISION, UNITS, KaryChannel, Noise, SubsetChannel, Units
from hubbub.simulations.audit.scores import MEMO

MOST_OUTCOMES = 100_000
Integers = tuple[int, ...]


def worst_odds(noise: Noise, lost: int, gained: int, reports: int) -> Fraction | None:
    """The largest odds between two masks that differ in so many bits, over every outcome. None where there are too
    many outcomes to try. `reports = MEMO`: the memo itself is seen."""
    if isinstance(noise.permanent, KaryChannel):
        return _worst_of_categories(noise, noise.permanent.categories, reports)
    if isinstance(noise.permanent, SubsetChannel):
        return _worst_of_subsets(noise.permanent)
    if (max(reports, 1) + 1) ** (lost + gained) > MOST_OUTCOMES:
        return None
    has, lacks = _seen(_bit_law(noise.permanent_units), _bit_law(noise.instantaneous_units), reports)
    worst = Fraction(0)
    for ones in product(range(len(has)), repeat=lost + gained):
        one = prod((has if i < lost else lacks)[c] for i, c in enumerate(ones))
        other = prod((lacks if i < lost else has)[c] for i, c in enumerate(ones))
        if one or other:
            worst = max(worst, Fraction(one, other), Fraction(other, one))
    return worst


def _seen(memo: Integers, report: Integers, reports: int) -> tuple[list[int], list[int]]:
    """Weights of c ones among the reports at one position, where the mask has the bit and where it lacks it."""
    if reports == MEMO:
        return [UNITS - memo[0], memo[0]], [UNITS - memo[1], memo[1]]
    weights = [[rate**c * (UNITS - rate) ** (reports - c) for c in range(reports + 1)] for rate in report]
    has, lacks = (
        [kept * if_set + (UNITS - kept) * if_not for if_set, if_not in zip(*weights, strict=True)] for kept in memo
    )
    return has, lacks


def _worst_of_categories(noise: Noise, categories: int, reports: int) -> Fraction | None:
    memo = _category_law(noise.permanent_units, categories)
    if reports == MEMO:
        columns: Sequence[Sequence[int]] = list(zip(*memo, strict=True))
    else:
        report = _category_law(noise.instantaneous_units, categories)
        columns = []
        for number, named in enumerate(_ways_to_name(categories, reports)):
            if number >= MOST_OUTCOMES // 10:
                return None
            after = [prod(weight**times for weight, times in zip(row, named, strict=True)) for row in report]
            columns.append([sum(w * rest for w, rest in zip(row, after, strict=True)) for row in memo])
    return max(Fraction(max(column), min(column)) for column in columns if any(column))


def _worst_of_subsets(channel: SubsetChannel) -> Fraction | None:
    """Over every subset, of two categories; it is reported as it is, so that more reports show nothing more. A subset's
    numbers stand together: both ends of each range are tried."""
    if channel.with_sent + channel.without_sent > MOST_OUTCOMES:
        return None
    starts = [i * channel.held for i in range(channel.with_sent)]
    starts += [channel.with_sent * channel.held + i * channel.other for i in range(channel.without_sent)]
    laws: list[dict[int, int]] = []
    for sent in (1, 2):
        law: dict[int, int] = {}
        for start, end in pairwise([*starts, channel.units]):
            named = carry_subset(sent, channel, start)
            assert named == carry_subset(sent, channel, end - 1)
            law[named] = law.get(named, 0) + end - start
        laws.append(law)
    one, other = laws
    if one.keys() != other.keys():
        return Fraction(channel.units)
    return max(Fraction(max(one[named], other[named]), min(one[named], other[named])) for named in one)


def _ways_to_name(categories: int, reports: int) -> Iterator[Integers]:
    """How often each category was named, in every way: the order of reports does not matter."""
    if categories == 1:
        yield (reports,)
        return
    for times in range(reports + 1):
        for rest in _ways_to_name(categories - 1, reports - times):
            yield (times, *rest)


@cache
def _bit_law(units: Units) -> Integers:
    """How many of the 2**24 numbers let a 1 arrive: where a 1 was sent, and where a 0 was."""
    words = _every_number()
    everywhere = (1 << UNITS) - 1
    return tuple(carry_bits(sent, UNITS, units, words).bit_count() for sent in (everywhere, 0))


@cache
def _every_number() -> tuple[int, ...]:
    """Bit j of word i is digit i of j: position j holds the random number j."""
    words = []
    for digit in range(PRECISION):
        word, period = ((1 << (1 << digit)) - 1) << (1 << digit), 2 << digit
        while period < UNITS:
            word, period = word | word << period, 2 * period
        words.append(word)
    return tuple(words)


@cache
def _category_law(units: Units, categories: int) -> tuple[Integers, ...]:
    """Row: the category sent. Column: how many of the 2**24 numbers make this one arrive."""
    return tuple(_arrivals(sent, units, categories) for sent in range(categories))


def _arrivals(sent: int, units: Units, categories: int) -> Integers:
    def arrived(number: int) -> int:
        return carry_category(1 << sent, categories, units, number)

    counts, start = [0] * categories, 0
    while start < UNITS:
        inside, outside = start, UNITS
        if arrived(UNITS - 1) == arrived(start):
            inside = UNITS - 1
        while outside - inside > 1:
            middle = (inside + outside) // 2
            inside, outside = (middle, outside) if arrived(middle) == arrived(start) else (inside, middle)
        counts[arrived(start).bit_length() - 1] += outside - start
        start = outside
    return tuple(counts)
