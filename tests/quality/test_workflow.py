"""The hosted workflow, which nothing here can run: it can be read, and what it calls is there."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / ".github" / "workflows" / "test.yml"
JOBS = yaml.safe_load(FILE.read_text())["jobs"]
COMMANDS = [step["run"] for job in JOBS.values() for step in job["steps"] if "run" in step]
CHECKER = shutil.which("check-jsonschema") or shutil.which("check-jsonschema", path=str(Path(sys.executable).parent))


def test_every_file_folder_and_target_that_it_names_is_there():
    words = {word for command in COMMANDS for word in command.split()}
    named = {word for word in words if re.match(r"(tests|tools|\.ci)/", word)}
    assert {".ci/run", "tools/environment.py", "tests/client"} <= named
    assert [word for word in named if not (ROOT / word).exists()] == []
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"newest"} == {command.split()[1] for command in COMMANDS if command.startswith("make ")} <= targets


def test_it_tests_every_python_from_the_oldest_that_is_supported():
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    for name in ("everything", "what-apps-embed"):
        versions = JOBS[name]["strategy"]["matrix"]["python"]
        first = int(oldest.split(".")[1])
        assert versions == [f"3.{minor}" for minor in range(first, first + len(versions))]


def test_what_is_run_on_windows_is_run_by_the_shell_that_it_is_written_for():
    job = JOBS["what-apps-embed"]
    assert "windows-latest" in job["strategy"]["matrix"]["system"]
    assert job["defaults"]["run"]["shell"] == "bash"


@pytest.mark.skipif(CHECKER is None, reason="needs check-jsonschema (pip install check-jsonschema)")
def test_the_schema_of_workflows_takes_it():
    command = [CHECKER, "--builtin-schema", "vendor.github-workflows", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
