"""A sender that does not read its answers: what is kept for it is bounded, and in time it is cut off."""

import asyncio
import contextlib
import socket

import pytest
from aiohttp import web

from hubbub.collector.http.acknowledgement import FinishedResponse
from hubbub.collector.http.connections import Server
from hubbub.collector.metrics import CollectorMetrics
from tests.collector.kit import Collector

pytestmark = pytest.mark.anyio
ANSWER = 20_000  # bytes, about what a registry takes
HIGH_WATER = 64 << 10  # from there on a transport says that it is too much
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % ANSWER
REQUEST = b"GET /v1/metrics HTTP/1.1\r\nHost: x\r\n\r\n"


class Running:
    """A server in this process, so that what it holds can be looked at, and a sender that reads only when told."""

    def __init__(self, idle_seconds):
        self.idle_seconds = idle_seconds
        self.begun = 0
        self.own_metrics = CollectorMetrics()

    async def _answer(self, request):
        request.protocol.begin_request()
        self.begun += 1
        return FinishedResponse(HEAD + b"%08d" % self.begun + bytes(ANSWER - 8))  # as batches are answered

    @contextlib.asynccontextmanager
    async def open(self):
        server = Server(self._answer, 10, self.idle_seconds, self.own_metrics)
        runner = web.ServerRunner(server)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        with socket.socket() as sender:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sender.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sender, runner.addresses[0])
            self.server, self.sender = server, sender
            yield self
        await runner.cleanup()

    async def send_all_that_is_taken(self, most):
        """Send until the server takes no more for half a second, or closes; how many bytes it took."""
        sent, loop = 0, asyncio.get_running_loop()
        many = REQUEST * 1000
        with contextlib.suppress(TimeoutError, ConnectionError):
            while sent < most:
                async with asyncio.timeout(0.5):
                    await loop.sock_sendall(self.sender, many)
                sent += len(many)
        return sent

    @property
    def unread(self):
        (connection,) = self.server.connections
        return connection.transport.get_write_buffer_size()


async def test_what_is_kept_for_a_sender_that_never_reads_is_bounded():
    async with Running(idle_seconds=60).open() as running:
        sent = await running.send_all_that_is_taken(most=64 << 20)
        assert sent < 64 << 20, "it goes on reading from somebody who does not read"
        assert 0 < running.unread <= HIGH_WATER + 2 * ANSWER
        kernel = 8 << 20  # what the two sockets may hold
        assert running.begun * ANSWER < kernel + running.unread, "it answers what nobody reads"


async def test_it_is_cut_off_when_it_has_taken_nothing_in_time():
    async with Running(idle_seconds=0.3).open() as running:
        await running.send_all_that_is_taken(most=4 << 20)
        assert running.begun > 0
        async with asyncio.timeout(60):
            while running.server.connections:
                await asyncio.sleep(0.01)
        assert running.own_metrics.unread_cut_offs == 1


async def test_one_that_reads_slowly_gets_every_answer_in_order():
    count = 2000
    async with Running(idle_seconds=60).open() as running:
        sending = asyncio.create_task(asyncio.get_running_loop().sock_sendall(running.sender, REQUEST * count))
        received = bytearray()
        async with asyncio.timeout(120):
            while len(received) < count * (len(HEAD) + ANSWER):
                received += await asyncio.get_running_loop().sock_recv(running.sender, 1 << 16)
        await sending
        assert (running.begun, running.own_metrics.unread_cut_offs) == (count, 0)
        bodies = received.split(b"\r\n\r\n")[1:]
        assert [int(body[:8]) for body in bodies] == list(range(1, count + 1))


def is_cut_off(collector):
    with socket.create_connection(("127.0.0.1", collector.port), timeout=60) as sender:
        try:
            while True:
                sender.sendall(REQUEST * 1000)
        except ConnectionError:
            return True


def test_a_collector_cuts_such_a_sender_off_and_serves_others(tmp_path):
    with Collector(tmp_path, "--request-seconds", "1") as collector:
        assert is_cut_off(collector)
        assert collector.request("GET", "/healthz")[0] == 200
    assert "error" not in collector.log_path.read_text()
