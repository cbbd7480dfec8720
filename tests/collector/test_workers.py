"""Several processes on one port: each batch counts once, signals reach all, and one that dies is started again."""

import os
import signal
import time
from pathlib import Path
from random import Random

import pytest

from hubbub.collector.settings import Settings
from hubbub.protocol.invalid import Invalid
from tests.collector import kit
from tests.collector.kit import REGISTRY, Collector, random_batch

METRICS = list(REGISTRY)


def workers_of(collector):
    pid = collector.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for(collector, word, times):
    """Until so many of them have said so."""
    deadline = time.monotonic() + 60
    while collector.log_path.read_text().count(word) < times:
        assert time.monotonic() < deadline, collector.log_path.read_text()
        time.sleep(0.02)


@pytest.fixture
def shared(postgres, monkeypatch):
    monkeypatch.setattr(kit, "new_store", postgres.new_store)


def test_the_embedded_store_is_one_processs_own():
    with pytest.raises(Invalid, match="workers must be 1 with the embedded store, which is one process's own, got 2"):
        Settings(metrics=Path("metrics.toml"), workers=2)


def test_workers_share_a_port_and_a_store_and_one_that_dies_is_started_again(shared, tmp_path):
    with Collector(tmp_path, "--workers", "3") as collector:
        assert collector.printed.count("Collecting on") == 1
        pids = workers_of(collector)
        assert len(pids) == 3
        batches = [random_batch(Random(seed), METRICS, time.time()) for seed in range(12)]
        for batch in batches:  # each on a connection of its own
            assert collector.send(batch)[1]["status"] == "stored"
        os.kill(pids[1], signal.SIGKILL)
        collector.wait_for_notice("a worker died and is started again")
        wait_for(collector, '"collecting"', 4)
        assert len(workers_of(collector)) == 3
        for batch in batches:
            assert collector.send(batch)[1]["status"] == "duplicate"
        assert {tally.num_reports for tally in collector.tallies().values()} == {len(batches)}
        collector.process.send_signal(signal.SIGHUP)
        wait_for(collector, '"reloaded"', 3)
        assert collector.stop() == 0
    assert collector.log_path.read_text().count('"stopped"') == 3


def test_workers_that_cannot_start_end_with_words(shared, tmp_path):
    words = r"(?s)did not start.*address already in use"
    with Collector(tmp_path) as first, pytest.raises(AssertionError, match=words):
        Collector(tmp_path, "--workers", "2", "--port", str(first.port))
