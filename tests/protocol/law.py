"""The exact law of the client's own algebra: no sampling, no formula, the code fed with every number it could draw.

`respond.carry_bits` compares all positions at once. Fed with 2**24 positions whose random numbers are 0, 1, 2, ...,
each once, it works through its whole random space in one call, and a count of the bits is a probability. From these
measured probabilities the law of whole transcripts follows by enumeration, in whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import NamedTuple

from hubbub.client.respond import carry_bits, carry_category
from hubbub.protocol.channel import PRECISION, UNITS, KaryChannel, Noise, Units


class BitLaw(NamedTuple):
    """How many of 2**24 numbers let a 1 arrive: where a 1 was sent, and where a 0 was sent."""

    when_one: int
    when_zero: int


Table = tuple[tuple[int, ...], ...]
"""Row: the category sent. Column: the category that arrives. How many of 2**24 numbers make it so."""


class Law(NamedTuple):
    permanent: BitLaw | Table
    instantaneous: BitLaw | Table


def measured(noise: Noise) -> Law:
    """The law of both stages, from the code that draws them."""
    match noise.permanent:
        case KaryChannel(categories=categories):
            return Law(
                category_law(noise.permanent_units, categories), category_law(noise.instantaneous_units, categories)
            )
    return Law(bit_law(noise.permanent_units), bit_law(noise.instantaneous_units))


@cache
def bit_law(units: Units) -> BitLaw:
    everywhere = (1 << UNITS) - 1
    ones = carry_bits(everywhere, UNITS, units, every_number())
    zeros = carry_bits(0, UNITS, units, every_number())
    return BitLaw(ones.bit_count(), zeros.bit_count())


@cache
def every_number(digits: int = PRECISION) -> tuple[int, ...]:
    """Words in which position j has the random number j, for every j: bit j of word i is digit i of j."""
    words = []
    for digit in range(digits):
        word, period = ((1 << (1 << digit)) - 1) << (1 << digit), 2 << digit
        while period < 1 << digits:
            word |= word << period
            period *= 2
        words.append(word)
    return tuple(words)


@cache
def category_law(units: Units, categories: int) -> Table:
    """By the numbers at which the outcome changes, found by bisection; the proof tries every number instead."""
    return tuple(tuple(_runs(sent, units, categories)) for sent in range(categories))


def _runs(sent: int, units: Units, categories: int) -> list[int]:
    def arrived(number: int) -> int:
        return carry_category(1 << sent, categories, units, number)

    counts = [0] * categories
    start = 0
    while start < UNITS:
        inside, outside = start, UNITS
        if arrived(UNITS - 1) == arrived(start):
            inside = UNITS - 1
        while outside - inside > 1:
            middle = (inside + outside) // 2
            inside, outside = (middle, outside) if arrived(middle) == arrived(start) else (inside, middle)
        counts[arrived(start).bit_length() - 1] += outside - start
        start = outside
    return counts


# --- transcripts --------------------------------------------------------------------------------------------------


def worst_odds_of_memos(law: Law, masks: Iterable[int], width: int) -> Fraction:
    """The largest ratio of the probabilities of one memo under two masks."""
    if not isinstance(law.permanent, BitLaw):
        return _worst([[row[memo] for row in law.permanent] for memo in range(width)])
    channel = law.permanent
    weight = [[UNITS - channel.when_zero, channel.when_zero], [UNITS - channel.when_one, channel.when_one]]
    return _worst(_outcomes(weight, masks, width))


def worst_odds_of_reports(law: Law, masks: Iterable[int], width: int, reports: int) -> Fraction:
    """The largest ratio of the probabilities of one transcript of so many reports under two masks.

    Bits: the reports of one memo are exchangeable, so all transcripts with the same number of ones at each position
    have the same probability, and one of them stands for all; positions are independent (a test shows it), so a
    transcript's probability is the product over them. Categories: every sequence is tried.
    """
    if isinstance(law.permanent, BitLaw):
        return _worst(_outcomes(position_law(law, reports), masks, width))
    return _worst([sequence_law(law, sequence) for sequence in product(range(width), repeat=reports)])


def sequence_law(law: Law, sequence: tuple[int, ...]) -> list[int]:
    """k-ary reports: [category of the mask] -> weight of this sequence, summed over all memos."""
    permanent, instantaneous = law
    assert not isinstance(permanent, BitLaw)
    assert not isinstance(instantaneous, BitLaw)
    after = [_product(row[said] for said in sequence) for row in instantaneous]
    return [sum(weight * rest for weight, rest in zip(row, after, strict=True)) for row in permanent]


def position_law(law: Law, reports: int) -> list[list[int]]:
    """At one position: [bit of the mask][ones seen] -> weight of one such sequence, summed over both memos."""
    permanent, instantaneous = law
    assert isinstance(permanent, BitLaw)
    assert isinstance(instantaneous, BitLaw)

    def seen(rate: int, ones: int) -> int:
        return rate**ones * (UNITS - rate) ** (reports - ones)

    return [
        [
            kept * seen(instantaneous.when_one, ones) + (UNITS - kept) * seen(instantaneous.when_zero, ones)
            for ones in range(reports + 1)
        ]
        for kept in (permanent.when_zero, permanent.when_one)
    ]


def _outcomes(at_one: list[list[int]], masks: Iterable[int], width: int) -> list[tuple[int, ...]]:
    """Every outcome of independent positions under every mask: the product of what each shows, `at_one[bit][shown]`."""
    columns = []
    for mask in masks:
        weights = [1]
        for position in range(width):
            shown = at_one[mask >> position & 1]
            weights = [weight * factor for weight in weights for factor in shown]
        columns.append(weights)
    return list(zip(*columns, strict=True))


def _worst(weights: Sequence[Sequence[int]]) -> Fraction:
    """Rows are outcomes, columns masks. An outcome possible under one mask and impossible under another is infinite."""
    most, least = 0, 1
    for row in weights:
        high, low = max(row), min(row)
        if high:  # else it is impossible under every mask
            assert low, "an outcome rules out a mask"
            if high * least > most * low:
                most, least = high, low
    return Fraction(most, least)


def _product(factors: Iterable[int]) -> int:
    result = 1
    for factor in factors:
        result *= factor
    return result
