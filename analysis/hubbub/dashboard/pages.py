"""The one place where HTML is made: plain values go into `templates/`.

Everything a template shows is escaped, what is left undefined is an error, and what is no character for people to read
is shown as missing. No template says `safe`, and no script gets a value. What is HTML already when it is shown: bodies
that these templates made, and pictures, whose words `render/glyphs` has escaped.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from hubbub.dashboard.access import SESSIONS, SETTINGS, must_sign_in
from hubbub.dashboard.assets import version as assets_version
from hubbub.dashboard.crosstab_view import CrosstabView
from hubbub.dashboard.metric_view import MetricView
from hubbub.dashboard.overview_view import OverviewView
from hubbub.dashboard.poller import POLLER


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFrame:
    """What every page says of the source. `state` is live, stale, broken, waiting or, before a token was shown,
    closed."""

    app: str
    place: str
    privacy: str
    state: str
    words: str
    read_at: float | None
    can_sign_out: bool
    public: bool
    assets: str
    version: int

    @property
    def clock(self) -> str:
        return _clock(self.read_at)

    @property
    def moment(self) -> str:
        """For machines."""
        return _clock(self.read_at, "%Y-%m-%dT%H:%M:%SZ")


def _clock(read_at: float | None, pattern: str = "%H:%M:%S UTC") -> str:
    return "" if read_at is None else time.strftime(pattern, time.gmtime(read_at))


def page_frame(request: web.Request) -> PageFrame:
    settings, poller = request.app[SETTINGS], request.app[POLLER]
    closed = must_sign_in(request)
    state = "live" if poller.snapshot is not None else "waiting"
    words = ""
    if poller.stale:
        state = "stale" if poller.snapshot is not None else "broken"
        words = _trouble(poller.trouble, settings.url is not None, poller.snapshot is not None, _clock(poller.read_at))
    return PageFrame(
        app=poller.snapshot.app if poller.snapshot and not closed else "",
        privacy=f"{settings.url}/privacy" if settings.url and not settings.public else "",
        place="" if settings.public else _place(settings.url, settings.source),  # its visitors need not know
        state="closed" if closed else state,
        words="" if closed else words,
        read_at=poller.read_at,
        can_sign_out=not closed and request.app[SESSIONS].has(request),
        public=settings.public,
        assets=assets_version(),
        version=poller.version,
    )


def _place(url: str | None, source: tuple[str, ...]) -> str:
    return url or (source[0] if len(source) == 1 else f"{len(source)} tally files")


def _trouble(words: str | None, is_collector: bool, has_numbers: bool, clock: str) -> str:
    who = "The collector" if is_collector else "The files"
    why = f"{who} cannot be read: {words}." if words else "The collector does not accept this dashboard’s token."
    last = f"Showing the last data received, {clock}; retrying automatically." if has_numbers else ""
    return f"{why} {last or 'Retrying automatically.'}"


def overview_page(frame: PageFrame, body: Markup, *, pending: bool) -> str:
    return _render("overview.html", frame, title=frame.app or "Metrics", pending=pending, body=body)


def overview_body(overview: OverviewView, *, public: bool) -> Markup:
    """All between bar and foot, as `metric_body`."""
    text = environment().get_template("_overview.html").render(overview=overview, public=public)
    return Markup(text)  # noqa: S704  # every value in it was escaped when the template was filled in, one line above


def metric_page(frame: PageFrame, name: str, body: Markup, *, pending: bool) -> str:
    return _render("metric.html", frame, title=name, pending=pending, body=body)


def metric_body(metric: MetricView) -> Markup:
    """All between bar and foot; the same for every viewer of the same counts, so it is worth keeping."""
    text = environment().get_template("_metric.html").render(metric=metric)
    return Markup(text)  # noqa: S704  # every value in it was escaped when the template was filled in, one line above


def crosstab_page(frame: PageFrame, title: str, body: Markup, *, pending: bool) -> str:
    return _render("crosstab.html", frame, title=title, pending=pending, body=body)


def crosstab_body(page: CrosstabView) -> Markup:
    """All between bar and foot, as `metric_body`."""
    text = environment().get_template("_crosstab.html").render(page=page)
    return Markup(text)  # noqa: S704  # every value in it was escaped when the template was filled in, one line above


def token_page(frame: PageFrame, problem: str = "") -> str:
    """The form that asks for the read token, once."""
    return _render("token.html", frame, title="Read token", problem=problem)


def message_page(frame: PageFrame, title: str, words: str) -> str:
    """A page that has only a sentence to say: nothing there yet, something wrong."""
    return _render("message.html", frame, title=title, words=words)


def _render(template: str, frame: PageFrame, *, pending: bool = False, **values: object) -> str:
    return environment().get_template(template).render(frame=frame, pending=pending, **values)


@cache
def environment() -> Environment:
    """How every template of the dashboard is filled in."""
    made = Environment(
        loader=PackageLoader("hubbub.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters["exact"] = _exact
    return made


def _printable(value: object) -> object:
    """A value may hold anything; what is no character for people to read is shown as missing."""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return "".join(c if c.isprintable() or c in "\n\N{NO-BREAK SPACE}" else "\N{REPLACEMENT CHARACTER}" for c in value)


def _exact(value: str) -> Markup:
    """Escaped and otherwise as it is, for the values that a form sends back."""
    return escape(value)
