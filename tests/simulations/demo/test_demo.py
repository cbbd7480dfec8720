"""`hubbub demo`, run as a newcomer would: it ends with 0, says what happened, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.chance import binomial_bounds
from tests.interrupts import interruptible

DEMO = [sys.executable, "-m", "hubbub.command", "demo", "--no-browser"]


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """One run with a small crowd, and the place where its temporary files were."""
    temporary = tmp_path_factory.mktemp("demo")
    environ = {**os.environ, "TMPDIR": str(temporary)}
    command = [*DEMO, "--once", "--installs", "120", "--seed", "5"]
    return subprocess.run(command, env=environ, capture_output=True, text=True), temporary


def test_it_ends_well_and_leaves_nothing_behind(once) -> None:
    done, temporary = once
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert list(temporary.iterdir()) == []


def test_every_report_that_was_sent_is_counted_once(once) -> None:
    """120 installs, 3 days, 8 metrics; every 50th install sends a message twice; 25 messages are rubbish."""
    done, _ = once
    assert "2,880 reports of 120 installs were sent, 2,880 counted." in done.stdout
    assert "3 messages came twice and count once; 25 were rubbish" in done.stdout


def test_truth_stands_beside_estimate_and_most_intervals_hold_it(once) -> None:
    """The noise is the operating system's, so the number varies; rows of one metric are dependent, which the bound for
    45 independent rows does not know: a false alarm of 1e-9 leaves room for that."""
    done, _ = once
    found = re.search(r"(\d+) of (\d+) intervals of 95 % hold the truth", done.stdout)
    assert found
    holding, rows = int(found[1]), int(found[2])
    assert rows == 45
    assert holding >= binomial_bounds(rows, 0.95, 1e-9)[0]
    for metric in ("dark_theme", "language", "homepage", "startup_time", "file_size", "latency", "exports", "features"):
        assert re.search(rf"^  {metric} ", done.stdout, re.MULTILINE)


def test_starts_stand_there_by_platform_and_exports_by_release(once) -> None:
    done, _ = once
    lines = re.findall(r"^  (\w*) +(.+), (platform|release) (\S+) ", done.stdout, re.MULTILINE)
    assert lines == [
        ("startup_time", "mean", "platform", "linux"),
        ("", "mean", "platform", "macos"),
        ("", "mean", "platform", "windows"),
        ("exports", "[0, 1)", "release", "2.0"),
        ("", "[0, 1)", "release", "2.1"),
    ]


def test_once_needs_no_dashboard(once) -> None:
    done, _ = once
    assert "Watch the estimates" not in done.stdout


def test_it_names_the_next_commands(once) -> None:
    done, _ = once
    assert [line.split()[1] for line in done.stdout.splitlines()[-3:]] == ["init", "peek", "label"]


def test_an_interrupt_cleans_up(tmp_path: Path) -> None:
    with interruptible([*DEMO, "--installs", "5000"], {**os.environ, "TMPDIR": str(tmp_path)}) as process:
        first, second = process.stdout.readline(), process.stdout.readline()
        url, dashboard = first.split()[5].rstrip(";"), second.split()[-1]
        token = first.split()[-1]
        assert second == f"Watch the estimates arrive on {dashboard}\n"
        page = ""
        while "Active installs" not in page:  # interrupted at sea: the first installs have reported
            page = urllib.request.urlopen(dashboard, timeout=30).read().decode()
        assert "org.example.editor.demo" in page, "it knows the token, and asks nobody on this machine"
        assert token not in page
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("hubbub-")]
    for gone in (url, dashboard):
        with pytest.raises(OSError):
            _connect(gone)


def _connect(url: str) -> None:
    import socket

    host, port = url.removeprefix("http://").split(":")
    socket.create_connection((host, int(port)), timeout=2).close()


@pytest.mark.parametrize(("option", "sentence"), [("--installs", "--installs must be in [20, 100000], got -1")])
def test_a_wrong_option_is_refused_in_words(option: str, sentence: str) -> None:
    done = subprocess.run([*DEMO, option, "-1"], capture_output=True, text=True)
    assert done.returncode == 2
    assert sentence in done.stderr
