"""One progress bar for all commands, on a terminal. Nothing is written where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable

Progress = Callable[[float], None]
"""Is told how much of the work is done, from 0 to 1."""

NamedProgress = Callable[[float, str], None]
"""Is told how much of the work is done, and what is under way. `show` is one."""

_WIDTH = 40


def show(share: float, what: str) -> None:
    """So much of the work is done, from 0 to 1, and this is under way."""
    if sys.stderr.isatty():
        drawn = bar(int(_WIDTH * share), _WIDTH)
        print(f"\r\033[K{drawn} {int(100 * share):3d} %  {what}", end="", file=sys.stderr, flush=True)


def shown(what: str, part: int = 0, parts: int = 1) -> Progress:
    """A `Progress` that is shown: of one part of several, of which so many are done. Drawn where it changes only."""
    last = [-1]

    def tell(share: float) -> None:
        whole = (part + share) / parts
        if int(100 * whole) != last[0]:
            last[0] = int(100 * whole)
            show(whole, what)

    return tell


def clear() -> None:
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def bar(filled: int, width: int) -> str:
    """`[####......]`"""
    return "[" + "#" * filled + "." * (width - filled) + "]"
