"""How a crowd hides one report: what counts of noisy reports tell about one of them to a reader of the counts alone.

The reader is granted every kept answer of everybody else. Their reports are then noise through the *instantaneous*
channel only, fresh in every epoch, whoever takes part. Of such a report a part is the same whatever was kept (its
"privacy blanket", Balle and others 2019): that part is a coin of known odds, and the rest is granted to the reader as
well. What is left to compare is one report among so many coins. Nothing is assumed about who joins, leaves or changes.
"""

from __future__ import annotations

import numpy as np
import scipy  # its larger parts are loaded where they are asked for: half of a command's start

from hubbub.analysis.accounting.privacy_loss import PrivacyLoss
from hubbub.analysis.arrays import Array, Index
from hubbub.protocol.channel import BitChannel, Channel, KaryChannel

_TAIL = 1e-16
_BANDS = 48
_FINENESS = 16
_MOST_PAIRS = 3_000_000

Both = tuple[PrivacyLoss, PrivacyLoss]
"""The privacy loss of the one answer against the other, and of the other against the one."""


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
            bands, odds = _bands(others, blanket, _BANDS), min(high, low) / blanket
            return _mixture([_bit_laws(high, low, odds, coins) for coins, _ in bands], [w for _, w in bands])
        case KaryChannel(categories=categories):
            if low == 0:
                return None
            blanket = low * categories
            # Outcomes are pairs of counts here: as many bands as memory likes.
            most = max(1, min(_BANDS, _MOST_PAIRS // (len(_support(others, 1 / categories)) + 1) ** 2))
            bands = _bands(others, blanket, most)
            return _mixture([_kary_laws(high, low, categories, coins) for coins, _ in bands], [w for _, w in bands])
    return None


def fewest(installs: int, groups: int, chance: float) -> int:
    """At least so many others are in one install's group, but for this chance: groups are drawn once, for life."""
    if groups == 1:
        return installs - 1
    return max(0, int(scipy.stats.binom.ppf(chance, installs - 1, 1 / groups)) - 1)


def _bands(others: int, blanket: float, most: int) -> list[tuple[int, float]]:
    """The law of how many coins there are, in bands; each stands at its lower end, for fewer coins hide less."""
    low = int(scipy.stats.binom.ppf(_TAIL, others, blanket)) if others else 0
    high = int(scipy.stats.binom.isf(_TAIL, others, blanket)) if others else 0
    edges = np.unique(np.linspace(low, high + 1, min(most, high + 1 - low) + 1).astype(np.int64))
    ends = scipy.stats.binom.cdf(edges - 1, others, blanket)
    weights = np.diff(ends)
    weights[-1] += 1 - ends[-1]
    bands = list(zip(edges[:-1].tolist(), weights.tolist(), strict=True))
    return bands if ends[0] == 0 else [(0, float(ends[0])), *bands]


def _bit_laws(high: float, low: float, odds: float, coins: int) -> tuple[Array, Array]:
    """The count of ones among the coins, with one bit that is 1 with probability `high`, or `low`."""
    ones = _support(coins, odds)
    law = scipy.stats.binom.pmf(ones, coins, odds)
    padded, shifted = np.append(law, 0.0), np.insert(law, 0, 0.0)
    return (1 - high) * padded + high * shifted, (1 - low) * padded + low * shifted


def _kary_laws(truth: float, other: float, categories: int, coins: int) -> tuple[Array, Array]:
    """The counts of the two categories in question among even coins, and one report that is in one of them with
    probability `truth`, or in the other; anywhere else as likely either way."""
    a = _support(coins, 1 / categories)
    size = len(a) + 1
    first = scipy.stats.binom.pmf(a, coins, 1 / categories)
    rest = coins - a
    b = np.arange(int(a[0]), int(a[-1]) + 1)
    second = scipy.stats.binom.pmf(b[None, :], rest[:, None], 1 / (categories - 1))
    law = np.zeros((size, size))
    law[:-1, :-1] = first[:, None] * second
    in_first, in_second = np.roll(law, 1, axis=0), np.roll(law, 1, axis=1)
    elsewhere = (categories - 2) * other * law
    p = truth * in_first + other * in_second + elsewhere
    q = other * in_first + truth * in_second + elsewhere
    return p.ravel(), q.ravel()


def _support(coins: int, odds: float) -> Index:
    low = max(0, int(scipy.stats.binom.ppf(_TAIL, coins, odds)) - 1) if coins else 0
    high = min(coins, int(scipy.stats.binom.isf(_TAIL, coins, odds)) + 1) if coins else 0
    return np.arange(low, high + 1)


def _mixture(laws: list[tuple[Array, Array]], weights: list[float]) -> Both:
    """Which band it is, the reader is told. Outcomes cut off the laws' ends count as certain."""
    p = np.concatenate([weight * law[0] for law, weight in zip(laws, weights, strict=True)])
    q = np.concatenate([weight * law[1] for law, weight in zip(laws, weights, strict=True)])
    both = (p > 0) & (q > 0)
    loss = np.log(p[both] / q[both])
    step = float(np.sqrt(p[both] @ loss**2)) / _FINENESS
    missing = np.array([max(0.0, 1 - float(p.sum())), 0.0]), np.array([0.0, max(0.0, 1 - float(q.sum()))])
    p, q = np.concatenate([p, missing[0]]), np.concatenate([q, missing[1]])
    return PrivacyLoss.of(p, q, step), PrivacyLoss.of(q, p, step)
