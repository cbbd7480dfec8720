"""Whether the installed aiohttp is one the collector works with: asked at the start, before the port is opened.

The collector builds on the low-level server, parts of which aiohttp does not document and may change in any release:
methods that are overridden, options of a connection, and what an answer must have to be sent (see `acknowledgement`).
The names are looked up, and then one connection answers two requests. If any of it fails, the collector does not
start, and the words say what is missing and which versions are known to work. Else the first sender would find out.
"""

from __future__ import annotations

import asyncio
import inspect
import socket
from collections.abc import Iterator
from typing import Any, cast

import aiohttp
from aiohttp import web

from hubbub.collector.http.acknowledgement import FinishedResponse
from hubbub.collector.http.connections import Server
from hubbub.collector.metrics import CollectorMetrics
from hubbub.protocol.invalid import Invalid

KNOWN_TO_WORK = "3.10 to 3.14"  # tests/collector/http, the round trip and the hostile senders passed with each
_NAMES: dict[type[Any], tuple[str, ...]] = {
    web.Server: ("connection_made", "connection_lost", "connections"),
    web.RequestHandler: (
        "connection_lost",
        "data_received",
        "force_close",
        "handle_error",
        "pause_writing",
        "resume_writing",
    ),
    web.BaseRequest: ("content", "headers", "keep_alive", "protocol", "raw_path", "remote", "transport", "version"),
    aiohttp.StreamReader: ("at_eof", "is_eof", "read_nowait", "readany"),
    web.ServerRunner: ("addresses", "server", "sites"),
}
_OPTIONS = ("loop", "access_log", "logger", "keepalive_timeout", "lingering_time", "auto_decompress")
_REQUEST = b"POST / HTTP/1.1\r\nHost: trial\r\nContent-Length: 5\r\n\r\ntrial"
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_TRIAL_SECONDS = 30.0


def check_names() -> None:
    """Raise `Invalid` with every attribute and option that is missing from aiohttp."""
    missing = list(_missing_names())
    if missing:
        raise _unusable(f"lacks {', '.join(missing)}")


async def check_answers() -> None:
    """Raise `Invalid` unless a connection sends finished answers and stays open between them."""
    missing: list[str] = []
    received = b""

    class Watched(FinishedResponse):
        """Notes what is asked of an answer that ours does not have."""

        def __getattr__(self, name: str) -> object:
            missing.append(name)
            raise AttributeError(name)

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal received
        received += await request.content.read()
        return cast(web.StreamResponse, Watched(_ANSWER))

    loop = asyncio.get_running_loop()
    server = Server(handler, 1, _TRIAL_SECONDS, CollectorMetrics())
    ours, theirs = socket.socketpair()
    with ours:
        ours.setblocking(False)
        transport, _ = await loop.connect_accepted_socket(server, theirs)
        answers = b""
        try:
            async with asyncio.timeout(_TRIAL_SECONDS):
                for _ in range(2):
                    await loop.sock_sendall(ours, _REQUEST)
                    answers += await loop.sock_recv(ours, 4096)
        except (OSError, TimeoutError):
            pass  # it has closed the connection, or said nothing: then the answers are not as they should be
        finally:
            transport.abort()
            await server.shutdown()
    if answers != 2 * _ANSWER or received != b"trialtrial":
        asked = [name for name in dict.fromkeys(missing) if not name.startswith("__")]
        reason = f"; it asks an answer for {', '.join(asked)}" if asked else ""
        raise _unusable(f"does not send the collector's answers{reason}")


def _missing_names() -> Iterator[str]:
    for owner, names in _NAMES.items():
        yield from (f"{owner.__name__}.{name}" for name in names if not hasattr(owner, name))
    options = inspect.signature(web.RequestHandler.__init__).parameters
    yield from (f"the option {name} of RequestHandler" for name in _OPTIONS if name not in options)


def _unusable(what: str) -> Invalid:
    return Invalid(
        [
            f"aiohttp {aiohttp.__version__} {what}, which the collector needs; "
            f"versions {KNOWN_TO_WORK} are known to work: pip install 'aiohttp>=3.10,<4'"
        ]
    )
