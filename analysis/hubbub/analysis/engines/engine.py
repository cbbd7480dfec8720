"""What an engine promises, and which one a text names. Nothing here computes; each engine's library is imported when it
is named, and missed in words.

An engine may run a function twice for one item, and on any machine: functions given to it are pure, importable there,
and read files by absolute paths that all workers see. Because results come in the order of the items, whoever adds
them up gets the same digits whichever worker was first, slow or killed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, TypeVar

from hubbub.protocol.invalid import Invalid

T = TypeVar("T")
R = TypeVar("R")

FORMS = "local, local:N, tcp://HOST:PORT (Dask), spark://HOST:PORT or local-spark"


class Engine(Protocol):
    """Runs a function over items, somewhere."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """The results, in the order of the items. What the function raises is raised here; a worker that dies is
        survived, and what it had is run again, but not for ever."""
        ...

    def close(self) -> None:
        """Give back what was taken: processes, connections. A cluster that was there before stays."""
        ...


class LostTooOften(OSError):
    """Workers kept dying: the work itself may be what kills them."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """`Invalid` on its way from a worker: as a value, because each engine wraps errors in its own way."""

    problems: tuple[str, ...]


def answer(function: Callable[[T], R], item: T) -> R | Refusal:
    """What a worker runs for one item."""
    try:
        return function(item)
    except Invalid as refused:
        return Refusal(refused.problems)


def opened(result: R | Refusal) -> R:
    """What a worker answered, or the `Invalid` that it had to say."""
    if isinstance(result, Refusal):
        raise Invalid(result.problems)
    return result


def engine_from(text: str) -> Engine:
    """The engine that a text names. Raises `Invalid` for one that there is not, or whose library is missing."""
    local = re.fullmatch(r"local(?::([0-9]{1,6}))?", text)
    if local:
        processes = int(local[1]) if local[1] else os.cpu_count() or 1
        if processes < 1:
            raise Invalid([f"engine local:N needs at least 1 process, got {text!r}"])
        return _made("local", processes)
    if re.fullmatch(r"tcp://[^/\s]+:[0-9]{1,5}", text):
        return _made("dask", text)
    if text == "local-spark" or re.fullmatch(r"spark://[^/\s]+:[0-9]{1,5}", text):
        return _made("spark", "local[*]" if text == "local-spark" else text)
    raise Invalid([f"engine must be {FORMS}, got {text!r}"])


def _made(module: str, argument: int | str) -> Engine:
    engine: Engine = import_module(f"hubbub.analysis.engines.{module}").start(argument)
    return engine
