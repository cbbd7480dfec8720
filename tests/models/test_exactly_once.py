"""Every order of events of a store that several collectors share, explored by a model checker (exactly_once.pml): none
loses or doubles a batch, or counts it in a pair that was not counted when it came. Each planted bug is found, or the
model could not have found it in the design either.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).with_name("exactly_once.pml")
BUGS = ("NO_DEDUP", "TWO_TRANSACTIONS", "LOT_FROM_CLOCK", "CLOSED_LOOKED_UP_BEFORE", "FOLD_IN_TWO", "PAIRS_OF_THE_FOLD")
PATIENCE = 600

pytestmark = pytest.mark.skipif(
    not (shutil.which("spin") and shutil.which("cc")), reason="needs spin and a C compiler (Debian: spin, gcc)"
)


def explored(folder: Path, *defines: str) -> tuple[int, bool]:
    """How many states were seen, and whether none of them breaks an assertion; the search ends with the first."""
    for command in (
        ["spin", "-a", *(f"-D{define}" for define in defines), str(MODEL)],
        ["cc", "-O1", "-DSAFETY", "-DMEMLIM=4000", "-o", "pan", "pan.c"],
        ["./pan", "-n"],
    ):
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=PATIENCE)
    found = re.search(r"errors: (\d+)\s+(\d+) states, stored", done.stdout)
    assert found, done.stdout
    assert "max search depth too small" not in done.stdout
    assert "out of memory" not in done.stdout
    return int(found[2]), found[1] == "0"


def test_no_order_of_events_loses_or_doubles_a_batch(tmp_path: Path) -> None:
    states, right = explored(tmp_path)
    assert right
    assert states > 100_000, "attempts, lost answers, folding and closing meet in many ways"


@pytest.mark.parametrize("bug", BUGS)
def test_each_planted_bug_is_found(tmp_path: Path, bug: str) -> None:
    _, right = explored(tmp_path, bug)
    assert not right


@pytest.mark.proof
def test_no_order_of_more_events_loses_or_doubles_a_batch(tmp_path: Path, figure) -> None:
    states, right = explored(tmp_path, "ATTEMPTS=5", "FOLDS=4")
    assert right
    figure("model of the shared store", f"5 attempts, 4 folds, one closing: {states:,} states, none wrong")
