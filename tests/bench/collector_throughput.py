"""How much counting costs, against a handler that only reads: `python -m tests.bench.collector_throughput`.

The server has one core to itself, the load generator the other; the servers run in turn, in one run, three times; what
is compared is requests per CPU-second of the whole server process, kernel and all threads included.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

from hubbub.protocol.report import Batch
from hubbub.protocol.wire import pack
from tests.bench.collector_load import Load, as_request, run, with_fresh_ids
from tests.collector.kit import LAUNCH, REGISTRY, Collector, random_batch

NOOP = Path(__file__).with_name("collector_noop.py")
PLAIN_LOOP = Path(__file__).with_name("collector_plain_loop.py")
LIMITLESS = ("--sender-rate", "1000000", "--sender-burst", "1000000")


def shapes(now: float) -> dict[str, tuple[str, bytes]]:
    """Batches to send: a name, where to, and one of them."""
    random = Random(1)
    everything = list(REGISTRY)
    homepage = [REGISTRY["homepage"]]
    return {
        "1 report": ("/v1/reports", pack(random_batch(random, homepage, now))),
        "8 metrics x 1 report": ("/v1/reports", pack(random_batch(random, everything, now))),
        "50 reports, an install's backlog": ("/v1/reports", pack(_backlog(random, now))),
        "50 reports, relayed": ("/v1/relay", pack(random_batch(random, homepage, now, reports=50))),
        "1000 reports, relayed, 1 metric": ("/v1/relay", pack(random_batch(random, homepage, now, reports=1000))),
        "1000 reports, relayed, 7 metrics": (
            "/v1/relay",
            pack(random_batch(random, [m for m in everything if m.kind != "range"], now, reports=143)),
        ),
    }


def _backlog(random: Random, now: float) -> Batch:
    """50 reports of as many metrics and epochs: what an install sends that was away. The registry keeps 7 epochs."""
    made = random_batch(random, list(REGISTRY), now, epochs=7)
    return Batch(made.batch_id, made.blocks[:50])


@dataclass(frozen=True)
class Shape:
    """A kind of batch: where it is sent, and one of them."""

    path: str
    message: bytes


class Running:
    """A server on the core that is measured. `authorization` is what a relay sends with its batches."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, core: int, authorization: str = "") -> None:
        self.process, self.port, self.authorization = process, port, authorization
        self.pid = process.pid
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {core})


class Trio(NamedTuple):
    """One round: a handler that only reads, the same knowing header blocks, and the collector."""

    noop: Load
    quick_noop: Load
    collector: Load


@contextmanager
def servers(place: Path, core: int, flags: Sequence[str] = ()) -> Iterator[tuple[Running, ...]]:
    """The three of a round. Flags: `plain`, on asyncio's own loop; `slow`, the collector parses every header block."""
    place.mkdir(parents=True)
    plain = ["plain"] * ("plain" in flags)
    noops = []
    for arguments in (plain, [*plain, "quick"]):
        process = subprocess.Popen([sys.executable, str(NOOP), *arguments], stdout=subprocess.PIPE)
        noops.append(Running(process, int(process.stdout.readline()), core))
    known = ("--known-headers", "no") if "slow" in flags else ()
    collector = Collector(place, *LIMITLESS, *known, launch=PLAIN_LOOP if plain else LAUNCH)
    try:
        authorization = f"Bearer {collector.relay_token()}"
        yield (*noops, Running(collector.process, collector.port, core, authorization))
    finally:
        for noop in noops:
            noop.process.terminate()
            noop.process.wait()
            noop.process.stdout.close()
        collector.stop()


def take_turns(
    folder: Path, rounds: int, only: str, load: Callable[[Running, Shape], Load], flags: Sequence[str] = ()
) -> dict[str, list[Trio]]:
    """For each shape and round, the load of each server: they take turns, so that what else the machine does falls on
    all alike. The first turn warms up."""
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(mine)})
    try:
        results: dict[str, list[Trio]] = {}
        for name, (path, message) in shapes(time.time()).items():
            if not name.startswith(only):
                continue
            with servers(folder / str(len(results)), min(mine), flags) as found:
                shape = Shape(path, message)
                turns = [Trio(*(load(server, shape) for server in found)) for _ in range(rounds + 1)]
            results[name] = turns[1:]
        return results
    finally:
        os.sched_setaffinity(0, mine)


def measure(
    folder: Path, requests: int, rounds: int = 3, only: str = "", flags: Sequence[str] = ()
) -> dict[str, list[Trio]]:
    """With our own generator, so many requests a round."""
    messages: dict[bytes, Iterator[bytes]] = {}

    def load(server: Running, shape: Shape) -> Load:
        fresh = messages.setdefault(shape.message, with_fresh_ids(shape.message, Random(2)))
        headers = f"Authorization: {server.authorization}\r\n" if server.authorization else ""
        return run(server.port, server.pid, [as_request(next(fresh), shape.path, headers) for _ in range(requests)])

    return take_turns(folder, rounds, only, load, flags)


def ratios(rounds: Sequence[Trio]) -> tuple[float, float, float]:
    """Medians: the collector's requests per CPU-second as a share of the no-op's, its p99 as a multiple of the no-op's;
    and the share of the no-op that knows header blocks."""
    rate = statistics.median(trio.collector.per_cpu_second / trio.noop.per_cpu_second for trio in rounds)
    p99 = statistics.median(trio.collector.p99 / trio.noop.p99 for trio in rounds)
    return rate, p99, statistics.median(trio.quick_noop.per_cpu_second / trio.noop.per_cpu_second for trio in rounds)


def in_words(rounds: Sequence[Trio]) -> str:
    rate, p99, quick = ratios(rounds)
    noop, mine = (statistics.median(trio[side].per_cpu_second for trio in rounds) for side in (0, 2))
    return (
        f"{rate:.2f} of the no-op ({mine:.0f} of {noop:.0f} per CPU-second), p99 {p99:.2f} x; "
        f"the no-op with known headers {quick:.2f}"
    )


def print_table(results: Mapping[str, Sequence[Trio]]) -> None:
    for name, rounds in results.items():
        print(f"{name:34} {in_words(rounds)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="shapes whose name begins so")
    parser.add_argument("--plain", action="store_true", help="on asyncio's own loop")
    parser.add_argument("--slow", action="store_true", help="the collector parses every header block")
    arguments = parser.parse_args()
    flags = [name for name in ("plain", "slow") if getattr(arguments, name)]
    with tempfile.TemporaryDirectory() as folder:
        print_table(measure(Path(folder), arguments.requests, arguments.rounds, arguments.only, flags))


if __name__ == "__main__":
    main()
