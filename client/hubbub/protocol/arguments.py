"""How numbers, shares and days are written on a command line, the same for every command: for the `type=` of argparse.

A form says what a text may look like; what a number must be besides is checked where it is used. No app loads this.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import date
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import isfinite
from re import fullmatch

from hubbub.protocol import fields
from hubbub.protocol.invalid import Invalid, brief

MOST = 10**20
"""No whole number is larger: 1e400 installs would be counted for longer than anybody waits."""


class WrongArgument(ArgumentTypeError, Invalid):
    """A text that has not the form. argparse puts the option before its words, and so does whoever reads by hand."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__([f"must be {rule}, got {brief(text)}"])


def whole(text: str) -> int:
    """`100000`, `100,000`, `100_000` or `1e5`."""
    try:
        number = Decimal(text.replace(",", "") if fullmatch(r"-?[0-9]{1,3}(,[0-9]{3})+", text) else text)
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite() or number != number.to_integral_value():
        raise WrongArgument("a whole number such as 100000, 100,000 or 1e5", text)
    if not -MOST <= number <= MOST:  # abs would round it, and overflow
        raise WrongArgument(f"a whole number of at most {MOST:,}", text)
    return int(number)


def number(text: str) -> float:
    """`0.5` or `1e-9`."""
    return _finite(text, "a number such as 0.5 or 1e-9")


def share(text: str) -> float:
    """`0.02` or `2%`. Whatever may be told in percent is: the figures of a population, too."""
    rule = "a number or percentage such as 0.02 or 2%"
    if text.endswith("%"):
        return _finite(text.removesuffix("%"), rule, text) / 100
    return _finite(text, rule)


def exact(text: str) -> Fraction:
    """`0.5` or `1/3`: what becomes an epsilon is never rounded."""
    try:
        return fields.number(text if "/" in text else Decimal(text))
    except (ValueError, InvalidOperation):
        rule = f"a number or a fraction such as 0.5 or 1/3, of at most {fields.DIGITS} digits"
        raise WrongArgument(rule, text) from None


def day(text: str) -> date:
    """`2026-11-16`."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise WrongArgument("a date such as 2026-11-16", text) from None


def _finite(text: str, rule: str, shown: str | None = None) -> float:
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if not isfinite(found):
        raise WrongArgument(rule, text if shown is None else shown)
    return found
