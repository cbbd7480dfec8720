"""What counts prove about an epsilon, with a stated price of being wrong.

For any event S, epsilon is at least ln(P(S | one value) / P(S | another)). Exact binomial bounds (Clopper and Pearson
1934) on the two probabilities turn counts into a lower bound on epsilon. It proves "at least so much is told" and never
"at most": a claim fails where the bound exceeds it, and also where the bound strays from what the claimed law would
have shown in as many trials, because then something else than the claimed law was drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import inf

import numpy as np
from scipy import stats

from hubbub.analysis.arrays import Array

ALPHA = 1e-4
"""How likely a whole run says that a true claim is exceeded: all its tests together."""

STRAY = 4.0
"""Standard deviations of a normal law beyond which a bound strays: under the expected one, or above it while still
under the claim. Compared is how rarely a bound lies so far out, by exact sums: of few counts it is far from normal."""

_LogBound = Callable[[Array, int, float], Array]
_FAR = 9.0  # standard deviations: what lies beyond weighs less than 1e-18


@dataclass(frozen=True, slots=True)
class Chances:
    """P(the event | the value that favours it), P(the event | the other one). Known before anything is drawn."""

    one: float
    other: float


@dataclass(frozen=True, slots=True)
class Seen:
    """How often the event happened, in how many trials of each value."""

    one: int
    trials_of_one: int
    other: int
    trials_of_other: int


def bound_shown(seen: Seen, alpha: float) -> float:
    """The epsilon that these counts prove, wrong with probability at most alpha. Below 0 nothing is proved."""
    if not seen.one:
        return -inf
    return float(_log_low(seen.one, seen.trials_of_one, alpha / 2)) - float(
        _log_high(seen.other, seen.trials_of_other, alpha / 2)
    )


@lru_cache(maxsize=4096)
def bound_expected(chances: Chances, trials: tuple[int, int], alpha: float) -> tuple[float, float]:
    """Mean and standard deviation of `bound_shown` if the chances are true: exact sums over both binomial laws."""
    low, low_variance = _moments(chances.one, trials[0], alpha / 2, _log_low)
    high, high_variance = _moments(chances.other, trials[1], alpha / 2, _log_high)
    return low - high, (low_variance + high_variance) ** 0.5


def rarity(chances: Chances, seen: Seen, alpha: float) -> float:
    """How likely a bound lies as far out as the one seen, or farther, on its side, if the chances are true. Exact.

    The bound rises with the one count and falls with the other: for each count of the one, those of the other that
    bring it so far down begin at some count.
    """
    ones, weight_of_one = _law(chances.one, seen.trials_of_one)
    others, weight_of_other = _law(chances.other, seen.trials_of_other)
    low, high = (
        _log_low(np.append(ones, seen.one), seen.trials_of_one, alpha / 2),
        _log_high(np.append(others, seen.other), seen.trials_of_other, alpha / 2),
    )
    shown = low[-1] - high[-1]
    beyond = np.append(np.cumsum(weight_of_other[::-1])[::-1], 0.0)  # from each count of the other on
    slack = 1e-12 * max(1.0, abs(float(shown)))
    under = float(weight_of_one @ beyond[np.searchsorted(high[:-1], low[:-1] - shown - slack, side="left")])
    above = float(weight_of_one @ (1 - beyond[np.searchsorted(high[:-1], low[:-1] - shown + slack, side="right")]))
    return min(under, above)


def about_expected(one: Array, other: Array, trials: int, alpha: float) -> Array:
    """`bound_expected` for many events at once, by the bounds of the expected counts: good enough to choose by."""
    shown: Array = _log_low(one * trials, trials, alpha / 2) - _log_high(other * trials, trials, alpha / 2)
    return shown


def _moments(chance: float, trials: int, tail: float, log_bound: _LogBound) -> tuple[float, float]:
    counts, weight = _law(chance, trials)
    logs = log_bound(counts, trials, tail)
    mean = float(weight @ logs)
    return mean, float(weight @ (logs - mean) ** 2)


def _law(chance: float, trials: int) -> tuple[Array, Array]:
    """The counts that are worth a look, and how likely each is."""
    spread = (trials * chance * (1 - chance)) ** 0.5
    first = max(0, int(trials * chance - _FAR * spread - _FAR**2))
    last = min(trials, int(trials * chance + _FAR * spread + _FAR**2))
    counts = np.arange(first, last + 1, dtype=np.float64)
    weight = stats.binom.pmf(counts, trials, chance)
    return counts, weight / weight.sum()


def _log_low(count: Array | float, trials: int, tail: float) -> Array:
    """ln of the least chance that gives so many successes or more with probability `tail`.

    For none it would be that of nothing; half a success stands in, where a mean is taken over counts that never occur.
    """
    some = np.maximum(count, 0.5)
    return np.asarray(np.log(stats.beta.ppf(tail, some, trials - np.minimum(some, trials) + 1)))


def _log_high(count: Array | float, trials: int, tail: float) -> Array:
    some = np.minimum(count, trials - 1e-9)
    high = np.where(np.asarray(count) >= trials, 1.0, stats.beta.isf(tail, some + 1, trials - some))
    return np.asarray(np.log(high))


# --- verdicts -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One claim and what was seen of it. `exact` is the enumerated epsilon of the code's own law, where it is small."""

    metric: str
    what: str
    pair: str
    claim: float
    seen: Seen
    bound: float
    expected: float | None = None
    deviation: float | None = None
    rarity: float | None = None
    exact: float | None = None

    @property
    def trials(self) -> int:
        return self.seen.trials_of_one + self.seen.trials_of_other

    @property
    def failure(self) -> str | None:
        """Why the claim does not stand, or None if it does."""
        if self.bound > self.claim + 1e-9:
            return f"more than claimed: at least {self.bound:.3f}, claimed {self.claim:.3f}"
        if self.exact is not None and self.exact > self.claim + 1e-9:
            return f"more than claimed: enumerated {self.exact:.6f}, claimed {self.claim:.6f}"
        if self.rarity is not None and self.rarity < stats.norm.sf(STRAY):
            return (
                f"not the law that is claimed: {self.bound:.3f} shown, about {self.expected:.3f} expected of it, so "
                f"far out with probability {self.rarity:.1g}"
            )
        return None


def judge(
    seen: Seen,
    alpha: float,
    *,
    metric: str,
    what: str,
    pair: str,
    claim: float,
    chances: Chances | None = None,
    exact: float | None = None,
) -> Finding:
    """The verdict on one claim; `alpha` is this test's share of the run's. Without chances only excess can show."""
    expected = deviation = rare = None
    if chances is not None:
        expected, deviation = bound_expected(chances, (seen.trials_of_one, seen.trials_of_other), alpha)
        rare = rarity(chances, seen, alpha)
    return Finding(
        metric=metric,
        what=what,
        pair=pair,
        claim=claim,
        seen=seen,
        bound=bound_shown(seen, alpha),
        expected=expected,
        deviation=deviation,
        rarity=rare,
        exact=exact,
    )
