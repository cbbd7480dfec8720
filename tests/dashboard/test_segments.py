"""A metric by platform and release on its page: pictures on one scale, a table, a picker, two segments compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from hubbub.analysis import by_segment, compare, decode, within
from hubbub.analysis.render.digits import Digits
from hubbub.dashboard.chart_rows import digits_of
from hubbub.protocol.tally import Tally
from hubbub.protocol.tally_files import write_tallies
from tests.analysis.worlds import tally_of
from tests.dashboard.browser import running_browser, running_dashboard, visit
from tests.dashboard.kit import FIRST_DAY, text_of, visiting, words
from tests.protocol.toml import registry

anyio = pytest.mark.anyio

THEME = registry("flag", every='"day"')["it"].replace(name="theme")
LANGUAGE = registry("choice", every='"day"', choices='["c", "go"]', max_values="2")["it"].replace(name="language")
STARTUP = registry("mean", every='"day"')["it"].replace(name="startup")
HOSTILE = '<b id="x">&amp;"'
SEGMENTS = [("linux", "2.9"), ("linux", "2.10"), ("macos", "2.9"), (HOSTILE, "2.10")]


def counted(days: int = 2) -> list[Tally]:
    """Linux prefers dark, release 2.10 starts slower."""
    rng = np.random.default_rng(5)
    found = []
    for platform, release in SEGMENTS:
        segment = (("platform", platform), ("release", release))
        dark, slow = (0.7 if platform == "linux" else 0.3), (0.5 if release == "2.10" else 0.2)
        for metric, shares in ((THEME, [1 - dark, dark]), (LANGUAGE, [0.5, 0.3, 0.2]), (STARTUP, [1 - slow, slow])):
            counts = np.round(np.array(shares) * 20_000).astype(int)
            epochs = {}
            for day in range(days):
                epochs |= tally_of(metric.in_segment(segment), counts, rng, epochs=(FIRST_DAY + day,)).epochs
            found.append(Tally(metric.in_segment(segment), epochs))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("segments")
    write_tallies(counted(), folder)
    return folder


def of(name: str) -> list[Tally]:
    """Of the newest day, which is what a page shows first."""
    found = [tally for tally in counted() if tally.metric.name == name]
    return [Tally(tally.metric, {FIRST_DAY + 1: tally.epochs[FIRST_DAY + 1]}) for tally in found]


@anyio
async def test_the_page_has_a_figure_for_each_segment_and_the_numbers_of_the_command(folder) -> None:
    async with visiting(str(folder)) as client:
        page = await text_of(client, "/metric/theme?by=platform")
    told = words(page)
    decodings = {value: decode(some) for value, some in by_segment(of("theme"), "platform").items()}
    digits = digits_of(list(decodings.values()), [[0]] * len(decodings))
    for value, decoding in decodings.items():
        interval = digits.interval(decoding.low[0], decoding.high[0])
        assert " ".join(f"{digits.value(decoding.estimate[0])} ({interval})".split()) in told, value
    assert page.count('<figure><figcaption class="top">') == 3, "over time, one for each platform"


@anyio
async def test_without_a_choice_the_page_is_about_everyone_and_by_the_first_key(folder) -> None:
    async with visiting(str(folder)) as client:
        told = words(await text_of(client, "/metric/startup"))
    assert "By platform" in told
    assert "80,000 reports; 4 November 2026" in told


@anyio
async def test_a_picker_looks_at_some_installs_alone(folder) -> None:
    async with visiting(str(folder)) as client:
        told = words(await text_of(client, "/metric/theme?only.platform=linux&by=release"))
        csv = await text_of(client, "/metric/theme/theme.csv?only.platform=linux")
    assert "Only platform linux: 40,000 reports" in told
    decoding = decode(within(of("theme"), {"platform": "linux"}))
    assert f",{float(decoding.estimate[0])}," in csv
    assert "platform linux" in csv


@anyio
async def test_two_releases_are_compared_with_the_test_of_the_command(folder) -> None:
    async with visiting(str(folder)) as client:
        told = words(await text_of(client, "/metric/startup?by=release&one=2.9&other=2.10"))
        same = words(await text_of(client, "/metric/language?by=release&one=2.9&other=2.10"))
    before, after = (decode(within(of("startup"), {"release": release})) for release in ("2.9", "2.10"))
    found = compare(before, after)
    digits = Digits.of([(float(found.low[0]), float(found.high[0]))], unit=after.unit)
    by, interval = (
        digits.signed(*map(float, ends)) for ends in ([found.difference[0]] * 2, [found.low[0], found.high[0]])
    )
    assert " ".join(f"A significant difference between 2.9 and 2.10: {by} ({interval}).".split()) in told
    assert "sum" not in told.partition("Compare two releases")[2].partition("Compare two days")[0], (
        "grows with installs"
    )
    assert "No significant difference between 2.9 and 2.10." in same
    assert "These are different installs." in told


@anyio
@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("by=colour", "by must be one of platform, release, got 'colour'"),
        ("only.platform=amiga", "only.platform must be one of"),
        ("only.colour=red", "the address may choose"),
        ("by=release&one=3.0", "one must be one of 2.9, 2.10, got '3.0'"),
    ],
)
async def test_what_was_not_counted_is_refused_in_words(folder, query: str, sentence: str) -> None:
    async with visiting(str(folder)) as client:
        answer = await client.get(f"/metric/theme?{query}")
        assert answer.status == 400
        assert sentence in words(await answer.text())


@anyio
async def test_a_value_may_hold_anything(folder) -> None:
    """It is text wherever it stands: in a column, a picker, a panel, a sentence."""
    async with visiting(str(folder)) as client:
        page = await text_of(client, "/metric/theme?by=platform")
        one = await client.get("/metric/theme", params={"only.platform": HOSTILE})
        alone = await one.text()
        overview = await text_of(client, "/")
    for text in (page, alone, overview):
        assert HOSTILE not in text
        assert "&lt;b id=&#34;x&#34;&gt;&amp;amp;&#34;" in text


@anyio
async def test_the_overview_counts_active_installs_by_segment(folder) -> None:
    async with visiting(str(folder)) as client:
        told = words(await text_of(client, "/"))
    assert "Active installs, 4 November 2026 80,000 As many as the day before" in told
    assert "linux 40,000 macos 20,000" in told


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


def test_a_person_compares_two_platforms_and_looks_at_one(browser, folder, tmp_path) -> None:
    """By mouse and without knowing any address; nothing scrolls sideways, on a phone either."""
    with running_dashboard([str(folder)], tmp_path) as url, visit(browser, url) as seen:
        page = seen.open("/metric/theme")
        page.locator("select[name=by]").select_option("release")
        page.get_by_role("button", name="Apply").click()
        expect(page.locator("#segments-title")).to_have_text("By release and platform")
        page.locator("select[name=one]").select_option("2.9")
        page.locator("select[name=other]").select_option("2.10")
        page.get_by_role("button", name="Compare").first.click()
        expect(page.locator("#segments-compared")).to_contain_text(re.compile("between 2.9 and 2.10"))
        page.locator("select[name='only.platform']").select_option("macos")
        page.get_by_role("button", name="Apply").click()
        expect(page.locator("main")).to_contain_text("Only platform macos: 20,000 reports")
        for width in (1600, 1280, 390, 320):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
