"""What collector tests share: a registry of every kind, random reports, a real collector in a process."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from hubbub.protocol.cadence import epoch_of
from hubbub.protocol.metric import Metric
from hubbub.protocol.pair import PairTally
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import Batch, Report
from hubbub.protocol.tally import Tally
from hubbub.protocol.wire import MEDIA_TYPE, pack
from tests import forked
from tests.registry_head import head

LAUNCH = Path(__file__).with_name("launch.py")
ROOT = Path(__file__).parents[2]
MODULES = ("hubbub.collector.commands", "hubbub.collector.serve")

# A grace of 6 keeps 7 epochs open: 8 metrics then make 50 reports and more.
_TERMS = 'grace = 6\nwhy = "To test"\nowner = "test@example.org"\nexpires = 2099-01-01\n'
_NOISE = "epsilon_one_report = 1.0\nepsilon_permanent = 3.0\nmax_values = 2\n"
_KINDS = {
    "dark_theme": 'kind = "flag"\nevery = "day"',
    "language": 'kind = "choice"\nevery = "day"\nchoices = ["python", "rust", "other"]',
    "country": 'kind = "choice"\nevery = "day"\nchoices = [' + ", ".join(f'"c{i}"' for i in range(40)) + "]",
    "homepage": 'kind = "string"\nevery = "day"\nnum_bits = 64\nnum_hashes = 1\nnum_cohorts = 128',
    "parity": 'kind = "string"\nevery = "week"\nnum_bits = 1\nnum_hashes = 1\nnum_cohorts = 1024',
    "start_time": 'kind = "mean"\nevery = "day"\nlow = 0\nhigh = 30\nabsent = 0\nunit = "s"',
    "files": 'kind = "histogram"\nevery = "week"\nedges = [0, 1, 10, 100]\nbuckets_per_report = 2',
    "minutes": 'kind = "range"\nevery = "day"\nlow = 0\nhigh = 60\nnum_leaves = 64\nbranching = 4',
}
REGISTRY_TOML = head("org.example.editor", 1000) + "".join(
    f"\n[metrics.{name}]\n{kind}\n{_TERMS}{_NOISE}" for name, kind in _KINDS.items()
)
REGISTRY = Registry.parse(REGISTRY_TOML)
PAIRED_TOML = (
    REGISTRY_TOML
    + """
[together.theme_language]
metrics = ["dark_theme", "language"]
[together.language_homepage]
metrics = ["language", "homepage"]
[together.theme_minutes]
metrics = ["dark_theme", "minutes"]
"""
)
"""The same with pairs: of one bit and one of a few, in many cohorts, of unequal widths."""
PAIRS = list(Registry.parse(PAIRED_TOML).together.values())


def random_report(metric: Metric, epoch: int, random: Random) -> Report:
    cohort = random.randrange(metric.shape.num_cohorts)
    width = metric.shape.width(cohort)
    if metric.weight is None:
        bits = random.getrandbits(width)
    else:
        bits = sum(1 << place for place in random.sample(range(width), metric.weight))
    return Report(metric, epoch, cohort, bits)


def random_batch(random: Random, metrics: list[Metric], now: float, reports: int = 1, epochs: int = 1) -> Batch:
    """So many reports of each metric, in the newest epochs, as one install (reports = 1) or a relay sends them."""
    made = [
        random_report(metric, epoch_of(metric.every, now) - back, random)
        for metric in metrics
        for back in range(epochs)
        for _ in range(reports)
    ]
    return Batch.of(random.randbytes(16), made)


def run_command(*words: object, **options) -> subprocess.CompletedProcess[str]:
    """A command of the collector from beginning to end, in a process of its own."""
    return forked.run([str(word) for word in words], MODULES, **options)


new_store: Callable[[], tuple[str, str]] | None = None
"""Makes a store and its read token; None: collectors have the embedded one. Set by the fixture `each_store`."""


def _store_in(folder: Path, make: Callable[[], tuple[str, str]]) -> str:
    """The store of all collectors of this folder."""
    if not (folder / "store").exists():
        address, token = make()
        (folder / "token").write_text(token)
        (folder / "store").write_text(address)
    return (folder / "store").read_text()


class Collector:
    """A collector process. Its own clock, its own directory (or a store in a database), a port of its own."""

    def __init__(self, folder: Path, *flags: str, launch: Path = LAUNCH, env: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.data = folder / "data"
        metrics = folder / "metrics.toml"
        if not metrics.exists():
            metrics.write_text(REGISTRY_TOML)
        self.log_path = folder / "stderr.log"
        self._stderr = self.log_path.open("ab")
        self.store = None if new_store is None else _store_in(folder, new_store)
        self.place = ["--data", str(self.data)] if self.store is None else ["--store", self.store]
        words = ["collect", "--metrics", str(metrics), *self.place, "--port", "0"]
        words += ["--min-free-bytes", "0", "--min-reports", "0", *flags]
        variables = {**os.environ, "PYTHONPATH": str(ROOT)}
        if launch == LAUNCH and env is None:
            self.process = forked.begin(words, MODULES, stderr=self._stderr, env=variables)
        else:  # another program, or another environment from its first instruction on
            self.process = subprocess.Popen(
                [sys.executable, str(launch), *words],
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=variables | (env or {}),
            )
        self.printed = self._read_greeting()
        self.port = int(re.search(r"Collecting on https?://[^ ]*:(\d+)", self.printed)[1])
        token_file = re.search(r"Read token, in a file that only this user can read: +(.+)", self.printed)
        if token_file:
            (folder / "token").write_text(Path(token_file[1]).read_text().strip())
        self.token = (folder / "token").read_text()

    def _read_greeting(self) -> str:
        text = ""
        while "  data " not in text:
            line = self.process.stdout.readline().decode()
            if not line:
                self.stop()
                raise AssertionError(f"did not start: {text}{self.log_path.read_text()}")
            text += line
        return text

    def connect(self, timeout: float = 30) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, dict, bytes]:
        connection = self.connect()
        try:
            connection.request(method, path, body, {key.replace("_", "-"): v for key, v in headers.items()})
            answer = connection.getresponse()
            return answer.status, dict(answer.headers), answer.read()
        finally:
            connection.close()

    def post(self, body: bytes, media_type: str = MEDIA_TYPE, path: str = "/v1/reports", **headers: str):
        """The status and the document of an answer to a batch."""
        status, _, answer = self.request("POST", path, body, Content_Type=media_type, **headers)
        return status, json.loads(answer)

    def send(self, batch: Batch):
        return self.post(pack(batch))

    def relay_token(self) -> str:
        done = run_command("token", "new", *self.place, "--role", "relay")
        assert done.returncode == 0, done.stderr
        token = done.stdout.strip()
        time.sleep(1.1)  # a collector looks at its tokens every second
        return token

    def wait_for_token(self, token: str, accepted: bool = True) -> None:
        """Until it lets this token read, or no longer does."""
        deadline = time.monotonic() + 120
        while (self.request("GET", "/metrics", Authorization=f"Bearer {token}")[0] == 200) is not accepted:
            assert time.monotonic() < deadline, "it never looked at its tokens"
            time.sleep(0.05)

    def get(self, path: str):
        status, _, answer = self.request("GET", path, Authorization=f"Bearer {self.token}")
        assert status == 200, answer
        return answer

    def tallies(self, query: str = "") -> dict[str, Tally]:
        """All tallies by metric name."""
        found = [Tally.from_json(json.dumps(item)) for item in json.loads(self.get("/v1/tallies" + query))["tallies"]]
        return {tally.metric.name: tally for tally in found}

    def pairs(self, query: str = "") -> dict[str, PairTally]:
        """All pair tallies by the pair's name."""
        found = [PairTally.from_data(item) for item in json.loads(self.get("/v1/pairs" + query))["pairs"]]
        return {tally.pair.name: tally for tally in found}

    def wait_for_notice(self, words: str) -> None:
        """Until it has told its operator."""
        deadline = time.monotonic() + 120
        while words not in self.log_path.read_text():
            assert time.monotonic() < deadline, f"it never said {words!r}: {self.log_path.read_text()}"
            time.sleep(0.02)

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(timeout=300)
        self.process.stdout.close()
        self._stderr.close()
        return status

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
