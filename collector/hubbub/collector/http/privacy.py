"""GET /privacy: the page for the people who are asked, in the language that their browser wants.

It is made from the registry when it is first asked for, and kept. Nobody needs a token for it, and it loads nothing but
its stylesheet from here.
"""

from __future__ import annotations

from functools import cached_property
from urllib.parse import parse_qs

from aiohttp import web

from hubbub.protocol.privacy_page import LANGUAGES, privacy_page, stylesheet
from hubbub.protocol.registry import Registry

STYLE = "/privacy.css"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "public, max-age=300",
}


class PrivacyPages:
    """The page of one registry, in every language."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._made: dict[str, str] = {}

    def page(self, request: web.BaseRequest) -> web.Response:
        language = _chosen(request)
        if language not in self._made:
            others = {code: f"/privacy?lang={code}" for code in LANGUAGES}
            self._made[language] = privacy_page(
                self._registry, language, style=STYLE, data="/v1/metrics", others=others
            )
        headers = {**_HEADERS, "Content-Language": language, "Vary": "Accept-Language"}
        return web.Response(text=self._made[language], content_type="text/html", headers=headers)

    @cached_property
    def _style(self) -> str:
        return stylesheet()

    def style(self) -> web.Response:
        return web.Response(text=self._style, content_type="text/css", headers=_HEADERS)


def _chosen(request: web.BaseRequest) -> str:
    """What the address asks for; else the first language that the browser wants and there is; else English."""
    (asked, *_) = parse_qs(request.raw_path.partition("?")[2]).get("lang", [""])
    if asked in LANGUAGES:
        return asked
    wanted = [
        (_weight(quality), -place, tag.strip().lower().partition("-")[0])
        for place, (tag, _, quality) in enumerate(
            part.partition(";") for part in request.headers.get("Accept-Language", "")[:1000].split(",")
        )
    ]
    known = [(weight, place, code) for weight, place, code in wanted if code in LANGUAGES and weight > 0]
    return max(known)[2] if known else LANGUAGES[0]


def _weight(quality: str) -> float:
    """`q=0.8`; 1 where nothing is said, 0 for what is no number."""
    name, equals, number = quality.strip().partition("=")
    if not equals:
        return 1.0
    try:
        found = float(number) if name.strip() == "q" else 1.0
    except ValueError:
        return 0.0
    return found if 0 <= found <= 1 else 0.0
