"""The same harm in a real browser, whose parser is the one that counts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from anyio.from_thread import start_blocking_portal
from playwright.sync_api import Browser

from tests.dashboard.browser import Visit, running_browser, visit
from tests.dashboard.hostile import CANDIDATES, CHOICES, hostile, hostile_dashboard, short, upload
from tests.dashboard.test_hostile import no_autoescape, plant

SAID = {
    "/": (hostile("app"), hostile("why chosen"), short("reason"), CHOICES[0]),
    "/metric/chosen": (hostile("owner"), *CHOICES),
    "/metric/typed": (short("file"), *CANDIDATES[:2]),
    "/metric/measured": (hostile("unit"),),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@asynccontextmanager
async def _with_candidates() -> AsyncIterator[str]:
    async with hostile_dashboard() as (client, _):
        await upload(client, "\n".join(CANDIDATES).encode())
        yield str(client.make_url("")).rstrip("/")


@contextmanager
def serving() -> Iterator[str]:
    """The hostile world on a loop of its own, in a thread: the browser's driver has this thread's."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(_with_candidates()) as url:
        yield url


def injected(seen: Visit, path: str) -> int:
    """How many elements on a page were made by a value."""
    seen.page.goto(path)
    seen.page.wait_for_selector("body:not([data-pending])")
    return seen.page.locator("xss, [onxss]").count()


def test_no_value_becomes_an_element(browser) -> None:
    with serving() as url, visit(browser, url) as seen:
        for path, said in SAID.items():
            assert injected(seen, path) == 0
            text = seen.settled().evaluate("document.body.textContent")
            assert [value for value in said if value not in text] == []
        seen.open("/metric/chosen")
        names = seen.page.locator("#chart .rows th").all_text_contents()
        assert any(name.startswith("\"'></title>") for name in names)


def test_a_mistake_is_noticed(browser, monkeypatch) -> None:
    plant(monkeypatch, no_autoescape)
    with serving() as url:
        seen = Visit(browser, url)
        assert injected(seen, "/metric/chosen") > 0
        seen.context.close()
