"""Readable, hearable, usable by keyboard: checks of our own on every page, in both themes, from 320 to 1600 px."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.dashboard.browser import running_browser, running_dashboard, visit
from tests.dashboard.kit import write_samples

AXE = "axe-core@4.14.0"
CHECKS = Path(__file__).with_name("aloud.js").read_text(encoding="utf-8")
PAGES = ("/", "/metric/homepage", "/metric/latency", "/metric/startup_time?confidence=0.99", "/nothing")
WINDOWS = [("light", 1600), ("dark", 1280), ("light", 390), ("dark", 320)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("samples")
    paths = write_samples(folder)
    with running_dashboard(paths, folder, "--candidates", f"homepage={folder / 'pages.txt'}") as url:
        yield url


@pytest.fixture(scope="module")
def asking(tmp_path_factory) -> Iterator[str]:
    """A dashboard that asks for a token, of a collector that is not there."""
    with running_dashboard(["http://127.0.0.1:9"], tmp_path_factory.mktemp("asking")) as url:
        yield url


def problems_of(page: Page) -> list[str]:
    page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    return page.evaluate(CHECKS)


def problems_at(page: Page) -> dict[tuple[str, int], list[str]]:
    """One page, looked at in every window: its size and theme change, it is not loaded again."""
    found = {}
    for scheme, width in WINDOWS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        found[scheme, width] = problems_of(page)
    return {key: problems for key, problems in found.items() if problems}


def test_nothing_is_wrong_with_a_page_in_any_window(browser, dashboard) -> None:
    with visit(browser, dashboard) as seen:
        assert {path: found for path in PAGES if (found := problems_at(seen.open(path)))} == {}
        seen.complaints[:] = [said for said in seen.complaints if "404" not in said]


def test_nothing_is_wrong_with_the_form_that_asks_for_a_token(browser, asking) -> None:
    with visit(browser, asking) as seen:
        page = seen.open("/")
        assert problems_at(page) == {}
        page.get_by_label("Token").fill("something")
        page.keyboard.press("Enter")
        page.get_by_role("alert").wait_for()
        assert problems_at(page) == {}
        seen.complaints.clear()  # the browser itself notes the 503


@pytest.fixture(scope="module")
def axe(tmp_path_factory) -> str:
    """The checks that many others use, fetched for these tests and kept nowhere."""
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("axe")
    if npm is None:
        pytest.skip("needs axe-core, and npm is not installed")
    fetch = [npm, "pack", AXE, "--silent", "--fetch-retries=0", "--fetch-timeout=20000"]
    if subprocess.run(fetch, cwd=folder, capture_output=True, check=False, timeout=120).returncode:
        pytest.skip(f"needs {AXE}, and npm cannot fetch it here")
    with tarfile.open(next(folder.glob("*.tgz"))) as packed:
        script = packed.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def test_axe_finds_no_violation_on_any_page(browser, dashboard, axe) -> None:
    with visit(browser, dashboard) as seen:
        found = {}
        for path in PAGES:
            page = seen.open(path)
            page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
            page.evaluate(axe)
            told = page.evaluate("axe.run().then((r) => r.violations.map((v) => [v.id, v.nodes[0].html]))")
            if told:
                found[path] = told
        assert found == {}
        seen.complaints[:] = [said for said in seen.complaints if "404" not in said]


def test_forced_colours_and_paper_keep_the_drawings(browser, dashboard) -> None:
    with visit(browser, dashboard) as seen:
        page = seen.open("/metric/language")
        page.emulate_media(forced_colors="active")
        fills = page.locator("#chart .fill").first.evaluate("(bar) => getComputedStyle(bar).fill")
        assert fills == page.evaluate("getComputedStyle(document.body).color")
        page.emulate_media(forced_colors="none", media="print")
        assert not page.locator("form.filters").first.is_visible()
        assert page.locator("#chart .rows").is_visible()


def test_each_check_notices_what_it_is_for(browser) -> None:
    """A page with a fault of every sort: were a check asleep, its words would be missing."""
    faults = {
        "one h1 is wanted": "<h1>a</h1><h1>b</h1>",
        "headings skip": "<h2>a</h2><h4>b</h4>",
        "one main is wanted": "",
        "the id twice comes twice": "<p id=twice>a</p><p id=twice>b</p>",
        "the region same comes twice": "<div role=region aria-label=same></div><div role=region aria-label=same></div>",
        "a control without a name": "<button></button>",
        "a picture without a text": "<img src='data:,'>",
        "a chart without words": "<div role=img aria-label=chart></div>",
        "a drawing that is read out": "<svg><rect/></svg>",
        "focus can vanish here": "<div aria-hidden=true><a href=x>a</a></div>",
        "a table without column headers": "<table><tbody><tr><td>a</td></tr></tbody></table>",
        "a row of another width": "<table><thead><tr><th scope=col>a</th></tr></thead><tbody><tr><th scope=row>a</th>"
        "<td>b</td></tr></tbody></table>",
        "aria-describedby leads nowhere": "<input aria-label=a aria-describedby=gone>",
        "a tab order of its own": "<a href=x tabindex=3>a</a>",
        "too small to hit": "<button style='height:9px'>a</button>",
        "contrast 1.61": "<p style='color:#ccc;background:#fff'>pale</p>",
        "px wide, the window": "<div style='width:5000px'>a</div>",
        "the page names no language": "",
    }
    with visit(browser, "about:blank") as seen:
        seen.page.set_content("".join(faults.values()))
        found = "\n".join(seen.page.evaluate(CHECKS))
        assert [fault for fault in faults if fault not in found] == []


def test_all_can_be_reached_by_keyboard_in_the_order_in_which_it_is_read(browser, dashboard) -> None:
    """Every stop shows where it is, none comes twice, and the stops follow the document."""
    stop = """() => {
        const here = document.activeElement;
        if (here === document.body) return null;
        const style = getComputedStyle(here), after = getComputedStyle(here, "::after");
        const ring = [style, after].some((s) => s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2);
        const all = [...document.querySelectorAll("*")];
        return { place: all.indexOf(here), ring, name: here.textContent.trim().slice(0, 30) || here.name };
    }"""
    for path in ("/", "/metric/homepage"):
        with visit(browser, dashboard) as seen:
            page = seen.open(path)
            wanted = page.locator("a, button, select, input:not([type=hidden]), summary, [tabindex='0']")
            visible = sum(control.is_visible() for control in wanted.all())
            stops = []
            while True:
                page.keyboard.press("Tab")
                found = page.evaluate(stop)
                if found is None or len(stops) > 120:
                    break
                stops.append(found)
            assert stops[0]["name"] == "Skip to the content"
            assert [found for found in stops if not found["ring"]] == []
            assert [found["place"] for found in stops] == sorted({found["place"] for found in stops})
            assert len(stops) == visible


def test_a_card_is_opened_and_the_bar_is_skipped_by_keyboard(browser, dashboard) -> None:
    with visit(browser, dashboard) as seen:
        page = seen.open("/")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.get_by_role("link", name="dark_theme", exact=True).focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/metric/dark_theme")
