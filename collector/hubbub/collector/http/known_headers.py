"""Header blocks that came before, known by their bytes: same bytes, same meaning, so they are not parsed again.

The first request with a header block goes the ordinary way, through aiohttp. If it was a batch and was stored, and all
the bytes that had come were this one request and no more, the block is remembered with what aiohttp read in it. The
next request that begins with these very bytes, and is whole, needs no parser: the rest is its body. Everything that
depends on more than the block (the sender's rate, tokens, the body, the clock) is decided for each request anew.

All else goes the ordinary way, whose word is final: no request is understood here that aiohttp has not understood
before. What is remembered is bounded, never written anywhere, without addresses and cookies, and forgotten in an hour.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from aiohttp import HttpVersion11, web
from multidict import CIMultiDictProxy

from hubbub.collector.http.connections import Connection, Server, ServerArguments

_MOST_BLOCKS = 512
_LARGEST_BLOCK, _LARGEST_REQUEST = 2048, 1 << 18
_FORGOTTEN_AFTER = 3600.0
_END = b"\r\n\r\n"
# Headers that say something about the message. With any other a block is not remembered: it may name a person.
_PLAIN = {"host", "content-type", "content-length", "content-encoding", "connection", "authorization"}
_PLAIN |= {"accept", "accept-encoding", "user-agent"}


class KnownHead(NamedTuple):
    """What aiohttp read in a header block."""

    path: str
    headers: CIMultiDictProxy[str]
    length: int


# Begins to answer a request, which ends with `QuickConnection.finish`; False if it must go the ordinary way.
AnswerKnown = Callable[["QuickConnection", KnownHead, bytes], bool]


class KnownHeaders:
    """The blocks remembered."""

    def __init__(self) -> None:
        self._blocks: dict[bytes, KnownHead] = {}
        self._since = 0.0

    def find(self, block: bytes, now: float) -> KnownHead | None:
        if now - self._since > _FORGOTTEN_AFTER:
            self._blocks, self._since = {}, now
        return self._blocks.get(block)

    def remember(self, data: bytes, request: web.BaseRequest) -> bool:
        """Take note of the header block of a request, if `data` was this request and nothing else. Whether it was."""
        end = data.find(_END) + len(_END)
        block = data[:end]
        if not (
            request.method == "POST"
            and request.content_length == len(data) - end
            and request.content.is_eof()
            and request.version == HttpVersion11
            and request.keep_alive
            and len(block) <= _LARGEST_BLOCK
            and block.startswith(b"POST ")
            and block.count(b"\n") == block.count(b"\r") == block.count(b"\r\n")  # so nothing can end it earlier
            and {name.lower() for name in request.headers} <= _PLAIN
        ):
            return False
        if len(self._blocks) >= _MOST_BLOCKS:
            self._blocks.clear()  # someone sends many; the common ones are back at once
        self._blocks[block] = KnownHead(request.raw_path, request.headers, len(data) - end)
        return True


class QuickConnection(Connection):
    """A connection that knows header blocks. All else is aiohttp's, and so is what follows until it has answered."""

    __slots__ = ("_answer_known", "_known", "_late", "_ordinary_at", "_passed_on", "_quick", "_untouched")

    def __init__(self, server: QuickServer, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(server, loop, server.idle_seconds, server.own_metrics)
        self._known, self._answer_known = server.known, server.answer_known
        self._untouched = True  # aiohttp has none of the bytes that came, or has answered all of them
        self._passed_on: bytes | None = None  # what it was given since then, unless that is much
        self._quick = False  # a request is being answered without it
        self._late: list[bytes] = []  # what came meanwhile
        self._ordinary_at = loop.time()

    def data_received(self, data: bytes) -> None:
        if self._quick and data:  # without any it is aiohttp's own call, to look again at what it has
            if not self._late and self.transport is not None:
                self.transport.pause_reading()
            self._late.append(data)
            return
        if self._untouched and data:
            if self.is_read and self._begin(data):
                return
            self._untouched, self._passed_on = False, data
        elif self._passed_on is not None and data:
            self._passed_on = self._passed_on + data if len(self._passed_on) < _LARGEST_REQUEST else None
        super().data_received(data)

    def _begin(self, data: bytes) -> bool:
        now = asyncio.get_running_loop().time()
        end = data.find(_END) + len(_END)
        head = self._known.find(data[:end], now)
        # aiohttp, which closes idle connections, must hear of this one from time to time.
        if head is None or head.length != len(data) - end or now - self._ordinary_at > self.idle_seconds / 2:
            return False
        self._quick = self.busy = True
        if self._answer_known(self, head, data[end:]):
            return True
        self._quick = self.busy = False
        return False

    def finish(self, answer: bytes, close: bool = False) -> None:
        """The answer to the request that was begun."""
        self._quick = self.busy = False
        if self.transport is None:
            return  # the sender has gone
        self.transport.write(answer)
        if close:
            self.force_close()
        elif self._late:
            late, self._late = b"".join(self._late), []
            if self.is_read:
                self.transport.resume_reading()
            self.data_received(late)

    def answered(self, request: web.BaseRequest) -> None:
        data, self._passed_on = self._passed_on, None
        if data is not None and self._known.remember(data, request):
            self._untouched, self._ordinary_at = True, asyncio.get_running_loop().time()


class QuickServer(Server):
    """A server of such connections, which know each other's header blocks."""

    def __init__(self, answer_known: AnswerKnown, *ordinary: *ServerArguments) -> None:
        super().__init__(*ordinary)
        self.answer_known = answer_known
        self.known = KnownHeaders()

    def __call__(self) -> Connection:
        return QuickConnection(self, self.event_loop)
