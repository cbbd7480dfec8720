"""`hubbub demo`, run as a newcomer would: it ends with 0, says what happened, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from hubbub.simulations.demo.crowd_size import crowd_size
from hubbub.simulations.demo.people import demo_registry
from tests.chance import binomial_bounds, power
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
    49 independent rows does not know: a false alarm of 1e-14 leaves room for that."""
    done, _ = once
    found = re.search(r"(\d+) of (\d+) intervals of 95 % hold the truth", done.stdout)
    assert found
    holding, rows = int(found[1]), int(found[2])
    assert rows == 49
    assert holding >= binomial_bounds(rows, 0.95, 1e-14)[0]
    assert power(rows, 0.95, 0.3, 1e-14) > 0.99, "intervals elsewhere hold the truth less often than that"
    for metric in ("dark_theme", "language", "homepage", "startup_time", "file_size", "latency", "exports", "features"):
        assert re.search(rf"^  {metric} ", done.stdout, re.MULTILINE)


def test_one_answer_stands_there_given_another(once) -> None:
    """Of the pair that the collector counts: who has the dark theme, among the users of each language."""
    done, _ = once
    for language in ("python", "javascript", "markdown", "rust", "other"):
        assert re.search(rf"^ +(dark_theme +)?yes, language {language} +\d+\.\d %", done.stdout, re.MULTILINE)


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


def test_it_says_what_it_does_and_gives_a_first_estimate_long_before_the_end(once) -> None:
    done, _ = once
    lines = done.stdout.splitlines()
    assert lines[0] == "Starting a collector ..."
    told = [line for line in lines if "installs have reported" in line][:-1]  # the last is the table's own
    reported = [int(line.split()[0]) for line in told]
    assert reported == sorted(set(reported))
    assert reported[0] <= 40, "two groups of 20, of 120 installs"
    assert re.search(
        r" First estimate: dark_theme yes -?\d+\.\d % \(\d+\.\d % to \d+\.\d %\); true \d+\.\d %\.$", told[0]
    )


@pytest.mark.parametrize(("seconds", "installs"), [(0.001, 2000), (0.032, 1200), (0.1, 400), (5.0, 300)])
def test_a_slow_or_busy_machine_gets_a_smaller_crowd(seconds: float, installs: int) -> None:
    """Seconds of the clock that each of the first installs takes; two processes, 20 seconds in all."""
    moments = iter([0.0, 8 * seconds])
    assert crowd_size(demo_registry(), 2, lambda: next(moments)) == pytest.approx(installs, abs=100)


def test_once_needs_no_dashboard(once) -> None:
    done, _ = once
    assert "Watch the estimates" not in done.stdout


def test_it_names_the_next_commands(once) -> None:
    done, _ = once
    assert [line.split()[1] for line in done.stdout.splitlines()[-3:]] == ["init", "peek", "label"]


def test_an_interrupt_cleans_up(tmp_path: Path) -> None:
    with interruptible([*DEMO, "--installs", "2000"], {**os.environ, "TMPDIR": str(tmp_path)}) as process:
        assert process.stdout.readline() == "Starting a collector ...\n"
        first, second = process.stdout.readline(), process.stdout.readline()
        url, dashboard = first.split()[5].rstrip(";"), second.split()[-1]
        token = first.split()[-1]
        assert second == f"Watch the estimates arrive on {dashboard}\n"
        while not _stored(url, token):  # interrupted at sea: the first installs have reported
            time.sleep(0.05)
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


def _stored(url: str, token: str) -> int:
    """How many batches a collector has stored."""
    request = urllib.request.Request(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"})
    said = urllib.request.urlopen(request, timeout=30).read().decode()
    return int(float(re.findall(r'^hubbub_batches_total\{status="stored"\} (\S+)', said, re.MULTILINE)[0]))


def _connect(url: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    socket.create_connection((host, int(port)), timeout=2).close()


@pytest.mark.parametrize(("option", "sentence"), [("--installs", "--installs must be in [20, 100000], got -1")])
def test_a_wrong_option_is_refused_in_words(option: str, sentence: str) -> None:
    done = subprocess.run([*DEMO, option, "-1"], capture_output=True, text=True)
    assert done.returncode == 2
    assert sentence in done.stderr
