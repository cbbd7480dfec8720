"""A function for each address. Pages are made of what is known within a moment; the rest says that it is coming."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from aiohttp import web
from markupsafe import Markup

from hubbub.analysis.result import Decoding
from hubbub.dashboard.access import SESSIONS, SETTINGS, is_secure, must_sign_in
from hubbub.dashboard.aside_view import PICTURES
from hubbub.dashboard.assets import TYPES as ASSET_TYPES
from hubbub.dashboard.assets import compressed
from hubbub.dashboard.candidates import CANDIDATES, uploaded_list
from hubbub.dashboard.chart_files import picture
from hubbub.dashboard.crosstab_inputs import (
    crosstab_job,
    inputs_of,
    on_overview,
    togethers,
)
from hubbub.dashboard.crosstab_view import together_card
from hubbub.dashboard.decode_jobs import DECODE_JOBS, Decoded, DecodeJob
from hubbub.dashboard.downloads import TYPES, chart_of, file_of
from hubbub.dashboard.metric_inputs import gather
from hubbub.dashboard.metric_view import metric_view
from hubbub.dashboard.overview_inputs import OverviewChoice, all_segments, card_jobs, known_cards
from hubbub.dashboard.overview_view import overview_view
from hubbub.dashboard.page_cache import PAGE_CACHE
from hubbub.dashboard.pages import (
    PageFrame,
    message_page,
    metric_body,
    metric_page,
    overview_body,
    overview_page,
    page_frame,
    token_page,
)
from hubbub.dashboard.periods import chosen_periods
from hubbub.dashboard.poller import POLLER
from hubbub.dashboard.query import MOST_EPOCHS, View, decode_job
from hubbub.dashboard.snapshot import Snapshot
from hubbub.dashboard.source import Unavailable
from hubbub.protocol.cadence import DAY
from hubbub.protocol.invalid import Invalid

PATIENCE = 0.8  # seconds a page waits for numbers before it is shown without them
BEAT = 15.0

RENDER_THREAD = web.AppKey("render_thread", ThreadPoolExecutor)
"""Where views, pages and files are made."""

routes = web.RouteTableDef()
Result = TypeVar("Result")


async def in_thread(request: web.Request, work: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(request.app[RENDER_THREAD], work)


def html(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, content_type="text/html")


async def snapshot_of(request: web.Request) -> tuple[Snapshot | None, PageFrame]:
    """What there is, and what its page says of the source at the same moment: what comes later is news to that page."""
    await request.app[POLLER].refresh(PATIENCE)
    if must_sign_in(request):  # found out by asking
        raise web.HTTPSeeOther("/token")
    return request.app[POLLER].snapshot, page_frame(request)


def nothing_read(frame: PageFrame) -> web.Response:
    """There are no numbers at all: none yet, or none to be had."""
    if frame.state == "broken":
        title, words = "No numbers to show", "The page fills itself as soon as they can be read."
    else:
        title, words = "Reading the counts …", "This takes a moment."
    return html(message_page(frame, title, words), 503)


@routes.get("/")
async def overview(request: web.Request) -> web.StreamResponse:
    snapshot, frame = await snapshot_of(request)
    if snapshot is None:
        return nothing_read(frame)
    lists, decode_jobs, health = request.app[CANDIDATES], request.app[DECODE_JOBS], request.app[POLLER].health
    choice = OverviewChoice.of(request.query, all_segments(snapshot))
    jobs = await in_thread(request, lambda: card_jobs(snapshot, choice, lists))
    pairs = [
        (of, wanted, crosstab_job(of, wanted, lists, snapshot))
        for of in togethers(snapshot).values()
        if (wanted := on_overview(of, choice.epoch, choice.only)) is not None
    ]
    first = [job for wanted in jobs.values() for job in wanted.all]
    await decode_jobs.wait([*first, *(job for _, _, job in pairs)], PATIENCE)
    known = await known_cards(jobs, decode_jobs)
    together = tuple(inputs_of(of, wanted, decode_jobs.get(job), snapshot) for of, wanted, job in pairs)
    now = frame.read_at or 0.0

    def work() -> str:
        parts = snapshot.key, choice, repr(health), tuple((name, each.key) for name, each in known.items())
        key = "overview", parts, frame.public, int(now // DAY), tuple(each.key for each in together)
        pending = any([*(card.pending for card in known.values()), *(inputs.pending for inputs in together)])

        def make() -> Markup:
            shown = replace(
                overview_view(snapshot, choice, known, health, now), together=tuple(map(together_card, together))
            )
            return overview_body(shown, public=frame.public)

        body = request.app[PAGE_CACHE].get(key, make)
        return overview_page(frame, body, pending=pending)

    return html(await in_thread(request, work))


@routes.get("/metric/{name}")
async def metric(request: web.Request) -> web.StreamResponse:
    return await _metric(request)


async def _metric(request: web.Request, problem: str = "") -> web.StreamResponse:
    """`problem`: what is wrong with a list that was uploaded just now."""
    snapshot, frame = await snapshot_of(request)
    if snapshot is None:
        return nothing_read(frame)
    name = request.match_info["name"]
    if name not in snapshot.names:
        raise web.HTTPNotFound
    view = View.of(request.query, snapshot.epochs(name), snapshot.segments(name))
    candidates, decode_jobs = request.app[CANDIDATES].of(name), request.app[DECODE_JOBS]
    inputs = await gather(snapshot, name, view, candidates, decode_jobs, patience=PATIENCE, problem=problem)

    def work() -> str:
        key = inputs.key, frame.public
        body = request.app[PAGE_CACHE].get(key, lambda: metric_body(metric_view(inputs, public=frame.public)))
        return metric_page(frame, name, body, pending=inputs.pending)

    return html(await in_thread(request, work), 400 if problem else 200)


@routes.get("/metric/{name}/{file}")
async def download(request: web.Request) -> web.StreamResponse:
    snapshot, _ = await snapshot_of(request)
    name, (stem, _, kind) = request.match_info["name"], request.match_info["file"].partition(".")
    if snapshot is None or name not in snapshot.tallies or stem != name or kind not in TYPES:
        raise web.HTTPNotFound
    view = View.of(request.query, snapshot.epochs(name), snapshot.segments(name))
    periods = chosen_periods(view.epoch, snapshot.epochs(name), snapshot.definitions(name)[-1].every)
    candidates = request.app[CANDIDATES].of(name)
    apart = [(period,) for period in periods[-MOST_EPOCHS:]] if view.each and kind not in PICTURES else [periods]
    jobs = [decode_job(snapshot, name, some, view.options, candidates, view.only) for some in apart]
    decodings = [await _decoded(request, job) for job in jobs]
    if kind in PICTURES:
        content = await picture(await in_thread(request, lambda: chart_of(decodings[0])), kind)
    else:
        content = await in_thread(request, lambda: file_of(decodings, kind))
    headers = {"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
    return web.Response(body=content, content_type=TYPES[kind], headers=headers)


async def _decoded(request: web.Request, job: DecodeJob) -> Decoding:
    decoded = await finished(request, job)
    if decoded.decoding is None:
        raise Invalid([decoded.problem])
    return decoded.decoding


async def finished(request: web.Request, job: DecodeJob) -> Decoded:
    """However long it takes."""
    decode_jobs = request.app[DECODE_JOBS]
    while (decoded := decode_jobs.get(job)) is None or not decoded.fresh:
        await decode_jobs.wait([job], BEAT)
    return decoded


@routes.post("/metric/{name}/candidates")
async def upload(request: web.Request) -> web.StreamResponse:
    """A list to look for, read in memory."""
    name = request.match_info["name"]
    snapshot, _ = await snapshot_of(request)
    if snapshot is None or not any(found.shape.open_list for found in snapshot.definitions(name)):
        raise web.HTTPNotFound
    try:
        file_name, content = await _uploaded(request)
        candidates = await asyncio.to_thread(uploaded_list, content, file_name)
    except Invalid as error:
        return await _metric(request, str(error))
    request.app[CANDIDATES].upload(name, candidates)
    await request.app[POLLER].announce()
    raise web.HTTPSeeOther(str(request.rel_url.with_path(f"/metric/{name}").with_query(request.query)))


async def _uploaded(request: web.Request) -> tuple[str, bytes]:
    if not request.content_type.startswith("multipart/"):
        raise Invalid(["a list must come as a file in a form"])
    limit = request.client_max_size
    async for part in await request.multipart():
        if getattr(part, "name", None) == "file":
            content = bytearray()
            while chunk := await part.read_chunk(1 << 16):  # type: ignore[union-attr]  # a part with a name is no nested form
                content += chunk
                if len(content) > limit:
                    raise web.HTTPRequestEntityTooLarge(max_size=limit, actual_size=len(content))
            return (getattr(part, "filename", None) or "the list")[:80], bytes(content)
    raise Invalid(["a list must come as a file in a form"])


@routes.post("/metric/{name}/forget-candidates")
async def forget(request: web.Request) -> web.StreamResponse:
    name = request.match_info["name"]
    snapshot, _ = await snapshot_of(request)
    if snapshot is None or name not in snapshot.names:
        raise web.HTTPNotFound
    request.app[CANDIDATES].forget(name)
    await request.app[POLLER].announce()
    raise web.HTTPSeeOther(str(request.rel_url.with_path(f"/metric/{name}").with_query(request.query)))


@routes.get("/token")
async def ask_for_token(request: web.Request) -> web.StreamResponse:
    if not must_sign_in(request):
        raise web.HTTPSeeOther("/")
    return html(token_page(page_frame(request)))


@routes.post("/token")
async def take_token(request: web.Request) -> web.StreamResponse:
    if request.app[SETTINGS].url is None:
        raise web.HTTPNotFound
    token = str((await request.post()).get("token", "")).strip()
    try:
        accepted = token.isascii() and token.isprintable() and await request.app[POLLER].try_token(token)
    except Unavailable as error:
        words = f"The collector cannot be asked: {error}. The token was not kept."
        return html(token_page(page_frame(request), words), 503)
    if not accepted:
        return html(token_page(page_frame(request), "The collector does not accept this token."), 401)
    answer = web.Response(status=303, headers={"Location": "/"})
    sessions = request.app[SESSIONS]
    sessions.begin(answer, token, is_secure(request.app[SETTINGS]))
    request.app[POLLER].keep_tokens(sessions.tokens)
    return answer


@routes.post("/sign-out")
async def sign_out(request: web.Request) -> web.StreamResponse:
    """The last one with a token takes it along, unless the dashboard was started with it."""
    sessions = request.app[SESSIONS]
    sessions.end(request)
    request.app[POLLER].keep_tokens(sessions.tokens)
    raise web.HTTPSeeOther("/token")


@routes.get("/events")
async def events(request: web.Request) -> web.StreamResponse:
    """Server-sent events: a number that has grown means that the page has news."""
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    poller = request.app[POLLER]
    version = -1
    with suppress(ConnectionError):  # the viewer has gone
        await answer.prepare(request)
        async with poller.viewer():
            while not must_sign_in(request):
                newest = poller.version if version < 0 else await poller.wait_for_news(version, BEAT)
                text = f"data: {newest}\n\n" if newest != version else ": still here\n\n"
                await answer.write(text.encode())
                version = newest
            await answer.write(b"event: closed\ndata: sign in\n\n")
    return answer


@routes.get("/static/{file}")
async def static(request: web.Request) -> web.StreamResponse:
    name = request.match_info["file"]
    if name not in ASSET_TYPES:
        raise web.HTTPNotFound
    headers = {"Content-Encoding": "gzip", "Cache-Control": "public, max-age=31536000, immutable"}
    return web.Response(body=compressed(name), content_type=ASSET_TYPES[name], charset="utf-8", headers=headers)


@routes.get("/healthz")
async def healthz(request: web.Request) -> web.StreamResponse:
    return web.Response(text="ok\n")
