"""Who may see what: names the server may be called by, requests from other pages, sessions, and headers that keep a
page from loading or sending anything elsewhere.

A session is 256 random bits in a cookie that scripts cannot read and other sites cannot send. The collector's token
stays in the memory of this process; it is in no cookie, no address and no log.
"""

from __future__ import annotations

import hashlib
import secrets
from urllib.parse import urlsplit

from aiohttp import web

from hubbub.dashboard.poller import POLLER
from hubbub.dashboard.settings import Settings

SETTINGS = web.AppKey("settings", Settings)
COOKIE = "hubbub-dashboard"
MOST_SESSIONS = 1000

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",  # with no-referrer, forms would come without their origin
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "hubbub",  # or aiohttp would tell its version and Python's
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Sessions:
    """Those who showed a token, until the process ends or they sign out. Only hashes are kept."""

    def __init__(self) -> None:
        self._open: dict[bytes, None] = {}

    def begin(self, answer: web.StreamResponse, secure: bool) -> None:
        name = secrets.token_urlsafe(32)
        while len(self._open) >= MOST_SESSIONS:
            del self._open[next(iter(self._open))]
        self._open[_hash(name)] = None
        answer.set_cookie(COOKIE, name, httponly=True, samesite="Strict", secure=secure, path="/")

    def has(self, request: web.Request) -> bool:
        return _hash(request.cookies.get(COOKIE, "")) in self._open

    def end(self, request: web.Request) -> None:
        self._open.pop(_hash(request.cookies.get(COOKIE, "")), None)

    def end_all(self) -> None:
        self._open.clear()

    def __len__(self) -> int:
        return len(self._open)


def _hash(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()


SESSIONS = web.AppKey("sessions", Sessions)


def must_sign_in(request: web.Request) -> bool:
    """Whether this visitor has yet to show a token. One that the collector no longer accepts lets nobody in."""
    settings, poller, sessions = request.app[SETTINGS], request.app[POLLER], request.app[SESSIONS]
    if settings.url is None or settings.public:
        return False
    if poller.refused:
        sessions.end_all()
        return True
    return not poller.has_token or (settings.asks_for_token and not sessions.has(request))


def has_known_host(request: web.Request, settings: Settings) -> bool:
    """Whether the request calls this server by a name it has."""
    return settings.hosts is None or _host_name(request.headers.get("Host", "")) in settings.hosts


def is_from_own_page(request: web.Request, settings: Settings) -> bool:
    """Whether a form was sent by a page of this server. Browsers say so; who says nothing is refused."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None and site != "same-origin":
        return False
    origin = request.headers.get("Origin")
    if origin is None:
        return site == "same-origin"
    if settings.origin is not None:
        return origin == settings.origin.rstrip("/")
    return urlsplit(origin).netloc == request.headers.get("Host")


def is_secure(settings: Settings) -> bool:
    """Whether visitors come by TLS, so that a cookie may be kept to it."""
    return settings.origin is not None and settings.origin.startswith("https://")


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
