"""A message is delivered only by our collector's word, dropped only by its refusal, else kept and tried again."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from email.utils import formatdate

import pytest

from hubbub.client import Client
from hubbub.protocol.refusal import LATER, STATUS
from hubbub.protocol.wire import MEDIA_TYPE
from tests.client.answering_server import HANG, RESET, Answer, AnsweringServer, problem, stored
from tests.client.install import DAY, Install
from tests.client.registries import metric, registry


@pytest.fixture
def client(install: Install) -> Client:
    """A client with one message that is due."""
    return with_message(install, install.agreed())


def with_message(install: Install, client: Client) -> Client:
    client.record("dark_theme", True)
    install.days(1)
    return client


def the_longest(install: Install):
    """Chance that makes every pause as long as it can be, and is like any other else."""
    return lambda size: b"\xff" * size if size == 4 else install.chance(size)


def no_pause(install: Install):
    return lambda size: bytes(size) if size == 4 else install.chance(size)


# --- what is said ---------------------------------------------------------------------------------------------------


def test_a_message_is_posted_to_the_collectors_path_as_packed_reports(install: Install, client: Client) -> None:
    client.flush()
    (received,) = install.server.received
    assert received.path == "/v1/reports"
    assert received.headers["Content-Type"] == MEDIA_TYPE
    assert received.headers["User-Agent"] == "hubbub"
    names = {"Content-Type", "User-Agent", "Accept", "Accept-Encoding", "Content-Length", "Host", "Connection"}
    assert set(received.headers) == names


@pytest.mark.parametrize("path", ["", "/", "/telemetry", "/telemetry/"])
def test_the_endpoint_is_a_base_url(install: Install, path: str) -> None:
    client = with_message(install, install.agreed(endpoint=install.server.url + path))
    client.flush()
    assert install.server.received[0].path == path.rstrip("/") + "/v1/reports"


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://telemetry.example.org",
        "https://telemetry.example.org:8443/base",
        "http://localhost:8000",
        "http://127.0.0.1",
        "http://127.8.9.10:80",
        "http://[::1]:8000",
    ],
)
def test_an_endpoint_is_https_or_on_this_machine(install: Install, endpoint: str) -> None:
    assert install.client(endpoint=endpoint).endpoint == endpoint


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://telemetry.example.org",
        "http://127.example.org",
        "http://127.0.0.1.example.org",
        "http://localhost.example.org",
        "http://10.0.0.1",
        "ftp://localhost",
        "file:///etc/passwd",
        "telemetry.example.org",
        "https://",
        "https://telemetry.example.org:port",
        "https://telemetry.example.org?key=1",
        "https://[::1",
        "",
    ],
)
def test_any_other_endpoint_is_refused_with_its_name(install: Install, endpoint: str) -> None:
    with pytest.raises(ValueError) as raised:
        install.client(endpoint=endpoint)
    assert str(raised.value) == f"endpoint must be an https URL, or http on this machine, got {endpoint!r}"


# --- delivered, dropped, kept ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["stored", "duplicate"])
def test_our_200_with_our_id_delivers(install: Install, client: Client, word: str) -> None:
    install.server.answer = lambda body: stored(body, word)
    assert client.flush()
    assert client.status().counts["sent"] == 1
    assert client.status().batches_waiting == client.status().failures == 0


@pytest.mark.parametrize("reason", sorted(set(STATUS) - LATER))
def test_our_refusal_drops_and_is_counted_by_its_reason(install: Install, client: Client, reason: str) -> None:
    install.server.answer = lambda body: problem(reason)
    assert client.flush()
    assert client.status().counts[f"dropped_{reason}"] == 1
    assert client.status().batches_waiting == client.status().failures == 0
    client.flush()
    assert install.server.connections == 1


def raw(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()


NOT_OURS = {
    "a proxy's 404": Answer(404, b"<html>not found</html>", {"Content-Type": "text/html"}),
    "a 404 in JSON": Answer(404, b'{"error": "not found"}'),
    "another's problem document": Answer(410, b'{"type": "about:blank", "status": 410}'),
    "a problem of ours with another status": problem("malformed", status=404),
    "a problem of ours with 200": problem("epoch-closed", status=200),
    "a problem we do not know": Answer(400, b'{"type": "urn:hubbub:problem:moon", "status": 400}'),
    "a captive portal": Answer(200, b"<html>please log in</html>", {"Content-Type": "text/html"}),
    "a captive portal in JSON": Answer(200, b'{"status": "ok", "login": "http://portal"}'),
    "a list": Answer(200, b'["stored"]'),
    "a word": Answer(200, b'"stored"'),
    "nothing": Answer(200),
    "no content": Answer(204),
    "stored without an id": Answer(200, b'{"status": "stored"}'),
    "stored with another id": Answer(200, json.dumps({"status": "stored", "batch_id": "00" * 16}).encode()),
    "an id that is no text": Answer(200, b'{"status": "stored", "batch_id": 7}'),
    "JSON without end": Answer(200, b"[" * 60_000),
    "more than we read": Answer(200, b" " * 100_000 + b"{}"),
    "wrong UTF-8": Answer(200, b'{"status": "\xff"}'),
    "500": Answer(500, b"oops"),
    "502": Answer(502),
    "503 of a proxy": Answer(503),
    "504": Answer(504),
    "507 of a disk": Answer(507),
    "408": Answer(408),
    "425": Answer(425),
    "429 of a proxy": Answer(429),
    "401": Answer(401, b"", {"WWW-Authenticate": 'Basic realm="proxy"'}),
    "407": Answer(407, b"", {"Proxy-Authenticate": 'Basic realm="proxy"'}),
    "a full queue": problem("queue-full"),
    "a rate limit": problem("rate-limited"),
    "a collector that ends": problem("draining"),
    "a full store": problem("storage-full"),
    "garbage": b"\x00\x01\x02 no HTTP at all",
    "silence": b"",
    "half a header": raw("HTTP/1.1 200 OK\nContent-Le"),
    "half a body": raw('HTTP/1.1 200 OK\nContent-Length: 1000\n\n{"status": "sto'),
    "half a chunk": raw('HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\nff\n{"status"'),
    "half a chunk of an error": raw('HTTP/1.1 500 Oops\nTransfer-Encoding: chunked\n\nff\n{"type"'),
    "a wrong chunk of an error": raw("HTTP/1.1 429 Slow\nTransfer-Encoding: chunked\n\nzz\n"),
    "too many headers": raw("HTTP/1.1 200 OK\n" + "X: y\n" * 300 + "\n"),
    "a header without end": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000,
    "a reset": RESET,
}


@pytest.mark.parametrize("answer", NOT_OURS.values(), ids=NOT_OURS.keys())
def test_any_other_answer_keeps_the_message_and_backs_off(install: Install, client: Client, answer: object) -> None:
    install.server.answer = lambda body: answer
    client.flush()
    status = client.status()
    assert (status.batches_waiting, status.failures) == (1, 1)
    assert set(status.counts) == {"made"}
    install.server.answer = stored
    install.now += 31
    client.flush()
    assert client.status().counts["sent"] == 1
    first, second = install.server.bodies
    assert first == second


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 305, 307, 308])
def test_a_redirect_is_not_followed(install: Install, client: Client, status: int) -> None:
    with AnsweringServer() as trap:
        install.server.answer = lambda body: Answer(status, b"", {"Location": trap.url + "/v1/reports"})
        client.flush()
        assert trap.connections == 0
    assert (client.status().batches_waiting, client.status().failures) == (1, 1)


def test_a_refused_connection_keeps_the_message(install: Install) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can have this port
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
        client = with_message(install, install.agreed(endpoint=endpoint))
        client.flush()
        assert (client.status().batches_waiting, client.status().failures) == (1, 1)


def test_a_server_that_says_nothing_is_left_when_time_is_up(install: Install, client: Client) -> None:
    install.server.answer = lambda body: HANG
    client.flush(timeout=0.2)
    assert (client.status().batches_waiting, client.status().failures) == (1, 1)


def test_no_time_left_is_no_failure(install: Install, client: Client) -> None:
    client.flush(timeout=0)
    assert (client.status().batches_waiting, client.status().failures) == (1, 0)
    assert install.server.connections == 0


def test_every_retry_has_identical_bytes_across_runs(install: Install, client: Client) -> None:
    install.server.answer = lambda body: Answer(503)
    for _ in range(5):
        client.flush()
        client.close()
        install.now += 6 * 3600 + 1
        client = install.client(send_delay=lambda span: 90 * DAY)  # nothing else is sent meanwhile
    client.flush()
    assert len(install.server.bodies) == 6
    assert len(set(install.server.bodies)) == 1


def test_an_unknown_metric_is_kept_and_tried_again_daily_and_holds_nothing_up(install: Install, client: Client) -> None:
    install.server.answer = lambda body: problem("metric-unknown")
    client.flush()
    assert client.status().failures == 0
    (unknown,) = install.server.bodies
    install.server.answer = lambda body: problem("metric-unknown") if body == unknown else stored(body)
    tries = []
    for _ in range(12):
        install.now += 6 * 3600
        client.flush()
        tries.append(install.server.bodies.count(unknown) - 1)
    assert tries == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3]
    assert client.status().counts["sent"] == 3
    install.server.answer = stored
    install.days(1)
    client.flush()
    assert client.status().batches_waiting == 0


# --- backing off ----------------------------------------------------------------------------------------------------


def pauses(install: Install, client: Client, answer: object, number: int) -> Iterator[float]:
    """How long the client waits after each of so many failures."""
    install.server.answer = lambda body: answer
    for failure in range(1, number + 1):
        client.flush()
        assert client.status().failures == failure
        pause = client.status().next_send - install.now
        yield pause
        install.now += pause


def test_pauses_grow_by_two_from_half_a_minute_to_six_hours(install: Install) -> None:
    client = with_message(install, install.agreed(random=the_longest(install)))
    found = list(pauses(install, client, Answer(500), 14))
    assert found == pytest.approx([min(30 * 2**n, 6 * 3600) for n in range(14)], rel=1e-6)


def test_jitter_is_full_so_a_pause_may_be_nothing(install: Install) -> None:
    client = with_message(install, install.agreed(random=no_pause(install)))
    assert list(pauses(install, client, Answer(500), 5)) == [0] * 5


def test_the_pause_holds_for_later_runs(install: Install) -> None:
    client = with_message(install, install.agreed(random=the_longest(install)))
    install.server.answer = lambda body: Answer(500)
    client.flush()
    client.close()
    install.server.answer = stored
    install.now += 29
    with install.client() as later:
        later.flush()
    assert len(install.server.bodies) == 1
    install.now += 1
    with install.client() as later:
        later.flush()
        assert later.status().failures == 0
    assert len(install.server.bodies) == 2


def test_a_failure_stops_the_other_messages_too(install: Install) -> None:
    client = install.agreed()
    install.days(5)
    install.server.answer = lambda body: Answer(500)
    client.flush()
    assert client.status().batches_waiting == 5
    assert install.server.connections == 1


def test_retry_after_in_seconds_is_obeyed(install: Install) -> None:
    client = with_message(install, install.agreed())
    answer = Answer(429, b"", {"Retry-After": "600"})
    assert list(pauses(install, client, answer, 2)) == [600, 600]


def test_retry_after_as_a_date_is_read_on_the_servers_clock(install: Install) -> None:
    client = with_message(install, install.agreed())
    theirs = 1_000_000_000
    answer = problem("queue-full", Retry_After=formatdate(theirs + 900, usegmt=True), Date=formatdate(theirs))
    assert list(pauses(install, client, answer, 1)) == [900]


@pytest.mark.parametrize("text", ["99999999", "9" * 400, formatdate(9e9, usegmt=True)])
def test_no_retry_after_is_longer_than_a_day(install: Install, text: str) -> None:
    client = with_message(install, install.agreed())
    assert list(pauses(install, client, Answer(503, b"", {"Retry-After": text}), 1)) == [DAY]


@pytest.mark.parametrize("text", ["-5", "soon", "", "1e3", "0", formatdate(1e9, usegmt=True)])
def test_a_retry_after_without_sense_leaves_the_usual_pause(install: Install, text: str) -> None:
    client = with_message(install, install.agreed(random=the_longest(install)))
    answer = Answer(503, b"", {"Retry-After": text})
    assert list(pauses(install, client, answer, 1)) == pytest.approx([30])


def test_the_longer_of_pause_and_retry_after_counts(install: Install) -> None:
    client = with_message(install, install.agreed(random=the_longest(install)))
    answer = Answer(503, b"", {"Retry-After": "10"})
    assert list(pauses(install, client, answer, 3)) == pytest.approx([30, 60, 120])


def test_success_ends_the_backing_off(install: Install, client: Client) -> None:
    list(pauses(install, client, Answer(500), 3))
    install.server.answer = stored
    client.flush()
    assert client.status().failures == 0
    assert client.status().next_send is None


# --- the outbox -----------------------------------------------------------------------------------------------------


def test_a_message_is_given_up_after_28_days(install: Install) -> None:
    client = install.agreed(registry(metric("dark_theme", every="month")))
    install.days(20)
    client.close()
    install.server.answer = lambda body: Answer(500)
    install.days(26)  # 28 days end at midnight of January 29th
    for day in range(30):
        client = install.client()
        client.flush()
        assert client.status().batches_waiting == (1 if day < 27 else 0), day
        client.close()
        install.days(1)
    assert client.status().counts["dropped_too_old"] == 1


def test_the_outbox_is_capped_by_number_and_the_oldest_go_first(install: Install, environment) -> None:
    environment.setattr("hubbub.client.upload.MAX_BATCHES", 3)
    client = install.agreed()
    install.days(8)
    install.server.answer = lambda body: Answer(500)
    client.flush()
    kept = [message.epoch for message in client.preview() if message.body]
    assert kept == ["2026-11-22", "2026-11-23", "2026-11-24"]
    assert client.status().counts["dropped_outbox_full"] == 5


def test_the_outbox_is_capped_by_bytes(install: Install, environment) -> None:
    environment.setattr("hubbub.client.upload.MAX_BYTES", 10_000)
    client = install.agreed(registry(metric("page", "string", num_bits=16_384)))
    install.days(12)
    install.server.answer = lambda body: Answer(500)
    client.flush()
    kept = [len(message.body) for message in client.preview() if message.body]
    assert len(kept) == 4
    assert 8_000 < sum(kept) <= 10_000
    assert client.status().counts["dropped_outbox_full"] == 8


# --- several senders ------------------------------------------------------------------------------------------------


def test_two_processes_do_not_send_one_message_at_the_same_time(install: Install, client: Client) -> None:
    other = install.client()

    def answer(body: bytes) -> Answer:
        if len(install.server.bodies) == 1:
            other.flush()
        return stored(body)

    install.server.answer = answer
    client.flush()
    assert len(install.server.bodies) == 1
    assert client.status().counts["sent"] == 1


def test_a_message_whose_sender_died_is_sent_by_another_after_two_minutes(install: Install, client: Client) -> None:
    def die(size: int) -> bytes:
        raise KeyboardInterrupt

    client.flush(timeout=0)
    install.server.answer = lambda body: Answer(500)
    client._random = die  # a pause is drawn when the answer is known: there the process ends
    with pytest.raises(KeyboardInterrupt):
        client.flush()
    install.server.answer = stored
    other = install.client()
    install.now += 119
    other.flush()
    assert len(install.server.bodies) == 1
    install.now += 2
    other.flush()
    first, second = install.server.bodies
    assert first == second
