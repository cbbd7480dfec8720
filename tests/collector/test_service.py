"""The collector as a service: who may ask what, what it says, how it stops, what it never writes down."""

import gzip
import http.client
import json
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random

import pytest

from hubbub.collector.http.limits import Limits, address_behind, sender_of
from hubbub.collector.http.tokens import Tokens, new_token
from hubbub.collector.settings import read_settings
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.report import MEDIA_TYPE, pack
from tests.collector.kit import LAUNCH, REGISTRY, REGISTRY_TOML, Collector, random_batch

METRICS = list(REGISTRY)


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    with Collector(tmp_path_factory.mktemp("service"), "--origins", "https://app.example") as running:
        yield running


def batch(seed):
    return pack(random_batch(Random(seed), METRICS, time.time()))


def test_the_greeting_has_the_urls_and_the_token_once(collector):
    assert f"http://127.0.0.1:{collector.port}/v1/reports" in collector.printed
    assert collector.printed.count(collector.token) == 1
    assert collector.token not in (collector.data / "tokens").read_text()


def test_health_and_registry_are_public_and_the_rest_needs_a_token(collector):
    assert collector.request("GET", "/healthz")[::2] == (200, b"ok\n")
    assert collector.request("GET", "/readyz")[::2] == (200, b"ready\n")
    registry = json.loads(collector.request("GET", "/v1/metrics")[2])
    assert [metric["name"] for metric in registry["metrics"]] == [metric.name for metric in METRICS]
    assert registry["label"]["app"] == "org.example.editor"
    for path in ("/v1/tallies", "/metrics"):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {collector.token}"}):
            status, answered, body = collector.request("GET", path, **headers)
            assert (status, answered["WWW-Authenticate"]) == (401, "Bearer")
            assert "needs the header `Authorization: Bearer` with a token that may read" in json.loads(body)["detail"]


def test_paths_and_methods_that_are_not_there_get_words(collector):
    status, headers, body = collector.request("GET", "/nowhere")
    assert (status, headers["Content-Type"]) == (404, "application/problem+json; charset=utf-8")
    assert json.loads(body)["detail"].startswith("path must be one of /v1/reports, ")
    status, headers, _ = collector.request("DELETE", "/v1/reports")
    assert (status, headers["Allow"]) == (405, "POST, OPTIONS")


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


def test_prometheus_is_told_of_batches_rejects_and_latencies(collector):
    collector.post(b"nonsense")
    text = collector.get("/metrics").decode()
    assert 'hubbub_rejects_total{reason="malformed"}' in text
    for name in (
        'hubbub_batches_total{status="stored"}',
        "hubbub_reports_total",
        "hubbub_queue_batches",
        "hubbub_disk_free_bytes",
        "hubbub_seen_ids",
        'hubbub_commit_seconds_bucket{le="+Inf"}',
        "hubbub_fsync_seconds_count",
    ):
        assert f"\n{name} " in text, name


def test_a_sender_over_its_rate_is_told_when_to_come_back(tmp_path):
    with Collector(tmp_path, "--sender-rate", "0.01", "--sender-burst", "3") as collector:
        answers = [collector.request("POST", "/v1/reports", b"", Content_Type=MEDIA_TYPE) for _ in range(5)]
        assert [status for status, _, _ in answers] == [400, 400, 400, 429, 429]
        assert 30 <= int(answers[-1][1]["Retry-After"]) <= 120
        assert json.loads(answers[-1][2])["type"] == "urn:hubbub:problem:rate-limited"


def test_buckets_refill_and_the_key_rotates():
    now = 0.0
    limits = Limits(1.0, 2, lambda: now)
    sender = limits.name("192.0.2.1")
    assert [limits.allows(sender) for _ in range(3)] == [True, True, False]
    now = 1.0
    assert [limits.allows(sender) for _ in range(2)] == [True, False]
    key = limits.key
    now = 3700.0
    assert limits.allows(sender)
    assert limits.key != key
    assert limits.name("192.0.2.1") != sender


def test_ipv6_senders_are_their_64_and_proxies_are_believed_only_if_named():
    assert sender_of("2001:db8::1") == sender_of("2001:db8::2") != sender_of("2001:db8:0:1::1")
    proxies = read_settings({"metrics": "x", "proxies": "10.0.0.0/8"}, {}, None).proxies
    assert address_behind("192.0.2.9", "198.51.100.1", proxies) == "192.0.2.9"
    assert address_behind("10.0.0.1", "203.0.113.5, 198.51.100.1, 10.2.3.4", proxies) == "198.51.100.1"
    assert address_behind("10.0.0.1", "not an address", proxies) == "10.0.0.1"
    assert address_behind("10.0.0.1", None, proxies) == "10.0.0.1"


def test_tokens_allow_their_role_only_and_can_be_taken_away(tmp_path):
    path, now = tmp_path / "tokens", 0.0
    read, relay = new_token(path, "read", "analyst"), new_token(path, "relay", "gateway")
    tokens = Tokens(path, lambda: now)
    assert [tokens.allow(token, role) for token in (read, relay, "") for role in ("read", "relay")] == [
        True, False, False, True, False, False,
    ]  # fmt: skip
    path.write_text(path.read_text().splitlines()[1] + "\n")
    now = 2.0
    assert not tokens.allow(read, "read")
    assert tokens.allow(relay, "relay")
    path.write_text("nonsense\n")
    with pytest.raises(Invalid, match=r"line 1 must be `read\|relay NAME SHA256`"):
        Tokens(path)
    with pytest.raises(Invalid, match="role must be one of read, relay, got 'write'"):
        new_token(path, "write", "x")


def test_flags_win_over_variables_and_variables_over_the_file(tmp_path):
    config = tmp_path / "collector.toml"
    config.write_text('metrics = "a.toml"\nport = 1\nhost = "a"\nproxies = ["10.0.0.0/8"]\n')
    settings = read_settings({"port": "3"}, {"HUBBUB_PORT": "2", "HUBBUB_HOST": "b"}, config)
    assert (settings.port, settings.host, str(settings.metrics)) == (3, "b", "a.toml")
    config.write_text('metrics = "a.toml"\nprot = 1\nport = "x"\n')
    with pytest.raises(Invalid) as caught:
        read_settings({}, {"HUBBUB_SENDER_RATE": "fast"}, config)
    assert [problem[:55] for problem in caught.value.problems] == [
        "config file: prot: no such setting; there are metrics, ",
        "config file: port: port must be a whole number, got 'x'",
        "HUBBUB_SENDER_RATE: sender_rate must be a number, got '",
    ]
    with pytest.raises(Invalid, match="metrics must be given"):
        read_settings({}, {}, None)
    with pytest.raises(Invalid, match=r"port must be in \[0, 65535\], got 70000"):
        read_settings({"metrics": "x", "port": "70000"}, {}, None)


def start_and_fail(*flags: str) -> str:
    done = subprocess.run([sys.executable, str(LAUNCH), "collect", *flags], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_start_that_cannot_succeed_ends_at_once_in_words(tmp_path):
    metrics = tmp_path / "metrics.toml"
    assert "No such file" in start_and_fail("--metrics", str(metrics))
    metrics.write_text("nonsense")
    assert "not TOML" in start_and_fail("--metrics", str(metrics))
    metrics.write_text(REGISTRY_TOML)
    with Collector(tmp_path) as running:
        flags = ("--metrics", str(metrics), "--port", "0")
        assert "must not be in use by another process" in start_and_fail(*flags, "--data", str(running.data))
        taken = ("--metrics", str(metrics), "--data", str(tmp_path / "other"), "--port", str(running.port))
        assert "address already in use" in start_and_fail(*taken)
    segment = sorted((running.data / "log").glob("*.log"))[-1]
    segment.write_bytes(segment.read_bytes()[:24] + b"?" * 100)
    (running.data / "log" / f"{int(segment.stem) + 1:010d}.log").write_bytes(segment.read_bytes()[:8])
    words = start_and_fail(*flags, "--data", str(running.data))
    assert f"{segment.name}: offset 24: damaged, though it had been acknowledged" in words


def test_check_says_whether_a_start_would_succeed(tmp_path):
    metrics = tmp_path / "metrics.toml"
    metrics.write_text(REGISTRY_TOML)
    command = [sys.executable, str(LAUNCH), "collect", "--check", "--metrics", str(metrics)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{metrics}: 8 metrics; 8 definitions are counted\n")
    assert not (Path.cwd() / "hubbub-data").exists()


def test_sigterm_under_load_drains_saves_and_exits_0_within_10_seconds(tmp_path):
    collector = Collector(tmp_path, "--sender-rate", "1e6", "--sender-burst", "1000000")
    stored, stop = [], threading.Event()

    def send(seed):
        random = Random(seed)
        while not stop.is_set():
            made = random_batch(random, METRICS, time.time())
            try:
                if collector.send(made)[0] == 200:
                    stored.append(made.batch_id)
            except OSError:
                return

    senders = [threading.Thread(target=send, args=[seed]) for seed in range(8)]
    for sender in senders:
        sender.start()
    time.sleep(1)
    begun = time.monotonic()
    assert collector.stop(signal.SIGTERM) == 0
    assert time.monotonic() - begun < 10
    stop.set()
    for sender in senders:
        sender.join()
    assert stored
    with Collector(tmp_path) as again:
        counted = again.tallies()["dark_theme"].num_reports
        assert len(stored) <= counted <= len(stored) + len(senders)  # an answer may have been lost on its way


def test_no_address_user_agent_cookie_or_time_of_day_reaches_the_disk_or_the_log(tmp_path):
    agent, cookie, forwarded = "Spy/7.31 (unmistakable)", "session=4f1c9e77aa", "203.0.113.77"
    begun = int(time.time())
    with Collector(tmp_path, "--proxies", "127.0.0.0/8", "--checkpoint-seconds", "0.1") as collector:
        headers = {"User_Agent": agent, "Cookie": cookie, "X_Forwarded_For": forwarded, "Origin": "https://spy.example"}
        for seed in range(30):
            assert collector.post(batch(seed), **headers)[0] == 200
        collector.post(b"\x16\x03\x01 broken", **headers)
        with socket.create_connection(("127.0.0.1", collector.port)) as raw:
            raw.sendall(b"NONSENSE " + agent.encode() + b"\r\n\r\n")
            raw.recv(1000)
        time.sleep(0.5)
        collector.post(batch(99), **headers)
        kept = _everything(collector)
    kept += _everything(collector)
    log = collector.log_path.read_bytes()
    needles = [agent, cookie, forwarded, "127.0.0.1", "spy.example"]
    binary = [socket.inet_aton(forwarded), socket.inet_aton("127.0.0.1")]
    for needle in [text.encode() for text in needles] + binary:
        assert needle not in kept
        assert needle not in log
    for second in range(begun, int(time.time()) + 1):
        for form in (str(second).encode(), second.to_bytes(4, "little"), second.to_bytes(4, "big")):
            assert form not in kept
    assert [json.loads(line)["message"] for line in log.splitlines()] == ["collecting", "stopping", "stopped"]


def _everything(collector):
    return b"".join(path.read_bytes() for path in sorted(collector.data.rglob("*")) if path.is_file())


def test_told_to_stop_it_answers_what_is_under_way_and_sends_new_requests_away(tmp_path):
    """A body that is still arriving is waited for; another request on an open connection gets 503 and Retry-After."""
    random = Random(7)
    bodies = [pack(random_batch(random, list(REGISTRY), time.time())) for _ in range(2)]
    with Collector(tmp_path) as collector:
        under_way, idle = (socket.create_connection(("127.0.0.1", collector.port), timeout=10) for _ in range(2))
        with under_way, idle:
            under_way.sendall(_raw_post(bodies[0])[:-5])
            idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in idle.recv(4096)
            collector.process.send_signal(signal.SIGTERM)
            collector.wait_for_notice("stopping")
            idle.sendall(_raw_post(bodies[1]))
            refusal = idle.recv(4096)
            under_way.sendall(bodies[0][-5:])
            answer = under_way.recv(4096)
        assert b"503 Service Unavailable" in refusal
        assert b"Retry-After: " in refusal
        assert b"urn:hubbub:problem:draining" in refusal
        assert b'{"status": "stored"' in answer
        assert collector.process.wait(timeout=120) == 0
    with Collector(tmp_path) as again:
        assert sum(tally.num_reports for tally in again.tallies().values()) == len(REGISTRY)


def _raw_post(body):
    head = f"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_tls_by_certificate_files(tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 "
        f"-keyout {key} -out {certificate}".split(),
        check=True,
        capture_output=True,
    )
    with Collector(tmp_path, "--tls-certificate", str(certificate), "--tls-key", str(key)) as collector:
        assert f"https://127.0.0.1:{collector.port}" in collector.printed
        context = ssl.create_default_context(cafile=str(certificate))
        connection = http.client.HTTPSConnection("127.0.0.1", collector.port, context=context)
        connection.request("POST", "/v1/reports", batch(1), {"Content-Type": MEDIA_TYPE})
        assert json.load(connection.getresponse())["status"] == "stored"
        connection.close()
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello"):
            with socket.create_connection(("127.0.0.1", collector.port)) as raw:
                raw.sendall(garbage)
                raw.recv(1000)
    assert all(json.loads(line)["level"] == "info" for line in collector.log_path.read_text().splitlines())
    metrics = tmp_path / "metrics.toml"
    wrong = ("--metrics", str(metrics), "--tls-certificate", str(key), "--tls-key", str(key))
    assert "must be a PEM certificate and its key" in start_and_fail(*wrong, "--data", str(tmp_path / "d"))
