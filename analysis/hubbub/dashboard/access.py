"""Who may see what: the host names that requests may use, requests from other pages, sessions, and headers that keep
a page from loading or sending anything elsewhere.

A session is 256 random bits in a cookie that scripts cannot read and other sites cannot send. It ends with the token it
was opened with: when the collector refuses that, whoever else may still look. The collector's token
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
        "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; "
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
    """Those who showed a token, until the collector refuses it, they sign out, or the process ends.

    Of a session's name only the hash is kept; with it, the token it was opened with.
    """

    def __init__(self) -> None:
        self._open: dict[bytes, str] = {}

    def begin(self, answer: web.StreamResponse, token: str, secure: bool) -> None:
        name = secrets.token_urlsafe(32)
        while len(self._open) >= MOST_SESSIONS:
            del self._open[next(iter(self._open))]
        self._open[_hash(name)] = token
        answer.set_cookie(COOKIE, name, httponly=True, samesite="Strict", secure=secure, path="/")

    def has(self, request: web.Request) -> bool:
        return self.token_of(request) is not None

    def token_of(self, request: web.Request) -> str | None:
        """The token that this visitor signed in with."""
        return self._open.get(_hash(request.cookies.get(COOKIE, "")))

    def end(self, request: web.Request) -> None:
        self._open.pop(_hash(request.cookies.get(COOKIE, "")), None)

    def end_with(self, token: str) -> None:
        """The collector no longer accepts it."""
        self._open = {name: opened_with for name, opened_with in self._open.items() if opened_with != token}

    @property
    def tokens(self) -> set[str]:
        return set(self._open.values())


def _hash(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()


SESSIONS = web.AppKey("sessions", Sessions)


def must_sign_in(request: web.Request) -> bool:
    """Whether this visitor has yet to show a token. One that the collector no longer accepts lets nobody in."""
    settings, poller, sessions = request.app[SETTINGS], request.app[POLLER], request.app[SESSIONS]
    if settings.url is None or settings.public:
        return False
    if poller.refused or not poller.has_token:
        return True
    if not settings.asks_for_token:
        return False
    if poller.accepts(_bearer(request)):
        return False
    token = sessions.token_of(request)
    if token is not None and not poller.accepts(token):
        sessions.end_with(token)
        token = None
    return token is None


async def try_bearer(request: web.Request) -> bool:
    """Whether a program may come in that shows the collector's token in each request, `Authorization: Bearer TOKEN`,
    and keeps no cookie. Raises `Unavailable` if the collector cannot be asked. No session is begun."""
    token, poller = _bearer(request), request.app[POLLER]
    return poller.accepts(token) or (bool(token) and await poller.try_token(token))


def _bearer(request: web.Request) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and token.isascii() and token.isprintable() else ""


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
