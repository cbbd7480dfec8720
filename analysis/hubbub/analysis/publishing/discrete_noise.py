"""Whole-number noise with exact laws: discrete Laplace and discrete Gaussian (Canonne, Kamath, Steinke 2020), and the
exponential mechanism.

All chance comes from `random`, a function like `os.urandom`; parameters are fractions and every decision compares whole
numbers, so no float has a say and no rounding changes a law (Mironov 2012 read secrets off rounded noise). How long a
draw takes depends on what is drawn: draw where nobody holds a watch, as a release does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isqrt

from hubbub.protocol.encoding import bytes_for
from hubbub.protocol.invalid import Invalid

Random = Callable[[int], bytes]
"""From a number of bytes to as many random ones, like `os.urandom`: what a client draws from, too."""


class NoiseSource:
    """Draws noise from random bytes. Each law is made of the one above it, so that a test can walk through every
    decision of one step while it takes the steps before at their word."""

    __slots__ = ("_random",)

    def __init__(self, random: Random) -> None:
        self._random = random

    def below(self, limit: int) -> int:
        """A whole number in [0, limit), evenly: as many bits as it takes, drawn again if they exceed it."""
        bits = (limit - 1).bit_length()
        size = bytes_for(bits)
        while True:
            number = int.from_bytes(self._random(size), "little") >> (8 * size - bits)
            if number < limit:
                return number

    def coin(self, numerator: int, denominator: int) -> bool:
        """True with probability numerator / denominator."""
        return self.below(denominator) < numerator

    def exp_coin(self, numerator: int, denominator: int) -> bool:
        """True with probability exp(-numerator / denominator).

        Whole units one by one; for the rest gamma the run of coins with gamma/1, gamma/2, gamma/3, ... that come up is
        even with probability 1 - gamma + gamma^2/2 - ... (their Algorithm 1).
        """
        whole, rest = divmod(numerator, denominator)
        if any(not self._falling_run(1, 1) for _ in range(whole)):
            return False
        return self._falling_run(rest, denominator)

    def _falling_run(self, numerator: int, denominator: int) -> bool:
        tries = 1
        while self.coin(numerator, denominator * tries):
            tries += 1
        return tries % 2 == 1

    def laplace(self, scale: Fraction) -> int:
        """x with probability proportional to exp(-|x| / scale)."""
        if scale <= 0:
            raise Invalid([f"the scale of Laplace noise must be above 0, got {scale}"])
        while (drawn := self._laplace_try(scale)) is None:
            pass
        return drawn

    def _laplace_try(self, scale: Fraction) -> int | None:
        """Their Algorithm 2: a geometric number in steps of 1/t, of which whole s make one; a sign, with one zero."""
        t, s = scale.numerator, scale.denominator
        part = self.below(t)
        if not self.exp_coin(part, t):
            return None
        units = 0
        while self.exp_coin(1, 1):
            units += 1
        size = (part + t * units) // s
        if self.coin(1, 2):
            return -size if size else None
        return size

    def likely(self, scores: Sequence[int], rate: Fraction) -> int:
        """i with probability proportional to exp(rate scores[i])."""
        if not scores or rate < 0:
            raise Invalid([f"a choice needs something to choose from and a rate of at least 0, got {rate}"])
        while (drawn := self._likely_try(scores, rate)) is None:
            pass
        return drawn

    def _likely_try(self, scores: Sequence[int], rate: Fraction) -> int | None:
        """Any of them, kept with its odds against the best."""
        drawn = self.below(len(scores))
        behind = max(scores) - scores[drawn]
        return drawn if self.exp_coin(behind * rate.numerator, rate.denominator) else None

    def gaussian(self, variance: Fraction) -> int:
        """x with probability proportional to exp(-x^2 / (2 variance)); its variance is at most that."""
        if variance <= 0:
            raise Invalid([f"the variance of Gaussian noise must be above 0, got {variance}"])
        while (drawn := self._gaussian_try(variance)) is None:
            pass
        return drawn

    def _gaussian_try(self, variance: Fraction) -> int | None:
        """Their Algorithm 3: Laplace noise of about the same width, kept with the ratio of the two laws."""
        t = isqrt(variance.numerator // variance.denominator) + 1
        drawn = self.laplace(Fraction(t))
        # exp(-(|x| - variance/t)^2 / (2 variance)), over the common denominator 2 v t^2 w of variance = v/w.
        v, w = variance.numerator, variance.denominator
        away = abs(drawn) * t * w - v
        return drawn if self.exp_coin(away * away, 2 * v * w * t * t) else None
