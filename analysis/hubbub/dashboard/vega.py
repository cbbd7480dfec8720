"""What vl-convert makes for pages, made in a process of its own: while it works it holds the interpreter, and with it
every viewer of this one.

The bundle is made of the libraries inside the installed vl-convert: Vega, Vega-Lite, vega-embed, and the interpreter
that runs Vega's expressions without making code of text.
"""

from __future__ import annotations

import asyncio
import sys

from hubbub.protocol.invalid import Invalid

_BUNDLE = """
import sys, vl_convert
sys.stdout.buffer.write(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").encode())
"""
_PNG = """
import sys
from hubbub.analysis.render.charts import png_of
sys.stdout.buffer.write(png_of(sys.stdin.buffer.read().decode()))
"""


async def bundle() -> bytes:
    """The script that a page loads to draw its charts."""
    return await _made_by(_BUNDLE, b"")


async def png(spec: str) -> bytes:
    """The picture that `hubbub decode --chart` would write of this chart."""
    return await _made_by(_PNG, spec.encode())


async def _made_by(program: str, given: bytes) -> bytes:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        made, _ = await process.communicate(given)
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        raise Invalid(["the picture could not be made: is vl-convert-python installed whole?"])
    return made
