"""The example apps, run as their users would: asked once, used for a day, and counted by a real collector.

Each install lives through a few days in as many runs of the app. The registry of the copy that runs adds next to no
noise, so that a handful of installs shows in the estimates what they did.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hubbub.analysis import decode, fetch_tallies
from hubbub.client import Registry
from hubbub.protocol.cadence import DAY, epoch_of
from hubbub.protocol.tally import Tally
from hubbub.simulations.server import Collector, running_collector
from tests.client.processes import PATIENCE, clean_environment
from tests.interrupts import interruptible

APPS = Path(__file__).parents[2] / "examples" / "apps"
LAUNCH = Path(__file__).with_name("on_a_day.py")
NOON = time.time() // DAY * DAY + DAY / 2
HOUR = 3600
REPORTS = 2 * 3
"""Of each install: two days are over when the third one comes, and each app asks three metrics."""
AGREED, USED, SEALED, SENT = NOON - 3 * DAY, NOON - 2 * DAY, NOON - DAY, NOON
ALMOST_NO_NOISE = {
    r"epsilon_one_report = \d+": 'prob_f = "1/1000000"\nprob_p = "1/1000000"',
    r"epsilon_permanent = \d+": 'prob_q = "999999/1000000"',
    r"lifetime_epsilon = \d+": "lifetime_epsilon = 300",
    r"expires = \d{4}": "expires = 2099",
    r"buckets_per_report = 1": "buckets_per_report = 4",
    r'(items = \["\w+", "\w+"\])': r"\1\nitems_per_report = 2",
}


@pytest.mark.parametrize("app", sorted(path.name for path in APPS.iterdir()))
def test_what_an_app_asks_is_little_and_by_release(app: str) -> None:
    registry = Registry.load(APPS / app / "metrics.toml")
    assert set(registry.segments) == {"platform", "release"}
    version = re.search(r'__version__ = "(.+)"', (APPS / app / f"{app}.py").read_text())
    assert version
    assert version[1] in registry.segments["release"]
    assert {metric.accumulate for metric in registry} >= {"sum", "any"}
    assert max(metric.epsilon_permanent for metric in registry) <= 2


@contextmanager
def installed(app: str, folder: Path) -> Iterator[tuple[Path, Collector]]:
    """The app in a folder of its own, and the collector of its registry."""
    shutil.copytree(APPS / app, folder / app)
    source = (folder / app / "metrics.toml").read_text()
    for pattern, text in ALMOST_NO_NOISE.items():
        source = re.sub(pattern, text, source)
    (folder / app / "metrics.toml").write_text(source)
    with running_collector(folder / app / "metrics.toml", folder / "data") as collector:
        yield folder / app / f"{app}.py", collector


def until_arrived(collector: Collector, installs: int) -> Iterator[float]:
    """Moments at which the app is started again: what did not leave before a run was over leaves with a later one."""
    for hour in range(12):
        if collector.health().reports >= installs * REPORTS:
            return
        yield SENT + DAY + hour * 2 * HOUR
    raise AssertionError(f"the reports of {installs} installs never arrived")


def counted(collector: Collector, installs: int) -> dict[str, Tally]:
    """What was counted of the day on which the apps were used, by metric."""
    epoch = epoch_of("day", USED)
    tallies = [
        Tally(t.metric, {epoch: t.epochs[epoch]})
        for t in fetch_tallies(collector.url, collector.token)
        if epoch in t.epochs
    ]
    assert {dict(tally.metric.segment)["platform"] for tally in tallies} <= {"linux", "macos", "windows", "other"}
    assert all(tally.num_reports == installs for tally in tallies)
    return {tally.metric.name: tally for tally in tallies}


def shares(tally: Tally) -> dict[str, float]:
    """The estimates that are not nothing. One bit in 600,000 is not what it should be."""
    found = decode(tally)
    return {
        value: round(float(share), 1)
        for value, share in zip(found.values, found.estimate, strict=True)
        if abs(share) > 0.05 and value not in ("absent", "sum")
    }


# --- a command-line tool ------------------------------------------------------------------------------------------


class Typist:
    """Somebody at a terminal who uses the command-line tool, with a state of their own."""

    def __init__(self, app: Path, collector: Collector, folder: Path, seed: int) -> None:
        self.app, self.seed, self.state = app, seed, folder / f"state {seed}"
        self.environ = clean_environment(HUBBUB_STATE=str(self.state), COUNT_WORDS_COLLECTOR=collector.url)
        self.texts = [folder / f"{name}.txt" for name in ("one", "two", "three")]
        for text in self.texts:
            text.write_text("as many words\nas that\n")

    def runs(self, moment: float, *arguments: object, types: str = "") -> str:
        """What the tool printed; what is typed is read from a terminal."""
        ours, theirs = os.openpty()
        os.write(ours, types.encode())
        try:
            done = subprocess.run(
                [sys.executable, LAUNCH, str(moment), str(self.seed), self.app, *map(str, arguments)],
                stdin=theirs,
                env=self.environ,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
        finally:
            os.close(ours)
            os.close(theirs)
        assert done.returncode == 0, done.stderr
        assert ("May this tool count" in done.stderr) == bool(types), done.stderr
        return done.stdout


def test_a_command_line_tool_asks_once_and_what_its_users_do_is_counted(tmp_path: Path) -> None:
    with installed("count_words", tmp_path) as (app, collector):
        for seed, (unit, runs) in enumerate([("lines", 1), ("words", 4)]):
            typist = Typist(app, collector, tmp_path, seed)
            printed = typist.runs(AGREED, typist.texts[0], types="y\n")
            assert printed == f"{5:8} {typist.texts[0]}\n"
            for run in range(runs):
                typist.runs(
                    USED + run, *typist.texts, "--unit", unit, "--total", *(["--json"] if unit == "lines" else [])
                )
            typist.runs(SEALED, typist.texts[0])
            for moment in until_arrived(collector, seed + 1):
                typist.runs(moment, typist.texts[0])
        found = counted(collector, installs=2)
    assert dict(found["unit"].metric.segment)["release"] == "1.1"
    assert shares(found["unit"]) == {"lines": 0.5, "words": 0.5}
    assert shares(found["files"]) == {"[1, 10)": 0.5, "[10, 100)": 0.5}
    assert shares(found["features"]) == {"total": 1.0, "json": 0.5}


def test_without_a_yes_or_with_no_telemetry_the_tool_keeps_nothing(tmp_path: Path) -> None:
    with installed("count_words", tmp_path) as (app, collector):
        typist = Typist(app, collector, tmp_path, seed=1)
        typist.runs(AGREED, typist.texts[0], "--no-telemetry")
        assert not typist.state.exists()
        typist.runs(AGREED, typist.texts[0], types="n\n")
        for moment in (USED, SEALED, SENT):
            typist.runs(moment, typist.texts[0])
        assert collector.health().reports == 0


# --- a web app ----------------------------------------------------------------------------------------------------


@contextmanager
def served(app: Path, moment: float, environ: dict[str, str]) -> Iterator[str]:
    """The web app, from its first answer to a Ctrl-C."""
    with interruptible([sys.executable, LAUNCH, moment, 7, app], environ) as process:
        assert process.stderr
        address = None
        while not address:
            address = re.search(r"Running on (http://\S+)", process.stderr.readline())
        yield address[1]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)


def post(url: str, **fields: str) -> str:
    body = urllib.parse.urlencode(fields).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=PATIENCE) as answer:
        return answer.read().decode()


def test_a_web_app_asks_on_its_page_and_what_its_user_does_is_counted(tmp_path: Path) -> None:
    with installed("notes", tmp_path) as (app, collector):
        environ = clean_environment(
            HUBBUB_STATE=str(tmp_path / "state"), NOTES_COLLECTOR=collector.url, NOTES_PORT="0", PYTHONUNBUFFERED="1"
        )
        with served(app, AGREED, environ) as url:
            assert "It is local." in urllib.request.urlopen(url, timeout=PATIENCE).read().decode()
            assert "It is on." in post(f"{url}/telemetry", answer="yes")
        with served(app, USED, environ) as url:
            for text in ("milk", "bread <b>", "call #home"):
                page = post(f"{url}/notes", text=text)
            assert "<li>bread &lt;b&gt;</li>" in page
        with served(app, SEALED, environ):
            pass
        for moment in until_arrived(collector, installs=1):
            with served(app, moment, environ):
                pass
        found = counted(collector, installs=1)
    assert dict(found["features"].metric.segment)["release"] == "0.3"
    assert shares(found["many_notes"]) == {"yes": 1.0}
    assert shares(found["notes_added"]) == {"[1, 5)": 1.0}
    assert shares(found["features"]) == {"tags": 1.0}


def test_no_other_site_may_say_yes(tmp_path: Path) -> None:
    with installed("notes", tmp_path) as (app, _):
        environ = clean_environment(HUBBUB_STATE=str(tmp_path / "state"), NOTES_PORT="0", PYTHONUNBUFFERED="1")
        with served(app, USED, environ) as url:
            request = urllib.request.Request(f"{url}/telemetry", b"answer=yes", {"Sec-Fetch-Site": "cross-site"})
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(request, timeout=PATIENCE)
