"""The `hubbub` command as a person meets it: its real script, in a process of its own."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hubbub.command.main import main
from hubbub.command.table import SUBCOMMANDS
from tests.client.processes import HUBBUB
from tests.interrupts import interruptible
from tests.systems import needs_locks, needs_pipes, needs_posix_errors

REGISTRY = (Path(__file__).resolve().parents[2] / "examples" / "metrics.toml").read_text()
COMMANDS = [
    pytest.param(name, marks=[needs_locks] if command.module.startswith("hubbub.collector") else [])
    for name, command in SUBCOMMANDS.items()
]


def hubbub(*arguments: str | Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([HUBBUB, *arguments], capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    if status > 1:
        assert done.stdout == "", "an error belongs on stderr alone"
        assert done.stderr
    return done


@pytest.fixture
def metrics(tmp_path):
    path = tmp_path / "metrics.toml"
    path.write_text(REGISTRY)
    return path


# --- finding one's way --------------------------------------------------------------------------------------------


def test_alone_or_asked_for_help_it_lists_every_command():
    overview = hubbub("--help").stdout
    assert hubbub().stdout == hubbub("help").stdout == hubbub("-h").stdout == overview
    lines = [line.split() for line in overview.splitlines()]
    assert [words[0] for words in lines if words and words[0] in SUBCOMMANDS] == list(SUBCOMMANDS)


def test_a_mistyped_command_is_answered_with_the_nearest_one():
    said = hubbub("lable", status=2).stderr
    assert said.startswith("hubbub: 'lable' is no hubbub command")
    assert "did you mean 'label'?" in said
    assert len(said.splitlines()) == 1


def test_a_command_like_no_other_is_answered_without_a_guess():
    said = hubbub("zzzz", status=2).stderr
    assert "'zzzz' is no hubbub command" in said
    assert "did you mean" not in said
    assert "hubbub --help" in said


def test_a_wrong_option_is_answered_in_one_line_and_not_with_all_options(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["completion", "--colour"])
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("hubbub completion: ")
    assert said.endswith("; `hubbub completion --help` lists all")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(name, capsys):
    """In this process: forty interpreters that each import numpy would show nothing more."""
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    explanation = capsys.readouterr().out
    assert explanation.startswith(f"usage: hubbub {name}")
    assert f"  hubbub {name}" in explanation.partition("example")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_row_of_the_table_leads_to_a_command(name):
    module = importlib.import_module(SUBCOMMANDS[name].module)
    for verb in ("add", "run"):
        assert callable(getattr(module, f"{verb}_{name.replace('-', '_')}"))


def test_help_imports_no_command():
    code = (
        "import sys; from hubbub.command.main import main; main(['--help']); "
        "print(*[name for name in sys.modules if name.startswith('hubbub.')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert sorted(done.stderr.split()) == ["hubbub.command", "hubbub.command.main", "hubbub.command.table"]


# --- mistakes -----------------------------------------------------------------------------------------------------


def test_a_file_that_is_not_there_is_named(tmp_path):
    missing = tmp_path / "nowhere.toml"
    assert hubbub("label", missing, status=2).stderr == f"hubbub label: {missing}: No such file or directory\n"


@needs_posix_errors
def test_a_folder_in_place_of_a_file_is_named(tmp_path):
    assert hubbub("label", tmp_path, status=2).stderr == f"hubbub label: {tmp_path}: Is a directory\n"


def test_every_problem_of_a_file_is_a_line_that_begins_with_command_and_file(metrics):
    metrics.write_text(REGISTRY.replace('kind = "flag"', 'kind = "flagg"').replace("num_bits = 64", "num_bits = 0"))
    lines = hubbub("label", metrics, status=2).stderr.splitlines()
    assert len(lines) == 3  # num_hashes is now more than num_bits, too
    for line in lines:
        assert line.startswith(f"hubbub label: {metrics}: [metrics.")
    assert "got 'flagg'" in lines[0]
    assert "num_bits must be in [1, 65536], got 0" in lines[1]


def test_a_missing_argument_is_wrong_use():
    assert "METRICS.TOML" in hubbub("label", status=2).stderr


def test_an_unknown_option_is_wrong_use(metrics):
    assert "--colour" in hubbub("label", metrics, "--colour", status=2).stderr


def test_a_no_is_status_1_and_no_error(metrics, tmp_path):
    asking_more = tmp_path / "more.toml"
    asking_more.write_text(REGISTRY.replace("max_values = 2", "max_values = 1"))
    hubbub("diff", metrics, asking_more, status=0)
    done = hubbub("diff", asking_more, metrics, status=1)
    assert "Asks more" in done.stdout
    assert done.stderr == ""


# --- pipes and signals --------------------------------------------------------------------------------------------


@needs_pipes
@pytest.mark.parametrize("line", ["label {metrics}", "label {metrics} --json", "label --help", "--help", "--version"])
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_reader_that_leaves_early_is_no_error(metrics, line, unbuffered):
    """`hubbub label metrics.toml | head -1`, with a head that is gone before the first byte."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [HUBBUB, *line.format(metrics=metrics).split()],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@needs_pipes
def test_an_interrupt_ends_it_quietly_with_status_130(tmp_path):
    endless = tmp_path / "metrics.toml"
    os.mkfifo(endless)
    # Opening it waits until the command has opened the other end.
    with interruptible([HUBBUB, "label", endless]) as process, endless.open("w"):
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=300)
    assert (process.returncode, output, errors) == (130, "", "")
