"""Reading frozen values from TOML or JSON: the dataclass is the schema, its annotations say how a key is read.

Every mistake is found, not only the first: wrong types, missing keys, unknown keys with the nearest known one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

Reader = Callable[[Any], Any]

_FRACTION = re.compile(r"-?\d{1,400}(/0*[1-9]\d{0,399})?")


def readers_of(cls: type, leaving_out: Iterable[str] = ()) -> tuple[dict[str, Reader], set[str]]:
    """How each field of a dataclass is read, and which of them must be given."""
    known = {f.name: f for f in fields(cls) if f.init and f.name not in leaving_out}
    readers = {name: READERS[str(f.type)] for name, f in known.items()}
    return readers, {name for name, f in known.items() if f.default is MISSING}


def read_fields(
    table: Mapping[str, Any], readers: Mapping[str, Reader], required: Iterable[str], problems: list[str]
) -> dict[str, Any]:
    """The keys of `table`, read. What is wrong is added to `problems`, in words."""
    values: dict[str, Any] = {}
    for key, raw in table.items():
        if key not in readers:
            problems.append(unknown_key(key, readers))
            continue
        try:
            values[key] = readers[key](raw)
        except ValueError as error:
            problems.append(f"{key} {error}")
    problems.extend(f"{key} is missing" for key in sorted(required) if key not in table)
    return values


def unknown_key(key: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # here, because only mistakes need it

    near = get_close_matches(key, list(known), n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else f"known keys are {', '.join(sorted(known))}"
    return f"{key} is not a key that is known here; {hint}"


def whole_number(raw: Any) -> int:
    if type(raw) is not int:
        raise ValueError(f"must be a whole number, got {_say(raw)}")
    return raw


def number(raw: Any) -> Fraction:
    """An exact number: 30, 0.25 (read as a decimal, never as a float), or "1/3"."""
    if type(raw) is int:
        return Fraction(raw)
    if isinstance(raw, Decimal) and raw.is_finite() and abs(raw.adjusted()) <= 400:
        return Fraction(raw)
    if isinstance(raw, str) and _FRACTION.fullmatch(raw):
        return Fraction(raw)
    raise ValueError(f'must be a number or a fraction such as "1/3", got {_say(raw)}')


def text(raw: Any) -> str:
    if not isinstance(raw, str):
        raise ValueError(f"must be a text, got {_say(raw)}")
    return raw


def truth(raw: Any) -> bool:
    if not isinstance(raw, bool):
        raise ValueError(f"must be true or false, got {_say(raw)}")
    return raw


def day(raw: Any) -> date:
    if not isinstance(raw, date) or isinstance(raw, datetime):
        raise ValueError(f"must be a date such as 2028-01-01, without quotes, got {_say(raw)}")
    return raw


def list_of(read: Reader) -> Reader:
    def read_list(raw: Any) -> tuple[Any, ...]:
        if not isinstance(raw, list):
            raise ValueError(f"must be a list, got {_say(raw)}")
        return tuple(read(item) for item in raw)

    return read_list


def optional(read: Reader) -> Reader:
    return lambda raw: None if raw is None else read(raw)


READERS: dict[str, Reader] = {
    "bool": truth,
    "date": day,
    "Fraction": number,
    "int": whole_number,
    "int | None": optional(whole_number),
    "str": text,
    "str | None": optional(text),
    "tuple[str, ...]": list_of(text),
    "tuple[Fraction, ...]": list_of(number),
}


def _say(raw: Any) -> str:
    shown = str(raw) if isinstance(raw, Decimal | date) else repr(raw)
    return shown if len(shown) <= 80 else shown[:77] + "..."
