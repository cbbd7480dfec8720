"""From a value to a mask: what the kinds share. Pure; the same value always gives the same mask.

Each kind's own part is in `kinds`. What an install adds to the value is its cohort and, for `mean`, its dither: a
number drawn once per install and metric that decides which way values between the two ends are rounded.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from hubbub.protocol.fields import DIGITS
from hubbub.protocol.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

DITHER_BITS = 64
_FAR = 2 * DIGITS


class _Absent:
    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"

    __reduce__ = __repr__  # copied, or sent to another process, it is still the one there is


ABSENT: Final = _Absent()
"""The value of an epoch in which nothing was recorded."""


class Encoded(Value):
    """A mask, and whether the value had to be moved into the metric's limits first."""

    mask: int  # the bits that the value sets
    clamped: bool = False  # whether the value had to be moved into the limits first


def bytes_for(bits: int) -> int:
    """How many bytes hold this many bits."""
    return (bits + 7) // 8


class WrongValue(ValueError):
    """A value that its metric does not ask for. The message names the rule and the type, never the value itself:
    it may reach a log, and values must not."""


def boolean(value: Any) -> bool:
    value = _plain(value)
    if isinstance(value, bool):
        return value
    raise WrongValue(f"must be True or False, got {type_name(value)}")


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongValue(f"must be a string, got {type_name(value)}")
    return value


def number_within(value: Any, low: Fraction, high: Fraction) -> tuple[Fraction, bool]:
    """A recorded number, moved into its limits, and whether it had to be."""
    number = exact_number(value)
    if number < low:
        return low, True
    return (high, True) if number > high else (number, False)


def exact_number(value: Any) -> Fraction:
    """A recorded number, exactly. Raises `WrongValue`.

    A float means the decimal that a person would write for it, the shortest that reads back as it: 0.3 is three tenths
    and not a little less, so that it lies where an edge at 0.3 says.
    """
    value = _plain(value)
    if type(value) is float:
        value = Decimal(repr(value))
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction):
        raise WrongValue(f"must be a number, got {type_name(value)}")
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


def type_name(value: Any) -> str:
    return type(value).__name__
