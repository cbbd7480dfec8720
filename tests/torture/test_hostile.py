"""Slow, silent, endless and numerous connections: honest senders keep being served."""

import contextlib
import resource
import socket
import time
from random import Random

import pytest

from hubbub.protocol.wire import pack
from tests.bench.collector_load import resident_bytes
from tests.collector.kit import REGISTRY, Collector, random_batch

METRICS = list(REGISTRY)
LIMITLESS = ("--sender-rate", "1e6", "--sender-burst", "1000000")  # all come from one address here
HEAD = b"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: application/vnd.hubbub.reports\r\n"


def honest(collector, count=20):
    """So many batches, each over a connection of its own, all stored."""
    random = Random(time.monotonic_ns())
    for _ in range(count):
        assert collector.send(random_batch(random, METRICS, time.time()))[0] == 200


def connect(collector, first=b""):
    sock = socket.create_connection(("127.0.0.1", collector.port), timeout=20)
    sock.sendall(first)
    return sock


def closed(sock):
    with contextlib.suppress(ConnectionError):
        while sock.recv(65536):
            pass
    return True


@pytest.fixture
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 6000:
        pytest.skip("needs 6000 open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_5000_idle_connections_leave_room_for_honest_senders(tmp_path, many_files):
    with Collector(tmp_path, *LIMITLESS) as collector, contextlib.ExitStack() as stack:
        before = resident_bytes(collector.process.pid)
        for _ in range(5000):
            stack.enter_context(connect(collector))
        honest(collector)
        assert resident_bytes(collector.process.pid) - before < 300 << 20


def test_at_the_limit_the_oldest_idle_connection_makes_room(tmp_path):
    with Collector(tmp_path, *LIMITLESS, "--max-connections", "50") as collector, contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(collector)) for _ in range(120)]
        honest(collector)
        assert closed(idle[0])


@pytest.mark.parametrize("known", ["yes", "no"])
def test_headers_and_bodies_that_drip_are_cut_off_in_time(tmp_path, known):
    flags = (*LIMITLESS, "--request-seconds", "1", "--known-headers", known)
    with Collector(tmp_path, *flags) as collector, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(collector, b"POST /v1/rep")) for _ in range(100)]
        slow += [stack.enter_context(connect(collector, HEAD + b"Content-Length: 1000\r\n\r\nHUB")) for _ in range(100)]
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            for sock in slow:
                with contextlib.suppress(OSError):
                    sock.sendall(b"x")
            honest(collector, 2)
        assert all(closed(sock) for sock in slow)
        honest(collector)


def test_half_open_connections_hold_nothing_up(tmp_path):
    with Collector(tmp_path, *LIMITLESS, "--request-seconds", "2") as collector:
        for _ in range(200):
            sock = connect(collector, HEAD + b"Content-Length: 100000\r\n\r\n" + bytes(50_000))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            sock.close()
        honest(collector)


@pytest.mark.parametrize("known", ["yes", "no"])
def test_broken_http_gets_a_4xx_and_unusual_http_works(tmp_path, known):
    body = pack(random_batch(Random(1), METRICS, time.time()))
    length = b"Content-Length: %d\r\n" % len(body)
    good = HEAD + length + b"\r\n" + body
    with Collector(tmp_path, *LIMITLESS, "--known-headers", known) as collector:
        for raw, status in (
            (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nHUBB\r\n0\r\n\r\n", b" 400 "),
            (HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nHUBBxx\r\n0\r\n\r\n", b" 400 "),
            (HEAD + b"Content-Length: -1\r\n\r\n", b" 400 "),
            (HEAD + length + length.replace(b": ", b": 1") + b"\r\n" + body, b" 400 "),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b" 400 "),
            (good.replace(b"HTTP/1.1", b"HTTP/1.0"), b" 200 OK"),
            (HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body), b" 200 OK"),
            (good.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1), b" 200 OK"),
            (good.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n", 1), b" 200 OK"),
        ):
            with connect(collector, raw) as sock:
                assert status in sock.recv(65536) + (b"" if status == b" 400 " else _rest(sock)), raw[:200]
        with connect(collector, good * 20) as sock:  # pipelined
            answers = b""
            while answers.count(b"200 OK") < 20:
                answers += sock.recv(65536)
        assert collector.tallies()["dark_theme"].num_reports == 1
        honest(collector)
        rejects = collector.get("/metrics").decode()
        assert 'hubbub_rejects_total{reason="internal"} 0\n' in rejects


def _rest(sock):
    sock.settimeout(0.3)
    with contextlib.suppress(TimeoutError):
        return sock.recv(65536)
    return b""


def test_what_is_too_large_is_refused_before_it_is_read(tmp_path):
    with Collector(tmp_path, *LIMITLESS) as collector:
        with connect(collector, HEAD + b"Content-Length: 10000000000\r\n\r\n" + bytes(1000)) as sock:
            assert sock.recv(65536).startswith(b"HTTP/1.1 413")
        with connect(collector, HEAD + b"Transfer-Encoding: chunked\r\n\r\n") as sock:
            with contextlib.suppress(ConnectionError):
                for _ in range(1000):
                    sock.sendall(b"10000\r\n" + bytes(65536) + b"\r\n")
            with contextlib.suppress(ConnectionError):
                assert sock.recv(65536).startswith(b"HTTP/1.1 413")
        with connect(collector, b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 100_000) as sock:
            assert b" 400 Bad Request" in sock.recv(65536)
        honest(collector)
