"""One visit: whether it may be answered, and what its page says of the source."""

from __future__ import annotations

from aiohttp import web

from hubbub.dashboard.frame import Surroundings
from hubbub.dashboard.keys import ASSETS, SESSIONS, SETTINGS, WATCH


def must_sign_in(request: web.Request) -> bool:
    """Whether this visitor has yet to show a token. One that the collector no longer takes lets nobody in."""
    settings, watch, sessions = request.app[SETTINGS], request.app[WATCH], request.app[SESSIONS]
    if settings.url is None or settings.public:
        return False
    if watch.refused:
        sessions.end_all()
        return True
    return not watch.has_token or (settings.asks_for_token and not sessions.has(request))


def surroundings(request: web.Request) -> Surroundings:
    settings, watch = request.app[SETTINGS], request.app[WATCH]
    closed = must_sign_in(request)
    state = "live" if watch.reading is not None else "waiting"
    words = ""
    if watch.stale:
        state = "stale" if watch.reading is not None else "broken"
        words = _trouble(watch.trouble, settings.url is not None, watch.reading is not None)
    return Surroundings(
        app=watch.reading.app if watch.reading and not closed else "",
        place="" if settings.public else _place(settings.url, settings.source),  # its visitors need not know
        state="closed" if closed else state,
        words="" if closed else words,
        read_at=watch.read_at,
        can_sign_out=not closed and request.app[SESSIONS].has(request),
        public=settings.public,
        assets=request.app[ASSETS].mark,
        version=watch.version,
    )


def _place(url: str | None, source: tuple[str, ...]) -> str:
    return url or (source[0] if len(source) == 1 else f"{len(source)} tally files")


def _trouble(words: str | None, is_collector: bool, has_numbers: bool) -> str:
    who = "The collector" if is_collector else "The files"
    why = f"{who} cannot be read: {words}." if words else "The collector does not accept this dashboard’s token."
    after = "These are the last numbers that came; the page goes on by itself." if has_numbers else ""
    return f"{why} {after}".strip()
