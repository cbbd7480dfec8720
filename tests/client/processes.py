"""Real processes, Python scripts and the `hubbub` command, in an environment that looks like no test and no CI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HUBBUB = Path(sys.executable).with_name("hubbub.exe" if sys.platform == "win32" else "hubbub")
PATIENCE = 300
"""Seconds after which a process is believed to hang, however busy the machine is."""


def clean_environment(**more: str) -> dict[str, str]:
    """Only what a process needs to start, and `more`."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "LANG", "PYTHONUTF8", "SYSTEMROOT", "USERPROFILE", "VIRTUAL_ENV")
        if name in os.environ
    }
    return {**kept, **more}


def run_python(script: str, *arguments: object, **environment: str) -> Any:
    """Runs a script to its end and returns what it printed, read as JSON. It finds its arguments in `sys.argv[1:]`."""
    return _run_to_the_end("-c", script, *arguments, **environment)


def run_file(path: Path, *arguments: object, **environment: str) -> Any:
    """Like `run_python`, for a script that must be a file: workers that it spawns import it."""
    return _run_to_the_end(path, *arguments, **environment)


def _run_to_the_end(*command: object, **environment: str) -> Any:
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else None


def start_python(script: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    """Starts a script whose input and output the test keeps in its hands."""
    return subprocess.Popen(
        [sys.executable, "-u", "-c", script, *map(str, arguments)],
        env=clean_environment(**environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def hubbub(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command as a person would."""
    return subprocess.run(
        [str(HUBBUB), *map(str, arguments)],
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def run_unprivileged(script: str, *arguments: object, **environment: str) -> Any:
    """Like `run_python`, but permissions hold even for root: it gives up the right to ignore them."""
    return run_python(_GIVE_UP, script, *arguments, **environment)


_GIVE_UP = """
import ctypes, os, sys
if os.geteuid() == 0:
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH; 24 is PR_CAPBSET_DROP
        assert ctypes.CDLL(None).prctl(24, capability, 0, 0, 0) == 0
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""


@contextmanager
def holding_the_state(database: Path) -> Iterator[None]:
    """Another process has begun a transaction, and does not end it before the test lets it."""
    process = start_python(_HOLD, database)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
    finally:
        process.communicate(timeout=PATIENCE)


_HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held")
sys.stdin.read()
"""
