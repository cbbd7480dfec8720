"""What one pair costs: two collectors, one that counts a pair of 8 by 8 besides, take turns with the same batches.

A batch is typical: 8 metrics, one report of each. Compared is the CPU of the whole process for a batch, its counting
included: each turn ends with a question for no counts, before which a collector counts all it has.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

from hubbub.protocol.registry import Registry
from hubbub.protocol.wire import pack
from tests.bench.collector_load import as_request, cpu_seconds, run, with_fresh_ids
from tests.bench.collector_throughput import LIMITLESS
from tests.collector.kit import REGISTRY_TOML, Collector, random_batch

_SEVEN = 'choices = ["a", "b", "c", "d", "e", "f", "g"]'  # and absent
WITHOUT = REGISTRY_TOML.replace('choices = ["python", "rust", "other"]', _SEVEN).replace(
    '[metrics.dark_theme]\nkind = "flag"\nevery = "day"',
    f'[metrics.dark_theme]\nkind = "choice"\nevery = "day"\n{_SEVEN}',
)
WITH = WITHOUT + '\n[together.both]\nmetrics = ["dark_theme", "language"]\n'


def measure(folder: Path, requests: int, rounds: int) -> list[tuple[float, float]]:
    """Seconds of CPU for a batch in each round, without the pair and with it. The first turn warms up."""
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(mine)})
    try:
        with ExitStack() as stack:
            collectors = [
                stack.enter_context(_collector(folder / name, toml, min(mine)))
                for name, toml in (("without", WITHOUT), ("with", WITH))
            ]
            message = pack(random_batch(Random(1), list(Registry.parse(WITH)), time.time()))
            fresh = with_fresh_ids(message, Random(2))
            turns = [tuple(_cost(collector, fresh, requests) for collector in collectors) for _ in range(rounds + 1)]
            (pair,) = collectors[1].pairs().values()
            assert pair.num_batches == requests * (rounds + 1), "every batch is counted in the pair"
        return [(without, with_pair) for without, with_pair in turns[1:]]
    finally:
        os.sched_setaffinity(0, mine)


def _collector(folder: Path, toml: str, core: int) -> Collector:
    folder.mkdir(parents=True)
    (folder / "metrics.toml").write_text(toml)
    collector = Collector(folder, *LIMITLESS)
    for task in Path(f"/proc/{collector.process.pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {core})
    return collector


def _cost(collector: Collector, fresh: Iterator[bytes], requests: int) -> float:
    pid = collector.process.pid
    sent = [as_request(next(fresh), "/v1/reports") for _ in range(requests)]
    before = cpu_seconds(pid)
    run(collector.port, pid, sent)
    collector.get("/v1/tallies?to=1999-12")
    return (cpu_seconds(pid) - before) / requests


def share(rounds: list[tuple[float, float]]) -> float:
    """How much more a batch costs with the pair, as a share: the median over rounds, whose halves ran side by side."""
    return statistics.median(with_pair / without for without, with_pair in rounds) - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rounds = measure(Path(folder), arguments.requests, arguments.rounds)
    without, with_pair = (1e6 * statistics.median(side) for side in zip(*rounds, strict=True))
    print(f"{without:.1f} us of CPU a batch, with a pair of 8 x 8 {with_pair:.1f}: {100 * share(rounds):+.1f} %")


if __name__ == "__main__":
    main()
