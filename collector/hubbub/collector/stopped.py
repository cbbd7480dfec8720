"""Metrics that the operator has stopped: their reports are accepted and thrown away, and clients are told nothing.

The list is a file of names, one a line, blank lines and comments after `#` as one likes. It is read anew every second
it is asked for, so that `hubbub stop` works beside a running collector.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from hubbub.collector.operator_files import locked, replace_file
from hubbub.collector.operator_log import OperatorLog
from hubbub.protocol.fields import did_you_mean
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.names import is_metric

_LOOK_SECONDS = 1.0


class StoppedMetrics:
    """The names on the list, as the store has them now."""

    def __init__(
        self, read: Callable[[], list[str]], operator_log: OperatorLog, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._operator_log = operator_log
        self._clock = clock
        self._look_at = clock()
        self._names: frozenset[str] = frozenset()
        self._problem = ""

    def names(self) -> frozenset[str]:
        if self._clock() >= self._look_at:
            self._look_at = self._clock() + _LOOK_SECONDS
            self._look()
        return self._names

    def _look(self) -> None:
        """A file that cannot be read changes nothing, and the operator is told once."""
        try:
            names = frozenset(self._read())
        except (OSError, UnicodeDecodeError) as error:
            if str(error) != self._problem:
                self._problem = str(error)
                self._operator_log.warning(
                    "the list of stopped metrics cannot be read and stays as it was", error=error
                )
            return
        self._problem = ""
        if names != self._names:
            self._names = names
            self._operator_log.info("reports of stopped metrics are thrown away", metrics=sorted(names))


def read_stopped(path: Path) -> list[str]:
    """The names in the file; none if there is no file."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def stop_metric(path: Path, name: str) -> None:
    """Add a name to the list."""
    check_name(name)
    with locked(path.parent):
        names = read_stopped(path)
        if name not in names:
            _write(path, [*names, name])


def undo_stop(path: Path, name: str) -> None:
    """Take a name off the list."""
    with locked(path.parent):
        names = read_stopped(path)
        if name not in names:
            raise not_stopped(name, names)
        _write(path, [other for other in names if other != name])


def names_counted(database: Path) -> list[str]:
    """The metrics of everything ever counted in the checkpoint of an embedded store; none if it cannot be read now."""
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as db:
            return metric_names(json.loads(text) for (text,) in db.execute("select definition from metrics"))
    except sqlite3.Error:
        return []


def metric_names(definitions: Iterable[dict[str, Any]]) -> list[str]:
    """Of definitions as JSON; those of pairs are none."""
    return sorted({definition["name"] for definition in definitions if "metrics" not in definition})


def doubts_about(name: str, counted: list[str]) -> str:
    """What to say of a stopped name that no metric has; nothing where nobody knows the metrics, or one has it."""
    if not counted or name in counted:
        return ""
    near = did_you_mean(name, counted) or f"; its metrics are: {', '.join(counted)}"
    return f"but no metric of this collector has the name {name} now{near}"


def check_name(name: str) -> None:
    if not is_metric(name):
        raise Invalid([f"NAME must be a metric's, got {name!r}"])


def not_stopped(name: str, names: list[str]) -> Invalid:
    return Invalid([f"NAME must be a stopped metric's, got {name!r}; stopped are: {', '.join(names) or 'none'}"])


def _write(path: Path, names: list[str]) -> None:
    replace_file(path, "".join(f"{name}\n" for name in names).encode())
