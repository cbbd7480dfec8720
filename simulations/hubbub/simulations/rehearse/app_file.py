"""One run of somebody's app inside this process: its file is executed anew each time, as a start of the app would.

Either the file has a function for it (`rehearse`, or the one that is named), which is called for one day of one pretend
user; or the whole file is run as a script. What the app prints is thrown away; what it raises is told with the line.
Modules beside the file are loaded anew in each run, so that nothing of one user is left for the next; modules of
libraries are loaded once.
"""

from __future__ import annotations

import ast
import asyncio
import atexit
import inspect
import io
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from hubbub.protocol.invalid import Invalid
from hubbub.simulations.rehearse.replaced import chance_from, importable, replaced

FUNCTION = "rehearse"
"""Called if the file has it and no other is named."""

_NAME = "hubbub_rehearsed_app"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppFile:
    """What is run: a Python file, the function to call in it, the words on its command line."""

    path: Path
    function: str | None = None
    """None: the file is run as a script."""
    arguments: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return self.path.parent


@dataclass(frozen=True, slots=True)
class User:
    """One pretend user on one day, for the app's function: `user.habits.random() < 0.6` is the same every day,
    `user.today.random() < 0.6` is not."""

    number: int
    day: int
    habits: random.Random
    """Chance that gives this user the same numbers every day: tastes, settings, hardware."""
    today: random.Random
    """Chance that gives other numbers every day."""


class AppFailed(Exception):
    """The app raised something, in words: its line, the error, and whose day it was."""


def find_app(path: Path, function: str | None, arguments: tuple[str, ...]) -> AppFile:
    """The file, if it can be run and has the function that is named; raises `Invalid`."""
    if not path.is_file():
        raise Invalid([f"APP.py must be a Python file, got {path}, which is not there (looked in {Path.cwd()})"])
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except SyntaxError as error:
        no_python = "" if path.suffix in (".py", "") else f"APP.py must be a Python file, got {path.name}: "
        raise Invalid([f"{no_python}{path}, line {error.lineno}: {error.msg}"]) from None
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if function is not None and function not in functions:
        has = ", ".join(functions) or "none"
        raise Invalid([f"--call must be a function of {path.name}, got {function!r}; it has {has}"])
    found = function or (FUNCTION if FUNCTION in functions else None)
    if found and arguments:
        raise Invalid(
            [f"--arguments are for an app that is run as a script, but {found}() is called, got {arguments[0]!r}"]
        )
    return AppFile(path=path.resolve(), function=found, arguments=arguments)


def make_user(seed: int, number: int, day: int) -> User:
    """The same user for the same seed."""
    return User(number, day, random.Random(f"{seed} {number}"), random.Random(f"{seed} {number} {day}"))


def run_app(app: AppFile, user: User) -> None:
    """Start the app, let this user have their day, end it. Raises `AppFailed`."""
    said = io.StringIO()
    known = frozenset(sys.modules)
    module = ModuleType(_NAME if app.function else "__main__")
    module.__file__ = str(app.path)
    try:
        with _as_if_started(app, module, user, said) as leaving:
            exec(_compiled(app.path, app.path.stat().st_mtime_ns), module.__dict__)  # noqa: S102  running this file is what was asked for
            if app.function:
                _call(module.__dict__[app.function], user)
            for function in reversed(leaving):
                function()
    except SystemExit as end:
        if end.code not in (None, 0):
            raise AppFailed(f"{app.path.name} ended with {end.code!r} ({_whose(user)}){_last_words(said)}") from None
    except Exception as error:  # noqa: BLE001  whatever an app can raise
        raise AppFailed(f"{_place(app, error)}{type(error).__name__}: {error} ({_whose(user)})") from None
    finally:
        _unload(app, module, known)


def _call(function: Callable[..., Any], user: User) -> None:
    result = function(user) if inspect.signature(function).parameters else function()
    if inspect.iscoroutine(result):
        asyncio.run(result)


@contextmanager
def _as_if_started(
    app: AppFile, module: ModuleType, user: User, said: io.StringIO
) -> Iterator[list[Callable[[], object]]]:
    """What a process that was started with this file would find; what it complains of goes to `said`. Yields what it
    asked to be called at its end."""
    leaving: list[Callable[[], object]] = []

    def at_exit(function: Callable[..., Any], *args: Any, **named: Any) -> Callable[..., Any]:
        leaving.append(lambda: function(*args, **named))
        return function

    with (
        replaced(sys, argv=[str(app.path), *app.arguments], path=[str(app.folder), *sys.path]),
        replaced(atexit, register=at_exit),
        importable(module),
        chance_from(user.today.random()),
        redirect_stdout(io.StringIO()),
        redirect_stderr(said),
    ):
        yield leaving


@lru_cache(maxsize=1)
def _compiled(path: Path, written: int) -> CodeType:
    """`written` is when: a file that has changed is compiled again."""
    return compile(path.read_bytes(), str(path), "exec")


def _unload(app: AppFile, module: ModuleType, known: frozenset[str]) -> None:
    """Forget the app's own modules. Emptied, they hold each other no longer, and what they held is gone at once."""
    own = [name for name in sys.modules.keys() - known if _is_own(app, sys.modules[name])]
    for loaded in (module, *(sys.modules.pop(name) for name in own)):
        loaded.__dict__.clear()


def _is_own(app: AppFile, module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and "site-packages" not in file and Path(file).is_relative_to(app.folder)


def _place(app: AppFile, error: Exception) -> str:
    """The last line of the app's own that led to the error."""
    trace = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in trace if Path(frame.filename).is_relative_to(app.folder)]
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}: " if frames else f"{app.path.name}: "


def _last_words(said: io.StringIO) -> str:
    """What the app complained of at last."""
    lines = said.getvalue().split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f": {last[:200]}" if last else ""


def _whose(user: User) -> str:
    return f"user {user.number}, day {user.day + 1}"
