"""The yardstick: an aiohttp handler that reads a body and answers as a collector would, and does nothing else.

With `plain` as argument it runs on asyncio's own loop instead of uvloop; with `quick` it knows header blocks that came
before, as the collector does.
"""

import asyncio
import sys

import uvloop
from aiohttp import web

from hubbub.collector.http.acknowledgement import FinishedResponse
from hubbub.collector.http.known_headers import KnownHead, QuickConnection, QuickServer
from hubbub.collector.metrics import CollectorMetrics

ANSWER = b'{"status": "stored", "batch_id": "' + b"0" * 32 + b'"}'
FINISHED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    b"Date: Mon, 16 Nov 2026 00:00:00 GMT\r\nServer: hubbub\r\n\r\n" % len(ANSWER)
) + ANSWER


async def handle(request: web.BaseRequest) -> web.Response:
    await request.read()
    return web.Response(body=ANSWER, content_type="application/json")


async def handle_first(request: web.BaseRequest) -> FinishedResponse:
    await request.read()
    return FinishedResponse(FINISHED)


def handle_known(connection: QuickConnection, head: KnownHead, body: bytes) -> bool:
    connection.finish(FINISHED)
    return True


def quick_server() -> QuickServer:
    return QuickServer(handle_known, handle_first, 10_000, 30, CollectorMetrics())


async def main() -> None:
    server = quick_server() if "quick" in sys.argv else web.Server(handle, access_log=None)
    runner = web.ServerRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    factory = None if "plain" in sys.argv else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as loop:
        loop.run(main())
