"""A full disk and a failing one, for real: refused or stopped, nothing acknowledged lost, and it recovers."""

import json
import shutil
import subprocess
import time
from pathlib import Path
from random import Random

import pytest

from tests.collector.kit import REGISTRY, Collector, random_batch

HERE = Path(__file__).parent
METRICS = list(REGISTRY)
LIMITLESS = ("--sender-rate", "1e6", "--sender-burst", "1000000")


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    library = tmp_path_factory.mktemp("failing") / "failing.so"
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "failing.c", "-ldl"], check=True)
    return library


def send_until(collector, wanted, seed, limit=100_000):
    """Send batches until one is answered with the status wanted; how many were stored before."""
    random = Random(seed)
    for stored in range(limit):
        batch = random_batch(random, METRICS, time.time())
        status, document = collector.send(batch)
        if status == wanted:
            return stored, batch, document
        assert status == 200, document
    raise AssertionError(f"{limit} batches and no {wanted}")


def counted(collector):
    return collector.tallies()["dark_theme"].num_reports


def test_a_full_disk_is_a_507_and_freeing_space_is_all_it_takes(small_disk):
    filler = small_disk / "filler"
    with Collector(small_disk, *LIMITLESS, "--checkpoint-seconds", "0.2", "--segment-bytes", "65536") as collector:
        filler.write_bytes(bytes((8 << 20) - _used(small_disk) - 300_000))
        stored, refused, problem = send_until(collector, 507, seed=1)
        assert stored > 0
        assert problem["type"] == "urn:hubbub:problem:storage-full"
        assert counted(collector) == stored
        filler.unlink()
        deadline = time.monotonic() + 120
        while collector.send(refused)[0] != 200:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert counted(collector) == stored + 1
        collector.stop(9)
    with Collector(small_disk) as collector:
        assert counted(collector) == stored + 1
        assert collector.send(refused)[1]["status"] == "duplicate"


def _used(place):
    usage = shutil.disk_usage(place)
    return usage.used


def test_a_disk_that_is_nearly_full_refuses_before_it_is_full(tmp_path):
    with Collector(tmp_path, "--min-free-bytes", str(1 << 50)) as collector:
        _, _, problem = send_until(collector, 507, seed=2)
        assert problem["detail"] == "the disk is nearly full"
        status, _, body = collector.request("GET", "/readyz")
        assert (status, json.loads(body)["detail"]) == (503, "the disk is nearly full")
        assert collector.request("GET", "/healthz")[0] == 200
        collector.wait_for_notice("the disk is nearly full; batches are refused")


@pytest.mark.parametrize("what", ["the log", "the checkpoint"])
def test_a_failed_sync_stops_the_process_and_loses_nothing_acknowledged(tmp_path, failing, what):
    when = tmp_path / "fail-now"
    env = {"LD_PRELOAD": str(failing), "FAIL_ROOT": str(tmp_path / "data"), "FAIL_WHEN": str(when)}
    if what == "the checkpoint":
        env |= {"FAIL_FSYNC": "1", "FAIL_ROOT": str(tmp_path / "data" / "store.sqlite")}
    collector = Collector(tmp_path, "--checkpoint-seconds", "0.3", env=env)
    random = Random(3)
    batches = [random_batch(random, METRICS, time.time()) for _ in range(21)]
    for batch in batches[:20]:
        assert collector.send(batch)[0] == 200
    when.touch()
    if what == "the log":
        status, problem = collector.send(batches[20])
        assert (status, problem["type"]) == (503, "urn:hubbub:problem:draining")
    assert collector.process.wait(timeout=120) == 1
    collector.stop()
    last = json.loads(collector.log_path.read_text().splitlines()[-1])
    assert (last["level"], last["message"]) == ("error", "the store failed; nothing acknowledged is lost")
    when.unlink()
    with Collector(tmp_path) as collector:
        assert counted(collector) in (20, 21)  # what was not acknowledged may have reached the disk all the same
        assert collector.send(batches[20])[0] == 200
        assert counted(collector) == 21
