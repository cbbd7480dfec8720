"""A function for each address. Pages are made of what is known within a moment; the rest says that it is coming."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from aiohttp import web

from hubbub.analysis.candidates_file import parse_candidates
from hubbub.analysis.options import Options
from hubbub.dashboard.access import is_secure
from hubbub.dashboard.assets import TYPES as ASSET_TYPES
from hubbub.dashboard.decode_jobs import Found
from hubbub.dashboard.downloads import TYPES, chart_of, file_of
from hubbub.dashboard.frame import Surroundings, message, page, token_page
from hubbub.dashboard.keys import ASSETS, BOARD, DECODINGS, PAINTED, PAINTER, SESSIONS, SETTINGS, WATCH
from hubbub.dashboard.metric_page import metric_body
from hubbub.dashboard.metric_view import Shown
from hubbub.dashboard.overview import Card, overview_page
from hubbub.dashboard.query import MOST_EPOCHS, CandidateList, View
from hubbub.dashboard.snapshot import Reading
from hubbub.dashboard.source import Gone
from hubbub.dashboard.vega import png
from hubbub.dashboard.visit import must_sign_in, surroundings
from hubbub.protocol.invalid import Invalid

PATIENCE = 0.8  # seconds a page waits for numbers before it is shown without them
BEAT = 15.0

routes = web.RouteTableDef()
Result = TypeVar("Result")


async def _paint(request: web.Request, work: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(request.app[PAINTER], work)


def _html(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, content_type="text/html")


async def _reading(request: web.Request) -> tuple[Reading | None, Surroundings]:
    """What there is, and what its page says of the source at the same moment: what comes later is news to that page."""
    await request.app[WATCH].fresh(PATIENCE)
    if must_sign_in(request):  # found out by looking
        raise web.HTTPSeeOther("/token")
    return request.app[WATCH].reading, surroundings(request)


def _nothing_read(around: Surroundings) -> web.Response:
    """There are no numbers at all: none yet, or none to be had."""
    if around.state == "broken":
        return _html(
            message("No numbers to show", "The page fills itself as soon as they can be read.", around=around), 503
        )
    return _html(message("Reading the counts …", "This takes a moment.", around=around), 503)


@routes.get("/")
async def overview(request: web.Request) -> web.StreamResponse:
    reading, around = await _reading(request)
    if reading is None:
        return _nothing_read(around)
    board, decodings = request.app[BOARD], request.app[DECODINGS]
    asked = {name: board.asked(reading, name, None, Options()) for name in reading.tallies}
    await decodings.wait(list(asked.values()), PATIENCE)
    cards = []
    for name in reading.names:
        terms = reading.terms_of(name)
        cards.append(
            Card(
                name=name,
                definition=reading.definitions(name)[-1],
                why=terms.why if terms else "",
                epochs=reading.epochs(name),
                num_reports=sum(tally.num_reports for tally in reading.tallies.get(name, ())),
                found=decodings.get(asked[name]) if name in asked else None,
            )
        )
    health = request.app[WATCH].health
    return _html(await _paint(request, lambda: overview_page(reading, cards, health, around)))


@routes.get("/metric/{name}")
async def metric(request: web.Request) -> web.StreamResponse:
    return await _metric(request)


async def _metric(request: web.Request, problem: str = "") -> web.StreamResponse:
    reading, around = await _reading(request)
    if reading is None:
        return _nothing_read(around)
    shown = await _shown(request, reading, problem)

    def work() -> str:
        key = shown.key, around.public
        body = request.app[PAINTED].get(key, lambda: metric_body(shown, public=around.public))
        return page(shown.name, body, around, pending=shown.pending)

    return _html(await _paint(request, work), 400 if problem else 200)


async def _shown(request: web.Request, reading: Reading, problem: str) -> Shown:
    name = request.match_info["name"]
    if name not in reading.names:
        raise web.HTTPNotFound
    board, decodings = request.app[BOARD], request.app[DECODINGS]
    epochs = reading.epochs(name)
    view = View.of(request.query, epochs)
    pair = (view.before or epochs[-2], view.after or epochs[-1]) if len(epochs) > 1 else None
    recent = epochs[-MOST_EPOCHS:] if len(epochs) > 1 else []
    of_epoch = {epoch: board.asked(reading, name, epoch, view.options) for epoch in {*recent, *(pair or ())}}
    whole = board.asked(reading, name, view.epoch, view.options)
    if epochs:
        first = [whole, *(of_epoch[epoch] for epoch in pair or ()), *(of_epoch[epoch] for epoch in reversed(recent))]
        await decodings.wait(first, PATIENCE)
    found = decodings.get(whole) if epochs else None
    decoding = found.decoding if found else None
    if view.series is not None and decoding is not None and view.series not in decoding.values:
        raise Invalid([f"series must be a value of {name}, got {view.series[:60]!r}"])

    def of(epoch: str) -> Found | None:
        return decodings.get(of_epoch[epoch])

    return Shown(
        name=name,
        reading=reading,
        view=view,
        epochs=epochs,
        found=found,
        series=[(epoch, of(epoch)) for epoch in recent],
        pair=pair,
        before=of(pair[0]) if pair else None,
        after=of(pair[1]) if pair else None,
        candidates=board.candidates(name),
        counted=reading.fingerprint(name),
        problem=problem,
    )


@routes.get("/metric/{name}/{file}")
async def download(request: web.Request) -> web.StreamResponse:
    reading, _ = await _reading(request)
    name, (stem, _, kind) = request.match_info["name"], request.match_info["file"].partition(".")
    if reading is None or name not in reading.tallies or stem != name or kind not in TYPES:
        raise web.HTTPNotFound
    view = View.of(request.query, reading.epochs(name))
    asked = request.app[BOARD].asked(reading, name, view.epoch, view.options)
    decodings = request.app[DECODINGS]
    while (found := decodings.get(asked)) is None or not found.fresh:
        await decodings.wait([asked], BEAT)
    decoding = found.decoding
    if decoding is None:
        raise Invalid([found.problem])
    if kind == "png":
        content = await png(await _paint(request, lambda: chart_of(decoding)))
    else:
        content = await _paint(request, lambda: file_of(decoding, kind))
    headers = {"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
    return web.Response(body=content, content_type=TYPES[kind], headers=headers)


@routes.post("/metric/{name}/candidates")
async def upload(request: web.Request) -> web.StreamResponse:
    """A list to look for. Read in memory: what an analyst guesses need not touch a disk."""
    name = request.match_info["name"]
    reading, _ = await _reading(request)
    if reading is None or not any(found.kind == "string" for found in reading.definitions(name)):
        raise web.HTTPNotFound
    try:
        file_name, content = await _uploaded(request)
        candidates = await asyncio.to_thread(_list_of, content, file_name)
    except Invalid as error:
        return await _metric(request, str(error))
    request.app[BOARD].upload(name, candidates)
    await request.app[WATCH].tell()
    raise web.HTTPSeeOther(str(request.rel_url.with_path(f"/metric/{name}").with_query(request.query)))


def _list_of(content: bytes, name: str) -> CandidateList:
    texts = tuple(parse_candidates(content, name))
    if not texts:
        raise Invalid([f"{name}: at least one candidate is needed, got none"])
    return CandidateList(texts, f"from {name}, uploaded here", uploaded=True)


async def _uploaded(request: web.Request) -> tuple[str, bytes]:
    if not request.content_type.startswith("multipart/"):
        raise Invalid(["a list must come as a file in a form"])
    limit = request.client_max_size
    async for part in await request.multipart():
        if getattr(part, "name", None) == "file":
            content = bytearray()
            while chunk := await part.read_chunk(1 << 16):  # type: ignore[union-attr]
                content += chunk
                if len(content) > limit:
                    raise web.HTTPRequestEntityTooLarge(max_size=limit, actual_size=len(content))
            return (getattr(part, "filename", None) or "the list")[:80], bytes(content)
    raise Invalid(["a list must come as a file in a form"])


@routes.post("/metric/{name}/forget-candidates")
async def forget(request: web.Request) -> web.StreamResponse:
    name = request.match_info["name"]
    reading, _ = await _reading(request)
    if reading is None or name not in reading.names:
        raise web.HTTPNotFound
    request.app[BOARD].forget(name)
    await request.app[WATCH].tell()
    raise web.HTTPSeeOther(str(request.rel_url.with_path(f"/metric/{name}").with_query(request.query)))


@routes.get("/token")
async def ask_for_token(request: web.Request) -> web.StreamResponse:
    if not must_sign_in(request):
        raise web.HTTPSeeOther("/")
    return _html(token_page("", surroundings(request)))


@routes.post("/token")
async def take_token(request: web.Request) -> web.StreamResponse:
    if request.app[SETTINGS].url is None:
        raise web.HTTPNotFound
    token = str((await request.post()).get("token", "")).strip()
    try:
        accepted = token.isascii() and token.isprintable() and await request.app[WATCH].offer(token)
    except Gone as gone:
        words = f"The collector cannot be asked: {gone}. The token was not kept."
        return _html(token_page(words, surroundings(request)), 503)
    if not accepted:
        return _html(token_page("The collector does not accept this token.", surroundings(request)), 401)
    answer = web.Response(status=303, headers={"Location": "/"})
    request.app[SESSIONS].begin(answer, is_secure(request.app[SETTINGS]))
    return answer


@routes.post("/sign-out")
async def sign_out(request: web.Request) -> web.StreamResponse:
    """The last one to go takes the token along, unless the dashboard was started with it."""
    sessions, watch = request.app[SESSIONS], request.app[WATCH]
    sessions.end(request)
    if not len(sessions) and request.app[SETTINGS].token is None:
        watch.forget_token()
    raise web.HTTPSeeOther("/token")


@routes.get("/events")
async def events(request: web.Request) -> web.StreamResponse:
    """Server-sent events: a number that has grown means that the page has news."""
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    watch = request.app[WATCH]
    version = -1
    with suppress(ConnectionError):  # the viewer has gone
        await answer.prepare(request)
        async with watch.viewer():
            while not must_sign_in(request):
                newest = watch.version if version < 0 else await watch.after(version, BEAT)
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
    content = await request.app[ASSETS].get(name)
    return web.Response(body=content, content_type=ASSET_TYPES[name], charset="utf-8", headers=headers)


@routes.get("/healthz")
async def healthz(request: web.Request) -> web.StreamResponse:
    return web.Response(text="ok\n")
