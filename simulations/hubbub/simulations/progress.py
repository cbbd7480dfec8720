"""A bar on a terminal, for those who wait. Nothing is written where nobody looks."""

from __future__ import annotations

import sys

_WIDTH = 40


def show(share: float, what: str) -> None:
    """So much of the work is done, from 0 to 1, and this is under way."""
    if sys.stderr.isatty():
        filled = int(_WIDTH * share)
        bar = "#" * filled + "." * (_WIDTH - filled)
        print(f"\r\033[K[{bar}] {int(100 * share):3d} %  {what}", end="", file=sys.stderr, flush=True)


def clear() -> None:
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
