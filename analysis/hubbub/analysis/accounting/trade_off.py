"""The hypothesis test's view of privacy: the smallest pairs of errors that any test can have.

Somebody guesses from what is published which of two answers an install gave. A *false alarm* says the one where it was
the other, a *missed detection* the other where it was the one. Blind guessing has pairs that add up to 1; the better
the privacy, the nearer every test is to that (Wasserman and Zhou 2010; Dong, Roth and Su 2022).

The curve is drawn by its tangents: each (epsilon, delta) that holds rules out what is below two lines, and the curve is
the highest of all these lines. So it is never above the exact one, however few tangents are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, expm1

import numpy as np

from hubbub.analysis.accounting.privacy_loss import PrivacyLoss
from hubbub.analysis.arrays import Array

TANGENTS = 200
_FARTHEST = 50.0
_NEARLY_NONE = 1e-6  # of delta: the steepest tangent touches the curve where no more than this is left

Profile = Callable[[float], float]
"""For each epsilon from 0 on a delta such that (epsilon, delta) holds, whichever of the two it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeOff:
    """Corners of a convex curve, from no false alarm to nothing but alarms, with straight lines between them."""

    false_alarms: Array
    missed: Array

    def missed_at(self, false_alarm: float) -> float:
        """How often a test with so many false alarms misses, at least."""
        return float(np.interp(false_alarm, self.false_alarms, self.missed))


def trade_off_of(*losses: PrivacyLoss) -> TradeOff:
    """The curve of a mechanism, or of a composition: that of the pair, or of the pair the other way round, whichever is
    lower. Of several losses, below the curve of each."""
    return trade_off(profile_of(losses))


def trade_off(profile: Profile, tangents: int = TANGENTS) -> TradeOff:
    """The highest curve that a profile proves with so many tangents on each side of its middle."""
    epsilons = np.linspace(_widest(profile), 0, tangents)
    heights = np.array([1 - min(1.0, profile(float(epsilon))) for epsilon in epsilons])
    slopes = np.exp(epsilons)
    steep = list(zip(heights.tolist(), slopes.tolist(), strict=True))
    # The mirror image of height - slope x, and the floor: nothing is missed less often than never.
    lines = [*steep, *((height / slope, 1 / slope) for height, slope in reversed(steep)), (0.0, 0.0)]
    corners = _highest(lines)
    return TradeOff(false_alarms=np.array([x for x, _ in corners]), missed=np.array([y for _, y in corners]))


def profile_of(losses: Sequence[PrivacyLoss], *, weight: float = 1.0, aside: float = 0.0) -> Profile:
    """The largest delta over all losses and both directions; times `weight`, the probability that there is anything to
    tell at all, and with a delta `aside` added for what the losses do not know of."""
    atoms = [loss.atoms() for loss in losses]

    def delta(epsilon: float) -> float:
        odds = exp(epsilon)
        found = [float(np.maximum(one - odds * two, 0).sum()) for p, q in atoms for one, two in ((p, q), (q, p))]
        return aside + weight * max(found)

    return delta


def pure_profile(epsilon: float) -> Profile:
    """What holds for everything with this pure epsilon: the profile of randomised response."""
    return lambda asked: max(0.0, -expm1(asked - epsilon) / (1 + exp(-epsilon)))


def lower(*profiles: Profile) -> Profile:
    """Where each of several profiles holds, the least of them does."""
    return lambda epsilon: min(profile(epsilon) for profile in profiles)


def _widest(profile: Profile) -> float:
    """The epsilon from which on next to no delta is left that a larger one could save."""
    enough = profile(_FARTHEST) + _NEARLY_NONE
    low, high = 0.0, _FARTHEST
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if profile(middle) <= enough else (middle, high)
    return high


def _highest(lines: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners from x = 0 to x = 1 of the highest of the lines height - slope x, given from steep to flat."""
    kept: list[tuple[float, float]] = []  # lines that are the highest somewhere
    starts: list[float] = []  # from which x on each is
    for height, slope in lines:
        start = 0.0
        while kept:
            if kept[-1][1] > slope:
                start = max(0.0, (kept[-1][0] - height) / (kept[-1][1] - slope))
                if start > starts[-1]:
                    break
            elif kept[-1][0] >= height:
                start = 2.0  # the same slope, and no higher
                break
            kept.pop()
            starts.pop()
            start = 0.0
        if start < 1:
            kept.append((height, slope))
            starts.append(start)
    corners = [(x, height - slope * x) for x, (height, slope) in zip(starts, kept, strict=True)]
    return [*((x, max(0.0, y)) for x, y in corners), (1.0, 0.0)]
