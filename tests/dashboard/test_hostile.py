"""Values cannot be markup: whoever chose a choice, a candidate, a purpose or the name of a file may mean harm."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest
from jinja2 import Environment
from markupsafe import Markup

from hubbub.analysis.render import glyphs
from hubbub.dashboard import pages
from tests.dashboard.hostile import (
    CANDIDATES,
    UNPRINTABLE,
    candidates_form,
    hostile_dashboard,
    hostile_pages,
    problems_of,
)
from tests.dashboard.kit import post, text_of, words

pytestmark = pytest.mark.anyio
TEMPLATES = Path(pages.__file__).with_name("templates")


async def test_no_value_is_markup_on_any_page(tmp_path) -> None:
    for name, (html, expected) in (await hostile_pages(tmp_path)).items():
        assert problems_of(html, expected) == [], name


async def test_what_nobody_can_read_is_shown_as_missing_and_can_still_be_chosen() -> None:
    """A candidate may hold anything. On the page it is harmless, and a form sends back the very value."""
    async with hostile_dashboard() as (client, _):
        content = "\n".join(CANDIDATES).encode()
        await post(client, "/metric/typed/candidates", data=candidates_form("list.txt", content))
        page = await text_of(client, "/metric/typed?" + urlencode({"series": UNPRINTABLE}))
    shown = words(page)
    assert "\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}gnp\N{REPLACEMENT CHARACTER} over 2 days" in page
    assert not set(shown) & set("\x1b\u202e\u2028")
    assert re.search(rf'<option value="{re.escape(UNPRINTABLE)}" selected>', page)


def test_no_template_says_that_a_value_is_html_already() -> None:
    """Values are escaped where they are shown, so in all of them it shows: filters are few, and attributes quoted."""
    for path in TEMPLATES.iterdir():
        source = re.sub(r"\{#.*?#\}", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert set(re.findall(r"\|\s*(\w+)", source)) <= {"exact", "length"}, path.name
        assert not re.search(r"autoescape|Markup|=\s*\{\{", source), path.name
        assert len(re.findall(r"<script", source)) == len(re.findall(r"src=\"/static/page.js", source)), path.name


# -- the checks themselves: with a mistake in how templates are filled in, or in any place of them, they must fail


def no_autoescape(made: Environment) -> None:
    made.autoescape = False


def exact_leaves_markup(made: Environment) -> None:
    made.filters["exact"] = Markup


def escapes_twice(made: Environment) -> None:
    made.finalize = lambda value: str(Markup.escape(value)) if type(value) is str else value


MISTAKES = (no_autoescape, exact_leaves_markup, escapes_twice)


def plant(monkeypatch: pytest.MonkeyPatch, mistake: Callable[[Environment], None]) -> None:
    """Pages are made with this mistake."""
    mistaken = pages.environment.__wrapped__()
    mistake(mistaken)
    monkeypatch.setattr(pages, "environment", lambda: mistaken)


async def test_a_picture_whose_words_are_not_escaped_is_noticed(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(glyphs, "escape", str)
    found = [
        problem for html, wanted in (await hostile_pages(tmp_path)).values() for problem in problems_of(html, wanted)
    ]
    assert found


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_mistake_in_how_templates_are_filled_in_is_noticed(tmp_path, monkeypatch, mistake) -> None:
    plant(monkeypatch, mistake)
    found = [
        problem for html, wanted in (await hostile_pages(tmp_path)).values() for problem in problems_of(html, wanted)
    ]
    assert found
