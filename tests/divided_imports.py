"""In a new checkout test modules are compiled once, not once by every worker.

pytest compiles a test module with its assertions rewritten and keeps the result; for all of them that takes five
seconds, half of what collecting takes. Workers that begin together and go the same way all do it. So each first imports
the modules from a place of its own on, and finds the rest compiled by the others. Which tests there are, and their
order, is as ever: a module that has been imported is taken from there.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


class DividedImports:
    """A plugin of pytest, for a worker of xdist."""

    def __init__(self, worker: int, workers: int) -> None:
        self._worker, self._workers = worker, workers

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        if isinstance(collector, pytest.Session):  # the first of all, and pytest is ready to rewrite assertions
            found = asked_modules(collector.config.args)
            begin = len(found) * self._worker // self._workers
            for name in found[begin:] + found[:begin]:
                _import(name)


def asked_modules(arguments: list[str]) -> list[str]:
    """The names of the modules that these words of a command line ask for."""
    paths: set[Path] = set()
    for word in arguments:
        path = (ROOT / word.partition("::")[0]).resolve()
        paths |= set(path.rglob("test_*.py")) if path.is_dir() else {path}
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in sorted(paths)
        if path.suffix == ".py" and path.is_file() and path.is_relative_to(ROOT)
    ]


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except BaseException:  # noqa: BLE001 - also a module that is skipped: pytest imports it again, and says so
        sys.modules.pop(name, None)
