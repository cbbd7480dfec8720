"""Noisy wires with exact probabilities, and how much one may learn through them.

An answer crosses two channels. The *permanent* one is drawn once and its outcome (the memo) kept for life; the
*instantaneous* one is drawn afresh for every report. There are two sorts of wire: `BitChannel` carries each bit of
a mask by itself, `KaryChannel` carries one category out of few. Probabilities are `Fraction`s; the two stages that
a device draws are multiples of 2**-24, so that a draw is a comparison of random bits and never of floats.

The formulas are derived in docs/privacy-model.md; they follow RAPPOR (Erlingsson, Pihur, Korolova 2014) for the
two-stage bit channel and L-OSUE (Arcolezi et al. 2022) for its best parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cached_property

from hubbub.protocol.value import Value

PRECISION = 24
"""Binary digits of a probability that is drawn on a device."""

UNITS = 1 << PRECISION
UNIT = Fraction(1, UNITS)

Units = tuple[int, int]
"""A drawable channel's two probabilities, in units of 2**-24."""

Flips = tuple[tuple[int, int], ...]
"""How two masks of one install can differ, as (bits lost, bits gained): the pairs that no other pair exceeds."""


class BitChannel(Value):
    """Carries one bit: a 1 arrives with probability `when_one` if 1 was sent, `when_zero` if 0 was sent."""

    when_one: Fraction
    when_zero: Fraction

    def _broken_rules(self) -> Iterator[str]:
        if not 0 <= self.when_zero < self.when_one <= 1:
            yield (
                "a bit channel needs 0 <= when_zero < when_one <= 1, "
                f"got when_zero={self.when_zero}, when_one={self.when_one}"
            )

    def then(self, later: BitChannel) -> BitChannel:
        """This channel followed by another: RAPPOR's q* and p* if this is the permanent one (its section 4)."""
        q, p = later.when_one, later.when_zero
        return BitChannel(
            when_one=self.when_one * q + (1 - self.when_one) * p,
            when_zero=self.when_zero * q + (1 - self.when_zero) * p,
        )

    @property
    def probabilities(self) -> tuple[Fraction, Fraction]:
        return self.when_one, self.when_zero


class KaryChannel(Value):
    """Carries one of `categories`: it arrives itself with probability `truth`, as each other one with `other`."""

    categories: int
    truth: Fraction
    other: Fraction

    def _broken_rules(self) -> Iterator[str]:
        if self.categories < 2:
            yield f"categories must be at least 2, got {self.categories}"
        if not 0 <= self.other < self.truth <= 1:
            yield f"a k-ary channel needs 0 <= other < truth <= 1, got other={self.other}, truth={self.truth}"
        if self.truth + (self.categories - 1) * self.other != 1:
            yield f"truth + {self.categories - 1} x other must be 1, got truth={self.truth}, other={self.other}"

    def then(self, later: KaryChannel) -> KaryChannel:
        """Two k-ary channels in a row are again one: the truth survives both, or is lost and found again."""
        others = self.categories - 1
        truth = self.truth * later.truth + others * self.other * later.other
        return KaryChannel(self.categories, truth, (1 - truth) / others)

    @property
    def probabilities(self) -> tuple[Fraction, Fraction]:
        return self.truth, self.other


Channel = BitChannel | KaryChannel


class Noise(Value):
    """The two channels an answer crosses. Both are drawable, and the permanent one never gives certainty."""

    permanent: Channel
    instantaneous: Channel

    def _broken_rules(self) -> Iterator[str]:
        if type(self.permanent) is not type(self.instantaneous):
            yield "the permanent and the instantaneous channel must be of one sort"
        match self.permanent, self.instantaneous:
            case KaryChannel(categories=first), KaryChannel(categories=second) if first != second:
                yield f"both channels must have the same number of categories, got {first} and {second}"
        high, low = self.permanent.probabilities
        if low == 0 or high == 1:
            yield (
                f"the permanent channel must leave doubt: its probabilities must lie between 0 and 1, got {low}, {high}"
            )
        yield from _not_drawable("permanent", self.permanent.probabilities)
        yield from _not_drawable("instantaneous", self.instantaneous.probabilities)

    @cached_property
    def permanent_units(self) -> Units:
        return _in_units(self.permanent)

    @cached_property
    def instantaneous_units(self) -> Units:
        return _in_units(self.instantaneous)

    @property
    def composed(self) -> Channel:
        """The channel from a mask to one report."""
        match self.permanent, self.instantaneous:
            case BitChannel() as first, BitChannel() as second:
                return first.then(second)
            case KaryChannel() as first, KaryChannel() as second:
                return first.then(second)
        raise AssertionError("unreachable: both stages are of one sort")

    @property
    def q_star(self) -> Fraction:
        """P(a position is set in a report | it is set in the mask)."""
        return self.composed.probabilities[0]

    @property
    def p_star(self) -> Fraction:
        """P(a position is set in a report | it is not set in the mask)."""
        return self.composed.probabilities[1]

    def odds_permanent(self, flips: Flips) -> Fraction:
        """e**epsilon_permanent, exactly: the worst odds between two masks for one who sees the memo itself."""
        return self._odds(flips, (Fraction(1), Fraction(0)), (Fraction(0), Fraction(1)))

    def odds_after(self, reports: int, flips: Flips) -> Fraction:
        """e**epsilon_T, exactly: the worst odds between two masks after so many reports on one memo.

        The likelihood ratio rises with the number of ones seen at a position, so the worst evidence is that every
        report shows a 1 where the bit was lost, and a 0 where it was gained (for a k-ary wire: the same category
        every time).
        """
        q, p = self.instantaneous.probabilities
        return self._odds(flips, (q**reports, p**reports), ((1 - q) ** reports, (1 - p) ** reports))

    def _odds(self, flips: Flips, ones: tuple[Fraction, Fraction], zeros: tuple[Fraction, Fraction]) -> Fraction:
        """`ones` and `zeros` are evidence: its likelihood if the memo's bit is set, and if it is not."""
        match self.permanent:
            case BitChannel(a1, a0):
                lost = _mixture(a1, ones) / _mixture(a0, ones)
                gained = _mixture(a0, zeros) / _mixture(a1, zeros)
                return max(lost**away * gained**new for away, new in flips)
            case KaryChannel(d, truth, other):
                said, unsaid = ones
                return (truth * said + (d - 1) * other * unsaid) / (other * said + (truth + (d - 2) * other) * unsaid)


def _in_units(channel: Channel) -> Units:
    high, low = channel.probabilities
    return int(high * UNITS), int(low * UNITS)


def _mixture(weight: Fraction, likelihoods: tuple[Fraction, Fraction]) -> Fraction:
    return weight * likelihoods[0] + (1 - weight) * likelihoods[1]


def _not_drawable(stage: str, probabilities: Iterable[Fraction]) -> Iterator[str]:
    for probability in probabilities:
        if UNITS % probability.denominator:
            yield f"the {stage} channel must have multiples of 2**-{PRECISION}, got {probability}"
