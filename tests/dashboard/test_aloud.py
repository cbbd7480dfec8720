"""Readable, hearable, usable by keyboard: checks of our own on every page, in both themes, from 320 to 1600 px."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from anyio.from_thread import start_blocking_portal
from playwright.sync_api import Browser, Page

from tests.dashboard import quill
from tests.dashboard.browser import running_browser, running_dashboard, until_read, visit
from tests.dashboard.kit import TOKEN, write_samples

AXE = "axe-core@4.14.0"
CHECKS = Path(__file__).with_name("aloud.js").read_text(encoding="utf-8")
PAGES = ("/", "/metric/homepage", "/metric/latency", "/metric/startup_time?confidence=0.99", "/nothing")
QUILL_PAGES = (
    "/",
    *(f"/metric/{metric.name}" for metric in quill.REGISTRY),
    "/crosstab/theme_language",
    "/crosstab/plugins_crashes?given=crashed",
)
SOME_OF_QUILL = ("/metric/startup_time", "/metric/plugin", "/crosstab/theme_language")
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
def of_quill(tmp_path_factory) -> Iterator[str]:
    """A dashboard of Quill's collector: everything that a page can show."""
    collector = quill.Quill(quill.tallies(weeks=4), quill.both(np.random.default_rng(2)))
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(collector.running()) as source,
        running_dashboard([source], tmp_path_factory.mktemp("quill"), token=TOKEN) as url,
    ):
        until_read(url)
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


def test_nothing_is_wrong_with_a_page_of_quill_in_any_window(browser, of_quill) -> None:
    """Two answers at once, a search, a table by two keys."""
    with visit(browser, of_quill) as seen:
        assert {path: found for path in SOME_OF_QUILL if (found := problems_at(seen.open(path)))} == {}


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


def violations(page: Page, axe: str) -> list[list[str]]:
    """What axe says of a page on which everything is unfolded: the rule, and where it is broken first."""
    page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    page.evaluate(axe)
    return page.evaluate("axe.run().then((r) => r.violations.map((v) => [v.id, v.nodes[0].html]))")


def test_axe_finds_no_violation_on_pages_with_everything_that_pages_have(browser, dashboard, of_quill, axe) -> None:
    with visit(browser, dashboard) as seen:
        found = {path: told for path in PAGES[1:] if (told := violations(seen.open(path), axe))}
        seen.complaints[:] = [said for said in seen.complaints if "404" not in said]
    with visit(browser, of_quill) as seen:
        found |= {path: told for path in ("/", *SOME_OF_QUILL) if (told := violations(seen.open(path), axe))}
    assert found == {}


@pytest.mark.proof
def test_axe_finds_no_violation_on_any_page_in_either_theme(browser, of_quill, asking, axe, figure) -> None:
    """Every kind, every state, two answers at once both ways, a search, the form that asks for a token."""
    found, pages = {}, 0
    for scheme, width in (("light", 1280), ("dark", 390)):
        for base, paths in ((of_quill, QUILL_PAGES), (asking, ("/",))):
            window = {"color_scheme": scheme, "viewport": {"width": width, "height": 900}}
            with visit(browser, base, **window) as seen:
                for path in paths:
                    pages += 1
                    if told := violations(seen.open(path), axe):
                        found[scheme, base, path] = told
    figure("pages that axe looked at, and violations", f"{pages}, {len(found)}")
    assert found == {}


def test_axe_is_awake(browser, axe) -> None:
    with visit(browser, "about:blank") as seen:
        seen.page.set_content("<html><body><img src='data:,'><p style='color:#ccc'>pale</p></body></html>")
        assert {"image-alt", "color-contrast", "html-has-lang"} <= {rule for rule, _ in violations(seen.page, axe)}


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
