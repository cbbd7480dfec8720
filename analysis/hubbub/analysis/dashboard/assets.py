"""The files a page loads: its style, its script, and the Vega that vl-convert ships. None comes from elsewhere.

The bundle is made once for each process, in a thread, from the libraries inside the installed vl-convert; they bring
vega-embed and the interpreter that runs Vega's expressions without making code of text.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from functools import cache
from importlib.resources import files

from hubbub.analysis.optional import need

TYPES = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "vega.js": "text/javascript",
}


class Assets:
    """`mark` goes into the addresses, so that a browser may keep what it has until something changes."""

    def __init__(self) -> None:
        self._vega: asyncio.Task[bytes] | None = None
        own = b"".join(_own(name) for name in TYPES if name != "vega.js")
        version = need("vl_convert", "'hubbub[dashboard]'").__version__
        self.mark = "?" + hashlib.blake2b(own + version.encode(), digest_size=6).hexdigest()

    async def get(self, name: str) -> bytes:
        """The file, compressed."""
        if name != "vega.js":
            return _compressed(name)
        if self._vega is None:
            self._vega = asyncio.create_task(asyncio.to_thread(_bundle))
        return await asyncio.shield(self._vega)

    async def close(self) -> None:
        if self._vega is not None:
            await asyncio.gather(self._vega, return_exceptions=True)


@cache
def _own(name: str) -> bytes:
    return files("hubbub.analysis.dashboard").joinpath(name).read_bytes()


@cache
def _compressed(name: str) -> bytes:
    return gzip.compress(_own(name), mtime=0)


@cache
def _bundle() -> bytes:
    convert = need("vl_convert", "'hubbub[dashboard]'")
    script: str = convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return gzip.compress(script.encode(), compresslevel=6, mtime=0)
