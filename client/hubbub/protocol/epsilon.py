"""From exact odds to epsilons and back, always rounded to the side of privacy.

A guarantee "at most epsilon" means: no output is more than e**epsilon times as likely under one value as under
another. The odds are exact fractions here; e**epsilon is irrational, so it is only ever used through a rational
bound: `exp_below` when a channel must stay under a stated epsilon, `log_above` when an epsilon is shown.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, log

SMALLEST = Fraction(1, 100)
LARGEST = Fraction(16)
MICRO = 1_000_000
"""An install keeps its accounts in millionths of epsilon, as whole numbers."""

_DIGITS = 60


def in_limits(epsilon: Fraction) -> bool:
    """Whether it is from `SMALLEST` to `LARGEST`. In whole numbers, because an app that starts asks it of each metric:
    to compare two fractions takes ten times as long."""
    return epsilon.denominator <= 100 * epsilon.numerator <= 1600 * epsilon.denominator


@lru_cache(maxsize=256)  # a registry has few epsilons and asks for each again and again
def exp_below(epsilon: Fraction) -> Fraction:
    """A rational number just under e**epsilon (relative distance below 1e-57).

    `Decimal.exp` is correctly rounded on every platform, so one step down from it is a lower bound.
    """
    context = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
    power = context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)).exp(context)
    return Fraction(power.next_minus(context))


@lru_cache(maxsize=1024)  # a thousand metrics share few channels, and pages ask for their epsilons at every view
def log_above(odds: Fraction, decimals: int = 6) -> Fraction:
    """The smallest number with this many decimals whose exponential surely reaches `odds`: never an understatement."""
    context = Context(prec=_DIGITS, rounding=ROUND_CEILING)
    logarithm = context.subtract(Decimal(odds.numerator).ln(context), Decimal(odds.denominator).ln(context))
    step = Fraction(1, 10**decimals)
    epsilon = max(Fraction(0), Fraction(logarithm.quantize(Decimal(1).scaleb(-decimals), context=context)))
    while exp_below(epsilon) < odds and odds != 1:
        epsilon += step
    return epsilon


def surely_above(odds: Fraction) -> float:
    """More than `log_above`, by some millionths, at a hundredth of its price: for a first look."""
    return log(odds.numerator) - log(odds.denominator) + 3e-6


def show(epsilon: Fraction, decimals: int = 2) -> str:
    """An epsilon for people: rounded up, without needless zeros (`1`, `2.2`, `4.4`)."""
    scaled = -(-epsilon * 10**decimals // 1)
    text = f"{scaled // 10**decimals}.{scaled % 10**decimals:0{decimals}d}"
    return text.rstrip("0").rstrip(".")


def certainty(epsilon: Fraction | None) -> str:
    """How sure one can become from even odds, e**epsilon / (1 + e**epsilon): rounded up, but never to certainty.
    Beyond 99.999 % the digits say nothing to anybody."""
    if epsilon is None or epsilon > 11:
        return "practically 100 %"
    sure = 100 / (1 + exp(-float(epsilon)))
    decimals = 1
    while ceil(sure * 10**decimals) >= 100 * 10**decimals:
        decimals += 1
    return f"{ceil(sure * 10**decimals) / 10**decimals:.{decimals}f} %"
