"""Texts that are asked by their beginnings: which bytes they are made of, and the hash that grows byte by byte.

The state of a beginning begins at 0. Each byte b, and END as if it were byte number 256, takes it to
mix(state + (b + 1) * STEP); the position of a state in cohort c is that of the high half of
mix(state + (c + 1) * GOLD) among num_bits. `mix` is SplitMix64's finaliser, all modulo 2**64. So whoever knows the
state of a beginning has those of all its continuations at the price of one mix each, and a search need not begin anew.

This is part of the wire format: tests/vectors/prefixes.json pins it for other languages.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from hubbub.protocol.bloom import mix
from hubbub.protocol.encoding import WrongValue

_M64 = (1 << 64) - 1
STEP = 0xD1342543DE82EF95
GOLD = 0x9E3779B97F4A7C15
END = 256
"""In place of a byte: here the text ends."""

HOST = b"+-.0123456789_abcdefghijklmnopqrstuvwxyz"
HOST_CODES = frozenset(HOST)
PRINTABLE = bytes(range(0x20, 0x7F))
_RULES = {
    "host": "must be made of a-z, 0-9 and + - . _",
    "ascii": "must be made of printable ASCII characters",
    "bytes": "must be made of characters that are no control characters",
}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def symbols(text: str, alphabet: str, lowercase: bool) -> bytes:
    """The bytes of a text: of its NFC form in UTF-8, A to Z as a to z where declared. Raises `WrongValue` for one that
    the alphabet does not have; the message gives the place and not the character."""
    plain = unicodedata.normalize("NFC", text)
    if lowercase:
        plain = plain.translate(_LOWER)
    for place, character in enumerate(plain):
        if not _is_in(alphabet, ord(character)):
            raise WrongValue(f'{_RULES[alphabet]} (alphabet = "{alphabet}"), got another at {place}')
    return plain.encode("utf-8")


def _is_in(alphabet: str, code: int) -> bool:
    if alphabet == "host":
        return code in HOST_CODES
    if alphabet == "ascii":
        return 0x20 <= code < 0x7F
    # Control characters would be obeyed by the terminals of those who read results; surrogates are no characters.
    return not (code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000)


def state_of(beginning: Iterable[int]) -> int:
    """Of bytes, and of END where it follows."""
    state = 0
    for byte in beginning:
        state = mix(state + (byte + 1) * STEP & _M64)
    return state


def position(state: int, cohort: int, num_bits: int) -> int:
    return (mix(state + (cohort + 1) * GOLD & _M64) >> 32) * num_bits >> 32
