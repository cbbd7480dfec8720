"""The segment of this build: what the app says of itself, and the platform, as the registry tells them apart."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from hubbub.protocol.fields import unknown_key
from hubbub.protocol.invalid import brief
from hubbub.protocol.segments import OTHER, Declared, Segment, segment_of
from hubbub.protocol.value import Value

_PLATFORMS = {"darwin": "macos", "win32": "windows", "cygwin": "windows"}


class Build(Value):
    """What messages say of this build, and what of it the registry does not know."""

    segment: Segment
    undeclared: tuple[str, ...]


def this_build(declared: Declared, facts: Mapping[str, str]) -> Build:
    """The segment of an app with these facts; its platform is found out where the registry asks for it and the app
    does not say. Raises `ValueError` for a key that the registry does not have, and for a value that is no text."""
    for key, value in facts.items():
        if not declared:
            raise ValueError(f"segments must be left out where metrics.toml has no [segments], got {brief(key)}")
        if key not in declared:
            raise ValueError(f"segments: {unknown_key(key, declared)}")
        if not isinstance(value, str):
            raise ValueError(f"segments: {key} must be a text, got {brief(value)}")
    known = {"platform": this_platform(), **facts}
    return Build(
        segment_of(declared, known),
        tuple(
            f"segments: {key} must be one of {', '.join(declared[key])} to be told apart, got "
            f'{brief(known[key]) if key in known else "nothing"}; it counts as "{OTHER}"'
            for key in declared
            if known.get(key) not in (*declared[key], OTHER)
        ),
    )


def this_platform() -> str:
    """`linux`, `macos`, `windows`, or what Python calls it."""
    return _PLATFORMS.get(sys.platform, sys.platform)
