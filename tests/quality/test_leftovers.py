"""A run that leaves a process behind fails and names it, wherever that process has gone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose descendant a process is")
TESTS = Path(__file__).resolve().parents[1]
PLANTED = """
import subprocess, sys

def test_tidy():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process.communicate(b"go on\\n")

def test_untidy():
    {leak}
"""
LEAKS = {
    "child": 'process = subprocess.Popen(["sleep", "987"])\n    process.returncode = 0',  # so that nobody warns
    # Its parent has ended, its session is its own, and it knows nothing of the tests' environment.
    "orphan": 'subprocess.run(["env", "-i", "/bin/sh", "-c", "setsid /bin/sleep 987 >/dev/null 2>&1 &"])',
    "none": "pass",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    for name in ("conftest.py", "divided_imports.py", "forked.py", "leftovers.py", "minutes.py"):
        shutil.copy(TESTS / name, tmp_path / "tests")
    patience = (tmp_path / "tests" / "leftovers.py").read_text().replace("PATIENCE = 20.0", "PATIENCE = 0.5")
    (tmp_path / "tests" / "leftovers.py").write_text(patience)
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\nmarkers = ["proof: long"]')
    return tmp_path


@pytest.mark.parametrize("workers", [[], ["-p", "xdist", "-n", "1"]], ids=["alone", "by workers"])
@pytest.mark.parametrize("leak", LEAKS)
def test_a_planted_leak_fails_the_run(checkout: Path, leak: str, workers: list[str]) -> None:
    (checkout / "tests" / "test_it.py").write_text(PLANTED.format(leak=LEAKS[leak]))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--import-mode=importlib", "-q", "tests", *workers],
        cwd=checkout,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    named = [line for line in done.stdout.splitlines() if "sleep 987" in line]
    assert (done.returncode, len(named)) == ((0, 0) if leak == "none" else (1, 1)), done.stdout + done.stderr
    if named:  # it was ended; the process that runs this test has adopted it, and can say how
        pid = int(named[0].partition(":")[0])
        assert os.waitpid(pid, 0) == (pid, signal.SIGKILL)
