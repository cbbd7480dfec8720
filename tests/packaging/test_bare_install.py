"""What `pip install hubbub` brings: the wheel, mmh3, and nothing else; and what works with no more than that.

The wheel is built from this checkout and installed for real, into an environment of its own, with no index to take
anything from but a folder that holds mmh3: whatever else it wanted, it would not get.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path

import pytest

from hubbub.command.table import SUBCOMMANDS
from tests.packaging.repacked import pack_again

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "metrics.toml"
REGISTRY = EXAMPLE.read_text()
FOLDERS = ("client", "collector", "analysis", "simulations")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory):
    """The Python of an environment into which the wheel was installed."""
    folder = tmp_path_factory.mktemp("bare")
    run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")])
    pack_again("mmh3", folder)
    python = folder / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--isolated", "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", "--no-index", "--find-links", str(folder), str(wheel)])
    return python


def run(command: list[str], status: int = 0, **options) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def hubbub(bare: Path, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = run([str(bare.parent / "hubbub"), *arguments], status)
    assert "Traceback" not in done.stderr
    return done


# --- the wheel ----------------------------------------------------------------------------------------------------


def test_the_wheel_holds_hubbub_and_its_description_only(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"hubbub", wheel.name.split("-py3")[0] + ".dist-info"}
    assert "hubbub/__init__.py" not in names
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]


def test_the_wheel_holds_every_module_and_every_mark_of_typing(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    there = {
        path.relative_to(ROOT / folder).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder / "hubbub").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert len([name for name in there if name.endswith("py.typed")]) >= 6
    assert there == {name for name in names if name.startswith("hubbub/")}


def test_the_wheel_runs_on_every_platform_and_carries_its_licence(wheel):
    assert wheel.name.endswith("-py3-none-any.whl")
    assert [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("licenses/LICENSE")]


# --- what a bare install brings -----------------------------------------------------------------------------------


def test_a_bare_install_brings_mmh3_and_nothing_else(bare):
    code = "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions()))"
    assert run([str(bare), "-I", "-c", code]).stdout.split() == ["hubbub", "mmh3"]


def test_help_and_version_work_on_a_bare_install(bare):
    overview = hubbub(bare, "--help").stdout
    for name, command in SUBCOMMANDS.items():
        assert name in overview
        assert command.help in overview
    assert hubbub(bare, "--version").stdout == f"hubbub {distribution('hubbub').version}\n"


def test_the_label_is_printed_on_a_bare_install(bare, tmp_path):
    (tmp_path / "metrics.toml").write_text(REGISTRY)
    words = hubbub(bare, "label", str(tmp_path / "metrics.toml")).stdout
    for name in ("dark_theme", "language", "homepage"):
        assert name in words
    facts = json.loads(hubbub(bare, "label", str(tmp_path / "metrics.toml"), "--json").stdout)
    assert facts["app"] == "org.example.editor"


def test_a_registry_is_compiled_on_a_bare_install(bare, tmp_path):
    out = tmp_path / "metrics.json"
    hubbub(bare, "compile", str(EXAMPLE), "--out", str(out))
    assert json.loads(out.read_text())["app"] == "org.example.editor"


COLLECTOR = {name for name, command in SUBCOMMANDS.items() if command.module == "hubbub.collector.commands"}
"""They import what they run when they run."""


@pytest.mark.parametrize(
    "name", [name for name, command in SUBCOMMANDS.items() if command.extra is None or name in COLLECTOR]
)
def test_a_command_without_an_extra_explains_itself_on_a_bare_install(bare, name):
    assert f"usage: hubbub {name}" in hubbub(bare, name, "--help").stdout


@pytest.mark.parametrize(
    "name", [name for name, command in SUBCOMMANDS.items() if command.extra is not None and name not in COLLECTOR]
)
def test_a_command_with_an_extra_names_it_on_a_bare_install(bare, name):
    assert f"pip install 'hubbub[{SUBCOMMANDS[name].extra}]'" in hubbub(bare, name, "--help", status=3).stderr


@pytest.mark.parametrize(
    "words",
    [
        ("collect", "--metrics", str(EXAMPLE)),
        ("collect", "--check", "--metrics", str(EXAMPLE)),
        ("backup", "--data", "there", "--out", "here"),
        ("restore", "here", "--data", "there"),
        ("repair", "--data", "there", "--out", "here"),
        ("purge", "list", "--data", "."),
    ],
    ids=" ".join,
)
def test_a_command_of_the_collector_names_its_extra_when_it_is_run_on_a_bare_install(bare, words):
    assert "which a bare install leaves out: pip install 'hubbub[collector]'" in hubbub(bare, *words, status=3).stderr


def test_tokens_are_made_on_a_bare_install(bare, tmp_path):
    """And nobody who makes one waits for a server to be loaded."""
    hubbub(bare, "token", "new", "--data", str(tmp_path), "--name", "gateway")
    assert "gateway" in hubbub(bare, "token", "list", "--data", str(tmp_path)).stdout


def test_a_missing_extra_is_named_in_one_sentence(bare):
    """By a row of its own, so that the rule is tested whatever the table holds."""
    plant = (
        "import sys; from hubbub.command.main import main; from hubbub.command import table; "
        "table.SUBCOMMANDS['serve'] = table.Subcommand('serve', 'aiohttp', 'collector'); sys.exit(main(['serve']))"
    )
    done = run([str(bare), "-I", "-c", plant], status=3)
    assert done.stdout == ""
    assert done.stderr == (
        "hubbub serve: needs aiohttp, which a bare install leaves out: pip install 'hubbub[collector]'\n"
    )


# --- import hubbub.client -----------------------------------------------------------------------------------------

HEAVY = ("ssl", "socket", "asyncio", "http", "urllib.request", "multiprocessing", "numpy")


def files(folder: Path) -> Mapping[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_importing_the_client_loads_nothing_heavy(bare):
    code = "import sys; old = set(sys.modules); from hubbub.client import Client; print(*set(sys.modules) - old)"
    loaded = run([str(bare), "-I", "-c", code]).stdout.split()
    assert "hubbub.client.client" in loaded
    assert [name for name in loaded if name in HEAVY or name.startswith(tuple(f"{heavy}." for heavy in HEAVY))] == []


def test_the_list_of_what_is_heavy_is_right(bare):
    """Each of them is a module that this very way of looking would find."""
    code = "import sys, ssl, socket, asyncio, http, urllib.request, multiprocessing; print(*sys.modules)"
    assert set(HEAVY) - set(run([str(bare), "-I", "-c", code]).stdout.split()) == {"numpy"}


def test_importing_the_client_writes_nothing(bare, tmp_path):
    """Neither where it is called, nor at home, nor in the places for state, nor where it is installed."""
    places = {"HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR", "APPDATA"}
    environment = {**os.environ, **dict.fromkeys(places | {"LOCALAPPDATA", "USERPROFILE"}, str(tmp_path))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    installed = bare.parents[1]
    before = files(installed)
    run([str(bare), "-c", "from hubbub.client import Client"], cwd=tmp_path, env=environment)
    assert list(tmp_path.rglob("*")) == []
    assert files(installed) == before
