"""Header blocks known by their bytes: answers are those of the ordinary way, and nothing else is taken for known."""

import asyncio
import contextlib
import json
import socket
import time
from random import Random

import pytest
from aiohttp import HttpVersion11, web
from multidict import CIMultiDict, CIMultiDictProxy

from hubbub.collector.http.acknowledgement import FinishedResponse
from hubbub.collector.http.known_headers import KnownHeaders, QuickServer
from hubbub.collector.metrics import CollectorMetrics
from hubbub.protocol.wire import MEDIA_TYPE, pack
from tests.collector.kit import REGISTRY, Collector, random_batch

METRICS = list(REGISTRY)
BODY = b"body of ten"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


def post(body, *lines, path="/v1/reports", length=None):
    head = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Type: {MEDIA_TYPE}", *lines]
    return "\r\n".join([*head, f"Content-Length: {len(body) if length is None else length}", "", ""]).encode() + body


def batch(random):
    return pack(random_batch(random, METRICS, time.time()))


class Talk:
    """A connection that sends a request and reads the whole answer, again and again."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.file = self.sock.makefile("rb")

    def ask(self, request):
        self.sock.sendall(request)
        return self.read()

    def read(self):
        status = self.file.readline().decode().rstrip()
        headers = {}
        while (line := self.file.readline().decode().rstrip()) != "":
            name, _, value = line.partition(": ")
            headers[name] = value
        return status, headers, self.file.read(int(headers.get("Content-Length", 0)))

    def close(self):
        self.file.close()
        self.sock.close()


def requests():
    """What one connection sends, good and bad, most header blocks more than once. The same in each run."""
    random = Random(5)
    good = [batch(random) for _ in range(4)]
    too_large = bytes(300_000)
    wrong = good[0][:-1] + b"\xff"
    return [
        *[post(body) for body in good],
        post(good[1]),  # a duplicate
        post(wrong),  # the same headers, and a body that cannot be read
        post(good[2][:16] + good[3][16:]),
        post(good[3], path="/v1/reports?x=1"),
        post(good[3], path="/v1/reports?x=1"),
        post(good[0], "Authorization: Bearer wrong", path="/v1/relay"),
        post(good[0], "X-Forwarded-For: 1.2.3.4"),
        post(too_large),
    ]


def test_every_answer_is_that_of_the_ordinary_way(tmp_path):
    heard = []
    for known in ("yes", "no"):
        place = tmp_path / known
        place.mkdir()
        with Collector(place, "--known-headers", known) as collector:
            talk, answers = Talk(collector.port), []
            for request in requests():
                status, headers, body = talk.ask(request)
                answers.append((status, {**headers, "Date": ""}, body))
            talk.close()
            heard.append(answers)
    quick, ordinary = heard
    assert quick == ordinary
    assert {status.split()[1] for status, _, _ in quick} == {"200", "400", "401", "413"}


def test_limits_and_tokens_are_asked_for_each_request(tmp_path):
    random = Random(6)
    with Collector(tmp_path, "--sender-burst", "3", "--sender-rate", "0.001") as collector:
        talk = Talk(collector.port)
        statuses = [talk.ask(post(batch(random)))[0].split()[1] for _ in range(6)]
        assert statuses == ["200"] * 3 + ["429"] * 3
        _, headers, body = talk.ask(post(batch(random)))
        assert json.loads(body)["type"] == "urn:hubbub:problem:rate-limited"
        assert 30 <= int(headers["Retry-After"]) <= 120
        token = collector.relay_token()
        relayed = f"Authorization: Bearer {token}"
        for _ in range(3):
            assert talk.ask(post(batch(random), relayed, path="/v1/relay"))[0].split()[1] == "200"
        (collector.data / "tokens").write_text("")
        deadline = time.monotonic() + 60
        while talk.ask(post(batch(random), relayed, path="/v1/relay"))[0].split()[1] == "200":
            assert time.monotonic() < deadline, "a token that was revoked went on being accepted"
            time.sleep(0.05)
        talk.close()


def test_an_idle_connection_is_closed_in_time_and_one_in_use_is_not(tmp_path):
    random = Random(7)
    with Collector(tmp_path, "--request-seconds", "1") as collector:
        talk = Talk(collector.port)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            assert talk.ask(post(batch(random)))[0].endswith("200 OK")
            time.sleep(0.1)
        assert talk.sock.recv(1) == b""
        talk.close()


# --- in this process: what is under way can be held up ------------------------------------------------------------


class Quick:
    """A server whose known requests are answered when the test says so. `ordinary` counts those that aiohttp read."""

    def __init__(self):
        self.ordinary = 0
        self.under_way = []

    async def _first(self, request):
        request.protocol.begin_request()
        self.ordinary += 1
        body = await request.read()
        request.protocol.busy = False
        return FinishedResponse(ANSWER + body[:2])

    def _known(self, connection, head, body):
        self.under_way.append((connection, body))
        return True

    def finish(self, more=b""):
        connection, body = self.under_way.pop(0)
        connection.finish(ANSWER + body[:2] + more)

    @contextlib.asynccontextmanager
    async def open(self):
        self.server = QuickServer(self._known, self._first, 10, 30, CollectorMetrics())
        runner = web.ServerRunner(self.server)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.reader, self.writer = await asyncio.open_connection(*runner.addresses[0])
        yield self
        self.writer.close()
        await runner.cleanup()

    async def answer(self):
        async with asyncio.timeout(30):
            return (await self.reader.readexactly(len(ANSWER) + 2))[-2:]

    async def until(self, true):
        """Until something is true of the one connection."""
        (connection,) = self.server.connections
        async with asyncio.timeout(30):
            while not true(connection):
                await asyncio.sleep(0)


@pytest.mark.anyio
async def test_what_comes_while_a_request_is_under_way_waits_for_its_turn():
    async with Quick().open() as quick:
        quick.writer.write(post(b"00"))
        assert await quick.answer() == b"00"
        quick.writer.write(post(b"11"))
        await quick.until(lambda connection: quick.under_way)
        quick.writer.write(post(b"22") + post(b"33"))  # two at once are aiohttp's
        await quick.until(lambda connection: connection._late)  # they are there, and must wait for the first
        assert (quick.ordinary, len(quick.under_way)) == (1, 1)
        quick.finish()
        assert [await quick.answer() for _ in range(3)] == [b"11", b"22", b"33"]
        assert quick.ordinary == 3


@pytest.mark.anyio
@pytest.mark.parametrize(
    "request_",
    [
        post(b"11", "X-Forwarded-For: 1.2.3.4"),
        post(b"11", "Cookie: a=b"),
        post(b"11", f"User-Agent: {'x' * 3000}"),
        post(b"11", "Connection: keep-alive", "X-Anything: 1"),
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n11\r\n0\r\n\r\n",
        b"\r\n" + post(b"11"),
    ],
)
async def test_only_plain_header_blocks_are_remembered(request_):
    async with Quick().open() as quick:
        for _ in range(3):
            quick.writer.write(request_)
            assert await quick.answer() == b"11"
        assert (quick.ordinary, len(quick.server.known._blocks)) == (3, 0)


@pytest.mark.anyio
async def test_a_request_in_two_parts_or_two_in_one_are_read_by_aiohttp_and_then_it_goes_on():
    async with Quick().open() as quick:
        quick.writer.write(post(b"00"))
        assert await quick.answer() == b"00"
        whole = post(b"11")
        quick.writer.write(whole[:-1])
        await quick.until(lambda connection: connection._passed_on)
        quick.writer.write(whole[-1:])
        assert await quick.answer() == b"11"
        quick.writer.write(whole)
        await quick.until(lambda connection: quick.under_way)  # known again: the two parts were one request
        quick.finish()
        assert await quick.answer() == b"11"
        quick.writer.write(post(b"22") * 2)
        assert [await quick.answer(), await quick.answer()] == [b"22", b"22"]
        assert quick.ordinary == 4
        assert quick.under_way == []


@pytest.mark.anyio
async def test_a_sender_that_goes_while_its_batch_is_under_way_harms_nobody():
    async with Quick().open() as quick:
        quick.writer.write(post(b"00"))
        assert await quick.answer() == b"00"
        quick.writer.write(post(b"11"))
        await quick.until(lambda connection: quick.under_way)
        assert quick.server.busy
        quick.writer.transport.abort()
        async with asyncio.timeout(30):
            while quick.server.connections:
                await asyncio.sleep(0.01)
        quick.finish()
        assert not quick.server.busy


@pytest.mark.anyio
async def test_a_sender_that_does_not_read_is_not_answered_quickly_either():
    """From 64 KiB of unread answers on the next request is aiohttp's, and there it waits."""
    async with Quick().open() as quick:
        quick.writer.write(post(b"00"))
        assert await quick.answer() == b"00"
        quick.writer.transport.pause_reading()
        (connection,) = quick.server.connections
        answered = 0
        while connection.is_read:
            quick.writer.write(post(b"11"))
            await quick.until(lambda connection: quick.under_way)
            quick.finish(bytes(1 << 16))
            answered += 1
            assert answered < 1000, "unread answers pile up without end"
        connection.data_received(post(b"22"))  # as what was already on its way would come
        assert (quick.under_way, quick.ordinary) == ([], 1)
        quick.writer.transport.resume_reading()
        for _ in range(answered):
            assert await quick.answer() == b"11"
            await quick.reader.readexactly(1 << 16)
        assert await quick.answer() == b"22"


class Read:
    """A request as aiohttp has read it."""

    method, version, keep_alive, raw_path = "POST", HttpVersion11, True, "/"

    def __init__(self, length, **headers):
        self.content_length = length
        self.headers = CIMultiDictProxy(CIMultiDict(headers))
        self.content = self

    def is_eof(self):
        return True


def test_a_block_that_could_end_elsewhere_is_not_remembered():
    """Line ends that some parser may take for the end of the headers: then the rest would be the body's."""
    good = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n11"
    known = KnownHeaders()
    assert known.remember(good, Read(2))
    for bad in (good.replace(b"x\r\n", b"x\n\n", 1), good.replace(b"x\r\n", b"x\r\r\n", 1), b"\r\n\r\n" + good):
        assert not known.remember(bad, Read(2))
        assert not known.remember(bad, Read(len(bad) - 4))
    assert not known.remember(good + b"more", Read(2))
    assert len(known._blocks) == 1


def test_what_is_remembered_has_an_end_and_goes_after_an_hour():
    known = KnownHeaders()
    for number in range(2000):
        assert known.remember(b"POST /%d HTTP/1.1\r\n\r\n" % number, Read(0))
    assert len(known._blocks) <= 512
    block = b"POST /1999 HTTP/1.1\r\n\r\n"
    assert known.find(block, 1000.0) is not None
    assert known.find(block, 1000.0 + 3601) is None
    assert len(known._blocks) == 0
