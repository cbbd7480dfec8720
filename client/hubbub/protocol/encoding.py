"""From a value to a mask: a few bits set out of num_bits. Pure; the same value always gives the same mask.

What an install adds to the value is its cohort and, for `mean`, its dither: a number drawn once per install and
metric that decides which way values between the two ends are rounded.
"""

from __future__ import annotations

from bisect import bisect_right
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, Final, NamedTuple

from hubbub.protocol.bloom import string_mask
from hubbub.protocol.fields import DIGITS
from hubbub.protocol.shape import Choice, Flag, Histogram, Mean, Range, Shape, String

DITHER_BITS = 64
_FAR = 2 * DIGITS


class _Absent(Enum):
    ABSENT = "absent"


ABSENT: Final = _Absent.ABSENT
"""The value of an epoch in which nothing was recorded."""


class Encoded(NamedTuple):
    """A mask, and whether the value had to be moved into the metric's limits first."""

    mask: int
    clamped: bool = False


class WrongValue(ValueError):
    """A value that its metric does not ask for. The message names the rule and the type, never the value itself:
    it may reach a log, and values must not."""


def encode(shape: Shape, value: Any, cohort: int, dither: int = 0) -> Encoded:
    """The mask of a value for an install of this cohort. `dither` is a number below 2**64."""
    match shape:
        case Flag(absent=absent):
            return Encoded(int(_boolean(absent if value is ABSENT else value)))
        case Choice():
            return Encoded(1 << _category(shape, value))
        case String(num_bits=num_bits, num_hashes=num_hashes):
            if value is ABSENT:
                return Encoded(0)
            try:
                return Encoded(string_mask(_text(value), cohort, num_bits, num_hashes))
            except UnicodeEncodeError as error:
                raise WrongValue(f"must be valid Unicode, got a lone surrogate at {error.start}") from None
        case Mean(low=low, high=high, absent=absent):
            number, clamped = _clamp(absent if value is ABSENT else _number(value), low, high)
            return Encoded(_end(number, low, high, dither), clamped)
        case Histogram(edges=edges):
            if value is ABSENT:
                return Encoded(0)
            number, clamped = _clamp(_number(value), edges[0], edges[-1])
            bucket = min(bisect_right(edges, number) - 1, shape.num_buckets - 1)
            position = (bucket - cohort) % shape.num_buckets
            return Encoded(1 << position if position < shape.buckets_per_report else 0, clamped)
        case Range(low=low, high=high, num_leaves=num_leaves, branching=branching):
            if value is ABSENT:
                return Encoded(0)
            number, clamped = _clamp(_number(value), low, high)
            leaf = min(int((number - low) * num_leaves / (high - low)), num_leaves - 1)
            return Encoded(1 << leaf // branching ** (shape.num_levels - 1 - cohort), clamped)


def _end(number: Fraction, low: Fraction, high: Fraction, dither: int) -> int:
    """Alpha-point rounding (Ding, Kulkarni, Yekhanin 2017): the high end iff number + alpha (high - low) reaches it.

    alpha = dither / 2**64 is uniform over installs, so the high end has probability (number - low) / (high - low);
    it is fixed for one install, so small changes of the number seldom change the mask. In whole numbers: number - high
    + alpha (high - low) >= 0, times 2**64 and all three denominators.
    """
    (x, x_of), (a, a_of), (b, b_of) = (exact.as_integer_ratio() for exact in (number, low, high))
    return int((x * b_of - b * x_of) * a_of << DITHER_BITS >= -dither * (b * a_of - a * b_of) * x_of)


def _category(shape: Choice, value: Any) -> int:
    if value is ABSENT:
        return len(shape.choices) if shape.absent is None else shape.places[shape.absent]
    place = shape.places.get(value) if isinstance(value, str) else None
    if place is None:
        raise WrongValue(f"must be one of the {len(shape.choices)} declared choices, got an undeclared {_type(value)}")
    return place


def _boolean(value: Any) -> bool:
    value = _plain(value)
    if isinstance(value, bool):
        return value
    raise WrongValue(f"must be True or False, got {_type(value)}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongValue(f"must be a string, got {_type(value)}")
    return value


def _number(value: Any) -> Fraction:
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction):
        raise WrongValue(f"must be a number, got {_type(value)}")
    if isinstance(value, Decimal) and value and value.is_finite() and abs(value.adjusted()) > _FAR:
        # As a fraction, Decimal("1e999999999") would fill the host's memory; no limit of a metric is that far out.
        value = Decimal(1).scaleb(_FAR if value.adjusted() > 0 else -_FAR).copy_sign(value)
    try:
        return Fraction(value)
    except (ValueError, OverflowError):
        raise WrongValue("must be a finite number, got NaN or an infinity") from None


def _plain(value: Any) -> Any:
    """numpy's scalars as Python's own; anything else as it is. Their type is asked, so that numpy need not be here."""
    if type(value).__module__ != "numpy" or getattr(value, "shape", None) != ():
        return value
    return value.item()


def _clamp(number: Fraction, low: Fraction, high: Fraction) -> tuple[Fraction, bool]:
    if number < low:
        return low, True
    return (high, True) if number > high else (number, False)


def _type(value: Any) -> str:
    return type(value).__name__
