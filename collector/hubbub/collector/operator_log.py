"""What the collector says about itself: to people on a terminal, as JSON lines to machines. Nothing per request.

A notice has a sentence and fields. No field may hold anything about a sender; there is no way to log a request.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from typing import Literal, TextIO

Level = Literal["info", "warning", "error"]


class OperatorLog:
    """Writes notices to one stream, each flushed at once."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.time) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock

    def info(self, sentence: str, **fields: object) -> None:
        self._write("info", sentence, fields)

    def warning(self, sentence: str, **fields: object) -> None:
        self._write("warning", sentence, fields)

    def error(self, sentence: str, **fields: object) -> None:
        self._write("error", sentence, fields)

    def bug(self, error: BaseException) -> None:
        """An exception that should not be: where it came from, not what was in it, which may be someone's bytes."""
        places = [
            f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
        ]
        self._write("error", "an internal error; please report it", {"type": type(error).__name__, "places": places})

    def _write(self, level: Level, sentence: str, fields: dict[str, object]) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))
        if self._stream.isatty():
            shown = "".join(f"  {name}={value}" for name, value in fields.items())
            line = f"{stamp[11:19]} {'' if level == 'info' else level + ': '}{sentence}{shown}"
        else:
            line = json.dumps({"time": stamp, "level": level, "message": sentence, **fields}, default=str)
        print(line, file=self._stream, flush=True)
