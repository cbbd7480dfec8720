"""What a team asks, answered on the demo's own dashboard, in a browser: by platform, by release, which features."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.browser import running_browser, visit
from tests.interrupts import interruptible
from tests.simulations.demo.test_demo import DEMO

INTERVAL = re.compile(r"-?[\d.]+(\s%|\ss)? \(-?[\d.]+ to -?[\d.]+(\s%|\ss)?\)|<\s[\d.]+\s%")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory) -> Iterator[str]:
    """The address of a demo's dashboard whose installs have all reported."""
    place = tmp_path_factory.mktemp("demo")
    with interruptible([*DEMO, "--installs", "60"], {**os.environ, "TMPDIR": str(place)}) as process:
        address = ""
        for line in process.stdout:
            address = address or next(iter(re.findall(r"arrive on (\S+)", line)), "")
            if "go on until you press Ctrl-C" in line:
                break
        yield address
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)


def columns_by(page: Page, key: str) -> dict[str, str]:
    """The first row of the table by segment: each segment and its cell."""
    if not page.locator("#segments-title").inner_text().startswith(f"By {key}"):
        page.locator("select[name=by]").select_option(key)
        page.get_by_role("button", name="Apply").click()
    expect(page.locator("#segments-title")).to_have_text(re.compile(f"^By {key}"))
    table = page.locator("table.by-segment")
    names = table.locator("thead th").all_text_contents()[1:]  # the table may be folded
    return dict(zip(names, table.locator("tbody tr").first.locator("td").all_text_contents(), strict=True))


def test_how_long_does_it_take_to_start_by_platform(browser, dashboard) -> None:
    with visit(browser, dashboard) as seen:
        page = seen.open("/metric/startup_time")
        cells = columns_by(page, "platform")
        assert list(cells) == ["linux", "macos", "windows"]
        assert all(INTERVAL.fullmatch(cell) for cell in cells.values()), cells
        assert page.locator("#segments .panels figure").count() == 3
        expect(page.locator("#segments-compared")).to_contain_text(re.compile("between macos and windows"))


def test_how_often_is_exported_by_release(browser, dashboard) -> None:
    with visit(browser, dashboard) as seen:
        page = seen.open("/metric/exports")
        cells = columns_by(page, "release")
        assert list(cells) == ["2.0", "2.1"]
        assert all(INTERVAL.fullmatch(cell) for cell in cells.values()), cells
        expect(page.locator("#segments .panels")).to_contain_text("3 to 10")
        expect(page.locator("#segments-compared")).to_contain_text(re.compile("between 2.0 and 2.1"))


def test_which_features_are_used(browser, dashboard) -> None:
    with visit(browser, dashboard) as seen:
        page = seen.open("/metric/features")
        rows = page.locator("table.estimates").first.locator("tbody th").all_inner_texts()
        assert set(rows) == {"multi_cursor", "spell_check", "split_view", "macros", "vim_keys"}
        expect(page.locator("main")).to_contain_text(re.compile("which of 5 items", re.IGNORECASE))
        assert seen.open("/").locator(".card").count() == 8


def test_how_many_installs_are_active(browser, dashboard) -> None:
    with visit(browser, dashboard) as seen:
        page = seen.open("/")
        expect(page.locator("#installs .figure")).to_have_text("60")
        rows = dict.fromkeys(page.locator("#installs .rows tbody th").all_inner_texts())
        assert list(rows)[:3] == ["linux", "macos", "windows"]
        counts = page.locator("#installs .rows tbody td:last-child").all_inner_texts()
        assert sum(map(int, counts[:3])) == 60


def test_who_has_the_dark_theme_among_the_users_of_each_language(browser: Browser, dashboard: str) -> None:
    """The pair that the demo's collector counts, from the overview to the table, both ways round."""
    with visit(browser, dashboard) as visitor:
        page = visitor.open("/")
        page.get_by_role("link", name="dark_theme × language").click()
        visitor.settled()
        expect(page.locator("h1")).to_contain_text("dark_theme × language")
        expect(page.locator(".lead")).to_contain_text(re.compile("related|No relation"))
        page.get_by_role("link", name="dark_theme given language").click()
        visitor.settled()
        table = page.locator("table.heat").first
        for language in ("python", "javascript", "markdown", "rust", "other", "all installs"):
            expect(table.get_by_role("rowheader", name=re.compile(f"^{language}"))).to_be_visible()
        cells = table.locator("tbody td").all_inner_texts()
        assert len(cells) == 12
        assert all(re.match(r"[\d.]+\s%|<\s[\d.]+\s%|unknown", cell) for cell in cells), cells
        expect(page.get_by_text("Nothing more leaves a device for this table")).to_be_visible()
