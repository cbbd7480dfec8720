"""JSON as two programs must read it alike: an object that has one key twice is an error, not the last of the two."""

from __future__ import annotations

import json
from typing import Any


def loads(text: str | bytes) -> Any:
    """What the text says. Raises ValueError and RecursionError, as `json.loads` does, and ValueError for a key that is
    there twice."""
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object must have each key once")
    return found
