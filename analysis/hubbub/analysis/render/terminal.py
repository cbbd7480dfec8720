"""Emphasis for people at a terminal. Anywhere else, and wherever NO_COLOR says so, text stays as it is.

Nothing is told by colour alone: what is faint or bold also says so in words.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TextIO

_BOLD, _FAINT, _WARNING, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[33m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Style:
    """How to write for one reader."""

    colours: bool = False

    def bold(self, text: str) -> str:
        return self._wrapped(_BOLD, text)

    def faint(self, text: str) -> str:
        return self._wrapped(_FAINT, text)

    def warning(self, text: str) -> str:
        return self._wrapped(_WARNING, text)

    def _wrapped(self, code: str, text: str) -> str:
        return f"{code}{text}{_PLAIN}" if self.colours and text else text


PLAIN = Style()


def style_for(stream: TextIO) -> Style:
    """Colours for a terminal that has them and a person who wants them (https://no-color.org)."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(colours=wanted and stream.isatty())
