"""A clock that jumps under load, for real: nothing is lost, purged or closed early, and senders keep their batches."""

import json
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from tests.collector.kit import LAUNCH, REGISTRY_TOML, Collector
from tests.torture.oracle import FLAGS, METRICS, Oracle, random_batch

LIBRARY = next(iter(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
DAY = 86_400
pytestmark = pytest.mark.skipif(LIBRARY is None, reason="needs libfaketime (Debian's package faketime)")


@pytest.fixture
def wrong_clock(tmp_path):
    """An environment whose wall clock, and no other, is off by what a file says; and a function that says it."""
    said = tmp_path / "offset"

    def set_clock(seconds: float) -> None:
        part = said.with_suffix(".part")
        part.write_text(f"{seconds:+.0f}\n")
        part.replace(said)

    set_clock(0)
    env = {
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME_TIMESTAMP_FILE": str(said),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    return env, set_clock


def ready(collector):
    return collector.request("GET", "/readyz")[0]


def wait_until_ready(collector, status):
    deadline = time.monotonic() + 60
    while ready(collector) != status:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_until_in_doubt(collector):
    """By one answer, because the next may differ: in a process with threads, libfaketime lets one reading in a hundred
    see the right time."""
    deadline = time.monotonic() + 60
    status, body = 200, b""
    while status != 503:
        assert time.monotonic() < deadline
        status, _, body = collector.request("GET", "/readyz")
    assert b"clock" in body


def jump_under_load(folder, wrong_clock, jumps):
    """Set the clock wrong and right again, again and again, while senders send; what the oracle says in the end."""
    env, set_clock = wrong_clock
    (folder / "metrics.toml").write_text(REGISTRY_TOML.replace("grace = 6", 'grace = 6\nretention = "30d"'))
    oracle = Oracle(senders=4, seed=11)
    with Collector(folder, *FLAGS, env=env) as collector:
        oracle.ports = (collector.port,)
        oracle.start()
        for jump in jumps:
            time.sleep(0.3)
            set_clock(jump)
            wait_until_in_doubt(collector)
            set_clock(0)
            wait_until_ready(collector, 200)
        oracle.finish()
        assert oracle.verdict(collector) == []
    with Collector(folder, *FLAGS) as collector:  # and again after a restart with the right time
        assert oracle.verdict(collector) == []
        assert collector.send(random_batch(Random(2), METRICS, time.time()))[0] == 200
    notices = [json.loads(line)["message"] for line in collector.log_path.read_text().splitlines()]
    assert not any("purged" in notice for notice in notices)
    # Each jump was seen above; more are said where the right time was seen in between.
    assert sum(notice.startswith("the clock is not believed") for notice in notices) >= len(jumps)
    return oracle


def test_jumps_of_days_and_years_lose_nothing(tmp_path, wrong_clock):
    jump_under_load(tmp_path, wrong_clock, [4 * 365 * DAY, 8 * DAY, -DAY])


def test_a_clock_that_is_right_after_all_can_be_accepted(tmp_path, wrong_clock):
    env, set_clock = wrong_clock
    with Collector(tmp_path, *FLAGS, env=env) as collector:
        set_clock(2 * DAY)
        wait_until_ready(collector, 503)
        command = [sys.executable, str(LAUNCH), "clock", "accept", "--data", str(collector.data)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        wait_until_ready(collector, 200)
        assert collector.send(random_batch(Random(1), METRICS, time.time() + 2 * DAY))[0] == 200
        assert not (collector.data / "clock-accepted").exists()


@pytest.mark.proof
def test_100_jumps_at_random_times_lose_nothing(tmp_path, wrong_clock, figure):
    random = Random(12)
    jumps = [random.choice([-1, 1]) * random.uniform(1.1 * 3600, 3650 * DAY) for _ in range(100)]
    oracle = jump_under_load(tmp_path, wrong_clock, jumps)
    figure("clock", f"100 jumps of an hour to ten years under load, {len(oracle.batches)} batches, none lost")
