"""Fails a run that leaves a process behind, on Linux; elsewhere it looks at nothing.

A process whose parent ends goes to the nearest ancestor that asked for such orphans. Every process that runs tests
asks, so whatever its tests have started, in whatever session, group or environment, is its descendant until it ends.
When the last test is over none may be left. What is found is named, ended, and fails the run.
"""

from __future__ import annotations

import ctypes
import multiprocessing.resource_tracker
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 20.0
"""Seconds in which what was told to end must be gone: a limit for what stays, no claim about time."""
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_OUTPUT = "left_behind"


class Leftovers:
    """A plugin of pytest. With xdist the workers look, and the process that started them tells."""

    def __init__(self, config: pytest.Config) -> None:
        self.found: list[str] = []
        self._output: dict[str, Any] | None = getattr(config, "workeroutput", None)
        self._runs_tests = self._output is not None or not config.getoption("numprocesses", None)
        if self._runs_tests:
            adopt_orphans()

    @pytest.hookimpl(trylast=True)  # after every fixture
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._runs_tests:
            self.found += end_descendants(PATIENCE)
        if self._output is not None:
            self._output[_OUTPUT] = self.found
        elif self.found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.found += getattr(node, "workeroutput", {}).get(_OUTPUT, [])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.found:
            terminalreporter.section("processes that the tests have left behind", red=True)
            for line in self.found:
                terminalreporter.write_line(line)


def adopt_orphans() -> None:
    if sys.platform == "linux":
        assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def adopts_orphans() -> bool:
    if sys.platform != "linux":
        return False
    adopts = ctypes.c_int(0)
    assert ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(adopts), 0, 0, 0) == 0
    return bool(adopts.value)


def end_descendants(patience: float) -> list[str]:
    """Waits until no descendant lives, and says which still do after that time. They are ended."""
    if sys.platform != "linux":
        return []
    # Python's own helper lives as long as the process that uses shared memory or a lock; it ends when it is asked to.
    multiprocessing.resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]
    deadline = time.monotonic() + patience
    while (living := living_descendants()) and time.monotonic() < deadline:
        time.sleep(0.05)
    found = [f"{pid}: {command_of(pid)}" for pid in living]
    for pid in living:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return found


def living_descendants() -> list[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # The name of the program, in parentheses, may hold anything; state and parent follow it.
                state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            except OSError:
                continue  # it has ended meanwhile
            if state not in "ZX":
                parents[int(entry.name)] = int(parent)
    found: list[int] = []
    for pid in parents:
        ancestor = pid
        while ancestor in parents and ancestor != os.getpid():
            ancestor = parents[ancestor]
        if ancestor == os.getpid() and pid != ancestor:
            found.append(pid)
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "(just gone)"
