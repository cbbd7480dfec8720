"""Privacy loss distributions on a grid, rounded so that no privacy is ever claimed that is not there.

Two laws P and Q of what is published, with and without something about one person, are known by their privacy loss
ln(P/Q) under P. Losses of independent releases add, so that laws of losses convolve; that is the tightest composition
there is (Koskela, Jalko, Honkela 2020). On the grid an outcome is split between its two neighbours so that its mass
under P *and* under Q stays what it was ("connect the dots", Doroshenko and others 2022): the pair on the grid can be
made into the true one by forgetting something, so that whatever is computed from it is an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # its larger parts are loaded where they are asked for: half of a command's start

from hubbub.analysis.arrays import Array
from hubbub.protocol.invalid import Invalid

_TAIL = 1e-15  # mass that is cut off either end of a law, on the side of caution
_DIRECT = 300_000_000  # products up to which a convolution is done term by term
_WIDEST = 4_000_000
_ENDLESS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyLoss:
    """The loss is (start + i) step with probability masses[i] under P, and infinite with probability `certain`. What
    else Q can show, P never shows."""

    step: float
    start: int
    masses: Array
    certain: float

    @classmethod
    def of(cls, p: Array, q: Array, step: float) -> PrivacyLoss:
        """From the probabilities of each outcome under P and under Q."""
        both = (p > 0) & (q > 0)
        loss = np.log(p[both]) - np.log(q[both])
        return cls._on_grid(loss, p[both], float(p[(p > 0) & (q == 0)].sum()), step)

    @classmethod
    def _on_grid(cls, loss: Array, mass: Array, certain: float, step: float) -> PrivacyLoss:
        place = np.floor(loss / step)
        # Both masses stay: mass e^-loss = low e^-(i step) + high e^-((i + 1) step).
        high = mass * np.clip(np.expm1(place * step - loss) / np.expm1(-step), 0, 1)
        start, end = (int(place.min()), int(place.max()) + 2) if len(place) else (0, 1)
        if end - start > _WIDEST:
            raise Invalid([f"a grid of {step:g} is too fine for losses from {start * step:g} to {end * step:g}"])
        masses = np.zeros(end - start)
        np.add.at(masses, place.astype(np.int64) - start, mass - high)
        np.add.at(masses, place.astype(np.int64) - start + 1, high)
        return cls(step=step, start=start, masses=masses, certain=certain)._trimmed()

    @property
    def losses(self) -> Array:
        return np.asarray((self.start + np.arange(len(self.masses))) * self.step)

    @property
    def deviation(self) -> float:
        """The standard deviation of the finite losses."""
        total = float(self.masses.sum())
        mean = float(self.masses @ self.losses) / total
        return float(np.sqrt(np.sum(self.masses * (self.losses - mean) ** 2) / total))

    def delta(self, epsilon: float) -> float:
        """The least delta such that (epsilon, delta) holds for P against Q."""
        above = self.losses > epsilon
        return self.certain + float(self.masses[above] @ -np.expm1(epsilon - self.losses[above]))

    def epsilon(self, delta: float) -> float:
        """The least epsilon, not below 0, such that (epsilon, delta) holds for P against Q; infinite if none below 600
        does, which nobody would call private."""
        finite = (self.losses > 0) & (self.losses < _ENDLESS)
        losses, masses = self.losses[finite], self.masses[finite]
        certain = self.certain + float(self.masses[self.losses >= _ENDLESS].sum())
        if certain > delta:
            return float("inf")
        # From each loss on: all mass under P, and under Q; between two losses delta is certain + p - e^epsilon q.
        p = np.cumsum(masses[::-1])[::-1]
        q = np.cumsum((masses * np.exp(-losses))[::-1])[::-1]
        too_much = np.flatnonzero(certain + p - np.exp(losses) * q > delta)
        first = int(too_much[-1]) + 1 if len(too_much) else 0
        if first == len(masses):
            return float(losses[-1]) if len(losses) else 0.0
        excess = certain + p[first] - delta
        return max(0.0, float(np.log(excess / q[first]))) if excess > 0 else 0.0

    def error_pairs(self) -> tuple[Array, Array]:
        """The hypothesis test's view: for each best test whether P was published, how often it accuses Q falsely, and
        how often it misses P. No test has a smaller pair (Wasserman and Zhou 2010)."""
        p = np.cumsum(np.concatenate([[0.0, self.certain], self.masses[::-1]]))
        q = np.cumsum(np.concatenate([[0.0, 0.0], (self.masses * np.exp(-self.losses))[::-1]]))
        return np.append(np.minimum(q, 1), 1.0), np.append(np.maximum(1 - p, 0), 0.0)

    def then(self, other: PrivacyLoss) -> PrivacyLoss:
        """Both published, whatever the one made of the other. On the finer grid of the two."""
        step = min(self.step, other.step)
        one, two = self.regridded(step), other.regridded(step)
        masses, error = _convolved(one.masses, two.masses)
        certain = one.certain + two.certain - one.certain * two.certain + error
        return PrivacyLoss(step=step, start=one.start + two.start, masses=masses, certain=certain)._trimmed()

    def times(self, count: int) -> PrivacyLoss:
        """The loss of `count` such releases together, by squaring."""
        if count < 0:
            raise Invalid([f"count must be at least 0, got {count}"])
        result = PrivacyLoss(step=self.step, start=0, masses=np.ones(1), certain=0.0)
        power = self
        while count:
            if count & 1:
                result = result.then(power)
            count >>= 1
            if count:
                power = power.then(power)
        return result

    def regridded(self, step: float) -> PrivacyLoss:
        if step == self.step:
            return self
        kept = self.masses > 0
        return PrivacyLoss._on_grid(self.losses[kept], self.masses[kept], self.certain, step)

    def atoms(self) -> tuple[Array, Array]:
        """The outcomes of the pair under P and under Q; the last two are P's alone and Q's alone."""
        q = self.masses * np.exp(-self.losses)
        alone = max(0.0, 1 - float(q.sum()))
        return np.append(self.masses, [self.certain, 0.0]), np.append(q, [0.0, alone])

    def _trimmed(self) -> PrivacyLoss:
        """Small mass at the upper end becomes certainty; at the lower end it moves up, and Q keeps the rest."""
        up = np.cumsum(self.masses[::-1])[::-1]
        last = max(1, int(np.count_nonzero(up > _TAIL)))
        down = np.cumsum(self.masses[:last])
        first = min(int(np.count_nonzero(down <= _TAIL)), last - 1)
        masses = self.masses[first:last].copy()
        masses[0] += self.masses[:first].sum()
        certain = self.certain + float(self.masses[last:].sum())
        return PrivacyLoss(step=self.step, start=self.start + first, masses=masses, certain=min(certain, 1.0))


def _convolved(one: Array, two: Array) -> tuple[Array, float]:
    """The convolution, and how much mass its rounding may have misplaced (term by term: next to none)."""
    if len(one) * len(two) <= _DIRECT:
        return np.convolve(one, two), 0.0
    size = len(one) + len(two) - 1
    norms = float(np.sqrt(np.sum(one**2) * np.sum(two**2)))
    both = np.maximum(scipy.signal.fftconvolve(one, two), 0)
    return both, 3 * size * np.finfo(float).eps * float(np.log2(size)) * norms
