"""Choosing the noise: the least that keeps two epsilons, for one bit, many bits, one of k, or some of k.

Probabilities are rounded to multiples of 2**-24 towards privacy, and the exact odds are then compared with a rational
number just below e**epsilon: a stated epsilon is never exceeded. The formulas are derived in docs/privacy-model.md.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import comb

from hubbub.protocol.channel import (
    AS_IT_IS,
    FEWEST_CATEGORIES,
    MOST_CATEGORIES,
    SUBSET_PRECISION,
    UNIT,
    UNITS,
    BitChannel,
    Channel,
    Flips,
    KaryChannel,
    Noise,
    SubsetChannel,
)
from hubbub.protocol.epsilon import exp_below

_once_for_each = lru_cache(maxsize=256)  # metrics of a registry share their epsilons more often than not


@_once_for_each
def one_bit_noise(epsilon_one_report: Fraction, epsilon_permanent: Fraction, num_bits: int = 1) -> Noise:
    """The least noise for a single bit: symmetric in both stages (Warner 1965, twice). Of `num_bits` that can all
    differ from those of another answer, each gets its share of the epsilons."""
    a0 = _round_up(1 / (1 + exp_below(epsilon_permanent / num_bits)))
    return _with_symmetric_reports(
        BitChannel(1 - a0, a0),
        ((num_bits, 0), (0, num_bits)),
        epsilon_one_report,
        1 / (1 + exp_below(epsilon_one_report / num_bits)),
    )


@_once_for_each
def many_bit_noise(epsilon_one_report: Fraction, epsilon_permanent: Fraction, num_hashes: int) -> Noise:
    """The least noise for masks with `num_hashes` bits set of many (L-OSUE): permanent a1 = 1/2, symmetric reports.

    Then q* = 1/2 and p* = 1/(1 + e**epsilon_one_report), as if there were no memo at all: keeping it costs nothing.
    With several hashes each bit gets its share of the epsilons, because that many bits may be lost and gained.
    """
    a0 = _round_up(1 / (1 + exp_below(epsilon_permanent / num_hashes)))
    return _with_symmetric_reports(
        BitChannel(Fraction(1, 2), a0),
        ((num_hashes, num_hashes),),
        epsilon_one_report,
        1 / (1 + exp_below(epsilon_one_report / num_hashes)),
    )


@_once_for_each
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


def category_noise(epsilon_one_report: Fraction, epsilon_permanent: Fraction, categories: int, once: bool) -> Noise:
    """The least noise for one of these categories, sent as one of them, as bits or, where it is only ever told once,
    as a subset: one that is shown again would tell installs apart."""
    subsets = subset_noise(epsilon_one_report, categories) if once else None
    if subsets is not None:
        return subsets
    if prefers_kary(epsilon_one_report, categories):
        return kary_noise(epsilon_one_report, epsilon_permanent, categories)
    return many_bit_noise(epsilon_one_report, epsilon_permanent, 1)


def prefers_kary(epsilon_one_report: Fraction, categories: int) -> bool:
    """Whether a k-ary wire beats one wire per category: (d - 2 + E)/(E - 1)**2 < 4E/(E - 1)**2."""
    return categories < 3 * exp_below(epsilon_one_report) + 2


_FEWEST_UNITS = 1 << 12
"""Of a subset without the category sent: rounding down then costs less than a 2**-12th of the odds."""


@_once_for_each
def subset_noise(epsilon: Fraction, categories: int) -> Noise | None:
    """The least noise for a single report of one of this many categories: subsets of them, if these have less than one
    category or bits would have. None where they have not, or are too many to be drawn exactly."""
    if not FEWEST_CATEGORIES <= categories <= MOST_CATEGORIES:
        return None
    if prefers_kary(epsilon, categories):
        instead = kary_noise(epsilon, epsilon, categories)
    else:
        instead = many_bit_noise(epsilon, epsilon, 1)
    odds = exp_below(epsilon)
    # The best size is one of the two whole numbers beside d / (1 + E), or the largest that can be drawn, if less.
    best = None
    for size in range(2, min(int(categories / (1 + odds)) + 2, categories)):
        channel = _subsets_of(size, categories, odds)
        if channel is None:
            break
        if best is None or _variance(channel, categories) < _variance(best, categories):
            best = channel
    if best is None or _variance(best, categories) >= _variance(instead.composed, categories):
        return None
    return Noise(best, AS_IT_IS)


def _subsets_of(size: int, categories: int, odds: Fraction) -> SubsetChannel | None:
    """The clearest channel with these odds between subsets, or None where a number of 48 bits is too coarse for it."""
    units = Fraction(1 << SUBSET_PRECISION)
    other = int(units / (comb(categories - 1, size - 1) * odds + comb(categories - 1, size)))
    held = int(other * odds)  # rounded down: no subset tells more than was said
    return SubsetChannel(categories, size, held, other) if other >= _FEWEST_UNITS and held > other else None


def _variance(channel: Channel, categories: int) -> Fraction:
    """n Var of a share, where all are equal: p (1 - p)/(q - p)**2 + (1 - p - q)/((q - p) d)."""
    q, p = channel.probabilities
    return p * (1 - p) / (q - p) ** 2 + (1 - p - q) / ((q - p) * categories)


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
    return Fraction(probability.numerator * UNITS // probability.denominator, UNITS)


def _round_up(probability: Fraction) -> Fraction:
    return Fraction(-(-probability.numerator * UNITS // probability.denominator), UNITS)
