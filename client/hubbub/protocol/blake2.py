"""BLAKE2b, the only cryptographic hash here, without loading OpenSSL.

`hashlib` loads all of OpenSSL (some milliseconds, which every start of an app would pay) and then takes BLAKE2b from
Python's own `_blake2`. A Python that has no such module goes the long way.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

__all__ = ["blake2b"]
