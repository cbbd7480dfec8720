"""Who imports whom: the contracts of pyproject.toml are kept, and each of them notices a slip."""

from __future__ import annotations

import ast
import shutil
import site
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("client", "collector", "analysis", "simulations")
ROLES = "The roles know the protocol and not each other; nothing knows the simulations"
TINY = "The client stays tiny"
ONE_WAY = "Inside a package imports go one way"
COLLECTOR = "In the collector HTTP stands on the commit, and the commit on the store"
ANY_STORE = "Whoever answers knows the store by its interface alone"
SIMULATIONS = "Simulations: commands show, rooms run, people are drawn, kinds say what differs"
SIMULATION_ROOMS = "In each room of the simulations a command shows what a run made"
SIMULATION_KINDS = "Simulations ask what a kind is of its own file alone"
NO_KINDS = "Whoever uses a metric asks facts of it, never for its kind"
DOWN = "The analysis goes one way down"

# The editable install puts this checkout on the path by a .pth file; -S leaves those out, so that a namespace found
# in a copy is the copy's alone. One process imports the linter and forks for each run: its imports take longer than it.
LINT = """
import os, sys, tempfile
sys.path[:0] = {paths!r}
from importlinter.cli import lint_imports_command
for _ in sys.stdin:
    with tempfile.TemporaryFile() as out:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
            lint_imports_command(["--no-cache"])
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        print(repr((status, out.read().decode())), flush=True)
"""
Lint = Callable[[], tuple[int, str]]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkout = tmp_path_factory.mktemp("checkout")
    shutil.copy(ROOT / "pyproject.toml", checkout)
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, checkout / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return checkout


@pytest.fixture(scope="module")
def lint(copy: Path) -> Iterator[Lint]:
    """Lints the copy as it is then: its status and what it says."""
    paths = [str(copy / folder) for folder in FOLDERS] + site.getsitepackages()
    command = [sys.executable, "-S", "-c", LINT.format(paths=paths)]
    with subprocess.Popen(command, cwd=copy, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout

        def run() -> tuple[int, str]:
            print("now", file=process.stdin, flush=True)
            status, said = ast.literal_eval(process.stdout.readline())
            return status, said

        yield run
        process.stdin.close()
        process.wait()


def test_every_contract_is_kept(lint: Lint) -> None:
    status, output = lint()
    assert status == 0, output
    for contract in (
        ROLES,
        TINY,
        ONE_WAY,
        DOWN,
        COLLECTOR,
        SIMULATIONS,
        SIMULATION_ROOMS,
        SIMULATION_KINDS,
        NO_KINDS,
    ):
        assert f"{contract} KEPT" in output
    assert " kept, 0 broken" in output


@pytest.mark.parametrize(
    ("contract", "module", "source"),
    [
        (ROLES, "client/hubbub/protocol/planted.py", "import hubbub.client.respond"),
        (ROLES, "client/hubbub/protocol/planted.py", "from hubbub.command import table"),
        (ROLES, "client/hubbub/client/planted.py", "import hubbub.collector"),
        (ROLES, "client/hubbub/client/planted.py", "from hubbub.command.main import CommandError"),
        (ROLES, "collector/hubbub/collector/planted.py", "import hubbub.client.respond"),
        (ROLES, "collector/hubbub/collector/planted.py", "import hubbub.analysis"),
        (ROLES, "analysis/hubbub/analysis/planted.py", "import hubbub.collector"),
        (ROLES, "analysis/hubbub/analysis/planted.py", "from hubbub.simulations import fleet"),
        (DOWN, "analysis/hubbub/analysis/estimation/planted.py", "import hubbub.analysis.result"),
        (DOWN, "analysis/hubbub/analysis/kinds/planted.py", "from hubbub.analysis.render import text"),
        (DOWN, "analysis/hubbub/analysis/render/planted.py", "from hubbub.analysis.planning.plan import Plan"),
        (ROLES, "client/hubbub/command/planted.py", "def late():\n    import hubbub.simulations.fleet"),
        (TINY, "client/hubbub/client/planted.py", "import numpy"),
        (TINY, "client/hubbub/command/planted.py", "from scipy.stats import binom"),
        (TINY, "client/hubbub/protocol/planted.py", "def late():\n    import aiohttp"),
        (ONE_WAY, "client/hubbub/client/respond.py", "from hubbub.client import planted"),
        (ONE_WAY, "client/hubbub/protocol/invalid.py", "from hubbub.protocol.tally import Tally"),
        (COLLECTOR, "collector/hubbub/collector/storage/planted.py", "from hubbub.collector.http.limits import Limits"),
        (COLLECTOR, "collector/hubbub/collector/storage/planted.py", "def late():\n    import hubbub.collector.commit"),
        (
            COLLECTOR,
            "collector/hubbub/collector/storage/planted.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from hubbub.collector.serve import serve",
        ),
        (COLLECTOR, "collector/hubbub/collector/commit.py", "from hubbub.collector.export import select"),
        (ANY_STORE, "collector/hubbub/collector/commit.py", "from hubbub.collector.storage.log import DiskFull"),
        (COLLECTOR, "collector/hubbub/collector/planted.py", "# a module that no layer has been given"),
        (SIMULATIONS, "simulations/hubbub/simulations/kinds/planted.py", "from hubbub.simulations.people import truth"),
        (SIMULATION_ROOMS, "simulations/hubbub/simulations/sweep/run.py", "import hubbub.simulations.sweep.chart"),
        (SIMULATION_KINDS, "simulations/hubbub/simulations/people/planted.py", "import hubbub.protocol.kinds.flag"),
        (SIMULATION_KINDS, "simulations/hubbub/simulations/joint_tallies.py", "from hubbub.protocol.kinds import Flag"),
        (NO_KINDS, "analysis/hubbub/dashboard/planted.py", "from hubbub.protocol.kinds import Cross"),
        (NO_KINDS, "client/hubbub/client/planted.py", "def late():\n    from hubbub.protocol.kinds.mean import Mean"),
        (NO_KINDS, "collector/hubbub/collector/http/planted.py", "from hubbub.protocol import kinds"),
        (NO_KINDS, "analysis/hubbub/analysis/commands/planted.py", "import hubbub.protocol.kinds.set"),
        (NO_KINDS, "analysis/hubbub/analysis/render/planted.py", "from hubbub.protocol.kinds import Choice"),
        (NO_KINDS, "analysis/hubbub/analysis/planning/planted.py", "from hubbub.protocol.kinds.cross import BETWEEN"),
    ],
)
def test_a_planted_import_breaks_its_contract(copy, lint, contract, module, source):
    path = copy / module
    before = path.read_text() if path.exists() else None
    other = copy / "client/hubbub/client/planted.py"
    try:
        path.write_text(f"{before or ''}\n{source}\n")
        if source == "from hubbub.client import planted":
            other.write_text("from hubbub.client.respond import respond\n")
        status, output = lint()
    finally:
        other.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        if before is not None:
            path.write_text(before)
    assert status == 1, output
    assert f"{contract} BROKEN" in output, output


def test_what_apps_embed_needs_the_standard_library_and_mmh3_alone():
    graph = grimp.build_graph("hubbub", include_external_packages=True, cache_dir=None)
    embedded = {
        module
        for package in ("hubbub.protocol", "hubbub.client", "hubbub.command")
        for module in graph.find_descendants(package) | {package}
    }
    assert len(embedded) > 20
    embedded.discard("hubbub.client.testing")  # for the tests of apps, which have pytest
    imported = {name for module in embedded for name in graph.find_modules_directly_imported_by(module)}
    outside = {name.split(".")[0] for name in imported} - {"hubbub"} - set(sys.stdlib_module_names)
    assert outside == {"mmh3"}
