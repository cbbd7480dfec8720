"""One process from start to stop: what it needs to start, how it stops, what it never writes down."""

import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from random import Random

import pytest

from hubbub.protocol.wire import MEDIA_TYPE, pack
from tests.collector.kit import LAUNCH, REGISTRY, REGISTRY_TOML, Collector, random_batch, run_command

METRICS = list(REGISTRY)


def batch(seed):
    return pack(random_batch(Random(seed), METRICS, time.time()))


def start_and_fail(*flags: str) -> str:
    done = run_command("collect", *flags, timeout=30)
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
        assert f"got 127.0.0.1 and {running.port}: address already in use" in start_and_fail(*taken)
        assert not (tmp_path / "other" / "tokens").exists(), "no token before the port is known to be free"
    segment = sorted((running.data / "log").glob("*.log"))[-1]
    segment.write_bytes(segment.read_bytes()[:36] + b"?" * 100)
    (running.data / "log" / f"{int(segment.stem) + 1:010d}.log").write_bytes(segment.read_bytes()[:8])
    words = start_and_fail(*flags, "--data", str(running.data))
    assert f"{segment.name}: offset 36: damaged, though it had been acknowledged" in words


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
    said = [json.loads(line)["message"] for line in log.splitlines()]
    said.remove("1 message refused, by reason")  # whenever it is summed up, and nothing more about it
    assert said == ["collecting", "stopping", "stopped"]


def _everything(collector):
    return b"".join(path.read_bytes() for path in sorted(collector.data.rglob("*")) if path.is_file())


def test_on_a_terminal_the_first_token_is_shown_once_and_written_nowhere(tmp_path):
    (tmp_path / "metrics.toml").write_text(REGISTRY_TOML)
    reading, terminal = os.openpty()
    flags = ("--metrics", str(tmp_path / "metrics.toml"), "--data", str(tmp_path / "data"), "--port", "0")
    command = [sys.executable, str(LAUNCH), "collect", *flags]
    with subprocess.Popen(command, stdout=terminal, stderr=subprocess.DEVNULL) as process:
        os.close(terminal)
        with os.fdopen(reading) as lines:
            said = lines.readline() + lines.readline()
            process.terminate()
            process.wait(timeout=120)
    token = re.search(r"Read token, shown this once:  (\S{43})\s+Collecting on http", said)[1]
    kept = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert token.encode() not in kept
    assert hashlib.sha256(token.encode()).hexdigest().encode() in kept


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
