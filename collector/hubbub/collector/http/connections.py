"""Connections: how many there may be, and which one is closed when there are too many.

At the limit a new connection takes the place of the oldest that has no request under way, so that thousands of idle
ones cannot shut out honest senders. A connection that does not bring a whole request in time is closed: by aiohttp, and
before its first request by a timer here, as aiohttp before 3.14 would wait for that one for ever.

A sender that does not read its answers is not written to: from about 64 KiB of unread answers on nothing more is read
from it and no further request of it is begun, and if it has taken nothing for as long as a request may take, it is cut
off. So a connection holds at most that, one more answer, and what it had sent already.

No private attribute of aiohttp is used. What is used and not documented there is checked at the start: `aiohttp_check`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import islice

from aiohttp import web

from hubbub.collector.metrics import CollectorMetrics

_IDLE_LOOKED_FOR_AMONG = 200  # the oldest connections; more would make a flood of connections costly
_LINGERING_SECONDS = 2.0  # how long the rest of a refused body is read, so that its sender sees the refusal
_SILENT = logging.getLogger("hubbub.collector.silent")
_SILENT.disabled = True  # aiohttp's own messages would have addresses in them

SERVER = "hubbub"
"""What answers say they come from. No versions: those tell whoever looks for an old one where to try."""

ServerArguments = tuple["Handler", int, float, CollectorMetrics]
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Connection(web.RequestHandler):  # type: ignore[type-arg,unused-ignore]  # generic in newer aiohttp only
    """One connection. `sender` is the name its rate limit is kept under, while `sender_key` is in force."""

    __slots__ = (
        "_first_request_timer",
        "_read_on",
        "_unread_timer",
        "busy",
        "idle_seconds",
        "own_metrics",
        "sender",
        "sender_key",
    )

    def __init__(
        self,
        server: Server,
        loop: asyncio.AbstractEventLoop,
        idle_seconds: float,
        own_metrics: CollectorMetrics,
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type,unused-ignore]  # None is how it is turned off
            logger=_SILENT,
            keepalive_timeout=idle_seconds,
            lingering_time=_LINGERING_SECONDS,
            auto_decompress=False,  # the inflated size has a limit of its own
        )
        self.busy = False
        self.sender = b""
        self.sender_key = b""
        self.idle_seconds = idle_seconds
        self.own_metrics = own_metrics
        self._read_on: asyncio.Future[None] | None = None  # done when its sender reads on; None while it does
        self._unread_timer: asyncio.TimerHandle | None = None
        self._first_request_timer: asyncio.TimerHandle | None = loop.call_later(idle_seconds, self.force_close)

    def begin_request(self) -> None:
        self.busy = True
        self._stop_timer()

    @property
    def is_read(self) -> bool:
        """Whether its sender reads its answers."""
        return self._read_on is None

    @property
    def remote(self) -> str:
        """The address at the other end."""
        peer = None if self.transport is None else self.transport.get_extra_info("peername")
        return str(peer[0]) if isinstance(peer, list | tuple) else str(peer or "")

    def answered(self, request: web.BaseRequest) -> None:
        """A batch was acknowledged, as the answer to a request that aiohttp has read."""

    async def until_read(self) -> None:
        """Wait while answers pile up that the sender does not read."""
        if self._read_on is not None:
            await asyncio.shield(self._read_on)

    def pause_writing(self) -> None:
        """The transport says: too much is waiting to be sent."""
        super().pause_writing()
        self._read_on = asyncio.get_running_loop().create_future()
        if self.transport is not None:
            self.transport.pause_reading()
            self._watch_unread(self.transport, self.transport.get_write_buffer_size() + 1)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_waiting()
        if self.transport is not None:
            self.transport.resume_reading()

    def _watch_unread(self, transport: asyncio.Transport, before: int) -> None:
        """Cut the sender off if nothing has been taken since the last look.

        The transport is an argument, as aiohttp drops it when it closes a connection; but one that is closed politely
        stays open until everything has been read.
        """
        unread = transport.get_write_buffer_size()
        if unread < before:
            later = asyncio.get_running_loop().call_later
            self._unread_timer = later(self.idle_seconds, self._watch_unread, transport, unread)
        else:
            self.own_metrics.unread_cut_offs += 1
            transport.abort()

    def _stop_waiting(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None
        if self._read_on is not None:
            self._read_on.set_result(None)
            self._read_on = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """aiohttp's own answer to what is not HTTP."""
        answer = super().handle_error(request, status, exc, message)
        answer.headers["Server"] = SERVER
        return answer

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()  # which would keep a closed connection in memory until then
        self._stop_waiting()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._first_request_timer is not None:
            self._first_request_timer.cancel()
            self._first_request_timer = None


class Server(web.Server):  # type: ignore[type-arg,unused-ignore]  # generic in newer aiohttp only
    """aiohttp's low-level server with a limit on connections and no log of requests."""

    def __init__(
        self, handler: Handler, max_connections: int, idle_seconds: float, own_metrics: CollectorMetrics
    ) -> None:
        super().__init__(self._answer)
        self.own_metrics = own_metrics
        self._answer_request = handler
        self._max_connections = max_connections
        self.idle_seconds = idle_seconds
        self.event_loop = asyncio.get_running_loop()
        self._open: dict[web.RequestHandler, asyncio.Transport] = {}  # the oldest first

    def __call__(self) -> Connection:
        return Connection(self, self.event_loop, self.idle_seconds, self.own_metrics)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, Connection)
        await connection.until_read()
        return await self._answer_request(request)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        if len(self._open) >= self._max_connections:
            oldest = islice(self._open.items(), _IDLE_LOOKED_FOR_AMONG)
            idle = (its_transport for other, its_transport in oldest if not getattr(other, "busy", True))
            next(idle, transport).abort()
        self._open[handler] = transport
        super().connection_made(handler, transport)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        self._open.pop(handler, None)
        super().connection_lost(handler, exc)

    @property
    def busy(self) -> bool:
        """Whether any connection has a request under way; `connections` has those, too, whose sender has gone."""
        return any(getattr(connection, "busy", False) for connection in self.connections)
