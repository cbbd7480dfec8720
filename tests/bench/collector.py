"""What counting costs against a handler that only reads the same bodies, and whether it stays so as the store grows.

Loopback only, a bounded number of requests. Server and load generator have a core each; collector and no-ops take turns
of a thousand requests; compared are requests per CPU-second of the whole server process, and latencies under 64
connections that each send the next request when the last is answered.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from itertools import islice
from pathlib import Path
from random import Random

from tests.bench import collector_pairs
from tests.bench.collector_load import Load, as_request, resident_bytes, run, with_fresh_ids
from tests.bench.collector_throughput import LIMITLESS, shapes
from tests.bench.collector_throughput import measure as measure_throughput
from tests.bench.environments import Say
from tests.bench.rows import US, Row, times
from tests.collector.kit import Collector

SHAPES = {
    "1 report": 1,
    "8 metrics x 1 report": 8,
    "50 reports, an install's backlog": 50,
    "1000 reports, relayed, 1 metric": 1000,
}
NOOP = "no-op aiohttp handler"
QUICK_NOOP = "no-op that knows headers"
COST, MEMORY = "Cost as the store grows", "Memory as the store grows"
SHARED = "Cost of a store that collectors share"
PAIRS = "Cost of counting a pair"
FILL = "1000 reports, relayed, 1 metric"
PROBE = "50 reports, relayed"


def throughput(quick: bool, plain: bool, say: Say) -> list[Row]:
    loop = "asyncio's loop" if plain else "uvloop"
    rows = []
    for name, reports in SHAPES.items():
        if quick and plain and reports in (1, 50):
            continue
        say(f"collector: {name}, {loop}")
        requests = 700 if quick else 1_000
        with tempfile.TemporaryDirectory() as folder:
            [rounds] = measure_throughput(Path(folder), requests, 1 if quick else 9, name, ["plain"] * plain).values()
        case = f"{name}, {loop}"
        for who, side in ((NOOP, "noop"), (QUICK_NOOP, "quick_noop"), (US, "collector")):
            loads = [getattr(trio, side) for trio in rounds]
            kind = {"part": "collector", "case": case, "who": who, "limit": who != US}
            rate = times([load.per_cpu_second for load in loads])
            rows.append(Row(table="Batches", unit="batches a CPU-second", more_is_better=True, **kind, **rate))
            per_report = times([load.per_cpu_second * reports for load in loads])
            rows.append(Row(table="Reports", unit="reports a CPU-second", more_is_better=True, **kind, **per_report))
            for title, quantile in (("Latency, half within", "p50"), ("Latency, 99 % within", "p99")):
                seen = times([1e3 * getattr(load, quantile) for load in loads])
                rows.append(Row(table=title, unit="milliseconds, 64 connections", **kind, **seen))
    return rows


def growth(quick: bool, say: Say) -> list[Row]:
    """The cost of a report and the memory of the process as the store fills up."""
    now = time.time()
    fill, probe = shapes(now)[FILL], shapes(now)[PROBE]
    steps = [0, 1_000_000, 2_000_000] if quick else [0, 1_000_000, 5_000_000, 10_000_000, 20_000_000]
    rows, held = [], 0
    with tempfile.TemporaryDirectory() as folder, Collector(Path(folder), *LIMITLESS) as collector:
        headers = f"Authorization: Bearer {collector.relay_token()}\r\n"

        def send(shape: tuple[str, bytes], count: int, random: Random) -> Load:
            messages = islice(with_fresh_ids(shape[1], random), count)
            return run(collector.port, collector.process.pid, (as_request(m, shape[0], headers) for m in messages))

        random = Random(3)
        send(probe, 1_000, random)  # warms up
        held += 50_000
        for step in steps:
            if step > held:
                say(f"collector: growing to {step:,} reports")
                missing = -(-(step - held) // 1000)
                send(fill, missing, random)
                held += 1000 * missing
            costs = []
            for _ in range(3 if quick else 5):
                load = send(probe, 600 if quick else 2_000, random)
                costs.append(1e6 * load.cpu / (50 * load.requests))
                held += 50 * load.requests
            memory = resident_bytes(collector.process.pid) / 1e6
            common = {"part": "collector", "case": f"after {step:,} reports", "who": US}
            rows.append(Row(table=COST, unit="microseconds of CPU a report", **common, **times(costs)))
            rows.append(Row(table=MEMORY, unit="MB", **common, **times([memory])))
        counted = collector.tallies()["homepage"].num_reports
        assert counted == held, f"sent {held} reports, counted {counted}"
    first, last = (statistics.median([row.value for row in pair]) for pair in (rows[:1], rows[-2:-1]))
    say(f"collector: the last report cost {last / first:.2f} times the first")
    return rows


def shared(quick: bool, say: Say) -> list[Row]:
    """The embedded store beside one and two collectors on a PostgreSQL; nothing where there is none."""
    try:
        from tests.bench import collector_shared
        from tests.postgres_server import binaries
    except ModuleNotFoundError:
        binaries = lambda: None  # noqa: E731
    if binaries() is None:
        say("collector: no PostgreSQL here, so no shared store")
        return []
    say("collector: stores that are shared")
    with tempfile.TemporaryDirectory() as folder:
        found = collector_shared.measure(Path(folder), requests=2_000 if quick else 10_000, rounds=3)
    rows = []
    for (shape, name), costs in found.items():
        who = US if name == "embedded" else f"hubbub, {name} on PostgreSQL"
        kind = {"part": "collector", "case": shape, "who": who, "unranked": name != "embedded"}
        together = times([cost.collectors + cost.database for cost in costs])
        database = statistics.median(cost.database for cost in costs)
        note = f"{shape}: {database:.0f} of it the database" if database else ""
        rows.append(Row(table=SHARED, unit="microseconds of CPU a batch", note=note, **kind, **together))
    return rows


def pairs(quick: bool, say: Say) -> list[Row]:
    """A typical batch without and with a pair of 8 by 8."""
    say("collector: a pair")
    with tempfile.TemporaryDirectory() as folder:
        rounds = collector_pairs.measure(Path(folder), requests=2_000 if quick else 10_000, rounds=5 if quick else 9)
    rows = []
    for case, costs in zip(("without", "and one pair of 8 x 8"), zip(*rounds, strict=True), strict=True):
        kind = {"part": "collector", "case": f"8 metrics x 1 report, {case}", "who": US}
        seen = times([1e6 * cost for cost in costs])
        rows.append(Row(table=PAIRS, unit="microseconds of CPU a batch", **kind, **seen))
    return rows


def measure(quick: bool, say: Say) -> list[Row]:
    both_loops = [*throughput(quick, False, say), *throughput(quick, True, say)]
    return [*both_loops, *growth(quick, say), *shared(quick, say), *pairs(quick, say)]
