"""The site that `make docs` builds: no warning, no broken link, nothing from outside, and a browser finds its way."""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, pages

HOME = "docs/index.html"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by the command of the Makefile, into a place of its own."""
    folder = tmp_path_factory.mktemp("site")
    recipe = re.search(r"^docs: environment\n\t\$\(BIN\)/python (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe
    words = recipe[1].replace("build/doctrees", str(folder / "doctrees")).replace("build/site", str(folder / "html"))
    done = subprocess.run([sys.executable, *words.split()], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "html"


class Page(HTMLParser):
    """What a built page links to, loads, and can be pointed at."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("script", "img", "iframe", "source") and "src" in given:
            self.loads.append(given["src"])
        elif tag == "link" and given.get("rel") not in ("canonical",):
            self.loads.append(given.get("href", ""))


def test_every_page_is_in_the_site_and_in_its_navigation(site: Path) -> None:
    home = (site / HOME).read_text(encoding="utf-8")
    sidebar = re.search(r'<div class="sidebar-tree">.*?</div>', home, re.DOTALL)
    assert sidebar
    linked = {(site / "docs" / link).resolve() for link in re.findall(r'href="([^"#]+)"', sidebar[0])}
    for page in pages():
        built = (site / page).with_suffix(".html")
        assert built.exists(), page
        assert page == "docs/index.md" or built.resolve() in linked, f"{page} is not in the navigation"


def test_no_link_of_the_site_is_broken(site: Path) -> None:
    parsed = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    assert len(parsed) >= len(pages())
    for path, page in parsed.items():
        for link in (*page.links, *page.loads):
            if re.match(r"[a-z]+:", link) or not link:
                continue
            target, _, anchor = urllib.parse.unquote(link).partition("#")
            target = target.partition("?")[0]
            other = (path.parent / target).resolve() if target else path
            assert other.exists(), f"{path.relative_to(site.resolve())}: {link}"
            if anchor and other in parsed and path.name not in ("genindex.html", "search.html"):
                assert anchor in parsed[other].ids, f"{path.relative_to(site.resolve())}: {link}"


def test_the_site_loads_nothing_from_outside(site: Path) -> None:
    for path in site.rglob("*.html"):
        for what in Page(path).loads:
            assert not re.match(r"(https?:)?//", what), f"{path.name} loads {what}"
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", text), f"{path.name} loads from outside"


# --- in a browser -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        if os.environ.get("HUBBUB_NEED_BROWSER") == "1":
            pytest.fail("HUBBUB_NEED_BROWSER=1, and there is no chromium")
        pytest.skip("needs chromium")
    return found


def test_a_reader_finds_their_way_in_a_browser(address: str, chromium: str) -> None:
    """From the front door by the navigation to a page, by search to another; no error, nothing asked from outside."""
    from playwright.sync_api import expect, sync_playwright

    asked: list[str] = []
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(120_000)  # a limit for what never comes, not a claim about time
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"{address}/")
        expect(page.locator("h1").first).to_contain_text("hubbub")
        page.locator(".sidebar-tree").get_by_role("link", name="The privacy model").click()
        expect(page.locator("h1").first).to_contain_text("The privacy model")
        page.locator(".toc-tree").get_by_role("link", name="11. The theorem").click()
        expect(page).to_have_url(re.compile("#the-theorem"))
        page.goto(f"{address}/search.html?q=poisoning")
        expect(page.locator("#search-results li a").first).to_be_visible()
        results = page.locator("#search-results li a").all_text_contents()
        assert any("threat model" in result for result in results), results
        for width in (1440, 390):  # no page is wider than its window
            page.set_viewport_size({"width": width, "height": 800})
            for path in ("docs/threat-model.html", "docs/analyst.html", "docs/how-it-works.html", "README.html"):
                page.goto(f"{address}/{path}")
                beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                assert beyond <= 0, f"{path} is {beyond} px wider than a window of {width}"
        browser.close()
    assert wrong == []
    assert [url for url in asked if not url.startswith((address, "data:"))] == []
