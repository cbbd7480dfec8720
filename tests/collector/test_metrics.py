"""What a collector tells Prometheus: all that an alert asks is told from the first moment on, and it is true."""

import json
import signal
import ssl
import time
from random import Random

import pytest

from hubbub.collector.http.tls import expiry, tls_context
from hubbub.collector.settings import Settings
from hubbub.protocol.refusal import STATUS
from tests.collector.certificates import make_certificate, needs_openssl
from tests.collector.kit import REGISTRY, Collector, random_batch


def samples(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def told(collector: Collector) -> dict[str, float]:
    return samples(collector.get("/metrics").decode())


@pytest.mark.usefixtures("each_store")
def test_every_reason_to_refuse_is_told_before_it_occurs(tmp_path):
    """Else Prometheus sees the first refusals as a series that has always stood where it stands."""
    with Collector(tmp_path) as collector:
        listed = (*STATUS, "unauthorized", "too-many-reads", "internal")
        reasons = {f'hubbub_rejects_total{{reason="{reason}"}}': 0.0 for reason in listed}
        found = told(collector)
        assert {name: number for name, number in found.items() if name.startswith("hubbub_rejects")} == reasons
        collector.post(b"nonsense")
        assert told(collector)['hubbub_rejects_total{reason="malformed"}'] == 1


@pytest.mark.usefixtures("each_store")
def test_a_collector_that_is_well_says_so(tmp_path):
    with Collector(tmp_path, "--checkpoint-seconds", "100000") as collector:
        collector.send(random_batch(Random(1), list(REGISTRY), time.time()))
        found = told(collector)
        assert (found["hubbub_ready"], found["hubbub_clock_believed"]) == (1, 1)
        if collector.store is None:
            assert (found["hubbub_unsaved_batches"], found["hubbub_log_dropped_bytes"]) == (1, 0)
        else:
            assert (found["hubbub_store_reachable"], found["hubbub_journal_bytes"] > 0) == (1, True)
        assert "hubbub_certificate_expiry_timestamp_seconds" not in found


def test_a_collector_that_takes_nothing_is_not_ready(tmp_path):
    with Collector(tmp_path, "--min-free-bytes", str(10**15)) as collector:
        assert collector.request("GET", "/readyz")[0] == 503
        found = told(collector)
        assert (found["hubbub_ready"], found["hubbub_clock_believed"]) == (0, 1)
        assert found["hubbub_disk_free_min_bytes"] == 10**15 > found["hubbub_disk_free_bytes"] > 0


def test_what_was_dropped_from_the_log_is_told(tmp_path):
    with Collector(tmp_path) as collector:
        collector.send(random_batch(Random(1), list(REGISTRY), time.time()))
        collector.stop(signal.SIGKILL)
    segment = max((collector.data / "log").glob("*.log"))
    segment.write_bytes(segment.read_bytes() + b"torn")
    with Collector(tmp_path) as again:
        again.wait_for_notice("an incomplete last group was dropped")
        notices = [json.loads(line) for line in again.log_path.read_text().splitlines()]
        (dropped,) = [notice["bytes"] for notice in notices if "dropped from the log" in notice["message"]]
        assert told(again)["hubbub_log_dropped_bytes"] == dropped > 0


@needs_openssl
@pytest.mark.parametrize(
    ("first", "last", "told"),
    [
        ("20200101000000Z", "20990102030405Z", ssl.cert_time_to_seconds("Jan  2 03:04:05 2099 GMT")),
        ("20200101000000Z", "20200201000000Z", 0),
        ("20980101000000Z", "20990101000000Z", 0),
    ],
)
def test_when_a_certificate_ends(tmp_path, first, last, told):
    certificate, key = make_certificate(tmp_path, "some", first, last)
    settings = Settings(metrics=tmp_path, tls_certificate=certificate, tls_key=key)
    assert expiry(tls_context(settings), certificate) == told


def test_without_a_certificate_there_is_no_end_of_it():
    assert expiry(None, None) is None
