"""A real browser for the dashboard's tests: the system's Chromium, driven by Playwright. It downloads none. And a real
dashboard for it, as the command serves it, in a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, expect, sync_playwright

from tests import forked

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 120_000  # a limit for what never comes, not a claim about time
expect.set_options(timeout=PATIENCE)
NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Skips the tests where there is no browser, and fails them where HUBBUB_NEED_BROWSER says that there must be."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        if os.environ.get("HUBBUB_NEED_BROWSER"):
            pytest.fail(f"HUBBUB_NEED_BROWSER is set, and none of {', '.join(NAMES)} is installed")
        pytest.skip(f"needs a browser: none of {', '.join(NAMES)} is installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def running_dashboard(source: Sequence[str], folder: Path, *options: str, token: str | None = None) -> Iterator[str]:
    """Its address, on a free port of this machine. What it says of mistakes is in `dashboard.log`."""
    words = ["dashboard", "--from", *source, "--port", "0", "--no-browser", *options]
    environ = {name: value for name, value in os.environ.items() if name != "HUBBUB_TOKEN"}
    if token is not None:
        environ["HUBBUB_TOKEN"] = token
    modules = ("hubbub.dashboard.commands", "hubbub.dashboard.app")
    with (folder / "dashboard.log").open("wb") as errors:
        process = forked.begin(words, modules, stderr=errors, env=environ)
        try:
            found = re.search(r"Dashboard on (\S+)", process.stdout.readline().decode())
            assert found, (folder / "dashboard.log").read_text()
            yield found[1].rstrip("/")
        finally:
            process.terminate()
            assert process.wait(60) == 0
            process.stdout.close()


def until_read(url: str) -> None:
    """Asks until the dashboard has read its source once: before that it says that it waits, with 503."""
    while True:
        try:
            with urllib.request.urlopen(url):
                return
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
            time.sleep(0.2)


class Visit:
    """A page of a visitor of its own, and all that happened on it."""

    def __init__(self, browser: Browser, base: str, **options: object) -> None:
        self.base = base
        self.context = browser.new_context(base_url=base, **options)
        self.context.set_default_timeout(PATIENCE)  # of all that a page is waited for besides
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[Request] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request))

    def _hear(self, message) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def open(self, path: str) -> Page:
        """The page once its numbers are there."""
        self.page.goto(path)
        return self.settled()

    def settled(self) -> Page:
        self.page.wait_for_selector("body:not([data-pending])")
        return self.page

    @property
    def strangers(self) -> list[str]:
        """Requests to anywhere but the dashboard."""
        return [request.url for request in self.requests if not request.url.startswith(self.base + "/")]


@contextmanager
def visit(browser: Browser, base: str, **options: object) -> Iterator[Visit]:
    """A visit that must end without a complaint in the console and without a request to elsewhere."""
    found = Visit(browser, base, **options)
    try:
        yield found
        assert found.complaints == [], found.complaints
        assert found.strangers == [], found.strangers
    finally:
        found.context.close()
