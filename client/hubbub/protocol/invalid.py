"""How a value is refused: every broken rule at once, each naming the field, the rule and the value."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from fractions import Fraction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Invalid(ValueError):
    """A value that breaks rules."""

    problems: tuple[str, ...]  # a sentence for each broken rule

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def require(problems: Iterable[str]) -> None:
    """Raise `Invalid` if there is any problem. Constructors pass the generator of their broken rules."""
    found = tuple(problems)
    if found:
        raise Invalid(found)


def say(number: Fraction) -> str:
    """A number as a person would write it: `0.5`, not `1/2`, where decimals can. Never rounded."""
    text = f"{number.numerator / number.denominator:.12g}"
    return text if Fraction(text) == number else str(number)


def plural(number: int | str, of: str, form: str = "") -> str:
    """`1 epoch`, `3 epochs`; with the form `,` also `2,000 epochs`. A number that is written already is a string."""
    return f"{number:{form}} {of}{'s' * (number not in (1, '1'))}"


def brief(raw: Any) -> str:
    """A value that someone wrote or sent: short enough to be shown, and harmless to a terminal."""
    if isinstance(raw, list | dict):
        return f"a {'list' if isinstance(raw, list) else 'table'} of {len(raw)}"
    if isinstance(raw, int) and raw.bit_length() > 64:
        return f"a number of {raw.bit_length()} bits"
    shown = str(raw) if isinstance(raw, Decimal | date) else ascii(raw)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def not_listening(host: str, port: int, error: OSError) -> str:
    """Why a server cannot listen there."""
    reason = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error)
    taken = "; --port takes another, 0 any that is free" if error.errno == errno.EADDRINUSE else ""
    return f"host and port must be an address of this machine to listen on, got {host} and {port}: {reason}{taken}"
