"""The pictures that `hubbub decode --chart` writes, made in a process of its own: while vl-convert works it holds the
interpreter, and with it every viewer of this one. Pages need none of this: their pictures are drawn by `render/glyphs`.
"""

from __future__ import annotations

import asyncio
import sys

from hubbub.protocol.invalid import Invalid

_PROGRAM = """
import sys
from hubbub.analysis.render.charts import {kind}_of
sys.stdout.buffer.write({kind}_of(sys.stdin.buffer.read().decode()))
"""


async def picture(spec: str, kind: str) -> bytes:
    """A chart's JSON as `png` or `svg`, byte for byte as the command writes it."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PROGRAM.format(kind=kind), stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        made, _ = await process.communicate(spec.encode())
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        raise Invalid(["the picture could not be made: is vl-convert-python installed whole?"])
    return made
