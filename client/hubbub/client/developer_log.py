"""What the developer of the app should know: warnings of the logger `hubbub`. Never a value."""

from __future__ import annotations

import sys
from contextlib import suppress


def warn(message: str) -> None:
    """Where nobody has loaded `logging`, nobody has told it where to write, and it would write to stderr: so does this,
    because loading it is a seventh of an app's start."""
    with suppress(OSError, ValueError):  # stderr is closed; without a file to spare, not even an import works
        if "logging" in sys.modules:
            from logging import getLogger

            getLogger("hubbub").warning("%s", message)
        elif sys.stderr is not None:  # an app without a console has none
            print(message, file=sys.stderr, flush=True)
