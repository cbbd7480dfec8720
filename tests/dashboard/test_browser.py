"""The dashboard in a real browser, with a real collector: what a person would do, and what the wire saw of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from playwright.sync_api import Browser, expect

from hubbub.analysis import decode
from hubbub.analysis.render.export import to_csv
from hubbub.client.respond import respond
from hubbub.protocol.cadence import epoch_of
from hubbub.protocol.encoding import DITHER_BITS
from hubbub.protocol.report import Batch, Report
from hubbub.protocol.tally import Tally
from hubbub.protocol.wire import pack
from hubbub.simulations.demo.people import CANDIDATES
from tests.collector.kit import Collector
from tests.dashboard.browser import Visit, running_browser, running_dashboard, visit
from tests.dashboard.kit import REGISTRY, write_samples

VALUES = {"dark_theme": True, "language": "rust", "homepage": "https://news.example/", "startup_time": 2.5}
VALUES |= {"file_size": 12, "latency": 9.5}
DAY = 86_400


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@pytest.fixture(scope="module")
def samples(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    write_samples(folder)
    return folder


@pytest.fixture(scope="module")
def of_files(samples: Path) -> Iterator[str]:
    """A dashboard of three days of every kind."""
    paths = [str(path) for path in sorted(samples.glob("*.json"))]
    with running_dashboard(paths, samples, "--candidates", f"homepage={samples / 'pages.txt'}") as url:
        yield url


def start_collector(folder: Path, *flags: str) -> Collector:
    folder.mkdir(exist_ok=True)
    (folder / "metrics.toml").write_text(REGISTRY.source, encoding="utf-8")
    return Collector(folder, "--sender-rate", "100000", "--sender-burst", "100000", *flags)


def send(collector: Collector, installs: int, random: Random, days_ago: int = 1) -> None:
    """So many installs report what they hold, each in a batch of its own, through the real noise and the real wire."""
    epoch = epoch_of("day", time.time() - days_ago * DAY)
    for _ in range(installs):
        reports = []
        for metric in REGISTRY:
            cohort = random.randrange(metric.shape.num_cohorts)
            mask = metric.shape.encode(VALUES[metric.name], cohort, dither=random.getrandbits(DITHER_BITS)).mask
            reports.append(Report(metric, epoch, cohort, respond(metric, mask, cohort, random.randbytes).bits))
        status, answer = collector.post(pack(Batch.of(random.randbytes(16), reports)))
        assert (status, answer["status"]) == (200, "stored")


def test_every_page_loads_and_draws_without_a_complaint_or_a_request_to_elsewhere(browser, of_files) -> None:
    with visit(browser, of_files) as seen:
        assert seen.open("/").title() == "Metrics · hubbub"
        for metric in REGISTRY:
            page = seen.open(f"/metric/{metric.name}")
            assert page.locator("h1").inner_text().startswith(metric.name)
            assert page.locator("#chart svg.plot").count() >= 1
            assert page.query_selector_all("style, [style]") == []


def test_a_download_is_the_file_that_the_command_writes(browser, of_files, samples: Path) -> None:
    with visit(browser, of_files, accept_downloads=True) as seen:
        page = seen.open("/metric/homepage")
        with page.expect_download() as waiting:
            page.get_by_role("link", name="CSV").click()
        download = waiting.value
        assert download.suggested_filename == "homepage.csv"
        tally = Tally.from_json((samples / "homepage.json").read_bytes())
        newest = Tally(tally.metric, dict(list(tally.epochs.items())[-1:]))
        assert Path(download.path()).read_text(encoding="utf-8") == to_csv([decode(newest, CANDIDATES)])


def test_two_days_are_chosen_and_compared(browser, of_files) -> None:
    with visit(browser, of_files) as seen:
        page = seen.open("/metric/language")
        page.get_by_role("combobox", name="Before").select_option("2026-11-03")
        page.get_by_role("combobox", name="After").select_option("2026-11-04")
        page.get_by_role("button", name="Compare").click()
        seen.settled()
        heads = page.locator("#comparison thead th").all_text_contents()
        assert heads[1:3] == ["3 Nov", "4 Nov"]
        assert page.locator("#comparison tbody tr").count() == 6
        assert "significant" in page.locator("#comparison b").inner_text()


def test_a_value_is_chosen_for_the_time_series_and_options_for_the_decoding(browser, of_files) -> None:
    with visit(browser, of_files) as seen:
        page = seen.open("/metric/language")
        page.locator("select[name=series]").select_option("rust")
        page.get_by_role("button", name="Show").click()
        seen.settled()
        assert "rust over 3 days" in page.locator("#series svg[role=img]").get_attribute("aria-label")
        page.get_by_text("More options").click()
        page.get_by_label("Confidence").select_option("0.99")
        page.get_by_role("button", name="Apply").click()
        seen.settled()
        assert "99 % interval" in page.locator("table.estimates thead").inner_text()


def test_candidates_are_uploaded_and_looked_for(browser, samples: Path, tmp_path) -> None:
    with running_dashboard([str(samples / "homepage.json")], tmp_path) as url, visit(browser, url) as seen:
        page = seen.open("/metric/homepage")
        assert "No candidates yet" in page.locator("#candidates").inner_text()
        page.get_by_label("A text file").set_input_files(samples / "pages.txt")
        page.get_by_role("button", name="Look for these").click()
        seen.settled()
        assert "10 candidates, from pages.txt, uploaded here." in page.locator("#candidates").inner_text()
        assert "8 of 10 candidates detected" in page.locator("#result .lead").inner_text()
        page.get_by_text("Use another list").click()
        page.get_by_role("button", name="Forget this list").click()
        expect(page.locator("#candidates")).to_contain_text("No candidates yet")


def sign_in(seen: Visit, token: str) -> None:
    seen.page.get_by_label("Token").fill(token)
    seen.page.get_by_role("button", name="Show the numbers").click()


def test_the_token_is_asked_for_once_and_is_in_no_address(browser, tmp_path) -> None:
    with start_collector(tmp_path / "c") as collector:
        send(collector, 3, Random(1))
        with (
            running_dashboard([f"http://127.0.0.1:{collector.port}"], tmp_path) as url,
            visit(browser, url) as seen,
        ):
            page = seen.open("/metric/dark_theme")
            assert page.url == f"{url}/token"
            sign_in(seen, "wrong")
            assert page.get_by_role("alert").inner_text() == "The collector does not accept this token."
            seen.complaints.clear()  # the browser itself notes the 401
            sign_in(seen, collector.token)
            page.wait_for_url(f"{url}/")
            assert seen.settled().locator(".card").count() == 6
            seen.open("/metric/dark_theme")
            assert page.locator("h1").inner_text().startswith("dark_theme")
            assert not [request.url for request in seen.requests if collector.token in request.url]
            assert collector.token not in page.content()
            (cookie,) = seen.context.cookies()
            assert cookie["httpOnly"]
            assert cookie["sameSite"] == "Strict"
            assert collector.token not in cookie["value"]
            page.get_by_role("button", name="Sign out").click()
            page.wait_for_url(f"{url}/token")
        assert collector.token not in (tmp_path / "dashboard.log").read_text()


def test_numbers_renew_themselves_and_survive_a_collector_that_goes_and_comes_back(browser, tmp_path) -> None:
    """Real reports, live; what the reader has opened stays open; the page is never loaded again."""
    random, folder = Random(2), tmp_path / "c"
    collector = start_collector(folder)
    try:
        send(collector, 4, random)
        source = [f"http://127.0.0.1:{collector.port}"]
        with (
            running_dashboard(source, tmp_path, "--every", "0.3", token=collector.token) as url,
            visit(browser, url) as seen,
        ):
            page = seen.open("/metric/latency")
            expect(page.locator("#result")).to_contain_text("4 reports;")
            seen.complaints.clear()  # on a busy machine counts are still being read at first: a 503, which is noted
            page.evaluate("window.marked = 'the same page'")
            page.get_by_text("Shares of 64 cells").click()
            send(collector, 5, random)
            expect(page.locator("#result")).to_contain_text("9 reports;")
            expect(page.locator("#cells")).to_have_attribute("open", "")
            send(collector, 5, random, days_ago=2)
            expect(page.locator("#series")).to_contain_text("The same 2 days as a table")

            port = collector.port
            collector.stop()
            expect(page.locator("#banner")).to_contain_text("The collector cannot be read: ")
            expect(page.locator("#state")).to_contain_text("Last data from")
            expect(page.locator("#result")).to_contain_text("9 reports;")
            collector = start_collector(folder, "--port", str(port))
            expect(page.locator("#banner")).to_be_empty()
            expect(page.locator("#state")).to_contain_text("Live")
            send(collector, 2, random)
            expect(page.locator("#result")).to_contain_text("11 reports;")
            assert page.evaluate("window.marked") == "the same page"
            seen.open("/")
            assert "Reports counted" in page.locator("#collector").inner_text()
    finally:
        collector.stop()


def test_a_dashboard_that_is_gone_is_said_to_be_gone_and_comes_back(browser, samples: Path, tmp_path) -> None:
    with running_dashboard([str(samples / "language.json")], tmp_path) as url:
        seen = Visit(browser, url)
        page = seen.open("/metric/language")
    expect(page.locator("#banner")).to_contain_text("The dashboard itself does not answer.")
    assert re.search(r"4,000 reports", page.inner_text("#result"))
    port = url.rpartition(":")[2]
    with running_dashboard([str(samples / "language.json")], tmp_path, "--port", port):
        expect(page.locator("#banner")).to_be_empty()
        expect(page.locator("#state")).to_contain_text("Live")
        assert all("ERR_" in said for said in seen.complaints), "only the browser's own words about the network"
        seen.context.close()


def test_everything_works_without_scripts(browser, of_files) -> None:
    with visit(browser, of_files, java_script_enabled=False) as seen:
        page = seen.page
        page.goto("/")
        page.get_by_role("link", name="language").click()
        assert "4,000 reports" in page.inner_text("#result")
        assert page.locator("#chart svg.plot").count() >= 6
        page.get_by_role("combobox", name="Before").select_option("2026-11-03")
        page.get_by_role("button", name="Compare").click()
        assert "No significant change" in page.inner_text("#comparison")
