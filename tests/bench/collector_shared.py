"""What a shared store costs beside the embedded one: `python -m tests.bench.collector_shared`.

Microseconds of CPU for each batch, of collectors and of the database, folding included; embedded, one collector and two
collectors take turns in one run. Loopback, 64 connections, both on the disk that has the temporary files.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from tests.bench.collector_load import as_request, cpu_seconds, run, with_fresh_ids
from tests.bench.collector_throughput import LIMITLESS, shapes
from tests.collector import kit
from tests.collector.kit import Collector
from tests.postgres_server import Server

SHAPES = ("8 metrics x 1 report", "1000 reports, relayed, 1 metric")
NO_COUNTS = "/v1/tallies?from=1990-01-01&to=1990-01-01"  # asking for nothing has everything counted


@dataclass(frozen=True)
class Cost:
    """Microseconds of CPU for each batch, batches a second, bytes of write-ahead log for each."""

    collectors: float
    database: float
    rate: float
    wal: float


@dataclass(frozen=True)
class Setting:
    """Collectors that share a store, and its server if it is not embedded."""

    collectors: list[Collector]
    headers: str
    server: Server | None

    def cpu(self) -> tuple[float, float]:
        mine = sum(cpu_seconds(collector.process.pid) for collector in self.collectors)
        return mine, 0.0 if self.server is None else server_cpu(self.server)

    def measure(self, path: str, message: bytes, requests: int, random: Random) -> Cost:
        parts = [
            [as_request(made, path, self.headers) for made in islice(with_fresh_ids(message, random), share)]
            for share in [requests // len(self.collectors)] * len(self.collectors)
        ]
        before, wal, begun = self.cpu(), self.wal(), time.perf_counter()
        with ThreadPoolExecutor(len(parts)) as pool:
            connections = 64 // len(parts)
            sent = [
                pool.submit(run, collector.port, collector.process.pid, part, connections)
                for collector, part in zip(self.collectors, parts, strict=True)
            ]
            for done in sent:
                done.result()
        wall = time.perf_counter() - begun
        self.collectors[0].get(NO_COUNTS)
        after, batches = self.cpu(), sum(map(len, parts))
        mine, database = (1e6 * (now - then) / batches for now, then in zip(after, before, strict=True))
        return Cost(mine, database, batches / wall, (self.wal() - wal) / batches)

    def wal(self) -> float:
        """How far the server's write-ahead log has come, in bytes."""
        if self.server is None:
            return 0.0
        return float(self.server.sql("select pg_current_wal_lsn() - '0/0'::pg_lsn")[0][0])


def server_cpu(server: Server) -> float:
    """CPU of a server and all it has started, also of what has ended."""
    assert server.process is not None
    total = 0.0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if entry.joinpath("cwd").readlink() == server.data:
                total += cpu_seconds(int(entry.name))
        except OSError:
            continue
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return total + (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def settings(folder: Path) -> Iterator[dict[str, Setting]]:
    """All three, running."""
    server = Server(in_memory=False)  # where the embedded store is, too
    with ExitStack() as stack:
        stack.callback(server.remove)
        server.make().start()

        def start(names: list[str], shared: bool) -> Setting:
            store = server.new_store() if shared else None
            kit.new_store = None if store is None else lambda: store
            running = []
            for name in names:
                (folder / name).mkdir()
                running.append(stack.enter_context(Collector(folder / name, *LIMITLESS)))
            headers = f"Authorization: Bearer {running[0].relay_token()}\r\n"
            time.sleep(1.1)  # the other collector looks at its tokens every second
            kit.new_store = None
            return Setting(running, headers, server if shared else None)

        yield {
            "embedded": start(["embedded"], shared=False),
            "one collector": start(["one"], shared=True),
            "two collectors": start(["first", "second"], shared=True),
        }


def measure(folder: Path, requests: int, rounds: int) -> dict[tuple[str, str], list[Cost]]:
    """For each shape and setting, so many rounds; the first of each warms up and is left out."""
    found: dict[tuple[str, str], list[Cost]] = {}
    random = Random(1)
    with settings(folder) as running:
        for shape in SHAPES:
            path, message = shapes(time.time())[shape]
            count = requests if "1000" not in shape else max(requests // 5, 200)
            for number in range(rounds + 1):
                for name, setting in running.items():
                    cost = setting.measure(path, message, count, random)
                    if number:
                        found.setdefault((shape, name), []).append(cost)
    return found


def times_embedded(found: dict[tuple[str, str], list[Cost]], shape: str, name: str) -> float:
    """What a batch costs, collectors and database together, as a multiple of the embedded store: medians."""
    both = statistics.median(cost.collectors + cost.database for cost in found[shape, name])
    return both / statistics.median(cost.collectors for cost in found[shape, "embedded"])


def times_one(found: dict[tuple[str, str], list[Cost]], shape: str) -> float:
    """How many batches two collectors take while one takes one: medians of batches a second."""
    one, two = (
        statistics.median(cost.rate for cost in found[shape, name]) for name in ("one collector", "two collectors")
    )
    return two / one


def in_words(found: dict[tuple[str, str], list[Cost]]) -> Iterator[str]:
    for (shape, name), costs in found.items():
        mine, database, rate, wal = (
            statistics.median(getattr(cost, field) for cost in costs)
            for field in ("collectors", "database", "rate", "wal")
        )
        yield (
            f"{shape:34} {name:16} {mine:6.0f} + {database:4.0f} us a batch, "
            f"{times_embedded(found, shape, name):.2f} x embedded; {rate:6.0f} batches a second; {wal:6.0f} B of WAL"
        )
    for shape in SHAPES:
        yield f"{shape:34} two collectors store {times_one(found, shape):.2f} times the batches of one in a second"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for line in in_words(measure(Path(folder), arguments.requests, arguments.rounds)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
