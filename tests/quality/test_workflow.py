"""The hosted workflow, which nothing here can run: it can be read, and what it calls is there."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / ".github" / "workflows" / "test.yml"
WHOLE = yaml.safe_load(FILE.read_text())
JOBS = WHOLE["jobs"]
COMMANDS = [step["run"] for job in JOBS.values() for step in job["steps"] if "run" in step]


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


def test_a_classifier_names_no_python_that_is_not_tested():
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    named = {name.rpartition(" ")[2] for name in classifiers if re.search(r"Python :: 3\.", name)}
    assert {"3.11"} < named <= set(JOBS["everything"]["strategy"]["matrix"]["python"])


# Of the keys that hosted workflows know, those that one for tests may need: any other is refused there, or, worse, is
# a typing error that leaves a step out.
WORKFLOW = {"name", "on", "permissions", "env", "defaults", "concurrency", "jobs"}
JOB = {
    *("name", "needs", "if", "runs-on", "permissions", "env", "defaults", "strategy", "steps", "timeout-minutes"),
    *("concurrency", "continue-on-error", "container", "services", "outputs", "environment"),
}
STRATEGY = {"matrix", "fail-fast", "max-parallel"}
STEP = {"id", "if", "name", "uses", "run", "with", "env", "shell", "working-directory", "continue-on-error"}


def mistakes(workflow: dict[Any, Any]) -> Iterator[str]:
    """What the host would refuse, or understand otherwise than it is meant."""
    keys = {"on" if key is True else key for key in workflow}  # YAML takes `on` for a yes
    yield from (f"the workflow has {key}" for key in keys - WORKFLOW)
    yield from (f"the workflow lacks {key}" for key in {"on", "jobs"} - keys)
    for name, job in workflow["jobs"].items():
        strategy = job.get("strategy", {})
        yield from (f"{name} has {key}" for key in [*(job.keys() - JOB), *(strategy.keys() - STRATEGY)])
        yield from (f"{name} lacks {key}" for key in {"runs-on", "steps", "timeout-minutes"} - job.keys())
        used = set(re.findall(r"\$\{\{ *matrix\.([\w-]+) *\}\}", str(job)))
        yield from (f"{name}: the matrix has no {key}" for key in used - strategy.get("matrix", {}).keys())
        yield from (f"{name}: nothing uses {key} of the matrix" for key in strategy.get("matrix", {}).keys() - used)
        versions = [strategy.get("matrix", {}).get("python", [])]
        versions += [[step["with"]["python-version"]] for step in job.get("steps", ()) if "with" in step]
        yield from (f"{name}: {v!r} is a number, not a text" for row in versions for v in row if not isinstance(v, str))
        for number, step in enumerate(job.get("steps", ()), 1):
            where = f"step {number} of {name}"
            yield from (f"{where} has {key}" for key in step.keys() - STEP)
            if ("uses" in step) == ("run" in step):
                yield f"{where} must have either uses or run"
            if "with" in step and "uses" not in step:
                yield f"{where} has with, and nothing that it uses"
            if not re.fullmatch(r"[\w-]+/[\w./-]+@v\d+", step.get("uses", "a/b@v1")):
                yield f"{where}: {step['uses']} names no version"


def test_it_has_no_key_that_workflows_do_not_know_and_lacks_none():
    assert list(mistakes(WHOLE)) == []


@pytest.mark.parametrize(
    ("written", "instead", "mistake"),
    [
        ("permissions:", "permision:", "the workflow has permision"),
        ("runs-on: ubuntu-latest", "run-on: ubuntu-latest", "everything has run-on"),
        ("fail-fast:", "failfast:", "everything has failfast"),
        ("matrix.python }}", "matrix.pyhton }}", "everything: the matrix has no pyhton"),
        ('"3.14"]', "3.10]", "everything: 3.1 is a number, not a text"),
        ("- run: .ci/run", "- ruin: .ci/run", "step 3 of everything has ruin"),
        ("- run: .ci/run", "- name: .ci/run", "step 3 of everything must have either uses or run"),
        ("actions/checkout@v4", "actions/checkout", "step 1 of everything: actions/checkout names no version"),
    ],
)
def test_a_planted_mistake_is_noticed(written: str, instead: str, mistake: str):
    text = FILE.read_text()
    assert written in text
    assert mistake in list(mistakes(yaml.safe_load(text.replace(written, instead, 1))))
