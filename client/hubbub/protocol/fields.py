"""Reading frozen values from TOML or JSON: the class is the schema, its annotations say how a key is read.

Every mistake is found, not only the first: wrong types, missing keys, unknown keys with the nearest known one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from hubbub.protocol.invalid import brief
from hubbub.protocol.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hubbub.protocol.vocabulary import Reader

DIGITS = 100
"""The most a number may have, above and below its fraction line: what is read here can be written and read again."""

_FRACTION = rf"-?[0-9]{{1,{DIGITS}}}(/0*[1-9][0-9]{{0,{DIGITS - 1}}})?"
_CONTROL = frozenset(map(chr, (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0))))


def readers_of(cls: type[Value], leaving_out: Iterable[str] = ()) -> tuple[dict[str, Reader], set[str]]:
    """How each field of a value is read, and which of them must be given."""
    readers = {name: READERS[kind] for name, kind in cls.fields.items() if name not in leaving_out}
    return readers, {name for name in readers if name not in cls.defaults}


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
    hint = did_you_mean(key, known) or f"; known keys are {', '.join(sorted(known))}"
    return f"{key if key.isidentifier() else brief(key)} is not a key that is known here{hint}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean owner?`, or nothing where no known word is near."""
    from difflib import get_close_matches  # here, because only mistakes need it

    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def whole_number(raw: Any) -> int:
    if type(raw) is not int or raw.bit_length() > 63:
        raise ValueError(f"must be a whole number of at most 63 bits, got {brief(raw)}")
    return raw


def number(raw: Any) -> Fraction:
    """An exact number: 30, 0.25 (read as a decimal, never as a float), or "1/3"."""
    match raw:
        case int() if not isinstance(raw, bool):
            value = Fraction(raw)
        case Decimal() if raw.is_finite() and abs(raw.adjusted()) <= DIGITS:
            value = Fraction(raw)
        case str() if re.fullmatch(_FRACTION, raw):
            value = Fraction(raw)
        case _:
            raise ValueError(f'must be a number or a fraction such as "1/3", got {brief(raw)}')
    if max(abs(value.numerator), value.denominator) >= 10**DIGITS:
        raise ValueError(f"must have at most {DIGITS} digits, got {brief(raw)}")
    return value


def text(raw: Any) -> str:
    if not isinstance(raw, str):
        raise ValueError(f"must be a text, got {brief(raw)}")
    # Labels and tables are printed to terminals, which obey control characters, and hashed as UTF-8.
    if not _CONTROL.isdisjoint(raw) or not (raw.isascii() or _is_unicode(raw)):
        raise ValueError(f"must be a text without control characters or lone surrogates, got {brief(raw)}")
    return raw


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def truth(raw: Any) -> bool:
    if not isinstance(raw, bool):
        raise ValueError(f"must be true or false, got {brief(raw)}")
    return raw


def day(raw: Any) -> date:
    if not isinstance(raw, date) or isinstance(raw, datetime):
        raise ValueError(f"must be a date such as 2028-01-01, without quotes, got {brief(raw)}")
    return raw


def list_of(read: Reader) -> Reader:
    def read_list(raw: Any) -> tuple[Any, ...]:
        if not isinstance(raw, list):
            raise ValueError(f"must be a list, got {brief(raw)}")
        return tuple(_read_item(read, place, item) for place, item in enumerate(raw))

    return read_list


def _read_item(read: Reader, place: int, item: Any) -> Any:
    try:
        return read(item)
    except ValueError as error:
        raise ValueError(f"item {place} {error}") from None


def number_or_apart(raw: Any) -> Fraction | str:
    """An exact number, or the word `apart`."""
    if isinstance(raw, str) and not re.fullmatch(_FRACTION, raw):
        if raw == "apart":
            return raw
        raise ValueError(f'must be a number, a fraction such as "1/3", or "apart", got {brief(raw)}')
    return number(raw)


def optional(read: Reader) -> Reader:
    return lambda raw: None if raw is None else read(raw)


READERS: dict[str, Reader] = {
    "Accumulation": text,
    "bool": truth,
    "Cadence": text,
    "date": day,
    "Fraction": number,
    "Fraction | Apart": number_or_apart,
    "int": whole_number,
    "int | None": optional(whole_number),
    "str": text,
    "str | None": optional(text),
    "tuple[str, ...]": list_of(text),
    "tuple[Fraction, ...]": list_of(number),
}


def plain_table(raw: Any) -> dict[str, Any]:
    """A table, whatever is in it."""
    if not isinstance(raw, dict):
        raise ValueError(f"must be a table of keys and values, got {brief(raw)}")
    return raw
