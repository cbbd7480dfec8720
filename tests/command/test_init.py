"""`hubbub init` gives a newcomer something that runs; `hubbub completion` something that completes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hubbub.command.table import SUBCOMMANDS
from hubbub.protocol.kinds import KINDS
from hubbub.protocol.registry import Registry
from tests.command.test_command import hubbub


def test_init_makes_a_registry_of_all_kinds_with_segments_and_a_count_and_an_app(tmp_path: Path) -> None:
    done = hubbub("init", tmp_path / "mine", "--app", "org.example.mine")
    registry = Registry.load(tmp_path / "mine" / "metrics.toml")
    assert registry.app == "org.example.mine"
    assert {metric.kind for metric in registry} == set(KINDS) - {
        "cross"
    }  # which two go together is the app's own question
    assert set(registry.segments) == {"platform", "release"}
    assert [metric.name for metric in registry if metric.accumulate == "sum"] == ["exports"]
    assert "hubbub on --app org.example.mine" in done.stdout


def test_the_app_runs_at_once_and_reports_only_after_a_yes(tmp_path: Path) -> None:
    hubbub("init", tmp_path / "mine")
    environ = {k: v for k, v in os.environ.items() if k not in ("CI", "PYTEST_CURRENT_TEST", "PYTEST_VERSION")}
    environ["HUBBUB_STATE"] = str(tmp_path / "state")

    def app() -> str:
        command = [sys.executable, "app.py"]
        return subprocess.run(
            command, cwd=tmp_path / "mine", env=environ, check=True, capture_output=True, text=True
        ).stdout

    assert app() == "Telemetry is local, because nobody has been asked yet.\n"
    assert not (tmp_path / "state").exists()
    yes = ["on", "--app", "org.example.editor", "--metrics", str(tmp_path / "mine" / "metrics.toml")]
    subprocess.run([sys.executable, "-m", "hubbub.command", *yes], env=environ, check=True, capture_output=True)
    assert app() == "Telemetry is on, because you agreed.\n"


def test_what_init_writes_draws_no_warning(tmp_path: Path) -> None:
    hubbub("init", tmp_path / "mine")
    done = hubbub("check", tmp_path / "mine" / "metrics.toml")
    assert "lifetime_epsilon" not in done.stdout + done.stderr


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("mine")
    done = hubbub("init", tmp_path, status=2)
    assert done.stderr == f"hubbub init: {tmp_path}/app.py must not be there yet: nothing is overwritten\n"
    assert (tmp_path / "app.py").read_text() == "mine"
    assert not (tmp_path / "metrics.toml").exists()


def test_init_refuses_a_name_that_could_not_name_a_directory(tmp_path: Path) -> None:
    assert "--app must match" in hubbub("init", tmp_path, "--app", "../up", status=2).stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command_and_the_shell_accepts_it(shell: str) -> None:
    script = hubbub("completion", shell).stdout
    assert all(name in script for name in SUBCOMMANDS)
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_bash_completes_a_command() -> None:
    if not shutil.which("bash"):
        pytest.skip("bash is not installed")
    ask = 'eval "$(cat)"; COMP_WORDS=(hubbub lab); COMP_CWORD=1; _hubbub; echo "${COMPREPLY[@]}"'
    script = hubbub("completion", "bash").stdout
    done = subprocess.run(["bash", "-c", ask], input=script, text=True, capture_output=True, check=True)
    assert done.stdout == "label\n"
