"""What Prometheus is told about the program and its process, by the names that its other clients use.

Only Linux says all of it where an unprivileged process may look (/proc/self, also under the systemd unit's
`ProcSubset=pid`). Elsewhere the figures of the process are left out; which program it is, is always told.
"""

from __future__ import annotations

import os
import platform
import resource
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

_STATE = 3  # the number, in proc(5), of the first field behind the program's name
_USER_TICKS, _SYSTEM_TICKS, _STARTED_TICKS, _ADDRESSED_BYTES, _RESIDENT_PAGES = 14, 15, 22, 23, 24


class ProcessMetrics:
    """Reads `proc` at each `text`. When the process started is worked out once: a clock that is set changes it not."""

    def __init__(self, proc: Path = Path("/proc/self"), wall: Callable[[], float] = time.time) -> None:
        self._proc = proc
        self._program = f'version="{version("hubbub")}",python="{platform.python_version()}"'
        self._started = 0.0
        if self._is_told:
            age = time.clock_gettime(time.CLOCK_BOOTTIME) - self._field(_STARTED_TICKS) / os.sysconf("SC_CLK_TCK")
            self._started = wall() - age

    def text(self) -> str:
        """The exposition format, version 0.0.4."""
        return "\n".join(self._lines()) + "\n"

    @property
    def _is_told(self) -> bool:
        return (self._proc / "stat").exists()

    def _lines(self) -> Iterator[str]:
        yield from _sample("hubbub_build_info", "gauge", "which program this is", "1", f"{{{self._program}}}")
        if not self._is_told:
            return
        cpu = (self._field(_USER_TICKS) + self._field(_SYSTEM_TICKS)) / os.sysconf("SC_CLK_TCK")
        resident = self._field(_RESIDENT_PAGES) * resource.getpagesize()
        soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        open_files = sum(1 for _ in (self._proc / "fd").iterdir()) - 1  # one of them lists them
        for name, kind, words, value in (
            ("cpu_seconds_total", "counter", "user and system time spent, in seconds", f"{cpu:.2f}"),
            ("resident_memory_bytes", "gauge", "memory in use", f"{resident}"),
            ("virtual_memory_bytes", "gauge", "memory addressed", f"{self._field(_ADDRESSED_BYTES)}"),
            ("open_fds", "gauge", "files and connections open", f"{open_files}"),
            ("max_fds", "gauge", "files and connections that may be open", f"{soft_limit}"),
            ("start_time_seconds", "gauge", "when it started, in seconds since 1970", f"{self._started:.2f}"),
        ):
            yield from _sample(f"process_{name}", kind, words, value)

    def _field(self, number: int) -> int:
        """A field of /proc/self/stat, by its number in proc(5). The program's name may hold blanks and parentheses."""
        behind_name = (self._proc / "stat").read_text().rpartition(")")[2]
        return int(behind_name.split()[number - _STATE])


def _sample(name: str, kind: str, words: str, value: str, labels: str = "") -> tuple[str, str, str]:
    return f"# HELP {name} {words}", f"# TYPE {name} {kind}", f"{name}{labels} {value}"
