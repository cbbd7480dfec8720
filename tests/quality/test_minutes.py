"""What `--minutes` prints: the seconds of each folder, those of processes that were waited for included."""

from __future__ import annotations

from pathlib import Path

from tests.minutes import folder_of
from tests.quality.test_proofs import Checkout

BUSY = """
import subprocess, sys, time

LOOP = "import time\\nwhile time.process_time() < 0.7: pass"

def test_in_a_process():
    subprocess.run([sys.executable, "-c", LOOP], check=True)

def test_that_waits():
    time.sleep(1)
"""


def test_what_processes_compute_counts_and_waiting_is_time_by_the_clock_alone(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    (checkout.root / "tests" / "busy").mkdir()
    (checkout.root / "tests" / "busy" / "test_busy.py").write_text(BUSY)
    status, said, _ = checkout.pytest("--minutes", "-p", "xdist", "-n", "1")
    assert status == 0
    cells = [[cell.strip() for cell in line.split("|")] for line in said.splitlines() if line.startswith("| ")]
    rows = {what: (float(computed), float(passed)) for _, what, computed, passed, _ in cells if computed[0].isdigit()}
    assert {"(collecting tests)", "tests", "tests/busy", "tests/busy/test_busy.py", "all"} <= rows.keys()
    computed, passed = rows["tests/busy"]
    assert 0.7 <= computed < passed - 0.9
    # Each is rounded by itself.
    assert abs(rows["all"][0] - sum(rows[what][0] for what in ("(collecting tests)", "tests", "tests/busy"))) < 0.2


def test_a_folder_is_what_lies_below_tests() -> None:
    assert folder_of("tests/analysis/kinds/test_rows.py") == "tests/analysis"
    assert folder_of("tests/test_flow.py") == "tests"
