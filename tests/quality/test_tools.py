"""What machines can say of the code: ruff and mypy find nothing, and look at all of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("client", "collector", "analysis", "simulations")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)


def test_ruff_has_no_complaint():
    done = run("ruff", "check", "--no-cache")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_file_is_formatted():
    done = run("ruff", "format", "--check", "--no-cache")
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_is_content_with_every_module_of_every_package():
    done = run("mypy")
    assert done.returncode == 0, done.stdout + done.stderr
    looked_at = re.search(r"no issues found in (\d+) source files", done.stdout)
    assert looked_at, done.stdout
    there = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert int(looked_at[1]) == len(there)
