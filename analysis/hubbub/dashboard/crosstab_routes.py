"""What the dashboard answers about two answers at once: a page for each table, and its files."""

from __future__ import annotations

from aiohttp import web

from hubbub.dashboard.aside_view import PICTURES
from hubbub.dashboard.candidates import CANDIDATES
from hubbub.dashboard.chart_files import picture
from hubbub.dashboard.crosstab_inputs import CrosstabChoice, Together, crosstab_job, inputs_of, togethers
from hubbub.dashboard.crosstab_view import crosstab_view
from hubbub.dashboard.decode_jobs import DECODE_JOBS, DecodeJob
from hubbub.dashboard.downloads import TYPES, crosstab_chart_of, crosstab_file
from hubbub.dashboard.page_cache import PAGE_CACHE
from hubbub.dashboard.pages import crosstab_body, crosstab_page
from hubbub.dashboard.routes import PATIENCE, finished, html, in_thread, nothing_read, snapshot_of
from hubbub.dashboard.snapshot import Snapshot
from hubbub.protocol.invalid import Invalid

crosstab_routes = web.RouteTableDef()


@crosstab_routes.get("/crosstab/{name}")
async def crosstab(request: web.Request) -> web.StreamResponse:
    """Two answers at once."""
    snapshot, frame = await snapshot_of(request)
    if snapshot is None:
        return nothing_read(frame)
    of, choice, job = _crosstab_asked(request, snapshot)
    decode_jobs = request.app[DECODE_JOBS]
    if of.periods:
        await decode_jobs.wait([job], PATIENCE)
    inputs = inputs_of(of, choice, decode_jobs.get(job) if of.periods else None, snapshot)

    def work() -> str:
        body = request.app[PAGE_CACHE].get(inputs.key, lambda: crosstab_body(crosstab_view(inputs)))
        return crosstab_page(frame, " × ".join(of.factors), body, pending=inputs.pending and bool(of.periods))

    return html(await in_thread(request, work))


def _crosstab_asked(request: web.Request, snapshot: Snapshot) -> tuple[Together, CrosstabChoice, DecodeJob]:
    of = togethers(snapshot).get(request.match_info["name"])
    if of is None:
        raise web.HTTPNotFound
    choice = CrosstabChoice.of(request.query, of)
    return of, choice, crosstab_job(of, choice, request.app[CANDIDATES], snapshot)


@crosstab_routes.get("/crosstab/{name}/{file}")
async def crosstab_download(request: web.Request) -> web.StreamResponse:
    snapshot, _ = await snapshot_of(request)
    name, (stem, _, kind) = request.match_info["name"], request.match_info["file"].partition(".")
    if snapshot is None or stem != name or kind not in TYPES:
        raise web.HTTPNotFound
    of, choice, job = _crosstab_asked(request, snapshot)
    decoded = await finished(request, job)
    table = decoded.crosstab
    if table is None:
        raise Invalid([decoded.problem])
    side = choice.side(of)
    if kind in PICTURES:
        content = await picture(await in_thread(request, lambda: crosstab_chart_of(table, side)), kind)
    else:
        content = await in_thread(request, lambda: crosstab_file(table, kind))
    headers = {"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
    return web.Response(body=content, content_type=TYPES[kind], headers=headers)
