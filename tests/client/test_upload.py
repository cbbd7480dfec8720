"""A message is delivered only by our collector's word, dropped only by its refusal, else kept and tried again. The
environment's proxies and certificates are honoured."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hubbub.client import Client
from hubbub.client.upload import Delivery, is_this_machine, post, read_answer
from hubbub.protocol.refusal import LATER, STATUS
from hubbub.protocol.wire import MEDIA_TYPE
from tests.client.answering_server import HANG, RESET, Answer, AnsweringServer, problem, stored
from tests.client.install import Install


@pytest.fixture
def client(install: Install) -> Client:
    """A client with one message that is due."""
    return install.with_message()


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
    client = install.with_message(endpoint=install.server.url + path)
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
    ("endpoint", "here"),
    [
        ("https://localhost/base", True),
        ("http://127.8.9.10:80/", True),
        ("http://[::1]:8000", True),
        ("https://127.0.0.1.example.org", False),
        ("https://localhost.example.org", False),
        ("https://10.0.0.1", False),
        ("https://127.1.1", False),
        ("https://[2001:db8::1]", False),
    ],
)
def test_only_loopback_addresses_are_this_machine(endpoint: str, here: bool) -> None:
    assert is_this_machine(endpoint) is here


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


def test_an_endpoint_that_is_no_text_is_refused(install: Install) -> None:
    with pytest.raises(ValueError, match=r"endpoint must be an https URL as a text, got int"):
        install.client(endpoint=8787)


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
    (made, why) = sorted(status.counts)
    assert (made, why.split("_")[0], status.counts[why]) == ("made", "tried", 1)
    install.server.answer = stored
    install.now += 2 * 3600
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
        client = install.with_message(endpoint=endpoint)
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


# --- another transport --------------------------------------------------------------------------------------------


def test_a_transport_that_the_app_gives_takes_the_place_of_ours(install: Install) -> None:
    calls = []

    def post(endpoint: str, body: bytes, timeout: float) -> Answer:
        calls.append((endpoint, body, timeout))
        return stored(body)

    client = install.with_message(endpoint="http://127.0.0.1:9/base", post=post)
    waiting = [message.body for message in client.preview() if message.body]
    assert client.flush()
    ((endpoint, body, timeout),) = calls
    assert (endpoint, [body]) == ("http://127.0.0.1:9/base", waiting)
    assert 0 < timeout <= 10
    assert client.status().counts["sent"] == 1
    assert install.server.connections == 0


class OfTheApp(Exception):
    """What another HTTP stack raises."""


@pytest.mark.parametrize("error", [OSError, ValueError, OfTheApp, RuntimeError], ids=lambda error: error.__name__)
def test_whatever_a_transport_raises_is_a_failed_attempt(install: Install, error: type[Exception]) -> None:
    def post(endpoint: str, body: bytes, timeout: float) -> Answer:
        raise error

    client = install.with_message(post=post)
    assert not client.flush()
    assert (client.status().batches_waiting, client.status().failures) == (1, 1)


def test_the_headers_of_an_answer_are_read_in_upper_and_lower_case() -> None:
    for headers in ({"retry-after": "7"}, {"Retry-After": "7"}, {"RETRY-AFTER": "7"}):
        assert read_answer(Answer(503, b"", headers), bytes(16)) == Delivery("failed", "status_503", 7.0)


def test_of_a_header_that_is_repeated_the_first_counts(install: Install) -> None:
    answer = raw("HTTP/1.1 503 Busy\nRetry-After: 7200\nRetry-After: 60000\nContent-Length: 0\n\n")
    install.server.answer = lambda body: answer
    client = install.with_message()
    client.flush()
    assert 3 * 3600 <= client.status().next_send - install.now < 4 * 3600


# --- proxies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY"])
def test_a_proxy_of_the_environment_is_asked_for_the_whole_address(install: Install, environment, name: str) -> None:
    with AnsweringServer() as proxy:
        environment.setenv(name, proxy.url)
        client = install.with_message(endpoint="http://127.0.0.1:1/base")
        client.flush()
        assert [received.path for received in proxy.received] == ["http://127.0.0.1:1/base/v1/reports"]
        assert client.status().counts["sent"] == 1


def test_hosts_that_need_no_proxy_are_asked_directly(install: Install, environment) -> None:
    with AnsweringServer() as proxy:
        environment.setenv("http_proxy", proxy.url)
        environment.setenv("no_proxy", "127.0.0.1")
        install.with_message().flush()
        assert proxy.connections == 0
    assert len(install.server.bodies) == 1


# --- certificates ---------------------------------------------------------------------------------------------------


@pytest.fixture
def tls(certificate: Path, environment: pytest.MonkeyPatch) -> Iterator[AnsweringServer]:
    environment.delenv("SSL_CERT_FILE", raising=False)
    environment.delenv("SSL_CERT_DIR", raising=False)
    with AnsweringServer(certificate=certificate) as server:
        yield server


def test_a_server_whose_certificate_nobody_vouches_for_gets_nothing(install: Install, tls: AnsweringServer) -> None:
    client = install.with_message(endpoint=tls.url)
    client.flush()
    assert (client.status().batches_waiting, client.status().failures) == (1, 1)
    assert (tls.connections, tls.bodies) == (1, [])


def test_a_certificate_that_the_environment_trusts_is_trusted(install, tls, certificate, environment) -> None:
    environment.setenv("SSL_CERT_FILE", f"{certificate}.crt")
    client = install.with_message(endpoint=tls.url)
    client.flush()
    assert client.status().counts["sent"] == len(tls.bodies) == 1


def test_a_trusted_certificate_of_another_host_is_refused(install, tls, certificate, environment) -> None:
    environment.setenv("SSL_CERT_FILE", f"{certificate}.crt")
    client = install.with_message(endpoint=tls.url.replace("127.0.0.1", "localhost"))
    client.flush()
    assert (client.status().batches_waiting, tls.bodies) == (1, [])


# --- no after a no --------------------------------------------------------------------------------------------------


def a_no_while_the_connection_is_made(
    install: Install, server: AnsweringServer, *, and_a_yes: bool = False, **options: object
) -> Client:
    """The server lets nobody in until the person has said no (and yes again); then it goes on as if nothing
    had happened."""
    connected, go_on = threading.Event(), threading.Event()
    let_in = server._server.process_request

    def stall(request: object, address: object) -> None:
        connected.set()
        go_on.wait(60)
        let_in(request, address)

    server._server.process_request = stall
    client = install.with_message(endpoint=server.url, **options)
    flushing = threading.Thread(target=client.flush)
    flushing.start()
    assert connected.wait(60)
    client.consent(False)
    if and_a_yes:
        client.consent(True)
    go_on.set()
    flushing.join(60)
    return client


def test_nothing_is_written_after_a_no_to_a_connection_that_stalled_in_tls(install, tls, certificate, environment):
    """The answer is read again when TLS stands, before a byte of the message is written."""
    environment.setenv("SSL_CERT_FILE", f"{certificate}.crt")
    client = a_no_while_the_connection_is_made(install, tls)
    assert tls.received == []
    assert (client.mode, client.status().failures) == ("off", 0)


def test_nor_after_a_no_that_a_yes_has_followed(install, tls, certificate, environment):
    """The no has deleted the message; the yes is to what comes after."""
    environment.setenv("SSL_CERT_FILE", f"{certificate}.crt")
    client = a_no_while_the_connection_is_made(install, tls, and_a_yes=True)
    assert tls.received == []
    assert (client.mode, client.status().failures) == ("on", 0)


def test_an_answer_that_is_read_only_before_connecting_would_be_too_old(install, tls, certificate, environment):
    """The old behaviour: asked before, and never again."""
    environment.setenv("SSL_CERT_FILE", f"{certificate}.crt")
    a_no_while_the_connection_is_made(install, tls, post=lambda *message: post(*message))
    assert len(tls.received) == 1


def test_no_app_of_its_own_transport_is_asked_to_send_after_a_no(install: Install) -> None:
    sent = []
    client = install.with_message(post=lambda endpoint, body, timeout: sent.append(body) or stored(body))
    client._timer.begin()
    with install.client() as other:
        other.consent(False)
    client._timer.send()
    assert sent == []
