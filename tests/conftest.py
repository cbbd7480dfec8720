"""What every test shares: which checks run, the figures they print, chance that is the same in every run, and that no
process is left behind (leftovers.py).

A check marked `proof` is the long, full-size form of a claim; it runs only where `-m` names the marker. What it
prints through `figure` is kept in `.proof/` with the fact that it passed on this exact source tree, so that
`--resume` (which `make proof` gives) runs only what has not passed yet and prints all the figures again.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import platform
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import forked
from tests.divided_imports import DividedImports
from tests.leftovers import Leftovers
from tests.minutes import Minutes

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".proof"
SOURCES = ("pyproject.toml", "client", "collector", "analysis", "simulations", "tests")
FIGURE = "figure"
LONG_FILES = [
    "torture/test_shared_faults",
    "quality/test_tools",
    "docs/test_pages",
    "simulations/audit/test_audit",
    "torture/test_shared_store",
    "simulations/experiments/test_experiments",
    "simulations/simulate/test_ways",
    "torture/test_kills",
    "packaging/test_environment",
    "simulations/demo/test_demo",
    "dashboard/test_browser",
    "dashboard/test_aloud",
    "dashboard/test_demo_questions",
    "protocol/test_enumeration",
    "quality/test_mutants",
    "simulations/simulate/test_simulate",
    "analysis/test_decoding",
    "analysis/estimation/test_string_screen",
    "client/test_processes",
    "docs/test_site",
    "test_five_minutes",
    "simulations/rehearse/test_rehearse",
    "test_first_hour",
    "torture/test_fuzz",
    "docs/test_notebook",
    "quality/test_proofs",
    "quality/test_imports",
    "client/test_transcripts",
    "client/test_time",
    "client/test_histories",
    "analysis/test_long_lists",
    "simulations/test_engines",
    "test_everything",
]
"""Handed out first, in this order: a file stays with one worker, and nobody should begin a minute's work at the end."""

# Where several processes test at once they have the cores already: threads of the linear algebra that wait for one
# another beside them cost twice as much again. Set before anything imports numpy; a proof has the machine to itself.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# No run differs from the last unless the code does, and no slow machine fails a check.
# `--hypothesis-profile explore` looks for new examples.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("steady")


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str, object], None]:
    """Prints a figure that the check found, and keeps it: `figure("coverage", "0.951 of 10000 populations")`."""

    def record(name: str, value: object) -> None:
        print(f"{name}: {value}")
        # Properties travel with the report, also from a worker process to the one that writes them down.
        request.node.user_properties.append((FIGURE, [name, str(value)]))

    return record


@pytest.fixture(scope="session")
def postgres_template(pytestconfig: pytest.Config) -> Path:
    """Where the data of a new PostgreSQL server is kept from one run to the next: making it takes seconds."""
    from tests.postgres_server import need_binaries  # needs psycopg, which not every environment has

    need_binaries()
    return Path(pytestconfig.cache.mkdir("postgres"))


@pytest.fixture(scope="session")
def postgres(postgres_template: Path) -> Iterator[Any]:
    """A PostgreSQL server; each test makes databases of its own in it."""
    from tests.postgres_server import Server  # likewise

    server = Server()
    try:
        server.make(postgres_template).start()
        yield server
    finally:
        server.remove()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--resume", action="store_true", help="leave out proofs that passed on this exact source tree")
    parser.addoption("--minutes", action="store_true", help="say in the end where the processor's time went")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays to the end: whoever looks for garbage need not look through it each time."""
    gc.disable()
    done = yield
    gc.freeze()
    gc.enable()
    return done


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_turn)  # stable: within a file, and among all others, the order stays
    asked = "proof" in config.option.markexpr
    passed = _passed() if asked and config.option.resume else {}
    left_out = {item for item in items if item.get_closest_marker("proof") and (not asked or item.nodeid in passed)}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def _turn(item: pytest.Item) -> int:
    path = item.path.as_posix()
    return next((turn for turn, name in enumerate(LONG_FILES) if path.endswith(f"/tests/{name}.py")), len(LONG_FILES))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two more than there are cores, at most four: tests wait for browsers, servers and clocks, and with one more than
    cores these stand still for a tenth of the time. Every worker collects all tests, seven processor seconds."""
    return min(4, (os.cpu_count() or 1) + 2)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Leftovers(config), "hubbub-leftovers")
    if config.option.minutes:
        config.pluginmanager.register(Minutes(config), "hubbub-minutes")
    is_worker = hasattr(config, "workerinput")
    if is_worker:
        worker, workers = config.workerinput["workerid"], config.workerinput["workercount"]
        config.pluginmanager.register(DividedImports(int(worker.removeprefix("gw")), workers), "hubbub-divided-imports")
    if "proof" in config.option.markexpr and not is_worker:
        config.pluginmanager.register(_Record(config), "hubbub-proof-record")


@pytest.hookimpl(tryfirst=True)  # before it is looked for what is left behind
def pytest_sessionfinish() -> None:
    forked.end()


class _Record:
    """Writes down, as each proof ends, whether it passed and what it found; at the end shows all of it."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.source = source_hash()

    @pytest.hookimpl(trylast=True)  # after the line on which pytest itself says how the check went
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if "proof" not in report.keywords:
            return
        if report.when == "call":
            figures = [value for name, value in report.user_properties if name == FIGURE]
            self._write(report.nodeid, report.outcome, report.duration, figures)
            self._say_now(figures)
        elif report.failed:  # in its set-up, or in what should clean up after it
            self._write(report.nodeid, "failed", report.duration, [])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        passed = _passed()
        if passed:
            STATE.mkdir(exist_ok=True)
            (STATE / "figures.md").write_text(_page(passed, self.source), encoding="utf-8")
            terminalreporter.section(f"figures of {len(passed)} proofs that passed on this source tree")
            for line in _lines(passed):
                terminalreporter.write_line(line)
            terminalreporter.write_line(f"(also in {(STATE / 'figures.md').relative_to(ROOT)})")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        # With all proofs passed before there is nothing to run, which is success here.
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.config.option.resume and _passed():
            session.exitstatus = pytest.ExitCode.OK

    def _write(self, nodeid: str, outcome: str, seconds: float, figures: list[list[str]]) -> None:
        STATE.mkdir(exist_ok=True)
        line = {"source": self.source, "check": nodeid, "outcome": outcome, "seconds": seconds, "figures": figures}
        with (STATE / "record.jsonl").open("a", encoding="utf-8") as record:
            record.write("\n" + json.dumps(line))  # a new line first: whatever was torn before stays apart

    def _say_now(self, figures: list[list[str]]) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter and figures:
            reporter.ensure_newline()
            for name, value in figures:
                reporter.write_line(f"    {name}: {value}")


@cache
def source_hash() -> str:
    """Of every file that decides what a proof shows, and of the Python that runs it."""
    digest = hashlib.blake2b(platform.python_version().encode(), digest_size=16)
    for path in _source_files():
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _source_files() -> Iterator[Path]:
    for top in SOURCES:
        path = ROOT / top
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in found if file.is_file() and not _is_cache(file.relative_to(ROOT)))


def _is_cache(path: Path) -> bool:
    return any(part == "__pycache__" or part.startswith(".") for part in path.parts)


def _passed() -> dict[str, dict[str, Any]]:
    """The proofs whose last run on this source tree passed, with what they found. A torn line counts for nothing."""
    runs: dict[str, dict[str, Any]] = {}
    try:
        text = (STATE / "record.jsonl").read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    for line in text.splitlines():
        try:
            run = json.loads(line)
        except ValueError:
            continue
        if run["source"] == source_hash():
            runs[run["check"]] = run
    return {check: run for check, run in sorted(runs.items()) if run["outcome"] == "passed"}


def _lines(passed: dict[str, dict[str, Any]]) -> Iterator[str]:
    for check, run in passed.items():
        yield f"{check} ({run['seconds']:.0f} s)"
        yield from (f"    {name}: {value}" for name, value in run["figures"])


def _page(passed: dict[str, dict[str, Any]], source: str) -> str:
    rows = [
        f"| {check} | {name} | {value} |"
        for check, run in passed.items()
        for name, value in run["figures"] or [["passed", f"in {run['seconds']:.0f} s"]]
    ]
    seconds = sum(run["seconds"] for run in passed.values())
    return (
        "# Figures\n\n"
        f"Printed by `make proof`: {len(passed)} proofs passed, in {seconds:.0f} s, on the source tree {source}, "
        f"with Python {platform.python_version()} on {platform.system()} {platform.machine()}.\n\n"
        "| check | figure | value |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    )
