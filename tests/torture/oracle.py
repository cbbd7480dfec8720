"""The oracle: keeps its own count of every batch it got a 200 for, and holds the collector to it.

Many senders, each with its own connection. A batch that was not acknowledged is sent again, byte for byte, until it is;
now and then one that was acknowledged is sent again too, or twice at once. In the end every batch has been
acknowledged, so the counters must equal a count of all batches, made without the collector's code: lower means an
acknowledged batch was lost, higher means one was counted twice. Pairs are held to a count of the same batches.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from hubbub.protocol.pair import count_pairs
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import Batch
from hubbub.protocol.tally import count
from hubbub.protocol.wire import MEDIA_TYPE, pack
from tests.collector.kit import PAIRED_TOML, REGISTRY, Collector, random_batch

METRICS = [REGISTRY[name] for name in ("dark_theme", "language", "homepage", "parity", "minutes")]
FLAGS = (
    "--checkpoint-seconds",
    "0.05",
    "--segment-bytes",
    "65536",
    "--sender-rate",
    "1e6",
    "--sender-burst",
    "1000000",
)

ENOUGH = 200
"""Batches of which one at least is sent again, on a machine however slow (one in ten is, so none of them once in 1e9
runs), and of which each of two databases has more than a quarter."""
PAUSE = 0.15
"""Seconds until a sender whose batch was not taken tries again: sixteen that ask without end while nobody is there take
the processor from the server that starts."""


@dataclass
class Oracle:
    """Sends to whatever listens on `ports`, each time on any of them, and remembers. They change with every restart."""

    senders: int
    seed: int
    ports: tuple[int, ...] = ()
    patience: float = 40.0
    """Seconds that a sender waits for an answer before it sends the same batch again, to any of those who listen."""
    batches: list[Batch] = field(default_factory=list)
    answers: dict[str, int] = field(default_factory=lambda: {"stored": 0, "duplicate": 0, "none": 0})
    surprises: list[str] = field(default_factory=list)
    _given_up: bool = False
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        for number in range(self.senders):
            thread = threading.Thread(target=self._send_batches, args=[Random(self.seed * 1000 + number)])
            thread.start()
            self._threads.append(thread)

    def wait_for_another(self, before: int | None = None) -> None:
        """Return when one more batch has been stored than now, or than `before`: else a kill would test nothing."""
        deadline = time.monotonic() + 60
        before = self.answers["stored"] if before is None else before
        while self.answers["stored"] == before:
            assert time.monotonic() < deadline, "no batch was stored for a minute"
            time.sleep(0.005)

    def finish(self, give_up: bool = False) -> None:
        """Let every sender have its last batch acknowledged, unless nobody is left to do so."""
        self._stop.set()
        self._given_up = give_up
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a sender was never acknowledged"

    def verdict(self, collector: Collector) -> list[str]:
        """What is wrong, in words; empty if nothing is."""
        reports = [report for batch in self.batches for report in batch.reports]
        problems = list(self.surprises)
        tallies = collector.tallies()
        for metric in METRICS:
            expected = count(metric, [report for report in reports if report.metric is metric])
            got = tallies[metric.name] if metric.name in tallies else count(metric, [])
            if got.num_reports != expected.num_reports:
                problems.append(f"{metric.name}: counted {got.num_reports} reports, sent {expected.num_reports}")
            elif got.epochs != expected.epochs:
                problems.append(f"{metric.name}: as many reports, but other bits")
        return [*problems, *self._of_pairs(collector)]

    def _of_pairs(self, collector: Collector) -> Iterator[str]:
        """What is wrong with the pairs that its registry declares."""
        together = Registry.load(collector.folder / "metrics.toml").together
        counted = collector.pairs() if together else {}
        for pair in together.values():
            expected = count_pairs(pair, self.batches)
            got = counted.get(pair.name, count_pairs(pair, []))
            if got.num_batches != expected.num_batches:
                yield f"{pair.name}: counted {got.num_batches} pairs, sent {expected.num_batches}"
            elif got != expected:
                yield f"{pair.name}: as many pairs, but other bits"

    def _send_batches(self, random: Random) -> None:
        connection: http.client.HTTPConnection | None = None
        while not self._stop.is_set():
            batch = random_batch(random, METRICS, time.time())
            body = pack(batch)
            twice = random.random() < 0.05
            if twice:
                other = threading.Thread(target=self._deliver_once_more, args=[body, Random(body)])
                other.start()
            connection = self._deliver(connection, body, random)
            if twice:
                other.join()
            with self._lock:
                self.batches.append(batch)
            if random.random() < 0.05:
                self._deliver_once_more(body, random)
        if connection is not None:
            connection.close()

    def _deliver_once_more(self, body: bytes, random: Random) -> None:
        connection = self._deliver(None, body, random)
        if connection is not None:
            connection.close()

    def _deliver(
        self, connection: http.client.HTTPConnection | None, body: bytes, random: Random
    ) -> http.client.HTTPConnection | None:
        """Send until acknowledged; after each failure to any of those who listen."""
        while True:
            try:
                if connection is None:
                    port = random.choice(self.ports)
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=self.patience)
                connection.request("POST", "/v1/reports", body, {"Content-Type": MEDIA_TYPE})
                answer = connection.getresponse()
                document = json.loads(answer.read())
            except (OSError, http.client.HTTPException, ValueError):
                if connection is not None:
                    connection.close()
                connection = None
                self.answers["none"] += 1
                if self._given_up:
                    return None
                time.sleep(PAUSE)
                continue
            if answer.status == 200:
                self.answers[document["status"]] += 1
                return connection
            if answer.status not in (408, 429, 503, 507):  # 408: it was stopped for longer than a body may take
                self.surprises.append(f"{answer.status} {document}")
                return connection
            connection.close()
            connection = None
            time.sleep(PAUSE)


def kill_under_load(
    folder: Path, kills: int, seed: int, after_kill=None, flags=FLAGS, batches: int = 0, **options
) -> tuple[list[str], Oracle]:
    """Kill a collector -9 so many times under load, and go on until there are so many batches; what the oracle says in
    the end, and the oracle."""
    random = Random(seed)
    oracle = Oracle(senders=16, seed=seed)
    (folder / "metrics.toml").write_text(PAIRED_TOML)
    collector = Collector(folder, *flags, **options)
    oracle.ports = (collector.port,)
    oracle.start()
    for _ in range(kills):
        oracle.wait_for_another()  # on a busy machine the first answer may take longer than the sleep below
        time.sleep(random.uniform(0.05, 0.4))
        collector.stop(9)
        if after_kill is not None:
            after_kill(random)
        try:
            collector = Collector(folder, *flags, **options)
        except AssertionError as error:
            oracle.finish(give_up=True)
            return [str(error)], oracle
        oracle.ports = (collector.port,)
    while len(oracle.batches) < batches:
        oracle.wait_for_another()
    oracle.finish()
    with collector:
        return oracle.verdict(collector), oracle
