"""From a POST to a tally over real sockets and files: what is acknowledged is counted, exactly once."""

import json
import time
from random import Random

import pytest

from hubbub.protocol.tally import count
from hubbub.protocol.wire import MEDIA_TYPE_JSON, pack, to_json
from tests.collector.kit import REGISTRY, Collector, random_batch

METRICS = list(REGISTRY)

pytestmark = pytest.mark.usefixtures("each_store")


def expected(batches):
    reports = [report for batch in batches for report in batch.reports]
    names = {report.metric.name for report in reports}
    return {name: count(REGISTRY[name], [r for r in reports if r.metric.name == name]).epochs for name in names}


def counted(collector):
    return {name: tally.epochs for name, tally in collector.tallies().items()}


def test_what_is_acknowledged_is_counted_and_survives_a_restart(tmp_path):
    random = Random(1)
    batches = [random_batch(random, METRICS, time.time()) for _ in range(50)]
    batches += [random_batch(random, METRICS, time.time(), epochs=3) for _ in range(20)]
    with Collector(tmp_path) as collector:
        for batch in batches:
            assert collector.send(batch) == (200, {"status": "stored", "batch_id": batch.batch_id.hex()})
        assert counted(collector) == expected(batches)
    with Collector(tmp_path) as collector:
        assert counted(collector) == expected(batches)
        assert collector.send(batches[0])[1]["status"] == "duplicate"
        assert counted(collector) == expected(batches)


def test_a_batch_sent_twice_is_counted_once_and_told_so(tmp_path):
    batch = random_batch(Random(2), METRICS, time.time())
    with Collector(tmp_path) as collector:
        assert [collector.send(batch)[1]["status"] for _ in range(3)] == ["stored", "duplicate", "duplicate"]
        assert counted(collector) == expected([batch])


def test_json_and_packed_are_one_batch_under_one_id(tmp_path):
    batch = random_batch(Random(3), METRICS, time.time())
    with Collector(tmp_path) as collector:
        assert collector.post(json.dumps(to_json(batch)).encode(), MEDIA_TYPE_JSON)[1]["status"] == "stored"
        assert collector.send(batch)[1]["status"] == "duplicate"
        assert counted(collector) == expected([batch])


def test_an_id_reused_with_another_body_is_refused(tmp_path):
    random = Random(4)
    first, second = (random_batch(random, METRICS, time.time()) for _ in range(2))
    body = pack(type(second)(first.batch_id, second.blocks))
    with Collector(tmp_path) as collector:
        collector.send(first)
        status, problem = collector.post(body)
        assert (status, problem["type"]) == (409, "urn:hubbub:problem:id-reused")
        assert problem["detail"] == f"batch_id {first.batch_id.hex()} has come before with another body"
        assert counted(collector) == expected([first])


def test_a_relay_sends_many_reports_per_metric_with_its_token_and_not_without(tmp_path):
    batch = random_batch(Random(6), METRICS, time.time(), reports=300, epochs=2)
    with Collector(tmp_path) as collector:
        assert collector.post(pack(batch), path="/v1/relay")[0] == 401
        assert collector.post(pack(batch), path="/v1/relay", Authorization=f"Bearer {collector.token}")[0] == 401
        status, problem = collector.send(batch)
        assert status == 422
        assert "at most one report an epoch, got 300" in problem["detail"]
        answer = collector.post(pack(batch), path="/v1/relay", Authorization=f"Bearer {collector.relay_token()}")
        assert answer == (200, {"status": "stored", "batch_id": batch.batch_id.hex()})
        assert counted(collector) == expected([batch])
