"""Every way a sampler can decide, with its probability: the exact law of a draw, without drawing.

A sampler asks its source for coins and numbers. Here the source follows a script of answers; where the script ends, the
walk goes on once for each answer there could be. Ways less likely than `CUT` are left out, and how likely all of them
are together is part of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from typing import TypeVar

from hubbub.analysis.publishing.discrete_noise import NoiseSource

CUT = Fraction(1, 10**13)
Outcome = TypeVar("Outcome", bound=Hashable)


class _Fork(Exception):
    def __init__(self, chances: Sequence[Fraction]) -> None:
        self.chances = chances


class Scripted(NoiseSource):
    """A source whose basic draws follow a script."""

    def __init__(self, script: Sequence[int]) -> None:
        super().__init__(lambda size: b"")
        self._script, self._place = script, 0

    def choose(self, chances: Sequence[Fraction]) -> int:
        if self._place == len(self._script):
            raise _Fork(chances)
        self._place += 1
        return self._script[self._place - 1]

    def below(self, limit: int) -> int:
        return self.choose([Fraction(1, limit)] * limit)

    def coin(self, numerator: int, denominator: int) -> bool:
        p = Fraction(numerator, denominator)
        return bool(self.choose([1 - p, p]))


class WithExpCoins(Scripted):
    """Also takes exponential coins at their word: their own law is walked through by itself."""

    def exp_coin(self, numerator: int, denominator: int) -> bool:
        p = exp_minus(Fraction(numerator, denominator))
        return bool(self.choose([1 - p, p]))


class WithLaplace(WithExpCoins):
    """Also takes Laplace draws at their word."""

    REACH = 120

    def laplace(self, scale: Fraction) -> int:
        law = laplace_law(scale, self.REACH)
        return self.choose(list(law.values())) - self.REACH


def law_of(draw: Callable[[Scripted], Outcome], source: type[Scripted]) -> tuple[dict[Outcome, Fraction], Fraction]:
    """The probability of each outcome, and that of all ways left out."""
    law: dict[Outcome, Fraction] = {}
    left_out = Fraction(0)
    waiting: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while waiting:
        script, chance = waiting.pop()
        try:
            outcome = draw(source(script))
        except _Fork as fork:
            for answer, p in enumerate(fork.chances):
                if chance * p >= CUT:
                    waiting.append(((*script, answer), chance * p))
                else:
                    left_out += chance * p
        else:
            law[outcome] = law.get(outcome, Fraction(0)) + chance
    return law, left_out


def given_kept(law: Mapping[int | None, Fraction]) -> dict[int, Fraction]:
    """The law of a draw that is repeated until it is not None."""
    kept = {x: p for x, p in law.items() if x is not None}
    total = sum(kept.values())
    return {x: p / total for x, p in kept.items()}


def exp_minus(gamma: Fraction) -> Fraction:
    """e**-gamma to 30 digits."""
    context = Context(prec=30)
    return Fraction(context.divide(Decimal(-gamma.numerator), Decimal(gamma.denominator)).exp(context))


@cache
def laplace_law(scale: Fraction, reach: int) -> dict[int, Fraction]:
    """P(x) = (1 - r) / (1 + r) r^|x| with r = e^(-1/scale), as far as `reach`."""
    r = exp_minus(1 / scale)
    return {x: (1 - r) / (1 + r) * exp_minus(abs(x) / scale) for x in range(-reach, reach + 1)}


def gaussian_law(variance: Fraction, reach: int) -> dict[int, Fraction]:
    """P(x) proportional to e^(-x^2 / (2 variance)); beyond `reach` there must be next to nothing."""
    weights = {x: exp_minus(Fraction(x * x) / (2 * variance)) for x in range(-reach, reach + 1)}
    total = sum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


def farthest(found: Mapping[int, Fraction], law: Mapping[int, Fraction]) -> float:
    """The largest difference between two laws at any outcome."""
    return float(max(abs(found.get(x, Fraction(0)) - law.get(x, Fraction(0))) for x in {*found, *law}))
