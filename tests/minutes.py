"""Where the minutes of a run go: `--minutes` prints the processor seconds of every folder and of the longest files.

Counted are the seconds that tests and the processes they waited for have computed, whatever else the machine did
meanwhile; beside them stands how long the tests took by the clock, which is more where they wait. With xdist the
workers count, and the process that started them tells.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Generator
from pathlib import PurePosixPath
from typing import Any

import pytest

LONGEST = 12
_OUTPUT = "minutes"
_BEFORE = "(collecting tests)"


class Minutes:
    """A plugin of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self.computed: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()
        self._output: dict[str, Any] | None = getattr(config, "workeroutput", None)

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        begun = time.monotonic()
        done = yield
        self.count(_BEFORE, processor_seconds(), time.monotonic() - begun)  # also what came before: the imports
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before, begun = processor_seconds(), time.monotonic()
        done = yield
        file = item.nodeid.partition("::")[0]
        self.count(file, processor_seconds() - before, time.monotonic() - begun)
        return done

    def count(self, file: str, computed: float, passed: float) -> None:
        self.computed[file] += computed
        self.passed[file] += passed

    def pytest_sessionfinish(self) -> None:
        if self._output is not None:
            self._output[_OUTPUT] = [[file, self.computed[file], self.passed[file]] for file in self.computed]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for row in getattr(node, "workeroutput", {}).get(_OUTPUT, []):
            self.count(*row)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("where the minutes go")
        for line in self.lines():
            terminalreporter.write_line(line)

    def lines(self) -> list[str]:
        """Two tables, as on the page for contributors."""
        folders: dict[str, list[float]] = {}
        for file in self.computed:
            sums = folders.setdefault(folder_of(file), [0.0, 0.0])
            sums[0] += self.computed[file]
            sums[1] += self.passed[file]
        rows = [(folder, *sums) for folder, sums in folders.items()]
        rows.append(("all", self.computed.total(), self.passed.total()))
        files = [(file, self.computed[file], self.passed[file]) for file in self.passed]
        longest = sorted(files, key=lambda row: -row[2])[:LONGEST]
        return [*_table("folder", sorted(rows, key=lambda row: -row[1])), "", *_table("longest files", longest)]


def processor_seconds() -> float:
    """Of this process, and of those that it has waited for."""
    return sum(os.times()[:4])


def folder_of(file: str) -> str:
    """`tests/analysis` of `tests/analysis/kinds/test_rows.py`; `tests` of what lies there itself."""
    parts = PurePosixPath(file).parts
    return "/".join(parts[: min(2, len(parts) - 1)]) or file


def _table(name: str, rows: list[tuple[str, float, float]]) -> list[str]:
    cells = [f"| {what} | {computed:.1f} | {passed:.1f} |" for what, computed, passed in rows]
    return [f"| {name} | processor seconds | seconds by the clock |", "|---|---:|---:|", *cells]
