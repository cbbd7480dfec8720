"""What downloads cost writers: `python -m tests.bench.collector_reads`.

A collector with a year of a string metric takes batches at a steady rate that keeps its core half busy; in turns,
nobody reads, and six readers each ask for the whole year once a second. Latencies count from when a batch was due, so
that one that had to wait for others counts in full.
"""

from __future__ import annotations

import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np

from hubbub.collector.catalog import Catalog
from hubbub.collector.storage.counting import Cells
from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.logged_counts import LoggedCounts
from hubbub.protocol.cadence import epoch_of
from tests.bench.collector_load import as_request, cpu_seconds, run, with_fresh_ids
from tests.bench.collector_throughput import LIMITLESS, shapes
from tests.collector.kit import REGISTRY, Collector

READERS = 6
_READER = """
import socket, sys, threading, time
port, token, readers, seconds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
head = ["GET /v1/tallies?metric=homepage HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", "", ""]
request, end, told = "\\r\\n".join(head).encode(), time.monotonic() + seconds, []
def read(number):
    room = memoryview(bytearray(1 << 20))
    time.sleep(number / readers)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        while (begun := time.monotonic()) < end:
            sock.sendall(request)
            got = size = sock.recv_into(room)
            status = int(bytes(room[9:12]))
            while status == 200 and bytes(room[max(0, got - 5) : got]) != b"0\\r\\n\\r\\n":
                got = sock.recv_into(room)
                size += got
            told.append((status, size))
            time.sleep(max(0, begun + 1 - time.monotonic()))
threads = [threading.Thread(target=read, args=[number]) for number in range(readers)]
for thread in threads: thread.start()
print("reading", flush=True)
for thread in threads: thread.join()
print(sum(status == 200 for status, _ in told), sum(status == 503 for status, _ in told), max(size for _, size in told))
"""


@dataclass(frozen=True)
class Writes:
    """Latencies of batches that were due at a steady rate, in seconds."""

    latencies: tuple[float, ...]

    @property
    def p99(self) -> float:
        return sorted(self.latencies)[int(len(self.latencies) * 0.99)]


@dataclass(frozen=True)
class Outcome:
    """Turn by turn: without readers, and with."""

    alone: tuple[Writes, ...]
    with_readers: tuple[Writes, ...]
    answers: int
    refused: int
    answer_bytes: int
    peak_bytes: int
    rate: float

    @property
    def times(self) -> float:
        """How much larger p99 is beside readers: the median of the turns; the machine has other things to do."""
        pairs = zip(self.with_readers, self.alone, strict=True)
        return statistics.median(beside.p99 / alone.p99 for beside, alone in pairs)


def fill_a_year(data: Path, now: float, days: int = 365) -> None:
    """Counts of a string metric for every day of a year, as a collector would have them."""
    metric, random = REGISTRY["homepage"], np.random.default_rng(1)
    data_dir = DataDir(data)
    store = LoggedCounts(data_dir, Catalog(REGISTRY), time.time)
    for back in range(days):
        cells = Cells(metric)
        cells.num_reports[:] = random.integers(500, 1000, len(cells.num_reports))
        cells.bit_counts[:] = random.integers(100, 500, len(cells.bit_counts))
        key = metric.metric_hash, epoch_of("day", now) - back
        store.cells[key] = cells
        store._dirty.add(key)  # as if their reports had come
    snapshot = store.snapshot(last=True)
    store.save(snapshot)
    store.close()
    data_dir.close()


def send_at(port: int, requests: Iterator[bytes], rate: float, seconds: float, connections: int = 64) -> Writes:
    """Send at a steady rate, whatever the answers do; each on the first connection that is free."""
    selector, free = selectors.DefaultSelector(), deque[socket.socket]()
    for _ in range(connections):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(sock, selectors.EVENT_READ)
        free.append(sock)
    latencies: list[float] = []
    due_at: dict[socket.socket, float] = {}
    begun, sent, total = time.perf_counter(), 0, int(rate * seconds)
    while len(latencies) < total:
        now = time.perf_counter()
        while sent < total and free and begun + sent / rate <= now:
            sock = free.popleft()
            due_at[sock] = begun + sent / rate
            sock.sendall(next(requests))
            sent += 1
        wait = max(0.0, begun + sent / rate - time.perf_counter()) if sent < total and free else 30
        for key, _ in selector.select(wait):
            sock = key.fileobj
            answer = sock.recv(65536)
            if not answer.startswith(b"HTTP/1.1 200"):
                raise AssertionError(f"got {answer[:400]!r}")
            latencies.append(time.perf_counter() - due_at.pop(sock))
            free.append(sock)
    for sock in free:
        sock.close()
    return Writes(tuple(latencies))


def peak_bytes(pid: int) -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def half_of_saturation(port: int, pid: int, requests: Iterator[bytes], guess: float) -> float:
    """The steady rate at which the collector works for half of the time. At its utmost it takes more batches into each
    group and needs less time for one: half of that rate would keep it busy for most of the time."""
    rate = guess
    for _ in range(5):
        before, begun = cpu_seconds(pid), time.perf_counter()
        send_at(port, requests, rate, 2)
        busy = (cpu_seconds(pid) - before) / (time.perf_counter() - begun)
        rate *= min(2.0, max(0.5, 0.5 / busy))
    return rate


def measure(folder: Path, seconds: float, turns: int, say: Callable[[str], None] = print) -> Outcome:
    """So many turns without and with readers, so many seconds each, on a year of counts."""
    fill_a_year(folder / "data", time.time())
    mine = os.sched_getaffinity(0)
    with Collector(folder, *LIMITLESS, "--min-reports", "20") as collector:  # as it is by default
        pid = collector.process.pid
        collector.get("/v1/tallies?metric=homepage")
        path, message = shapes(time.time())["8 metrics x 1 report"]
        requests = (as_request(made, path) for made in with_fresh_ids(message, Random(1)))
        os.sched_setaffinity(0, {max(mine)})
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {min(mine)})
        try:
            run(collector.port, pid, islice(requests, 2000))  # warms up
            most = run(collector.port, pid, islice(requests, 6000))
            rate = half_of_saturation(collector.port, pid, requests, most.requests / most.wall / 2)
            say(f"half of saturation: {rate:.0f} batches a second")
            alone: list[Writes] = []
            together: list[Writes] = []
            answers = refused = size = 0
            for _ in range(turns):
                alone.append(send_at(collector.port, requests, rate, seconds))
                command = [sys.executable, "-c", _READER, str(collector.port), collector.token]
                with subprocess.Popen(
                    [*command, str(READERS), str(seconds)], stdout=subprocess.PIPE, text=True
                ) as readers:
                    assert readers.stdout is not None
                    assert readers.stdout.readline() == "reading\n"
                    together.append(send_at(collector.port, requests, rate, seconds))
                    told = [int(word) for word in readers.communicate()[0].split()]
                answers, refused, size = answers + told[0], refused + told[1], max(size, told[2])
            return Outcome(tuple(alone), tuple(together), answers, refused, size, peak_bytes(pid), rate)
        finally:
            os.sched_setaffinity(0, mine)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(words(measure(Path(folder), 8, 5)))


def words(outcome: Outcome) -> str:
    alone, beside = (
        ", ".join(f"{1e3 * writes.p99:.1f}" for writes in turns) for turns in (outcome.alone, outcome.with_readers)
    )
    worst = max(max(writes.latencies) for writes in outcome.with_readers)
    return (
        f"{outcome.rate:.0f} batches a second; p99 {alone} ms alone, {beside} ms beside {READERS} readers of "
        f"{outcome.answer_bytes / 1e6:.1f} MB: {outcome.times:.2f} times; the worst batch beside them "
        f"{1e3 * worst:.0f} ms; {outcome.answers} downloads, {outcome.refused} told to come back; peak memory "
        f"{outcome.peak_bytes / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
