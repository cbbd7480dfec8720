"""Answers that change: the joint law of the truth flags behind all that an install ever says, for one epsilon.

A metric with `hold` is asked in one epoch of every `hold`, `answers` times in all. Before any answer exists, the
install draws a flag for each of them; where it is set the truth is told, elsewhere it is not. The flags z are drawn
together: independent ones, each set with probability a0, of which those with at least `threshold` set have the
probability p instead of q, all others 1 - p,

    P(z) = a0**|z| (1 - a0)**(W - |z|) x ( p/q if |z| >= threshold else (1 - p)/(1 - q) )
    q    = P(Bin(W, a0) >= threshold)

A flag is seen exactly as "this answer agrees". Sent as one of d categories, with a0 = 1/d, an answer is the true one or
any other at random; sent as bits, its own bit is the flag and every other one is set with probability a0. Either way a
whole transcript y has the probability N(y) g(number of flags on which y agrees with the history), where N knows nothing
of the history: all d**W transcripts alike, or all bits Bernoulli(a0). So the odds between any two histories, whatever
changes and how often, are at most max g / min g = p (1 - q) / ((1 - p) q). An answer in which no bit is set shows no
flag: an average of g. docs/privacy-model.md has the proof, tests/protocol/test_history.py all transcripts.

Everything is exact. p is a multiple of 2**-24, rounded down, which is the side of privacy; a0 is 1/d, drawn as a whole
number below d, or a multiple of 2**-24, because bits are drawn so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import Any

from hubbub.protocol.epsilon import exp_below
from hubbub.protocol.value import Value, cached_property

UNITS = 1 << 24
"""Of a probability that is drawn. (`channel` has the same number, and knows this module.)"""

LONGEST_HOLD = 1000
MOST_ANSWERS = 64
MOST_FLAGS = 256
"""Beyond these the law takes noticeable time to choose, and more answers have long ceased to be better."""


class History(Value, kw_only=True):
    """How the answers of an install's whole life are drawn. Fields are what a definition carries, but `items`, which
    follows from its shape."""

    hold: int  # one epoch out of this many is asked
    answers: int  # how often it is asked in all
    threshold: int  # tau: from how many flags set the probability is raised
    above: Fraction  # p: the probability that this many are set, or more
    chance: Fraction  # a0: how often an answer agrees that knows nothing of the truth
    categories: int | None = None  # d, where an answer is sent as one of this many; None: as bits
    items: int = 1  # the flags of one answer: of a set, one for each item asked about

    def _broken_rules(self) -> Iterator[str]:
        if not 1 <= self.hold <= LONGEST_HOLD:
            yield f"hold must be in [1, {LONGEST_HOLD}] epochs, got {self.hold}"
        if not 1 <= self.answers <= MOST_ANSWERS:
            yield f"max_values must be in [1, {MOST_ANSWERS}] where hold is set, got {self.answers}"
        elif not 1 <= self.items <= MOST_FLAGS // self.answers:
            yield f"max_values x items_per_report must be at most {MOST_FLAGS} where hold is set, got {self.flags}"
        elif not 1 <= self.threshold <= self.flags:
            yield f"threshold must be in [1, {self.flags}], the number of flags, got {self.threshold}"
        elif self.categories is not None and (self.categories < 2 or self.chance != Fraction(1, self.categories)):
            yield f"the flags of {self.categories} categories need a chance of one in as many, got {self.chance}"
        elif not 0 < self.chance <= Fraction(1, 2) or (self.categories is None and UNITS % self.chance.denominator):
            yield f"the chance of a flag must be a multiple of 2**-24 above 0 and at most 1/2, got {self.chance}"
        elif UNITS % self.above.denominator or not self.by_chance < self.above < 1:
            yield (
                f"above must be a multiple of 2**-24 between {self.by_chance}, what independent flags have, and 1, "
                f"got {self.above}"
            )

    @property
    def flags(self) -> int:
        """How many there are: W."""
        return self.answers * self.items

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """How likely each number of flags set is, were they independent: in whole units, which cancel."""
        return _weights(self.chance, self.flags)

    def side(self, above: bool) -> int:
        """The weight of all flags with at least `threshold` set, or of all others."""
        return sum(self.weights[self.threshold :] if above else self.weights[: self.threshold])

    @cached_property
    def by_chance(self) -> Fraction:
        """q: how often independent flags would reach the threshold."""
        return Fraction(self.side(True), sum(self.weights))

    @cached_property
    def count_law(self) -> tuple[Fraction, ...]:
        """The probability of each number of flags set. All flags with as many set are equally likely."""
        raised, lowered = self.above / self.side(True), (1 - self.above) / self.side(False)
        return tuple(weight * (raised if k >= self.threshold else lowered) for k, weight in enumerate(self.weights))

    @cached_property
    def truth(self) -> Fraction:
        """a1: how often a flag is set, so that the truth is told: E|z| / W."""
        return sum((k * law for k, law in enumerate(self.count_law)), Fraction(0)) / self.flags

    @cached_property
    def both_truths(self) -> Fraction:
        """r: how often two given flags are both set, E z_i z_j; not the square of `truth`, because flags are drawn
        together. (Of a single flag: that square.)"""
        if self.flags == 1:
            return self.truth**2
        pairs = sum((k * (k - 1) * law for k, law in enumerate(self.count_law)), Fraction(0))
        return pairs / (self.flags * (self.flags - 1))

    @cached_property
    def probabilities(self) -> tuple[Fraction, Fraction]:
        """Of the channel that one epoch is seen through: P(a position is set in a report | it is set in the mask, it is
        not)."""
        return self.truth, self.chance if self.categories is None else (1 - self.truth) / (self.categories - 1)

    @cached_property
    def worst_odds(self) -> Fraction:
        """e**epsilon_history, exactly: between any two histories, for one who has seen everything ever said."""
        return self._odds(self.flags)

    def odds_after(self, answers: int) -> Fraction:
        """The worst odds for one who has seen only this many answers."""
        return self._odds(min(answers, self.answers) * self.items)

    def _odds(self, seen: int) -> Fraction:
        """All flags seen agree, against none: what the unseen ones add is averaged over, as if independent."""
        rest = _weights(self.chance, self.flags - seen)
        raised, lowered = self.above / self.by_chance, (1 - self.above) / (1 - self.by_chance)

        def likely(agreeing: int) -> Fraction:
            each = (weight * (raised if k + agreeing >= self.threshold else lowered) for k, weight in enumerate(rest))
            return sum(each, Fraction(0))

        return likely(seen) / likely(0)


def variance(history: History, share: Fraction) -> Fraction:
    """n Var of a share as one epoch's reports show it: p (1 - p)/(q - p)**2 + share (1 - p - q)/(q - p)."""
    q, p = history.probabilities
    return p * (1 - p) / (q - p) ** 2 + share * (1 - p - q) / (q - p)


@lru_cache(maxsize=256)
def history_of_categories(epsilon: Fraction, hold: int, answers: int, categories: int, items: int = 1) -> History:
    """The least error for answers that are one of these categories, or yes or no for each of `items`.

    The threshold is the one with the least variance of a share of 1/categories. A variance is linear in the share, and
    all shares add up to 1: that is the least squared error of all of them together, whatever the shares are. Of equal
    ones the lowest threshold is taken.
    """
    found = _best([Fraction(1, categories)], epsilon, answers * items, Fraction(1, categories), categories)
    return History(hold=hold, answers=answers, items=items, categories=categories, **found)


@lru_cache(maxsize=256)
def history_of_bits(epsilon: Fraction, hold: int, answers: int, share: Fraction) -> History:
    """The least error for answers that set one bit of many, where the bits have this share on average.

    As above; a0 is free here, and tried in steps of at most a quarter: m / 2**j with m from 7 to 4, from 1/2 down to
    half of 1 / (answers x (1 + e**epsilon)), about which the best lies where shares are small.
    """
    least = 1 / (2 * answers * (1 + exp_below(epsilon)))
    steps = [Fraction(1, 2), *(Fraction(m, 1 << j) for j in range(4, 25) for m in (7, 6, 5, 4))]
    found = _best([a0 for a0 in steps if a0 >= least], epsilon, answers, share, None)
    return History(hold=hold, answers=answers, **found)


def category_history(epsilon: Fraction, hold: int, answers: int, categories: int) -> History:
    """The best of both for one of this many categories, where all are as common."""
    share = Fraction(1, categories)
    found = (
        history_of_categories(epsilon, hold, answers, categories),
        history_of_bits(epsilon, hold, answers, share),
    )
    return min(found, key=lambda history: variance(history, share))


def _best(chances: Iterable[Fraction], epsilon: Fraction, flags: int, share: Fraction, d: int | None) -> dict[str, Any]:
    """The chance, threshold and `above` with the least variance of this share; of equal ones the first chance, and the
    lowest threshold.

    In whole numbers without common factors sought, because an app waits for this when it starts: with a1 = x/of and the
    other probability y/of, the variance is (y (of - y) + share (of - x - y)(x - y)) / (x - y)**2.
    """
    e, e_of = exp_below(epsilon).as_integer_ratio()
    best: tuple[int, int, Fraction, int, int] | None = None
    for chance in chances:
        weights = _weights(chance, flags)
        total, sum_of_all = sum(weights), sum(k * weight for k, weight in enumerate(weights))
        upper = sum_above = 0
        for threshold in range(flags, 0, -1):
            upper, sum_above = upper + weights[threshold], sum_above + threshold * weights[threshold]
            lower = total - upper
            # p/(1 - p) <= e q/(1 - q), exactly: rounding down keeps it.
            above = UNITS * e * upper // (e_of * lower + e * upper)
            if above * total <= UNITS * upper:
                continue  # rounded to no more than independent flags have
            x = above * sum_above * lower + (UNITS - above) * (sum_of_all - sum_above) * upper
            of = UNITS * flags * upper * lower
            if d is None:
                x, of, y = x * chance.denominator, of * chance.denominator, of * chance.numerator
            else:
                x, of, y = x * (d - 1), of * (d - 1), of - x
            over = share.numerator * (of - x - y) * (x - y) + share.denominator * y * (of - y)
            under = share.denominator * (x - y) ** 2
            difference = -1 if best is None else over * best[1] - best[0] * under
            if best is None or difference < 0 or (difference == 0 and chance == best[2]):
                best = over, under, chance, threshold, above
    assert best is not None, "with the highest threshold there is always room between q and p"
    return {"chance": best[2], "threshold": best[3], "above": Fraction(best[4], UNITS)}


def _weights(chance: Fraction, flags: int) -> tuple[int, ...]:
    hit, miss = chance.numerator, chance.denominator - chance.numerator
    return tuple(comb(flags, k) * hit**k * miss ** (flags - k) for k in range(flags + 1))
