"""The answer to a batch that was stored, written as the few bytes it always is.

Nearly all answers of a collector are this one, and aiohttp's general response, with headers that anything may have
changed, costs more than counting the batch. This object has the three members that aiohttp's protocol asks of a
response, and hands finished bytes to the transport. That aiohttp asks no more is checked at the start: `aiohttp_check`.
"""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import cast

from aiohttp import web

from hubbub.collector.http.connections import SERVER, Connection
from hubbub.collector.storage.store import Verdict

_BODIES = {verdict: f'{{"status": "{verdict}", "batch_id": "'.encode() for verdict in Verdict}
_END = b'"}'
_ID_DIGITS = 32


class Acknowledgements:
    """Makes these answers; keeps the part of them that changes only every second."""

    def __init__(self) -> None:
        self._second = 0
        self._heads: dict[Verdict, bytes] = {}

    def text(self, verdict: Verdict, batch_id: bytes) -> bytes:
        """All of it, for a connection that stays open, as HTTP/1.1 does."""
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._heads = {verdict: _head(body, second) + body for verdict, body in _BODIES.items()}
        return self._heads[verdict] + batch_id.hex().encode() + _END

    def answer(self, verdict: Verdict, batch_id: bytes) -> web.StreamResponse:
        """The same for aiohttp to send."""
        return cast(web.StreamResponse, FinishedResponse(self.text(verdict, batch_id)))


def body(verdict: Verdict, batch_id: bytes) -> bytes:
    """The document alone."""
    return _BODIES[verdict] + batch_id.hex().encode() + _END


def _head(body: bytes, second: int) -> bytes:
    length = len(body) + _ID_DIGITS + len(_END)
    return (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
        f"Date: {formatdate(second, usegmt=True)}\r\nServer: hubbub\r\n\r\n"
    ).encode()


def as_bytes(answer: web.Response) -> bytes:
    """An answer of the general kind, headers and all."""
    assert isinstance(answer.body, bytes)
    headers = {**answer.headers, "Content-Length": str(len(answer.body))}
    headers |= {"Date": formatdate(time.time(), usegmt=True), "Server": SERVER}
    if answer.keep_alive is False:
        headers["Connection"] = "close"
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {answer.status} {answer.reason}\r\n{lines}\r\n".encode() + answer.body


class FinishedResponse:
    """An answer whose bytes, headers and all, are written already."""

    __slots__ = ("_data",)

    keep_alive = True

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def prepare(self, request: web.BaseRequest) -> None:
        if request.transport is None:
            raise ConnectionResetError("the sender has gone")
        request.transport.write(self._data)
        connection = request.protocol
        if isinstance(connection, Connection):
            connection.answered(request)

    async def write_eof(self) -> None:
        pass
