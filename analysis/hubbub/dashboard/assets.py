"""The files a page loads: its style, its script, its icon. None comes from elsewhere."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib.resources import files

TYPES = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}


@cache
def version() -> str:
    """Goes into the addresses, so that a browser may keep what it has until something changes."""
    return "?" + hashlib.blake2b(b"".join(map(_own, TYPES)), digest_size=6).hexdigest()


@cache
def compressed(name: str) -> bytes:
    return gzip.compress(_own(name), mtime=0)


def _own(name: str) -> bytes:
    return files("hubbub.dashboard").joinpath("static", name).read_bytes()
