"""What every page has around it: head, bar, the state of the source in words, foot. All of it works without scripts,
but for charts and for numbers that renew themselves."""

from __future__ import annotations

import time
from dataclasses import dataclass

from hubbub.dashboard.html import Child, Html, el


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the frame says of the source. `state` is live, stale, broken, waiting or, before a token
    was shown, closed."""

    app: str
    place: str
    state: str
    words: str
    read_at: float | None
    can_sign_out: bool = False
    public: bool = False
    assets: str = ""
    version: int = 0


def page(title: str, body: Child, around: Surroundings | None, *, script: bool = True, pending: bool = False) -> str:
    """A whole document."""
    assets = around.assets if around else ""
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("title", f"{title} · hubbub"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="robots", content="noindex") if around is None or not around.public else None,
        el("noscript", el("meta", http_equiv="refresh", content="2")) if pending else None,
        el("link", rel="icon", type="image/svg+xml", href=f"/static/icon.svg{assets}"),
        el("link", rel="stylesheet", href=f"/static/page.css{assets}"),
        el("script", type="module", src=f"/static/page.js{assets}") if script and around is not None else None,
    )
    whole = el(
        "body",
        el("a", "Skip to the numbers", class_="skip", href="#main"),
        _bar(around),
        _banner(around),
        el("main", body, id="main", tabindex="-1"),
        _foot(around),
        data_version=around.version if around else None,
        data_pending=pending,
    )
    return "<!doctype html>\n" + el("html", head, whole, lang="en")


def _bar(around: Surroundings | None) -> Html:
    mark = el(
        "a",
        el("img", src=f"/static/icon.svg{around.assets if around else ''}", alt="", width="22", height="22"),
        "hubbub",
        href="/",
        class_="mark",
    )
    if around is None:
        return el("header", mark, class_="bar")
    return el(
        "header",
        mark,
        el("span", around.app or around.place, class_="where"),
        el(
            "span",
            el("span", class_="dot", aria_hidden="true"),
            _state_word(around),
            id="state",
            data_live=True,
            class_=f"state {around.state}",
        ),
        el("form", el("button", "Sign out", type="submit", class_="quiet"), method="post", action="/sign-out")
        if around.can_sign_out
        else None,
        class_="bar",
    )


def _state_word(around: Surroundings) -> Html:
    if around.state in ("live", "stale") and around.read_at is not None:
        return el("span", "Live, " if around.state == "live" else "Old, from ", moment(around.read_at))
    return el("span", {"broken": "No connection", "waiting": "Waiting"}.get(around.state, ""))


def moment(at: float) -> Html:
    clock = time.strftime("%H:%M:%S UTC", time.gmtime(at))
    return el("time", clock, datetime=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)))


def _banner(around: Surroundings | None) -> Html:
    """Said aloud by screen readers when it changes, and only then."""
    words = around.words if around else ""
    return el("div", el("p", words) if words else None, id="banner", role="status", data_live=True)


def _foot(around: Surroundings | None) -> Html:
    return el(
        "footer",
        el(
            "p",
            "Estimates under local differential privacy: nobody’s own answer was ever collected. "
            "Intervals say how sure each number is.",
        ),
        el("p", f"From {around.place}") if around and not around.public else None,
    )


def message(title: str, *words: Child, around: Surroundings | None = None) -> str:
    """A page that has only a sentence to say: nothing there yet, something wrong."""
    body = el(
        "section", el("h1", title), *(el("p", word) for word in words), class_="message", id="whole", data_live=True
    )
    return page(title, body, around)


def token_page(problem: str, around: Surroundings) -> str:
    """The form that asks for the read token, once."""
    described = "token-help token-problem" if problem else "token-help"
    body = el(
        "section",
        el("h1", "Read token"),
        el(
            "p",
            "The collector hands out its counts to those who hold a read token. It was shown when the collector "
            "was first started; ",
            el("code", "hubbub token new"),
            " makes another.",
            id="token-help",
        ),
        el(
            "form",
            el("label", "Token", for_="token"),
            el(
                "input",
                type="password",
                id="token",
                name="token",
                required=True,
                autocomplete="off",
                spellcheck="false",
                maxlength="200",
                aria_describedby=described,
                aria_invalid="true" if problem else None,
                autofocus=True,
            ),
            el("p", problem, id="token-problem", class_="problem", role="alert") if problem else None,
            el("button", "Show the numbers", type="submit"),
            method="post",
            action="/token",
        ),
        el(
            "p",
            "It stays in the memory of this dashboard until it is stopped: in no address, file or log.",
            class_="note",
        ),
        class_="message",
    )
    return page("Read token", body, around, script=False)
