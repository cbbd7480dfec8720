"""What workers are given to do in tests: functions that they can import, some of which end the worker itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hubbub.analysis.engines.engine import Engine
from hubbub.protocol.invalid import Invalid


class Task(NamedTuple):
    number: int
    kill: str = ""
    """A file: whoever does not find it makes it, and is killed. One worker dies so, whoever is first."""


def square(task: Task) -> int:
    die_once(task.kill)
    return task.number**2


def die_once(marker: str) -> None:
    if marker:
        try:
            Path(marker).open("x").close()
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def die(task: Task) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return task.number


def refuse(task: Task) -> int:
    raise Invalid([f"number must be even, got {task.number}", "and small"])


def fail(task: Task) -> int:
    raise ZeroDivisionError(task.number)


def check_promise(engine: Engine, folder: Path) -> None:
    """Results in the order of items, though the third item kills whoever takes it first; what is refused is refused
    here in the same words."""
    tasks = [Task(i, str(folder / "killed") if i == 2 else "") for i in range(12)]
    assert list(engine.map(square, tasks)) == [i**2 for i in range(12)]
    assert (folder / "killed").exists()
    assert list(engine.map(square, [])) == []
    with pytest.raises(Invalid) as refused:
        list(engine.map(refuse, [Task(3)]))
    assert refused.value.problems == ("number must be even, got 3", "and small")


class Killing:
    """An engine that is given one worker's death: in its map number `at`, the first to take the middle item leaves a
    mark and dies, or lives on (`itself=False`) for somebody else to end it."""

    def __init__(self, engine: Engine, marker: Path, at: int, itself: bool = True) -> None:
        self.engine, self.marker, self.left = engine, marker, at
        self.function = _mortal if itself else _marking

    def map(self, function: Callable[[Any], Any], items: Any) -> Any:
        self.left -= 1
        kill = str(self.marker) if self.left == 0 else ""
        middle = len(items) // 2
        given = [(function, item, kill if place == middle else "") for place, item in enumerate(items)]
        return self.engine.map(self.function, given)

    def close(self) -> None:
        self.engine.close()


def _mortal(given: tuple[Callable[[Any], Any], Any, str]) -> Any:
    function, item, kill = given
    die_once(kill)
    return function(item)


def _marking(given: tuple[Callable[[Any], Any], Any, str]) -> Any:
    function, item, mark = given
    if mark:
        Path(mark).touch()
    return function(item)
