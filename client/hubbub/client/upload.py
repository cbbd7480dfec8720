"""One message to one collector, and what the answer means. Knows HTTP; knows no state, and not when to send.

A batch counts as delivered only if our collector says so, with our id. It is dropped only if our collector refuses it
for good. Everything else (a proxy's 404, a captive portal's 200, redirects, all of 5xx) means: keep it, back off.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from hubbub.client import tls
from hubbub.protocol.names import host_of
from hubbub.protocol.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from http.client import HTTPConnection
    from typing import Any, Literal
    from urllib.request import OpenerDirector

PATH = "/v1/reports"
TIMEOUT = 10.0
"""Seconds that one attempt may take at most."""

_ANSWER_BYTES = 64 * 1024


class Answer(Value):
    """What a server said to a message."""

    status: int
    """The HTTP status."""
    body: bytes = b""
    """The first 64 KiB of the body, or all of it."""
    headers: Mapping[str, str] = MappingProxyType({})
    """By name; upper and lower case are the same."""


class Delivery(Value):
    """What an attempt means for a message."""

    kind: Literal["delivered", "refused", "later", "failed"]
    """Remove it; remove it, too; keep it for a while and send the others; keep it and send nothing for a while."""
    reason: str = ""
    """Why not delivered: one of `protocol.refusal.STATUS`, a status or the name of an error."""
    retry_after: float = 0.0
    """Seconds that the server asks for."""
    server_time: float | None = None
    """The server's clock, in Unix seconds, if it told."""


class Withheld(Exception):
    """The person's yes was taken back while the connection was being made; nothing was written to it."""


def attempt(
    send: Callable[[str, bytes, float], Answer],
    endpoint: str,
    body: bytes,
    batch_id: bytes,
    timeout: float,
    may_send: Callable[[], bool] = lambda: True,
) -> Delivery | None:
    """Send one message, once; None if it may not be sent, which is asked before anything begins. Our own transport asks
    once more when it is connected: that can take seconds, and a no must hold from the moment it is given."""
    if not may_send():
        return None
    try:
        answer = post(endpoint, body, timeout, may_send=may_send) if send is post else send(endpoint, body, timeout)
    except (Withheld, tls.Ended):
        return None
    except Exception as error:  # noqa: BLE001  whatever an app's own transport raises: telemetry never hurts its host
        if tls.in_use.ended:  # cut off by ourselves
            return None
        return Delivery("failed", type(error).__name__)
    return read_answer(answer, batch_id)


def post(endpoint: str, body: bytes, timeout: float, /, may_send: Callable[[], bool] = lambda: True) -> Answer:
    """The transport where none is given: one request by urllib. Proxies and certificate settings of the environment
    are honoured; redirects are not followed. `may_send` is asked when the connection stands, TLS and all, before a byte
    of the request is written. Raises OSError, HTTPException, ValueError, and `Withheld` where it says no."""
    import urllib.error
    import urllib.request

    from hubbub.protocol.wire import MEDIA_TYPE

    request = urllib.request.Request(  # noqa: S310  the scheme was checked when the client was made
        endpoint.rstrip("/") + PATH,
        data=body,
        headers={"Content-Type": MEDIA_TYPE, "Accept": "application/json", "User-Agent": "hubbub"},
    )
    try:
        try:
            answer = _opener(request.type, may_send).open(request, timeout=timeout)
        except urllib.error.HTTPError as error:  # an answer all the same, and it can break off like any other
            answer = error
        with answer:
            headers = dict(reversed(answer.headers.items()))  # of a header that is repeated the first counts
            return Answer(answer.status, answer.read(_ANSWER_BYTES), headers)
    finally:
        tls.in_use.leave()


def _opener(scheme: str, may_send: Callable[[], bool]) -> OpenerDirector:
    """What urllib would build, without redirects, and without TLS where none is needed."""
    import http.client
    import urllib.request

    class Plain(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            _ask(may_send, self)

    class Announced(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            tls.in_use.on(self.sock)

    class Secure(http.client.HTTPSConnection, Announced):  # in this order: connected, announced, then TLS begins
        def connect(self) -> None:
            super().connect()
            _ask(may_send, self)

    class OverPlain(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Plain, req)

    class OverSecure(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Secure, req, context=context)

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    handlers = [
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        NoRedirect(),
        OverPlain(),
    ]
    if scheme == "https":
        import ssl

        with tls.in_use.without_connection():
            context = ssl.create_default_context()
            context.set_alpn_protocols(["http/1.1"])
            handlers.append(OverSecure(context=context))
    opener = urllib.request.OpenerDirector()
    for handler in handlers:
        opener.add_handler(handler)
    return opener


def _ask(may_send: Callable[[], bool], connection: HTTPConnection) -> None:
    if not may_send():
        connection.close()
        raise Withheld


def read_answer(answer: Answer, batch_id: bytes) -> Delivery:
    """What an answer means for a batch."""
    from hubbub.protocol.refusal import LATER, PROBLEM_PREFIX, STATUS  # here, because most starts send nothing

    headers = {name.lower(): text for name, text in answer.headers.items()}
    retry_after = _retry_after(headers.get("retry-after"), headers.get("date"))
    server_time = _http_date(headers.get("date"))
    said = _json_object(answer.body)
    if answer.status == 200 and _acknowledges(said, batch_id):
        return Delivery("delivered", "", 0.0, server_time)
    kind = said.get("type")
    reason = kind.removeprefix(PROBLEM_PREFIX) if isinstance(kind, str) and kind.startswith(PROBLEM_PREFIX) else ""
    if reason not in STATUS or STATUS[reason] != answer.status:
        return Delivery("failed", f"status_{answer.status}", retry_after, server_time)
    if reason not in LATER:
        return Delivery("refused", reason, 0.0, server_time)
    if reason in ("metric-unknown", "epoch-in-future"):
        return Delivery("later", reason, 0.0, server_time)
    return Delivery("failed", reason, retry_after, server_time)


def _json_object(body: bytes) -> dict[str, Any]:
    """What the body says; nothing, if it is no JSON object."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _acknowledges(said: dict[str, Any], batch_id: bytes) -> bool:
    return said.get("status") in ("stored", "duplicate") and said.get("batch_id") == batch_id.hex()


def _retry_after(text: str | None, date: str | None) -> float:
    """Seconds to wait: given as a number, or as a date, which is read on the server's own clock."""
    if text is None:
        return 0.0
    if text.strip().isdecimal():
        return float(text)
    until = _http_date(text)
    return max(0.0, until - (_http_date(date) or time.time())) if until else 0.0


def _http_date(text: str | None) -> float | None:
    if not text:
        return None
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def checked_endpoint(endpoint: str | None) -> str | None:
    """https, or http on this machine: reports are noisy, but who sends them is not."""
    if endpoint is None:
        return None
    if not isinstance(endpoint, str):
        raise ValueError(f"endpoint must be an https URL as a text, got {type(endpoint).__name__}")
    host = host_of(endpoint.removesuffix("/"))
    if host and (endpoint.startswith("https:") or _is_loopback(host)):
        return endpoint
    from urllib.parse import urlsplit  # here, because only addresses out of the ordinary need it

    try:
        parts = urlsplit(endpoint)
        secure = parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or ""))
        if secure and parts.hostname and parts.port != 0 and not parts.query and not parts.fragment:
            return endpoint
    except ValueError:  # a port or an address that is none
        pass
    raise ValueError(f"endpoint must be an https URL, or http on this machine, got {endpoint!r}")


def is_this_machine(endpoint: str) -> bool:
    """Whether a checked endpoint is a loopback address, so that nothing sent there leaves the device."""
    host = host_of(endpoint.removesuffix("/"))
    if host is None:
        from urllib.parse import urlsplit

        host = urlsplit(endpoint).hostname or ""
    return _is_loopback(host)


def _is_loopback(host: str) -> bool:
    if host in ("127.0.0.1", "localhost"):
        return True
    if host[-1:].isalpha() and ":" not in host:  # a name, whatever it begins with
        return False
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
