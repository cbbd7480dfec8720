"""The environment that make builds for itself: made once, made anew when it must be, and no puzzle when it cannot.

Each test runs the real script on a small project of its own, whose path has a space in it, and no index is reached.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.repacked import pack_again

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "tiny"
version = "0.1"
"""
BACKEND = """
import pathlib, zipfile

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name, info = "tiny-0.1-py3-none-any.whl", "tiny-0.1.dist-info"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w") as wheel:
        wheel.writestr("tiny.py", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 0.1\\nProvides-Extra: dev\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""
BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name in {names!r}:
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, Blocker())
"""


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root / "a project"
        self.python = self.root / ".venv" / "bin" / "python"
        self.stamp = self.root / ".venv" / "made-by-make"
        (self.root / "tools").mkdir(parents=True)
        shutil.copy(ROOT / "tools" / "environment.py", self.root / "tools")
        (self.root / "pyproject.toml").write_text(PYPROJECT)
        (self.root / "constraints.txt").write_text("other==1.0\n")
        (self.root / "backend.py").write_text(BACKEND)
        self.wheels = root / "wheels"
        self.wheels.mkdir()
        self.path = os.environ["PATH"]
        self.lacks: set[str] = set()

    def make(self, *options: str, status: int = 0) -> str:
        """Run the script, in a Python that lacks some modules, and return all it said."""
        customs = self.root.parent / "customs"
        customs.mkdir(exist_ok=True)
        (customs / "sitecustomize.py").write_text(BLOCKED.format(names=self.lacks))
        settings = {"PATH": self.path, "PYTHONPATH": str(customs), "PIP_NO_INDEX": "1"}
        settings["PIP_FIND_LINKS"] = self.wheels.as_uri()
        done = subprocess.run(
            [sys.executable, "tools/environment.py", *options],
            cwd=self.root,
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
        )
        assert done.returncode == status, done.stdout + done.stderr
        assert 'environment.py", line' not in done.stderr
        return done.stdout + done.stderr

    def take_every_way(self) -> None:
        self.lacks = {"ensurepip", "pip", "virtualenv"}
        self.path = str(self.root)

    def has_tiny(self) -> bool:
        return subprocess.run([self.python, "-c", "import tiny"], capture_output=True).returncode == 0


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_it_is_made_once_and_made_anew_when_half_made_or_out_of_date(project):
    """Here by ensurepip, which brings a pip where this Python has none."""
    project.lacks = {"pip"}
    assert "Making .venv" in project.make()
    assert not list((project.root / ".venv").rglob("tiny*.pyc")), "compiled before anybody imports it"
    assert project.has_tiny()
    assert project.make() == ""

    # Whether it sets to work again can be seen without waiting for the work: it is left no way to do it.
    project.take_every_way()
    assert project.make() == ""
    stamp = project.stamp.read_text()
    (project.root / "pyproject.toml").write_text(PYPROJECT + "# changed\n")
    assert "Making .venv" in project.make(status=1)

    (project.root / "pyproject.toml").write_text(PYPROJECT)
    (project.root / ".venv" / "left over").touch()
    assert not project.stamp.exists()
    assert "Making .venv" in project.make(status=1)
    assert not (project.root / ".venv" / "left over").exists()

    project.stamp.write_text(stamp)
    assert project.make() == ""
    project.python.unlink()
    assert "Making .venv" in project.make(status=1)


def test_another_folder_is_an_environment_of_its_own(project):
    project.take_every_way()
    said = project.make("--venv", "another one", status=1)
    assert "Making another one with Python" in said
    assert not (project.root / ".venv").exists()


def test_a_folder_that_holds_something_else_is_left_alone(project):
    (project.root / "papers").mkdir()
    (project.root / "papers" / "letter.txt").write_text("dear")
    said = project.make("--venv", "papers", status=1)
    assert "papers holds something else than an environment: name another folder, or remove it" in said
    assert (project.root / "papers" / "letter.txt").read_text() == "dear"


def test_what_is_installed_is_held_to_the_constraints_unless_the_newest_is_asked_for(project):
    """Here without ensurepip: the pip at hand is used, and what it refuses leaves no stamp."""
    project.lacks = {"ensurepip"}
    pack_again("pip", project.wheels)
    (project.root / "constraints.txt").write_text("pip==0.1\n")
    said = project.make(status=1)
    assert "Cannot install pip" in said
    assert "hubbub: pip could not install the project into .venv: what it says above is the reason" in said
    assert not project.stamp.exists()
    project.make("--newest")
    assert project.has_tiny()
    assert subprocess.run([project.python, "-m", "pip", "--version"], capture_output=True).returncode == 0
    assert project.make("--newest") == ""

    # One is not taken for the other, nor is what other constraints made.
    project.take_every_way()
    assert "Making .venv" in project.make(status=1)


def test_constraints_name_every_installed_package_by_its_version_and_nothing_else():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"#.*|[a-z0-9-]+==[\w.]+", line)] == []
    assert "hubbub" not in {line.partition("==")[0] for line in lines}
    listed = subprocess.run([sys.executable, ROOT / "tools" / "constraints.py"], capture_output=True, text=True)
    assert listed.stdout.splitlines()[:2] == lines[:2]
    assert f"pytest=={pytest.__version__}" in listed.stdout.splitlines()


def test_without_any_pip_of_its_own_that_of_another_python_is_used(project):
    project.lacks = {"ensurepip", "pip", "virtualenv"}
    pack_again("pip", project.wheels)
    other = project.root.parent / "bin" / "pip3"
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pip "$@"\n')
    other.chmod(0o755)
    project.path = str(other.parent)
    project.make()
    assert project.has_tiny()


def test_with_no_way_left_one_sentence_names_the_package_to_install(project):
    project.take_every_way()
    said = project.make(status=1).splitlines()
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert said[1:] == [
        f"hubbub: {sys.executable} cannot make a virtual environment; install the system package python{version}-venv "
        f"(that is its name on Debian and Ubuntu: apt-get install python{version}-venv) and run make again"
    ]
    assert not project.stamp.exists()


def test_an_older_python_is_told_in_one_sentence():
    """Which it can only be told if it can read the file: nothing in it is newer than Python 3.7."""
    script = ROOT / "tools" / "environment.py"
    ast.parse(script.read_text(), feature_version=(3, 7))
    pretend = "import runpy, sys; sys.version_info = (3, 9, 2); runpy.run_path(sys.argv.pop(), run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", pretend, script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"hubbub: Python 3.11 or newer is needed, but {sys.executable} is 3.9; "
        "name another one: make PYTHON=/path/to/python3\n"
    )


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_alone_lists_every_target():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[0].split()) - {"help", "environment"}
    assert targets == {
        "test",
        "demo",
        "check",
        "docs",
        "bench",
        "mutants",
        "newest",
        "proof",
        "stated",
        "pictures",
        "clean",
    }
    listed = subprocess.run(["make", "-C", str(ROOT)], capture_output=True, text=True).stdout
    for target in targets:
        assert f"make {target} " in listed


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("name", ["PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE"])
def test_what_would_mislead_or_slow_down_every_python_is_not_handed_on(name, tmp_path):
    (tmp_path / "ask.mk").write_text("ask:\n\t@env\n")
    seen = subprocess.run(
        ["make", "-s", "-C", str(ROOT), "-f", "Makefile", "-f", str(tmp_path / "ask.mk"), "ask"],
        env={**os.environ, name: "1", "KNOWN": "1"},
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    assert "KNOWN=1" in seen
    assert f"{name}=1" not in seen
