"""How much counting costs, against a handler that only reads: `python -m tests.bench.collector_throughput`.

The server has one core to itself, the load generator the other; both servers run in turn, in one run, three times;
what is compared is requests per CPU-second of the whole server process, kernel and all threads included.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from hubbub.protocol.report import Batch
from hubbub.protocol.wire import pack
from tests.bench.collector_load import Load, as_request, middle, run, with_fresh_ids
from tests.collector.kit import LAUNCH, REGISTRY, Collector, random_batch

TURNS = 10
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


class Noop:
    def __init__(self, *flags: str) -> None:
        script = Path(__file__).with_name("collector_noop.py")
        self.process = subprocess.Popen([sys.executable, str(script), *flags], stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


def measure(
    folder: Path, requests: int, rounds: int = 3, only: str = "", plain: bool = False
) -> dict[str, list[tuple[Load, Load]]]:
    """For each shape and round, the load of the no-op and of the collector, on uvloop or on the plain loop.

    Within a round the two take turns, a few hundred requests each, so that whatever else the machine does
    falls on both alike.
    """
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(mine)})
    try:
        results: dict[str, list[tuple[Load, Load]]] = {}
        for name, (path, message) in shapes(time.time()).items():
            if name.startswith(only):
                places = [folder / f"{len(results)}-{number}" for number in range(rounds)]
                results[name] = [_round(place, path, message, requests, min(mine), plain) for place in places]
        return results
    finally:
        os.sched_setaffinity(0, mine)


def _round(place: Path, path: str, message: bytes, requests: int, core: int, plain: bool = False) -> tuple[Load, Load]:
    place.mkdir(parents=True)
    noop = Noop(*["plain"] * plain)
    collector = Collector(place, *LIMITLESS, launch=PLAIN_LOOP if plain else LAUNCH)
    try:
        headers = f"Authorization: Bearer {collector.relay_token()}\r\n"
        for server in (noop, collector):
            for task in Path(f"/proc/{server.process.pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), {core})
        messages = with_fresh_ids(message, Random(2))
        turns: tuple[list[Load], list[Load]] = ([], [])
        for turn in range(TURNS + 1):
            sent = [as_request(next(messages), path, headers) for _ in range(requests // TURNS)]
            for server, loads in zip((noop, collector), turns, strict=True):
                load = run(server.port, server.process.pid, sent)
                if turn:  # the first one warms up
                    loads.append(load)
        return middle(turns[0]), middle(turns[1])
    finally:
        noop.stop()
        collector.stop()


def ratios(rounds: list[tuple[Load, Load]]) -> tuple[float, float]:
    """Medians: requests per CPU-second as a share of the no-op's, and p99 as a multiple of the no-op's."""
    rate = statistics.median(mine.per_cpu_second / noop.per_cpu_second for noop, mine in rounds)
    return rate, statistics.median(mine.p99 / noop.p99 for noop, mine in rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="shapes whose name begins so")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, rounds in measure(Path(folder), arguments.requests, arguments.rounds, arguments.only).items():
            rate, p99 = ratios(rounds)
            noop, mine = (statistics.median(pair[side].per_cpu_second for pair in rounds) for side in (0, 1))
            print(f"{name:34} {rate:.2f} of the no-op ({mine:.0f} of {noop:.0f} per CPU-second), p99 {p99:.2f}x")


if __name__ == "__main__":
    main()
