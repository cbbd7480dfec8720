"""Noisy wires with exact probabilities, and how much one may learn through them.

An answer crosses two channels. The *permanent* one is drawn once and its outcome (the memo) kept for life; the
*instantaneous* one is drawn afresh for every report. There are three sorts of wire: `BitChannel` carries each bit of
a mask by itself, `KaryChannel` carries one category out of few, `SubsetChannel` carries several that may hold the true
one, for metrics that are asked once. Probabilities are `Fraction`s; the two stages that a device draws are multiples
of 2**-24 (subsets: whole units, at most 2**48 in all), so that a draw is a comparison of random bits and never of
floats.

The formulas are derived in docs/privacy-model.md; they follow RAPPOR (Erlingsson, Pihur, Korolova 2014) for the
two-stage bit channel and L-OSUE (Arcolezi et al. 2022) for its best parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import comb

from hubbub.protocol.value import Value, cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubbub.protocol.history import History

PRECISION = 24
"""Binary digits of a probability that is drawn on a device."""

UNITS = 1 << PRECISION
UNIT = Fraction(1, UNITS)

SUBSET_PRECISION = 48
"""Binary digits of the random number that chooses a subset. As a JSON number it is exact in every language."""

FEWEST_CATEGORIES = 3
MOST_CATEGORIES = 256
"""Of a subset channel. Of two, one is sent anyway; of many, subsets are too many for 2**48 units, and bits nearly as
good."""

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


class SubsetChannel(Value):
    """Carries one of `categories` as `size` of them, all different (subset selection: Wang et al. 2016; Ye, Barg 2018).

    Every subset that holds the category sent arrives with `held` units, every other with `other`; `units` are all of
    them together. So no subset is more than held / other times as likely under one category as under another.

    It is for a single report: a subset that is shown again would tell installs apart, and nothing is drawn on top.
    """

    categories: int
    size: int
    held: int
    other: int

    def _broken_rules(self) -> Iterator[str]:
        if not FEWEST_CATEGORIES <= self.categories <= MOST_CATEGORIES:
            limits = f"from {FEWEST_CATEGORIES} to {MOST_CATEGORIES}"
            yield f"a subset channel needs {limits} categories, got {self.categories}"
        elif not 2 <= self.size < self.categories:
            yield f"a subset's size must be at least 2 and below categories={self.categories}, got {self.size}"
        elif not 0 < self.other < self.held:
            yield f"a subset channel needs 0 < other < held, got other={self.other}, held={self.held}"
        elif self.units > 1 << SUBSET_PRECISION:
            yield f"the units of all subsets must be at most 2**{SUBSET_PRECISION}, got {self.units}"

    @cached_property
    def with_sent(self) -> int:
        """How many subsets hold a given category."""
        return comb(self.categories - 1, self.size - 1)

    @cached_property
    def without_sent(self) -> int:
        """How many do not."""
        return comb(self.categories - 1, self.size)

    @cached_property
    def units(self) -> int:
        """Of all subsets together: a draw is a number below it."""
        return self.with_sent * self.held + self.without_sent * self.other

    @cached_property
    def probabilities(self) -> tuple[Fraction, Fraction]:
        """P(a category is in the report | it was sent, another was sent)."""
        w, others = self.size, self.categories - 1
        if_held, if_not = self.with_sent * self.held, self.without_sent * self.other
        return Fraction(if_held, self.units), Fraction(if_held * (w - 1) + if_not * w, others * self.units)

    @property
    def pairs(self) -> tuple[Fraction, Fraction]:
        """P(two categories are both in the report | one of them was sent, neither was)."""
        w, others = self.size, self.categories - 1
        q = self.probabilities[0]
        neither = (q * (w - 1) * (w - 2) + (1 - q) * w * (w - 1)) / (others * (others - 1))
        return q * (w - 1) / others, neither


Channel = BitChannel | KaryChannel | SubsetChannel
AS_IT_IS = BitChannel(Fraction(1), Fraction(0))
"""The instantaneous stage behind a subset: there is only one report, and nothing to add to it."""


class Noise(Value):
    """The two channels an answer crosses. Both are drawable, and the permanent one never gives certainty.

    With a `history`, nothing is kept and nothing is drawn twice: the permanent channel is what one epoch shows of it by
    itself, and is not drawn; the instantaneous one changes nothing.
    """

    permanent: Channel
    instantaneous: Channel
    history: History | None = None

    @classmethod
    def of_history(cls, history: History, categories: int | None) -> Noise:
        """That of a question which is sent as one of this many categories (None: as bits)."""
        q, p = history.probabilities
        if categories is None:
            return cls(BitChannel(q, p), AS_IT_IS, history)
        return cls(KaryChannel(categories, q, p), KaryChannel(categories, Fraction(1), Fraction(0)), history)

    def _broken_rules(self) -> Iterator[str]:
        if self.history is not None:
            return
        if isinstance(self.permanent, SubsetChannel):
            if self.instantaneous != AS_IT_IS:
                yield "a subset must be reported as it is: the instantaneous channel must be when_one=1, when_zero=0"
            return
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

    @cached_property
    def composed(self) -> Channel:
        """The channel from a mask to one report."""
        match self.permanent, self.instantaneous:
            case BitChannel() as first, BitChannel() as second:
                return first.then(second)
            case KaryChannel() as first, KaryChannel() as second:
                return first.then(second)
            case SubsetChannel() as only, _:
                return only
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
        """e**epsilon_permanent, exactly: the worst odds between two masks for one who sees the memo itself. With a
        history, between any two histories for one who has seen everything."""
        if self.history is not None:
            return self.history.worst_odds
        return self._odds(flips, (1, 0), (0, 1))

    def odds_after(self, reports: int, flips: Flips) -> Fraction:
        """e**epsilon_T, exactly: the worst odds between two masks after this many reports on one memo.

        The likelihood ratio rises with the number of ones seen at a position, so the worst evidence is that every
        report shows a 1 where the bit was lost, and a 0 where it was gained (for a k-ary wire: the same category
        every time). With a history: after this many answers.
        """
        if self.history is not None:
            return self.history.odds_after(reports)
        q, p = self.instantaneous_units
        return self._odds(flips, (q**reports, p**reports), ((UNITS - q) ** reports, (UNITS - p) ** reports))

    def _odds(self, flips: Flips, ones: Units, zeros: Units) -> Fraction:
        """`ones` and `zeros` are evidence: its likelihood if the memo's bit is set, and if it is not, in any unit.

        All of it is computed in whole units, which cancel: an app waits for this when it starts.
        """
        match self.permanent:
            case BitChannel():
                a1, a0 = self.permanent_units
                lost, kept = _mixture(a1, ones), _mixture(a0, ones)
                gained, without = _mixture(a0, zeros), _mixture(a1, zeros)
                return max(Fraction(lost**away * gained**new, kept**away * without**new) for away, new in flips)
            case KaryChannel(d):
                truth, other = self.permanent_units
                said, unsaid = ones
                likely = truth * said + (d - 1) * other * unsaid
                return Fraction(likely, other * said + (truth + (d - 2) * other) * unsaid)
            case SubsetChannel(held=held, other=other_units):
                return Fraction(held, other_units)  # however often it is shown: it is shown as it is


def _in_units(channel: Channel) -> Units:
    high, low = channel.probabilities
    assert UNITS % high.denominator == 0 == UNITS % low.denominator, "what a history shows in one epoch is not drawn"
    return high.numerator * (UNITS // high.denominator), low.numerator * (UNITS // low.denominator)


def _mixture(weight: int, likelihoods: Units) -> int:
    return weight * likelihoods[0] + (UNITS - weight) * likelihoods[1]


def _not_drawable(stage: str, probabilities: Iterable[Fraction]) -> Iterator[str]:
    for probability in probabilities:
        if UNITS % probability.denominator:
            yield f"the {stage} channel must have multiples of 2**-{PRECISION}, got {probability}"
