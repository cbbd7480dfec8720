"""Imported by a process from which dashboards are forked: the script that draws charts, two seconds of work, is made
once, by the code that makes it in every dashboard, and each of them is given what was made."""

import asyncio

from hubbub.dashboard import assets, vega

_MADE = asyncio.run(vega.bundle())


async def _made() -> bytes:
    return _MADE


assets.bundle = _made
