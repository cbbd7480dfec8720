"""`nohup make test &` passes: no test needs SIGINT to be as it is on a terminal."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interrupts import ignored_interrupts, interruptible

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
TESTS = Path(__file__).resolve().parents[1]
INTERRUPTED = -signal.SIGINT


def test_a_process_can_be_interrupted_although_the_tests_ignore_it():
    with interruptible([sys.executable, "-c", "print('ready', flush=True)\nwhile True: pass"]) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    assert "KeyboardInterrupt" in errors


def test_started_otherwise_it_could_not():
    """Else the test above would say nothing."""
    with ignored_interrupts():
        process = subprocess.Popen(
            [sys.executable, "-c", "print('ready', flush=True)\ninput()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    process.communicate("go on\n", timeout=60)
    assert process.returncode == 0


def test_whatever_is_interrupted_in_a_test_is_started_so_that_it_can_be():
    for path in sorted(TESTS.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if re.search(r"(send_signal|kill)\w*\(.*SIGINT", source):
            assert "from tests.interrupts import" in source, f"{path}: start it with tests.interrupts.interruptible"
