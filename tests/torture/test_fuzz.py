"""Nothing a client can send makes a 5xx, grows the memory or changes a count it should not."""

import pytest

from hubbub.protocol.tally import count
from tests.bench.collector_load import resident_bytes
from tests.collector.kit import REGISTRY, Collector
from tests.torture.fuzz import Fuzzer

MEGABYTE = 1 << 20


def fuzz(folder, bodies, seed, known="yes"):
    """Sends so many; the fuzzer, and how much the memory grew after the first quarter."""
    flags = ("--sender-rate", "1e6", "--sender-burst", "1000000", "--known-headers", known)
    with Collector(folder, *flags) as collector:
        fuzzer = Fuzzer(collector.port, seed)
        fuzzer.run(bodies // 4)
        before = resident_bytes(collector.process.pid)
        fuzzer.run(bodies - bodies // 4)
        grown = resident_bytes(collector.process.pid) - before
        tallies = collector.tallies()
    assert fuzzer.surprises == []
    assert sum(fuzzer.statuses.values()) == bodies
    reports = [report for batch in fuzzer.stored for report in batch.reports]
    for metric in REGISTRY:
        assert tallies[metric.name].epochs == count(metric, [r for r in reports if r.metric is metric]).epochs
    return fuzzer, grown


@pytest.mark.parametrize(("known", "bodies"), [("yes", 8_000), ("no", 4_000)])
def test_thousands_of_mutated_bodies_make_no_5xx_and_leave_the_counts_exact(tmp_path, known, bodies):
    fuzzer, grown = fuzz(tmp_path, bodies, seed=1, known=known)
    assert {200, 400, 404, 410, 415, 422} <= set(fuzzer.statuses)
    assert len(fuzzer.stored) > bodies / 20
    assert grown < 24 * MEGABYTE


@pytest.mark.proof
def test_500_000_mutated_bodies_make_no_5xx_and_leave_the_counts_exact(tmp_path, figure):
    fuzzer, grown = fuzz(tmp_path, 500_000, seed=2)
    assert grown < 48 * MEGABYTE
    figure(
        "fuzzing", f"500000 bodies, answers {dict(sorted(fuzzer.statuses.items()))}, memory +{grown / MEGABYTE:.1f} MB"
    )
