"""How a crowd hides one report: what counts of noisy reports tell about one of them to a reader of the counts alone.

The reader is granted every kept answer of everybody else. Their reports are then noise through the *instantaneous*
channel only, fresh in every epoch, whoever takes part. Of such a report a part is the same whatever was kept (its
"privacy blanket", Balle and others 2019): that part is a coin of known odds, and the rest is granted to the reader as
well. What is left to compare is one report among so many coins. Nothing is assumed about who joins, leaves or changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, sqrt

import numpy as np
import scipy  # its larger parts are loaded where they are asked for: half of a command's start

from hubbub.analysis.accounting.privacy_loss import PrivacyLoss
from hubbub.analysis.arrays import Array, Index, Mask
from hubbub.protocol.channel import BitChannel, Channel, KaryChannel

_TAIL = 1e-16
_MOST_BANDS = 48
_OUTCOMES = 250_000  # of all bands together: a quarter of a second
_FINENESS = 16

Both = tuple[PrivacyLoss, PrivacyLoss]
"""The privacy loss of the one answer against the other, and of the other against the one."""


@lru_cache(maxsize=64)  # of each metric a label has bounds and curves, of the same crowds
def crowd_loss(channel: Channel, others: int) -> Both | None:
    """What the counts of one release tell about which of two answers one report had, beside so many others: of a bit
    channel about one bit, of a k-ary one about two categories. None where the channel leaves no blanket, or is
    of another sort."""
    high, low = (float(p) for p in channel.probabilities)
    match channel:
        case BitChannel():
            blanket = min(high, low) + min(1 - high, 1 - low)
            if not blanket > 0 or low == 0 or high == 1:
                return None
            odds = min(high, low) / blanket
            # Of a large crowd few bands are as good as many: what they differ in is a smaller part of it.
            coins, weight = _bands(others, blanket, min(_MOST_BANDS, ceil(_OUTCOMES / _width(blanket * others, odds))))
            return _loss([_BesideCoins(coins, weight, np.full(len(coins), high), np.full(len(coins), low))], odds)
        case KaryChannel(categories=categories):
            if low == 0:
                return None
            blanket = low * categories
            # Bands of bands: as many as leave so many outcomes, each band being as wide as its coins make it.
            most = min(_MOST_BANDS, ceil(sqrt(_OUTCOMES / _width(2 * low * others, 0.5))))
            coins, weight = _bands(others, blanket, most)
            cases = [_two_categories(high, low, categories, number, most) for number in coins.tolist()]
            return _loss([case.times(part) for case, part in zip(cases, weight.tolist(), strict=True)], 0.5)
    return None


def fewest(installs: int, groups: int, chance: float) -> int:
    """At least so many others are in one install's group, but for this chance: groups are drawn once, for life."""
    if groups == 1:
        return installs - 1
    return max(0, int(scipy.stats.binom.ppf(chance, installs - 1, 1 / groups)) - 1)


@dataclass(frozen=True, slots=True)
class _BesideCoins:
    """One bit beside so many coins, in each of several cases that the reader is told apart: how likely the case is, and
    how likely the bit is 1 for the one answer and for the other."""

    coins: Index
    weight: Array
    one: Array
    other: Array

    def times(self, chance: float) -> _BesideCoins:
        return replace(self, weight=self.weight * chance)


def _bands(others: int, blanket: float, most: int) -> tuple[Index, Array]:
    """The law of how many coins there are, in bands; each stands at its lower end, as fewer coins hide less."""
    edges = np.append(_edges(others, blanket, most), others + 1)
    return edges[:-1], np.diff(scipy.stats.binom.cdf(edges - 1, others, blanket))


def _edges(trials: int, chance: float, most: int) -> Index:
    """Where bands of a binomial number begin, the first at 0: narrow within three deviations, where nearly all of it
    is, and wider as far as there is anything at all."""
    if not trials:
        return np.zeros(1, dtype=np.int64)
    far, near = trials * chance, 3 * sqrt(trials * chance * (1 - chance))
    low, high = (int(end(_TAIL, trials, chance)) for end in (scipy.stats.binom.ppf, scipy.stats.binom.isf))
    few = most // 6 + 2
    found = np.concatenate(
        [
            [0],
            np.linspace(low, max(far - near, low), few),
            np.linspace(max(far - near, low), min(far + near, high), most),
            np.linspace(min(far + near, high), high + 1, few),
        ]
    )
    return np.unique(np.clip(found.astype(np.int64), 0, trials))


def _two_categories(truth: float, other: float, categories: int, coins: int, most: int) -> _BesideCoins:
    """How often the two categories in question come among so many even coins and one report that is in the one with
    probability `truth`, or in the other; anywhere else as likely either way.

    Given that both together come s times, the report is one of these with probability r(s), which rises with s. So they
    are s - 1 fair coins and a bit that names the right one with probability 1/2 + r(s) (truth / either - 1/2), either =
    truth + other: exactly a bit beside coins. Bands of s stand at the fewest coins and the clearest bit that they have.
    """
    either = truth + other

    def clear(s: Index) -> Array:
        of_report = either * s / (2 * other * (coins + 1 - s) + either * s)
        return np.asarray(0.5 + of_report * (truth / either - 0.5))

    starts = np.unique(np.append(_edges(coins, 2 / categories, most), [0, coins + 1]))
    edges = np.append(starts, coins + 2)
    # P(fewer than s): the report is one more with probability `either`.
    without, with_it = (scipy.stats.binom.cdf(edges - less, coins, 2 / categories) for less in (1, 2))
    one = clear(edges[1:] - 1)
    return _BesideCoins(np.maximum(starts - 1, 0), np.diff((1 - either) * without + either * with_it), one, 1 - one)


def _loss(cases: Sequence[_BesideCoins], odds: float) -> Both:
    """Which case it is, the reader is told. Outcomes cut off the laws' ends count as certain."""
    coins, weight, one, other = (
        np.concatenate([getattr(case, name) for case in cases]) for name in ("coins", "weight", "one", "other")
    )
    case, ones, last = _support(coins, odds)
    law = np.where(last, 0.0, scipy.stats.binom.pmf(ones, coins[case], odds))
    with_one = np.insert(law[:-1], 0, 0.0)  # each case ends with a 0, with which the next begins here
    p, q = (weight[case] * ((1 - bit) * law + bit * with_one) for bit in (one[case], other[case]))
    both = (p > 0) & (q > 0)
    loss = np.log(p[both] / q[both])
    step = max(float(np.sqrt(p[both] @ loss**2)), 1e-12) / _FINENESS
    missing = np.array([max(0.0, 1 - float(p.sum())), 0.0]), np.array([0.0, max(0.0, 1 - float(q.sum()))])
    p, q = np.concatenate([p, missing[0]]), np.concatenate([q, missing[1]])
    return PrivacyLoss.of(p, q, step), PrivacyLoss.of(q, p, step)


def _width(coins: float, odds: float) -> int:
    """How many outcomes one band of so many coins has."""
    return len(_support(np.array([int(coins)]), odds)[1])


def _support(coins: Index, odds: float) -> tuple[Index, Index, Mask]:
    """For each case the counts of ones that there may be, the bit's included: which case, the count, and whether it is
    the last, which coins alone do not reach."""
    low = np.where(coins > 0, np.maximum(scipy.stats.binom.ppf(_TAIL, coins, odds) - 1, 0), 0).astype(np.int64)
    high = np.where(coins > 0, np.minimum(scipy.stats.binom.isf(_TAIL, coins, odds) + 1, coins), 0).astype(np.int64)
    size = high - low + 2
    case = np.repeat(np.arange(len(coins)), size)
    ones = np.arange(len(case)) - (np.cumsum(size) - size)[case] + low[case]
    return case, ones, ones > high[case]
