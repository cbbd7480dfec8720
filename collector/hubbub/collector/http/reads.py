"""Downloads of tallies that hold nobody up: not the writers, not each other, and not the memory.

An answer is written piece by piece, with a turn of the event loop between two pieces, so that batches are taken
meanwhile. Large ones are made two at a time; others wait for their turn, and after a while are told to come back. A
reader that has the newest already (`If-None-Match`) gets 304 and nothing is made.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from hubbub.collector.commit import Committing
from hubbub.collector.export import of_metrics, of_pairs, withheld
from hubbub.collector.http.connections import SERVER
from hubbub.collector.storage.handing_out import ReadableCounts
from hubbub.collector.tally_text import EncodedEpochs, Sort, pieces
from hubbub.protocol.tally_files import Wanted

LARGE = 1 << 17
"""Numbers in an answer, about 700 kB of them, from which on it has to wait for its turn."""
_AT_ONCE = 2
_PATIENCE_SECONDS = 20.0
_LONGEST_SECONDS = 300.0  # an answer that takes longer is cut off: it would keep others from their turn


class TooManyReads(Exception):
    """Large downloads are being made already, and none ended in time."""


class Reads:
    """Answers downloads. `patience` is how long one waits for its turn."""

    def __init__(self, committer: Committing, patience: float = _PATIENCE_SECONDS) -> None:
        self._committer = committer
        self._patience = patience
        self._encoded = EncodedEpochs()
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._secret = secrets.token_bytes(16)  # revisions begin anew with each process, so their tags must differ

    async def answer(self, request: web.BaseRequest, wanted: Wanted, key: Sort = "tallies") -> web.StreamResponse:
        """The tallies wanted, of metrics or of pairs. Raises `TooManyReads`."""
        condition = of_metrics(wanted) if key == "tallies" else of_pairs(wanted)
        readable = await self._committer.select(condition)
        if self._is_known(request, readable):
            return web.Response(status=304, headers=self._headers(readable))
        if sum(len(counted.bit_counts) for counted in readable.cells.values()) < LARGE:
            return await self._write(request, readable, key)
        had_to_wait = self._turns.locked()
        async with self._turn():
            if had_to_wait:  # what it was given may be old by now
                readable = await self._committer.select(condition)
            return await self._write(request, readable, key)

    def _is_known(self, request: web.BaseRequest, readable: ReadableCounts) -> bool:
        asked = request.headers.get("If-None-Match")
        if asked is None:
            return False
        known = [tag.strip().removeprefix("W/") for tag in asked.split(",")]
        return "*" in known or self._tag(readable) in known

    def _headers(self, readable: ReadableCounts) -> dict[str, str]:
        return {"ETag": self._tag(readable), "Cache-Control": "private, no-cache"}

    def _tag(self, readable: ReadableCounts) -> str:
        digest = hashlib.blake2b(key=self._secret, digest_size=16)
        for (metric_hash, epoch), counted in sorted(readable.cells.items(), key=lambda item: item[0]):
            digest.update(f"{metric_hash} {epoch} {counted.revision}\n".encode())
        digest.update(repr(sorted(readable.withheld.items())).encode())
        return f'"{digest.hexdigest()}"'

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._patience):
                await self._turns.acquire()
        except TimeoutError:
            raise TooManyReads from None
        try:
            yield
        finally:
            self._turns.release()

    async def _write(self, request: web.BaseRequest, readable: ReadableCounts, key: Sort) -> web.StreamResponse:
        answer = web.StreamResponse(
            headers={**self._headers(readable), "Content-Type": "application/json; charset=utf-8"}
        )
        answer.headers["Server"] = SERVER
        await answer.prepare(request)
        if request.method == "HEAD":
            return answer
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                for piece in pieces(readable.cells, self._encoded, withheld(readable), key):
                    await answer.write(piece)
                    await asyncio.sleep(0)  # batches first
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("a download took too long") from None
        return answer
