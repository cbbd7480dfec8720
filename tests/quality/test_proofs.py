"""The record of proofs: what has passed on this exact source tree is not run again, but told again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PYPROJECT = """
[tool.pytest.ini_options]
addopts = ["--import-mode=importlib", "--strict-markers", "-p", "no:cacheprovider"]
markers = ["proof: long"]
pythonpath = ["."]
"""
CHECKS = """
import pathlib, pytest

RAN = pathlib.Path(__file__).parents[1] / "ran.txt"

def ran(name):
    with RAN.open("a") as file:
        file.write(name + "\\n")

def test_quick():
    ran("quick")

@pytest.mark.proof
def test_long(figure):
    ran("long")
    figure("coverage", "0.951 of 10000 populations")

@pytest.mark.proof
@pytest.mark.parametrize("size", [1, 2])
def test_doubtful(figure, size):
    ran(f"doubtful {size}")
    figure("size", size)
    assert size == 1 or (RAN.parent / "mended").exists()
"""


class Checkout:
    """A project with this one's conftest, a quick check, a proof, and a proof of two parts of which one fails."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "tests").mkdir()
        (root / "pyproject.toml").write_text(PYPROJECT)
        for name in ("conftest.py", "divided_imports.py", "forked.py", "leftovers.py", "minutes.py"):
            shutil.copy(TESTS / name, root / "tests")
        (root / "tests" / "test_it.py").write_text(CHECKS)

    def pytest(self, *options: str) -> tuple[int, str, list[str]]:
        """Exit status, output, and which checks ran."""
        ran = self.root / "ran.txt"
        ran.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "tests", *options],
            cwd=self.root,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout + done.stderr, sorted(ran.read_text().splitlines() if ran.exists() else [])


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_a_plain_run_leaves_proofs_out(checkout):
    status, output, ran = checkout.pytest()
    assert (status, ran) == (0, ["quick"])
    assert "3 deselected" in output
    assert not (checkout.root / ".proof").exists()


@pytest.mark.parametrize("workers", [[], ["-p", "xdist", "-n", "1"]], ids=["alone", "by workers"])
def test_a_resumed_run_runs_only_what_has_not_passed_and_tells_every_figure(checkout, workers):
    status, output, ran = checkout.pytest("-m", "proof", "--resume", *workers)
    assert (status, ran) == (1, ["doubtful 1", "doubtful 2", "long"])
    assert "figures of 2 proofs" in output
    assert output.index("coverage: 0.951") < output.index("figures of 2 proofs"), "not told as the check ended"

    (checkout.root / "mended").touch()
    status, output, ran = checkout.pytest("-m", "proof", "--resume", *workers)
    assert (status, ran) == (0, ["doubtful 2"])
    page = (checkout.root / ".proof" / "figures.md").read_text()
    for told in (output, page):
        assert "0.951 of 10000 populations" in told
    assert "| tests/test_it.py::test_doubtful[2] | size | 2 |" in page

    status, output, ran = checkout.pytest("-m", "proof", "--resume", *workers)
    assert (status, ran) == (0, [])
    assert "coverage: 0.951 of 10000 populations" in output


def test_another_source_tree_is_proven_anew(checkout):
    checkout.pytest("-m", "proof", "--resume")
    (checkout.root / "client").mkdir()
    (checkout.root / "client" / "new.py").write_text("")
    _, _, ran = checkout.pytest("-m", "proof", "--resume")
    assert ran == ["doubtful 1", "doubtful 2", "long"]
    # A cache is no source.
    (checkout.root / "client" / "__pycache__").mkdir()
    (checkout.root / "client" / "__pycache__" / "new.pyc").write_text("")
    assert checkout.pytest("-m", "proof", "--resume")[2] == ["doubtful 2"]


def test_without_resume_everything_runs_and_a_failure_undoes_what_had_passed(checkout):
    (checkout.root / "mended").touch()
    checkout.pytest("-m", "proof")
    (checkout.root / "mended").unlink()
    assert checkout.pytest("-m", "proof")[2] == ["doubtful 1", "doubtful 2", "long"]
    assert checkout.pytest("-m", "proof", "--resume")[2] == ["doubtful 2"]


def test_a_record_torn_by_a_crash_costs_one_check(checkout):
    (checkout.root / "mended").touch()
    checkout.pytest("-m", "proof")
    record = checkout.root / ".proof" / "record.jsonl"
    record.write_text(record.read_text()[:-10])
    assert len(checkout.pytest("-m", "proof", "--resume")[2]) == 1
    assert checkout.pytest("-m", "proof", "--resume")[2] == []
