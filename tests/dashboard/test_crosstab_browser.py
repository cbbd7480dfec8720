"""Two answers at once in a real browser: read as a person would, both ways round, on a phone, without scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from hubbub.protocol.kinds import Choice, Flag
from hubbub.protocol.pair import Pair
from hubbub.simulations import sample_tally
from tests.analysis.joint_worlds import drawn, metric
from tests.dashboard.browser import running_browser, running_dashboard, visit

NAMES = ("linux", "a name that is longer than any column of a phone", "<b>bold</b>")
PAIR = Pair("theme_os", (metric("dark", Flag(), 2, 4), metric("os", Choice(choices=NAMES), 2, 4)))
INSTALLS = np.array([[20_000, 10_000, 40_000, 40], [15_000, 3_000, 12_000, 300]])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("pairs")
    rng = np.random.default_rng(1)
    wide = Pair("wide", (PAIR.metrics[1], metric("many", Choice(choices=tuple(f"answer {i}" for i in range(9))), 3, 4)))
    for tally in (drawn(PAIR, INSTALLS, rng, (2950, 2951)), drawn(wide, np.full((4, 10), 2_000), rng)):
        (folder / f"{tally.pair.name}.json").write_text(tally.to_json())
    flag = sample_tally(PAIR.metrics[0], [4_000], [[1_500]], rng, (2951,))
    (folder / "dark.json").write_text(flag.to_json())
    with running_dashboard([str(folder)], folder) as url:
        yield url


def test_a_reader_finds_the_answer_from_the_overview(browser: Browser, dashboard: str) -> None:
    with visit(browser, dashboard) as visitor:
        page = visitor.open("/")
        page.get_by_role("link", name="dark × os").click()
        visitor.settled()
        expect(page.locator("h1")).to_contain_text("dark × os")
        expect(page.locator(".lead")).to_contain_text("dark and os are related (p < 0.0001).")
        expect(page.locator(".lead")).to_contain_text("times as many")
        table = page.get_by_role("table").first
        expect(table).to_contain_text("Each row adds up to 100 %.")
        expect(table.get_by_role("rowheader", name=re.compile("^yes"))).to_be_visible()
        expect(page.get_by_text("Related?")).to_be_visible()
        expect(page.get_by_text("Test of independence")).to_be_hidden()  # folded, for statisticians
        page.get_by_role("link", name="dark given os").click()
        visitor.settled()
        assert page.url.endswith("?given=os")
        expect(page.locator("#table-title")).to_have_text("dark, given os")
        expect(table.get_by_text("<b>bold</b>")).to_be_visible()
        page.get_by_label("Period").select_option("all")
        page.get_by_role("button", name="Apply").click()
        visitor.settled()
        assert "given=os" in page.url
        assert "epoch=all" in page.url


def test_shares_of_a_row_are_shaded_by_how_large_they_are(browser: Browser, dashboard: str) -> None:
    with visit(browser, dashboard) as visitor:
        page = visitor.open("/crosstab/theme_os?given=os")
        cells = page.locator("table.heat").first.locator("tbody td")
        shades = cells.evaluate_all("found => found.map(cell => getComputedStyle(cell).backgroundColor)")
        assert len(set(shades)) > 1


@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("path", ["/crosstab/theme_os", "/crosstab/wide", "/"])
def test_no_page_scrolls_sideways(browser: Browser, dashboard: str, width: int, path: str) -> None:
    with visit(browser, dashboard, viewport={"width": width, "height": 800}) as visitor:
        page = visitor.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_reads_without_scripts(browser: Browser, dashboard: str) -> None:
    with visit(browser, dashboard) as first:  # decoded once, so that nothing is pending
        first.open("/crosstab/theme_os")
    with visit(browser, dashboard, java_script_enabled=False) as visitor:
        visitor.page.goto("/crosstab/theme_os")
        expect(visitor.page.locator(".lead")).to_contain_text("dark and os are related")
