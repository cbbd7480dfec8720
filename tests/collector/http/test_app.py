"""The HTTP interface: who may ask what, and what the answers say."""

import gzip
import json
import socket
import time
from random import Random

import pytest

from hubbub.protocol.report import Batch
from hubbub.protocol.wire import MEDIA_TYPE, MEDIA_TYPE_JSON, pack, to_json
from tests.collector import kit
from tests.collector.kit import REGISTRY, Collector, random_batch

METRICS = list(REGISTRY)


@pytest.fixture(scope="module", params=["embedded", "postgres"])
def collector(request, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "postgres":
            patched.setattr(kit, "new_store", request.getfixturevalue("postgres").new_store)
        running = Collector(tmp_path_factory.mktemp("service"), "--origins", "https://app.example")
    with running:
        yield running


def batch(seed):
    return pack(random_batch(Random(seed), METRICS, time.time()))


def test_the_greeting_has_the_urls_and_says_where_the_token_is_but_not_the_token(tmp_path):
    """Its output is a pipe here, as under systemd or in a container: somebody keeps what it says."""
    with Collector(tmp_path) as collector:
        assert f"http://127.0.0.1:{collector.port}/v1/reports" in collector.printed
        path = collector.data.resolve() / "first-token"
        assert f"Read token, in a file that only this user can read:  {path}\n" in collector.printed
        assert path.read_text() == collector.token + "\n"
        assert path.stat().st_mode & 0o777 == 0o600
        assert collector.token not in collector.printed + collector.log_path.read_text()
        assert collector.token not in (collector.data / "tokens").read_text()


def test_health_and_registry_are_public_and_the_rest_needs_a_token(collector):
    assert collector.request("GET", "/healthz")[::2] == (200, b"ok\n")
    assert collector.request("GET", "/readyz")[::2] == (200, b"ready\n")
    registry = json.loads(collector.request("GET", "/v1/metrics")[2])
    assert [metric["name"] for metric in registry["metrics"]] == [metric.name for metric in METRICS]
    assert registry["label"]["app"] == "org.example.editor"
    for path in ("/v1/tallies", "/metrics"):
        missing = "needs the header `Authorization: Bearer` with a token that may read"
        for given, words in (
            (None, missing),
            ("Bearer ", missing),
            (f"Basic {collector.token}", missing),
            ("Bearer wrong", "the token was not accepted; it must be one that may read"),
        ):
            status, answered, body = collector.request("GET", path, **({"Authorization": given} if given else {}))
            assert (status, answered["WWW-Authenticate"]) == (401, "Bearer")
            assert words in json.loads(body)["detail"]


def test_paths_and_methods_that_are_not_there_get_words(collector):
    status, headers, body = collector.request("GET", "/nowhere")
    assert (status, headers["Content-Type"]) == (404, "application/problem+json; charset=utf-8")
    assert json.loads(body)["detail"].startswith("path must be one of /v1/reports, ")
    status, headers, _ = collector.request("DELETE", "/v1/reports")
    assert (status, headers["Allow"]) == (405, "POST, OPTIONS")


def test_no_answer_tells_versions(collector):
    answers = [
        collector.request("GET", path)[1]
        for path in ("/healthz", "/v1/metrics", "/v1/openapi.json", "/nowhere", "/metrics")
    ]
    answers.append(collector.request("POST", "/v1/reports", batch(9), Content_Type=MEDIA_TYPE)[1])
    answers.append(collector.request("POST", "/v1/reports", b"", Content_Type=MEDIA_TYPE)[1])
    assert {headers["Server"] for headers in answers} == {"hubbub"}
    for broken in (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", collector.port), timeout=30) as sock:
            sock.sendall(broken)
            answer = sock.makefile("rb").read()
            assert b" 400 " in answer
            assert b"\r\nServer: hubbub\r\n" in answer


def test_tallies_are_asked_for_by_metric_and_period(collector):
    collector.post(batch(1))
    assert list(collector.tallies("?metric=homepage")) == ["homepage"]
    assert set(collector.tallies("?to=2020-W01")) == set()
    assert set(collector.tallies("?from=2020-01&to=2099-12-31")) == {metric.name for metric in METRICS}
    for query, status, words in (
        ("?metric=nothing", 404, "metric must be one counted here, got 'nothing'"),
        ("?from=soon", 400, "from must be a day, week or month such as 2026-11-16, 2026-W47 or 2026-11, got 'soon'"),
        ("?since=2026-11", 400, "the query may have metric, from and to, got 'since'"),
    ):
        answer = collector.request("GET", "/v1/tallies" + query, Authorization=f"Bearer {collector.token}")
        assert (answer[0], json.loads(answer[2])["detail"]) == (status, words)


def test_compressed_bodies_are_taken_and_bombs_are_not(collector):
    body = batch(2)
    assert collector.post(gzip.compress(body), Content_Encoding="gzip")[1]["status"] == "stored"
    assert collector.post(body)[1]["status"] == "duplicate"
    status, problem = collector.post(gzip.compress(bytes(50_000_000)), Content_Encoding="gzip")
    assert (status, problem["type"]) == (413, "urn:hubbub:problem:too-large")


def test_a_browser_of_an_allowed_origin_may_send_and_no_other(collector):
    for origin, allowed in (("https://app.example", "https://app.example"), ("https://evil.example", None)):
        status, headers, _ = collector.request("OPTIONS", "/v1/reports", Origin=origin)
        assert (status, headers.get("Access-Control-Allow-Origin")) == (204, allowed)
        _, headers, _ = collector.request("POST", "/v1/reports", batch(3), Origin=origin, Content_Type=MEDIA_TYPE)
        assert headers.get("Access-Control-Allow-Origin") == allowed


def test_any_page_may_read_what_is_public_and_nothing_else(collector):
    """Without credentials: a wildcard allows no cookies and no tokens."""
    for path in ("/v1/metrics", "/v1/openapi.json"):
        headers = collector.request("GET", path, Origin="https://anyone.example")[1]
        assert headers["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Credentials" not in headers
    read = {"Authorization": f"Bearer {collector.token}", "Origin": "https://app.example"}
    for path in ("/v1/tallies", "/metrics", "/healthz", "/readyz"):
        assert "Access-Control-Allow-Origin" not in collector.request("GET", path, **read)[1]


def in_json(made):
    return json.dumps(to_json(made)).encode()


def test_a_json_key_that_comes_twice_is_refused(collector):
    """docs/http.md says so: readers differ in which of the two they take."""
    made = random_batch(Random(21), METRICS[:1], time.time())
    other = "00" * 16
    twice = in_json(made).replace(b'"batch_id":', b'"batch_id": "%s", "batch_id":' % other.encode(), 1)
    assert twice.count(b'"batch_id"') == 2
    status, problem = collector.post(twice, MEDIA_TYPE_JSON)
    assert (status, problem["type"]) == (400, "urn:hubbub:problem:malformed")
    assert collector.post(in_json(made), MEDIA_TYPE_JSON)[1]["status"] == "stored"


def test_the_same_batch_in_another_form_is_a_duplicate_and_with_reports_in_another_order_it_is_another(collector):
    """docs/http.md says so."""
    made = random_batch(Random(22), METRICS, time.time())
    assert collector.send(made)[1]["status"] == "stored"
    document = to_json(made)
    keys_reordered = dict(reversed([*document.items()]))
    keys_reordered["reports"] = [dict(reversed([*report.items()])) for report in document["reports"]]
    for same in (in_json(made), json.dumps(keys_reordered, indent=2).encode()):
        assert collector.post(same, MEDIA_TYPE_JSON)[1]["status"] == "duplicate"
    reordered = {**document, "reports": document["reports"][::-1]}
    status, problem = collector.post(json.dumps(reordered).encode(), MEDIA_TYPE_JSON)
    assert (status, problem["type"]) == (409, "urn:hubbub:problem:id-reused")
    assert collector.send(Batch(made.batch_id, made.blocks[::-1]))[0] == 409


def test_prometheus_is_told_of_batches_rejects_and_latencies(collector):
    collector.post(b"nonsense")
    text = collector.get("/metrics").decode()
    assert 'hubbub_rejects_total{reason="malformed"}' in text
    for name in (
        'hubbub_batches_total{status="stored"}',
        "hubbub_reports_total",
        "hubbub_queue_batches",
        *(("hubbub_disk_free_bytes", "hubbub_seen_ids") if collector.store is None else ("hubbub_store_reachable",)),
        'hubbub_commit_seconds_bucket{le="+Inf"}',
        "hubbub_fsync_seconds_count",
    ):
        assert f"\n{name} " in text, name


def test_when_no_more_ids_may_be_remembered_it_is_not_ready_and_says_so(tmp_path):
    with Collector(tmp_path, "--max-ids", "1") as collector:
        assert collector.post(batch(31))[0] == 200
        status, headers, body = collector.request("POST", "/v1/reports", batch(32), Content_Type=MEDIA_TYPE)
        assert (status, json.loads(body)["type"]) == (503, "urn:hubbub:problem:too-many-ids")
        assert 300 <= int(headers["Retry-After"]) <= 900
        assert collector.request("GET", "/readyz")[0] == 503
        collector.wait_for_notice("too many batch ids are remembered; batches are refused")
        told = collector.get("/metrics").decode()
        assert "\nhubbub_seen_ids 1\n" in told
        assert "\nhubbub_seen_ids_max 1\n" in told
