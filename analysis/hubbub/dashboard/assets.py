"""The files a page loads: its style, its script, and the Vega that vl-convert ships. None comes from elsewhere.

The bundle is made once for each process; a server that will be visited begins with it at once.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from functools import cache
from importlib.resources import files

from aiohttp import web

from hubbub.analysis.optional import need
from hubbub.dashboard.vega import bundle

TYPES = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "vega.js": "text/javascript",
}


class Assets:
    """`version` goes into the addresses, so that a browser may keep what it has until something changes."""

    def __init__(self) -> None:
        self._vega: asyncio.Task[bytes] | None = None
        own = b"".join(_own(name) for name in TYPES if name != "vega.js")
        vega = need("vl_convert", "'hubbub[dashboard]'").__version__
        self.version = "?" + hashlib.blake2b(own + vega.encode(), digest_size=6).hexdigest()

    def begin(self) -> None:
        """Make the bundle, so that it is there when the first page asks for it."""
        if self._vega is None:
            self._vega = asyncio.create_task(_compressed_bundle())

    async def get(self, name: str) -> bytes:
        """The file, compressed."""
        if name != "vega.js":
            return _compressed(name)
        self.begin()
        assert self._vega is not None
        return await asyncio.shield(self._vega)

    async def close(self) -> None:
        if self._vega is not None:
            self._vega.cancel()
            await asyncio.gather(self._vega, return_exceptions=True)


ASSETS = web.AppKey("assets", Assets)


@cache
def _own(name: str) -> bytes:
    return files("hubbub.dashboard").joinpath("static", name).read_bytes()


@cache
def _compressed(name: str) -> bytes:
    return gzip.compress(_own(name), mtime=0)


async def _compressed_bundle() -> bytes:
    return await asyncio.to_thread(gzip.compress, await bundle(), 6, mtime=0)
