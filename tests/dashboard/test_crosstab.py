"""Two answers at once on their page: one sentence, a heat map with words, both ways round, and hostile values."""

from __future__ import annotations

import asyncio
import json
import re

import numpy as np
import pytest
from aiohttp import web

from hubbub.analysis import Options, decode
from hubbub.analysis.render.crosstab_words import answer
from hubbub.protocol.kinds import Choice, Flag, Mean
from hubbub.protocol.pair import Pair, PairTally
from tests.analysis.joint_worlds import drawn, metric
from tests.analysis.test_crosstab import INSTALLS, OS, F, cross_tally
from tests.dashboard.kit import TOKEN, ToldCollector, read_again, sample, text_of, visiting, words

pytestmark = pytest.mark.anyio

PAIR = Pair("theme_os", (metric("dark", Flag(), 2, 4), metric("os", OS, 2, 4)))
HOSTILE = "<script>alert(1)</script>"
BANNED = re.compile(r"\b(epoch|cohort|memo|noise floor)s?\b", re.IGNORECASE)


def tally(pair: Pair = PAIR, installs: np.ndarray = INSTALLS, weeks: int = 2) -> PairTally:
    return drawn(pair, installs, np.random.default_rng(1), range(2950, 2950 + weeks))


async def page_of(tmp_path, path: str, *tallies) -> str:
    for number, one in enumerate(tallies):
        (tmp_path / f"{number}.json").write_text(one.to_json())
    flag = drawn_flag()
    (tmp_path / "flag.json").write_text(flag.to_json())
    async with visiting(str(tmp_path)) as client:
        return await text_of(client, path)


def drawn_flag():
    from hubbub.simulations import sample_tally

    return sample_tally(PAIR.metrics[0], [4_000], [[1_500]], np.random.default_rng(1), (2950,))


async def test_the_page_says_what_the_command_says(tmp_path) -> None:
    found = decode(tally().only(2951), options=Options(exclude_absent=True))
    page = words(await page_of(tmp_path, "/crosstab/theme_os", tally()))
    assert "dark × os pair of 2 × 4, every week" in page
    assert " ".join(str(answer(found)).split()) in page
    assert "Each row adds up to 100 %. Small: 95 % interval." in page
    assert "os given dark dark given os Of all installs" in page
    assert "Related? yes, p < 0.0001" in page
    assert "Difference, yes against no" in page
    assert "of installs gave no answer to one of the two and are left out." in page
    assert "Nothing more leaves a device for this table" in page
    assert "with one report of both" in page
    assert "absent" not in page.replace("no answer", "")
    assert not BANNED.search(page)


async def test_either_answer_can_be_given_in_the_address(tmp_path) -> None:
    turned = await page_of(tmp_path, "/crosstab/theme_os?given=os&epoch=all", tally())
    assert "dark, given os" in words(turned)
    assert "2 weeks, " in words(turned)
    assert re.search(r'<a href="/crosstab/theme_os\?epoch=all&amp;given=os" aria-current="page">', turned)
    assert '<input type="hidden" name="given" value="os">' in turned
    whole = words(await page_of(tmp_path, "/crosstab/theme_os?given=*", tally()))
    assert "All cells together add up to 100 %." in whole


async def test_every_cell_has_its_figure_and_a_class_of_the_scale(tmp_path) -> None:
    page = await page_of(tmp_path, "/crosstab/theme_os", tally())
    heat = re.search(r'<table class="heat">.*?</table>', page, re.DOTALL)
    assert heat is not None
    cells = re.findall(r'<td class="(h[1-6]|under)">([^<]+)<small>([^<]+)</small>', heat[0])
    assert len(cells) == 3 * 3  # no, yes and all installs; silence is left out
    assert all(figure.replace("\N{NO-BREAK SPACE}", " ").endswith(" %") for _, figure, _ in cells)
    shares = [float(figure.split("\N{NO-BREAK SPACE}")[0]) / 100 for _, figure, _ in cells]
    assert [css for css, *_ in cells] == [
        f"h{next(i for i, end in enumerate((0.03, 0.07, 0.12, 0.3, 0.6, 2), 1) if share < end)}" for share in shares
    ]


async def test_a_share_below_the_limit_is_hatched_and_never_negative(tmp_path) -> None:
    few = np.array([[3_000, 2_000, 0, 10], [1_500, 1_000, 300, 10]])
    page = await page_of(tmp_path, "/crosstab/theme_os", tally(installs=few, weeks=1))
    assert re.search(r'<td class="under">&lt;\N{NO-BREAK SPACE}[\d.]+ %<small>not detected</small>', page)
    assert "Hatched: below the detection limit" in page
    assert not re.search(r">\s*[-−]\d", page)


async def test_averages_of_a_number_have_rails_and_no_bars(tmp_path) -> None:
    startup = Mean(low=F(0), high=F(10), absent=F(0), points=3, unit="s")
    pair = Pair("os_startup", (metric("os", OS, 2, 4), metric("startup", startup, 2, 4)))
    installs = np.array([[8_000, 4_000, 4_000], [2_000, 6_000, 6_000], [5_000, 5_000, 5_000], [10, 10, 10]])
    page = words(await page_of(tmp_path, "/crosstab/os_startup", tally(pair, installs)))
    assert "Average startup, by os" in page
    assert "On average startup is" in page


async def test_a_cross_has_the_same_page(tmp_path) -> None:
    page = words(await page_of(tmp_path, "/crosstab/theme_os", cross_tally(INSTALLS, np.random.default_rng(2))))
    assert "dark × os cross of 2 × 4, every week" in page
    assert "Asked together as one question, with a privacy limit of its own." in page


async def test_hostile_names_are_words_everywhere(tmp_path) -> None:
    odd = Choice(choices=(HOSTILE, '"><img src=x onerror=alert(1)>', "\u202egnp"))
    pair = Pair("odd", (metric("dark", Flag(), 2, 4), metric("what", odd, 2, 4)))
    for path in ("/", "/crosstab/odd", "/crosstab/odd?given=what", "/crosstab/odd?given=*"):
        page = await page_of(tmp_path, path, tally(pair))
        assert "<script>alert" not in page
        assert "<img" not in page
        assert "\u202e" not in page


async def test_the_overview_has_a_card_that_leads_there(tmp_path) -> None:
    page = await page_of(tmp_path, "/", tally())
    assert "Two answers at once" in page
    assert 'href="/crosstab/theme_os"' in page
    assert "dark and os are related (p &lt; 0.0001)." in page


async def test_files_are_those_of_the_command(tmp_path) -> None:
    (tmp_path / "pair.json").write_text(tally().to_json())
    (tmp_path / "flag.json").write_text(drawn_flag().to_json())
    async with visiting(str(tmp_path)) as client:
        answered = await client.get("/crosstab/theme_os/theme_os.csv?epoch=all")
        assert answered.headers["Content-Disposition"] == 'attachment; filename="theme_os.csv"'
        lines = (await answered.text()).splitlines()
        found = json.loads(await (await client.get("/crosstab/theme_os/theme_os.json?epoch=all")).text())
        svg = await client.get("/crosstab/theme_os/theme_os.svg?given=os")
        assert svg.status == 200
        for missing in ("/crosstab/theme_os/other.csv", "/crosstab/theme_os/theme_os.exe", "/crosstab/nothing"):
            assert (await client.get(missing)).status == 404
        for wrong in ("given=nobody", "epoch=2020-W01", "only.platform=linux", "x=1"):
            assert (await client.get(f"/crosstab/theme_os?{wrong}")).status == 400
    decoded = decode(tally(), options=Options(exclude_absent=True))
    assert lines[0].startswith("table,segment,epochs,share_of,given")
    assert float(lines[1].split(",")[7]) == pytest.approx(decoded.cells.estimate[0, 0])
    assert found[0]["num_reports"] == decoded.num_reports


async def test_segments_are_chosen_as_on_other_pages(tmp_path) -> None:
    parts = [tally(PAIR.in_segment((("platform", name),))) for name in ("linux", "windows")]
    page = await page_of(tmp_path, "/crosstab/theme_os?only.platform=linux", *parts)
    assert '<option value="linux" selected>linux</option>' in page
    assert 'href="/crosstab/theme_os?given=os&amp;only.platform=linux"' in page
    card = await page_of(tmp_path, "/", *parts)
    assert 'href="/crosstab/theme_os"' in card


async def test_pairs_of_a_collector_are_shown_and_older_ones_have_none() -> None:
    class WithPairs(ToldCollector):
        knows_pairs = True

        async def answer(self, request: web.Request) -> web.Response:
            if request.path == "/v1/pairs":
                if not self.knows_pairs:
                    return web.Response(status=404)
                return web.json_response({"pairs": [json.loads(tally().to_json())], "withheld": []})
            return await super().answer(request)

    for knows in (True, False):
        collector = WithPairs()
        collector.knows_pairs = knows
        async with collector.running() as url, visiting(url, token=TOKEN) as client:
            answered = await client.get("/crosstab/theme_os")
            assert answered.status == (200 if knows else 404)


async def test_pairs_that_cannot_be_read_now_are_not_said_to_be_gone() -> None:
    """A collector that has too many reads answers with 503: the last tables stay, and are marked as old."""

    class Busy(ToldCollector):
        busy = False

        async def answer(self, request: web.Request) -> web.Response:
            if request.path == "/v1/pairs":
                found = {"pairs": [json.loads(tally().to_json())], "withheld": []}
                return web.Response(status=503) if self.busy else web.json_response(found)
            return await super().answer(request)

    collector = Busy()
    async with collector.running() as url, visiting(url, token=TOKEN) as client:
        assert "dark × os" in words(await text_of(client, "/crosstab/theme_os"))
        collector.busy = True
        collector.tallies["dark_theme"] = sample(collector.tallies["dark_theme"].metric, 3)
        await read_again(client)
        page = words(await text_of(client, "/crosstab/theme_os"))
        assert "dark × os" in page
        assert "The collector cannot be read: it answers with status 503." in page


async def test_a_pair_without_any_counts_yet_has_no_file_and_is_no_mistake(tmp_path) -> None:
    (tmp_path / "pair.json").write_text(PairTally(PAIR, {}).to_json())
    (tmp_path / "flag.json").write_text(drawn_flag().to_json())
    async with visiting(str(tmp_path)) as client:
        for path in ("/", "/crosstab/theme_os", "/crosstab/theme_os/theme_os.csv", "/crosstab/theme_os/theme_os.png"):
            answer = await asyncio.wait_for(client.get(path), 20)
            assert answer.status < 500, (path, await answer.text())
