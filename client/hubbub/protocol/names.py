"""How names and addresses are written. By hand, because apps read their registry when they start, and a pattern costs
more to compile than the whole registry costs to check; tests hold each function against its pattern.
"""

from __future__ import annotations

APP = "[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?"
METRIC = "[a-z][a-z0-9_]{0,63}"
RETENTION = "[1-9][0-9]{0,3}[dwmy]"

_DIGITS = frozenset("0123456789")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")
_PLAIN = _LETTERS | _DIGITS
_METRIC = _PLAIN | {"_"}
_HOST = _PLAIN | {".", "-"}
_STEP = _HOST | frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ_~")


def is_app(name: str) -> bool:
    """Whether the name matches `APP`."""
    return len(name) <= 64 and _is_host(name)


def is_metric(name: str) -> bool:
    """Whether the name matches `METRIC`."""
    return 0 < len(name) <= 64 and name[0] in _LETTERS and _METRIC.issuperset(name)


def is_retention(text: str) -> bool:
    """Whether the text matches `RETENTION`."""
    return text[-1:] in ("d", "w", "m", "y") and _is_number(text[:-1], 4)


def host_of(address: str) -> str | None:
    """The host of a web address that is plainly written: lower case, an optional port, a path of ordinary characters
    that does not end with a slash. None for any other, which may still be right."""
    scheme, _, rest = address.partition("://")
    place, *path = rest.split("/")
    host, colon, port = place.partition(":")
    plain = scheme in ("http", "https") and _is_host(host) and (not colon or _is_port(port))
    return host if plain and all(step and _STEP.issuperset(step) for step in path) else None


def _is_host(text: str) -> bool:
    return text[:1] in _PLAIN and text[-1:] in _PLAIN and _HOST.issuperset(text)


def _is_port(text: str) -> bool:
    return _is_number(text, 5) and int(text) < 1 << 16


def _is_number(text: str, digits: int) -> bool:
    return 0 < len(text) <= digits and text[0] != "0" and _DIGITS.issuperset(text)
