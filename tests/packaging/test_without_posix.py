"""Reading a collector's tallies needs neither a Unix nor an extra: `hubbub export --url` with the modules hidden that
Windows and a bare install do not have."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from random import Random

import pytest

from hubbub.protocol import read_tallies
from tests.collector.kit import REGISTRY, REGISTRY_TOML, Collector, random_batch

POSIX = ("fcntl", "resource", "pwd", "grp")
HIDDEN = (*POSIX, "numpy", "scipy", "aiohttp", "uvloop", "pyarrow")
WITHOUT = """
import sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

for name in {hidden!r}:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Hide())
from hubbub.command.main import main
sys.exit(main())
"""


def hubbub(*arguments: str, hidden: tuple[str, ...] = HIDDEN, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT.format(hidden=hidden), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environ})


def test_a_running_collector_is_exported_with_the_standard_library_alone(tmp_path) -> None:
    with Collector(tmp_path) as collector:
        assert collector.send(random_batch(Random(1), list(REGISTRY), time.time()))[0] == 200
        url = f"http://127.0.0.1:{collector.port}"
        done = hubbub("export", "--url", url, "--out", str(tmp_path / "tallies"), HUBBUB_TOKEN=collector.token)
        assert (done.returncode, done.stderr) == (0, "")
        assert len(done.stdout.splitlines()) == len(REGISTRY)
        there = read_tallies(url, token=collector.token)
    exported = read_tallies(tmp_path / "tallies")
    assert {t.metric.metric_hash: t for t in exported} == {t.metric.metric_hash: t for t in there}


def test_a_directory_needs_the_collectors_packages_and_says_so(tmp_path) -> None:
    done = hubbub("export", "--data", str(tmp_path), "--out", str(tmp_path / "tallies"))
    assert done.returncode == 2
    assert "--data needs " in done.stderr
    assert "pip install 'hubbub[collector]'; or ask a running collector, --url" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "line", ["collect --metrics metrics.toml", "token list --data data", "store check", "clock accept"]
)
def test_what_a_system_lacks_no_package_brings(line: str) -> None:
    """All packages are there, as after `pip install 'hubbub[all]'` on Windows."""
    done = hubbub(*line.split(), hidden=POSIX)
    assert (done.returncode, done.stdout) == (3, "")
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"hubbub {line.split()[0]}: needs fcntl, a part of Python that this system does not have: ")
    assert "run on Linux and macOS, on Windows in WSL or in a container" in said
    assert "`hubbub export --url`" in said
    assert "pip install" not in said


def test_a_directory_cannot_be_read_where_no_collector_runs(tmp_path) -> None:
    done = hubbub("export", "--data", str(tmp_path), "--out", str(tmp_path / "tallies"), hidden=POSIX)
    assert done.returncode == 2
    assert done.stderr.startswith("hubbub export: --data needs fcntl, a part of Python that this system does not have")
    assert done.stderr.endswith("or ask a running collector, --url\n")


def test_what_needs_no_collector_works_too(tmp_path) -> None:
    (tmp_path / "metrics.toml").write_text(REGISTRY_TOML)
    assert hubbub("label", str(tmp_path / "metrics.toml")).returncode == 0
    assert hubbub("--help").returncode == 0
