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
from dataclasses import dataclass, field
from fractions import Fraction

from hubbub.protocol.epsilon import exp_below
from hubbub.protocol.invalid import require

PRECISION = 24
"""Binary digits of a probability that is drawn on a device."""

UNITS = 1 << PRECISION
UNIT = Fraction(1, UNITS)

Units = tuple[int, int]
"""A drawable channel's two probabilities, in units of 2**-24."""

Flips = tuple[tuple[int, int], ...]
"""How two masks of one install can differ, as (bits lost, bits gained): the pairs that no other pair exceeds."""


@dataclass(frozen=True, slots=True)
class BitChannel:
    """Carries one bit: a 1 arrives with probability `when_one` if 1 was sent, `when_zero` if 0 was sent."""

    when_one: Fraction
    when_zero: Fraction

    def __post_init__(self) -> None:
        require(_broken_rules_of_a_bit_channel(self))

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


@dataclass(frozen=True, slots=True)
class KaryChannel:
    """Carries one of `categories`: it arrives itself with probability `truth`, as each other one with `other`."""

    categories: int
    truth: Fraction
    other: Fraction

    def __post_init__(self) -> None:
        require(_broken_rules_of_a_kary_channel(self))

    def then(self, later: KaryChannel) -> KaryChannel:
        """Two k-ary channels in a row are again one: the truth survives both, or is lost and found again."""
        others = self.categories - 1
        truth = self.truth * later.truth + others * self.other * later.other
        return KaryChannel(self.categories, truth, (1 - truth) / others)

    @property
    def probabilities(self) -> tuple[Fraction, Fraction]:
        return self.truth, self.other


Channel = BitChannel | KaryChannel


@dataclass(frozen=True, slots=True)
class Noise:
    """The two channels an answer crosses. Both are drawable, and the permanent one never gives certainty."""

    permanent: Channel
    instantaneous: Channel
    permanent_units: Units = field(init=False, repr=False, compare=False)
    instantaneous_units: Units = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require(_broken_rules_of_noise(self))
        object.__setattr__(self, "permanent_units", _in_units(self.permanent))
        object.__setattr__(self, "instantaneous_units", _in_units(self.instantaneous))

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


# --- choosing the noise -------------------------------------------------------------------------------------------


def one_bit_noise(epsilon_one_report: Fraction, epsilon_permanent: Fraction) -> Noise:
    """The least noise for a single bit: symmetric in both stages (Warner 1965, twice)."""
    a0 = _round_up(1 / (1 + exp_below(epsilon_permanent)))
    return _with_symmetric_reports(
        BitChannel(1 - a0, a0), ((1, 0), (0, 1)), epsilon_one_report, 1 / (1 + exp_below(epsilon_one_report))
    )


def many_bit_noise(epsilon_one_report: Fraction, epsilon_permanent: Fraction, num_hashes: int) -> Noise:
    """The least noise for masks with `num_hashes` bits set of many (L-OSUE): permanent a1 = 1/2, symmetric reports.

    Then q* = 1/2 and p* = 1/(1 + e**epsilon_one_report), as if there were no memo at all: keeping it costs nothing.
    With several hashes each bit gets its share of the epsilons, for that many bits may be lost and gained.
    """
    a0 = _round_up(1 / (1 + exp_below(epsilon_permanent / num_hashes)))
    return _with_symmetric_reports(
        BitChannel(Fraction(1, 2), a0),
        ((num_hashes, num_hashes),),
        epsilon_one_report,
        1 / (1 + exp_below(epsilon_one_report / num_hashes)),
    )


def kary_noise(epsilon_one_report: Fraction, epsilon_permanent: Fraction, categories: int) -> Noise:
    """k-ary randomized response twice, the second stage as clear as epsilon_one_report allows."""
    permanent = _kary(categories, 1 / (exp_below(epsilon_permanent) + categories - 1))
    bound = exp_below(epsilon_one_report)
    wanted = bound / (bound + categories - 1)
    truth = min(Fraction(1), (wanted - permanent.other) / (permanent.truth - permanent.other))
    later = (1 - truth) / (categories - 1)
    while (noise := Noise(permanent, _kary(categories, later))).odds_after(1, ()) > bound:
        later = _round_up(later) + UNIT
    return noise


def rappor_noise(prob_f: Fraction, prob_p: Fraction, prob_q: Fraction) -> Noise:
    """RAPPOR's own parameters, as given: the memo lies with probability f, reports show 1 with q or p."""
    return Noise(
        BitChannel(_round_down(1 - prob_f / 2), _round_up(prob_f / 2)),
        BitChannel(_round_down(prob_q), _round_up(prob_p)),
    )


def prefers_kary(epsilon_one_report: Fraction, categories: int) -> bool:
    """Whether a k-ary wire beats one wire per category: (d - 2 + E)/(E - 1)**2 < 4E/(E - 1)**2."""
    return categories < 3 * exp_below(epsilon_one_report) + 2


def _with_symmetric_reports(permanent: BitChannel, flips: Flips, epsilon: Fraction, p_star: Fraction) -> Noise:
    """The clearest instantaneous stage with p = 1 - q that gives this p* and keeps one report under epsilon."""
    a0 = permanent.when_zero
    q = _round_down(min(Fraction(1), (1 - a0 - p_star) / (1 - 2 * a0)))
    bound = exp_below(epsilon)
    while (noise := Noise(permanent, BitChannel(q, 1 - q))).odds_after(1, flips) > bound:
        q -= UNIT
    return noise


def _kary(categories: int, other: Fraction) -> KaryChannel:
    """`other` is rounded up and the truth gets what remains: one random number below 2**24 decides all."""
    other = _round_up(other)
    return KaryChannel(categories, 1 - (categories - 1) * other, other)


def _round_down(probability: Fraction) -> Fraction:
    return Fraction(probability * UNITS // 1, UNITS)


def _round_up(probability: Fraction) -> Fraction:
    return Fraction(-(-probability * UNITS // 1), UNITS)


# --- rules --------------------------------------------------------------------------------------------------------


def _broken_rules_of_a_bit_channel(channel: BitChannel) -> Iterator[str]:
    if not 0 <= channel.when_zero < channel.when_one <= 1:
        yield (
            "a bit channel needs 0 <= when_zero < when_one <= 1, "
            f"got when_zero={channel.when_zero}, when_one={channel.when_one}"
        )


def _broken_rules_of_a_kary_channel(channel: KaryChannel) -> Iterator[str]:
    if channel.categories < 2:
        yield f"categories must be at least 2, got {channel.categories}"
    if not 0 <= channel.other < channel.truth <= 1:
        yield f"a k-ary channel needs 0 <= other < truth <= 1, got other={channel.other}, truth={channel.truth}"
    if channel.truth + (channel.categories - 1) * channel.other != 1:
        yield f"truth + {channel.categories - 1} x other must be 1, got truth={channel.truth}, other={channel.other}"


def _broken_rules_of_noise(noise: Noise) -> Iterator[str]:
    if type(noise.permanent) is not type(noise.instantaneous):
        yield "the permanent and the instantaneous channel must be of one sort"
    match noise.permanent, noise.instantaneous:
        case KaryChannel(categories=first), KaryChannel(categories=second) if first != second:
            yield f"both channels must have the same number of categories, got {first} and {second}"
    high, low = noise.permanent.probabilities
    if low == 0 or high == 1:
        yield f"the permanent channel must leave doubt: its probabilities must lie between 0 and 1, got {low}, {high}"
    yield from _not_drawable("permanent", noise.permanent.probabilities)
    yield from _not_drawable("instantaneous", noise.instantaneous.probabilities)


def _not_drawable(stage: str, probabilities: Iterable[Fraction]) -> Iterator[str]:
    for probability in probabilities:
        if UNITS % probability.denominator:
            yield f"the {stage} channel must have multiples of 2**-{PRECISION}, got {probability}"
