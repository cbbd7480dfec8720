"""Which Pythons `.ci/run` tests with besides its own: of each minor version the newest that this machine has."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("bash", "grep", "sed", "sort")

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def newer_pythons(home: Path) -> list[str]:
    """What the function of this name says, where nothing but `home` is on the path and in pyenv's folder."""
    (function,) = re.findall(
        r"^newer_pythons\(\) \{.*?^\}", (ROOT / ".ci/run").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    for program in PROGRAMS:
        found = shutil.which(program)
        assert found, f"{program} is needed"
        (home / "bin" / program).symlink_to(found)
    environ = {"PATH": str(home / "bin"), "PYENV_ROOT": str(home / "pyenv"), "HOME": str(home)}
    command = [str(home / "bin/bash"), "-euo", "pipefail", "-c", f"{function}\nnewer_pythons"]
    return subprocess.run(command, env=environ, check=True, capture_output=True, text=True).stdout.splitlines()


def interpreter(path: Path, says: str) -> Path:
    """A made-up one, which says this of itself whatever it is asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says}\n" if says else "#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    return path


def test_of_each_minor_version_the_newest_patch_is_taken(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for patch in (2, 13, 9):
        path = tmp_path / f"pyenv/versions/3.12.{patch}/bin/python3"
        interpreter(path, f"3.12 {patch:03d} {path}")
    for name, says in (("python3.13", "3.13 001 /usr/bin/python3.13"), ("python3.14", ""), ("python3.13-config", "no")):
        interpreter(tmp_path / "bin" / name, says)
    assert newer_pythons(tmp_path) == [
        f"3.12 {tmp_path}/pyenv/versions/3.12.13/bin/python3",
        "3.13 /usr/bin/python3.13",
    ]


def test_where_there_is_none_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    interpreter(tmp_path / "bin/python3.11", "")
    assert newer_pythons(tmp_path) == []
