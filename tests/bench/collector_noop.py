"""The yardstick: an aiohttp handler that reads a body and answers as a collector would, and does nothing else.

With `plain` as argument it runs on asyncio's own loop instead of uvloop.
"""

import asyncio
import sys

import uvloop
from aiohttp import web

ANSWER = b'{"status": "stored", "batch_id": "' + b"0" * 32 + b'"}'


async def handle(request: web.BaseRequest) -> web.Response:
    await request.read()
    return web.Response(body=ANSWER, content_type="application/json")


async def main() -> None:
    runner = web.ServerRunner(web.Server(handle, access_log=None))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    factory = None if "plain" in sys.argv else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as loop:
        loop.run(main())
