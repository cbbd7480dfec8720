"""Connections: how many there may be, and who goes when there are too many.

At the limit a new connection takes the place of the oldest that has no request under way, so that thousands of idle
ones cannot shut out honest senders. A connection that does not bring a whole request in time is closed by aiohttp.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import islice
from typing import Any

from aiohttp import web

_LOOKED_AT = 200
_SILENT = logging.getLogger("hubbub.collector.silent")
_SILENT.disabled = True  # aiohttp's own messages would have addresses in them


class Connection(web.RequestHandler):  # type: ignore[type-arg,unused-ignore]
    """One connection. `sender` is what its limit is kept under, while `sender_key` is in force."""

    __slots__ = ("busy", "sender", "sender_key")

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.busy = False
        self.sender = b""
        self.sender_key = b""


class Server(web.Server):  # type: ignore[type-arg,unused-ignore]
    """aiohttp's low-level server with a limit on connections and no log of requests."""

    def __init__(self, handler: Any, limit: int, idle_seconds: float) -> None:
        self._options: dict[str, Any] = {
            "access_log": None,
            "logger": _SILENT,
            "keepalive_timeout": idle_seconds,
            "lingering_time": 2.0,
            "auto_decompress": False,  # the inflated size has a limit of its own
        }
        super().__init__(handler)
        self._limit = limit

    def __call__(self) -> Connection:
        return Connection(self, loop=self._loop, **self._options)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        if len(self._connections) >= self._limit:
            idle = (other for other in islice(self._connections, _LOOKED_AT) if not getattr(other, "busy", True))
            oldest = next(idle, None)
            (transport if oldest is None else self._connections[oldest]).abort()
        super().connection_made(handler, transport)

    @property
    def busy(self) -> bool:
        """Whether any connection has a request under way."""
        return any(getattr(connection, "busy", False) for connection in self._connections)
