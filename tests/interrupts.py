"""Processes that a test interrupts as Ctrl-C would, wherever the tests run.

Under `nohup make test &` the tests are started with SIGINT ignored. Every child inherits that, and Python then installs
no handler for it: a program that is interrupted would go on for ever. So a test that sends SIGINT starts its program
by `interruptible`, which ignores SIGINT while it starts it: every run is then as hard as that one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

_LAUNCH = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


@contextmanager
def interruptible(
    command: Sequence[object], environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A process with pipes for what it prints, started as under nohup and yet interrupted by SIGINT. Whatever the test
    does, it is gone afterwards, with all it has started."""
    with ignored_interrupts():
        process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, *map(str, command)],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        _close(process.stdout, process.stderr)


def _close(*streams: IO[str] | None) -> None:
    for stream in streams:
        if stream:
            stream.close()


@contextmanager
def ignored_interrupts() -> Iterator[None]:
    """As under nohup: whatever is started within ignores SIGINT, unless it is started otherwise."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
