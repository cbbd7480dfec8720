"""The dashboard as an aiohttp application: who may come in, which page answers, what is waited for.

Nothing slow runs on the loop: decoding has a thread, pages and files are made in another. No request is logged.
"""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from aiohttp import web

from hubbub.dashboard.access import (
    HEADERS,
    SESSIONS,
    SETTINGS,
    Sessions,
    has_known_host,
    is_from_own_page,
    must_sign_in,
    try_bearer,
)
from hubbub.dashboard.candidates import CANDIDATES, CandidateList, CandidateLists
from hubbub.dashboard.crosstab_routes import crosstab_routes
from hubbub.dashboard.decode_jobs import DECODE_JOBS, DecodeJobs
from hubbub.dashboard.page_cache import PAGE_CACHE, PageCache
from hubbub.dashboard.pages import message_page, page_frame
from hubbub.dashboard.poller import POLLER, Poller
from hubbub.dashboard.routes import RENDER_THREAD, routes
from hubbub.dashboard.settings import Settings
from hubbub.dashboard.source import Unavailable, open_source
from hubbub.protocol.invalid import Invalid

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MOST_BYTES = 64 << 20
_OPEN = ("/static/", "/token", "/healthz")


def make_app(
    settings: Settings,
    candidates: Mapping[str, CandidateList] | None = None,
    *,
    clock: Callable[[], float] = time.time,
) -> web.Application:
    """The whole dashboard; `candidates` by metric, "" for all. `clock` says when the source was read last."""
    app = web.Application(middlewares=[_headers, _guard, _error_pages], client_max_size=MOST_BYTES)
    app[SETTINGS] = settings
    app[SESSIONS] = Sessions()
    app[CANDIDATES] = CandidateLists(candidates or {})
    app.cleanup_ctx.append(partial(_services, clock=clock))
    app.add_routes([*routes, *crosstab_routes])
    return app


async def _services(app: web.Application, clock: Callable[[], float]) -> AsyncIterator[None]:
    """What lives as long as the application runs."""
    settings = app[SETTINGS]
    app[DECODE_JOBS] = DecodeJobs()
    app[PAGE_CACHE] = PageCache()
    app[RENDER_THREAD] = ThreadPoolExecutor(max_workers=1, thread_name_prefix="render")
    source = open_source(settings)
    app[POLLER] = Poller(source, settings.token, settings.every, clock, keep_refused=settings.public)
    polling = asyncio.create_task(app[POLLER].run())
    yield
    polling.cancel()
    with suppress(asyncio.CancelledError):
        await polling
    await app[POLLER].close()
    await app[DECODE_JOBS].close()
    app[RENDER_THREAD].shutdown(wait=False, cancel_futures=True)


@web.middleware
async def _headers(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        answer = await handler(request)
    except web.HTTPException as redirection:
        redirection.headers.update(HEADERS)
        raise
    if not answer.prepared:
        answer.headers.update(HEADERS)
        answer.headers.setdefault("Cache-Control", "no-store")
    return answer


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    settings = request.app[SETTINGS]
    if not has_known_host(request, settings):
        return web.Response(status=421, text="This dashboard is not known by that name.\n")
    if request.method not in ("GET", "HEAD"):
        if settings.public:
            return web.Response(status=405, text="This page is read-only.\n", headers={"Allow": "GET, HEAD"})
        if not is_from_own_page(request, settings):
            return web.Response(status=403, text="Forms are taken from the dashboard's own pages only.\n")
    if not request.path.startswith(_OPEN) and "Authorization" in request.headers and must_sign_in(request):
        try:
            accepted = await try_bearer(request)
        except Unavailable as error:
            return web.Response(status=503, text=f"The collector cannot be asked: {error}.\n")
        if not accepted:
            headers = {"WWW-Authenticate": "Bearer"}
            return web.Response(status=401, text="The collector does not accept this token.\n", headers=headers)
    if not request.path.startswith(_OPEN) and must_sign_in(request):
        if request.path == "/events":
            return web.Response(status=401, text="Sign in first.\n")
        raise web.HTTPSeeOther("/token")
    return await handler(request)


def report_bug(error: BaseException) -> None:
    """Where it came from, for the terminal. Requests, values and addresses stay out of it."""
    places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    print(f"an internal error, please report it: {type(error).__name__} at {' '.join(places)}", file=sys.stderr)


@web.middleware
async def _error_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every answer has words, and a way on."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        title, words, status = "Not here", "There is no such page.", 404
    except web.HTTPMethodNotAllowed:
        title, words, status = "Not so", "This page cannot be used that way.", 405
    except web.HTTPRequestEntityTooLarge:
        title, words, status = "Too large", f"A file may have at most {MOST_BYTES >> 20} MB.", 413
    except Invalid as error:
        title, words, status = "Not so", str(error), 400
    except (web.HTTPException, ConnectionError):
        raise
    except Exception as error:  # noqa: BLE001  # a bug of ours: its place is told, not what was in it
        report_bug(error)
        title, words, status = "A mistake of ours", "Something is wrong here, not with what you did.", 500
    text = message_page(page_frame(request), title, words)
    return web.Response(text=text, status=status, content_type="text/html")
