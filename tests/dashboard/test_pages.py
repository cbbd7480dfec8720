"""Pages as a visitor without a browser gets them: numbers, words, states."""

from __future__ import annotations

import asyncio
import csv
import json
import re
import threading
from argparse import ArgumentParser
from html import unescape
from pathlib import Path

import pytest

from hubbub.analysis import decode
from hubbub.analysis.commands.decode import add_decode, run_decode
from hubbub.analysis.result import Decoding
from hubbub.dashboard.chart_rows import digits_of
from hubbub.dashboard.decode_jobs import DECODE_JOBS
from hubbub.dashboard.page_cache import PAGE_CACHE
from hubbub.dashboard.row_choice import card_rows
from hubbub.dashboard.sentences import headline, limit_in_words, value_label
from hubbub.protocol.metric import Definition
from hubbub.protocol.tally import Counts, Tally
from hubbub.simulations.demo.people import CANDIDATES
from tests.dashboard.kit import REGISTRY, read_again, sample, text_of, visiting, words, write_samples

pytestmark = pytest.mark.anyio


def decode_command(*arguments: object) -> None:
    parser = ArgumentParser()
    add_decode(parser)
    assert run_decode(parser.parse_args([str(argument) for argument in arguments])) == 0


def decoded(folder: Path, name: str, days: int = 1) -> Decoding:
    """Of the newest days, as the command does it."""
    tally = Tally.from_json((folder / f"{name}.json").read_bytes())
    newest = Tally(tally.metric, dict(list(tally.epochs.items())[-days:]))
    return decode(newest, CANDIDATES if tally.metric.kind == "string" else None)


def plain(text: str) -> str:
    return " ".join(text.split())


async def test_every_metric_is_on_the_overview_with_its_figure(tmp_path) -> None:
    async with visiting(*write_samples(tmp_path), candidates=CANDIDATES) as client:
        page = words(await text_of(client, "/"))
        all_days = words(await text_of(client, "/?epoch=all"))
    assert "Active installs, 5 November 2026 4,000" in page
    for metric in REGISTRY:
        for text, days in ((page, 1), (all_days, 3)):
            decoding = decoded(tmp_path, metric.name, days)
            said = headline(decoding, digits_of([decoding], [card_rows(decoding)]))
            assert plain(f"{said.figure} {said.unit} {said.caption}") in text, metric.name


ROW = re.compile(
    r'<tr><th scope="row">(?:<bdi>|<i>)(.*?)</(?:bdi|i)></th>\s*<td class="n">([-\d.,]+)\s.*?</tr>', re.DOTALL
)


async def test_the_table_of_every_kind_holds_the_numbers_of_the_command(tmp_path) -> None:
    """Rounded to what their intervals can tell; the command has all digits."""
    async with visiting(*write_samples(tmp_path), candidates=CANDIDATES) as client:
        pages = {metric.name: await text_of(client, f"/metric/{metric.name}") for metric in REGISTRY}
    for name, page in pages.items():
        decoding = decoded(tmp_path, name)
        shown = ROW.findall(page.partition('class="estimates"')[2].partition("</table>")[0])
        wanted = {
            value_label(decoding, i): float(decoding.estimate[i]) * (1 if decoding.roles[i] == "number" else 100)
            for i in decoding.top_rows(50)
        }
        assert len(shown) >= 1, name
        for value, written in shown:
            decimals = len(written.partition(".")[2])
            tolerance = 0.5 * 10.0**-decimals if decimals else abs(wanted[unescape(value)]) * 0.06 + 0.5
            number = float(written.replace(",", ""))
            assert number == pytest.approx(max(wanted[unescape(value)], 0.0), abs=tolerance * 1.0001), (name, value)


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "png", "svg", "xlsx"])
async def test_a_download_is_byte_for_byte_what_the_command_writes(tmp_path, kind: str) -> None:
    paths = write_samples(tmp_path)
    options = "epoch=all&confidence=0.99&estimand=population&correction=benjamini-hochberg&exclude_absent=yes"
    taken = {}
    async with visiting(*paths, candidates=CANDIDATES) as client:
        for name in ("homepage", "latency"):
            answer = await client.get(f"/metric/{name}/{name}.{kind}?{options}")
            assert answer.status == 200
            assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}.{kind}"'
            taken[name] = await answer.read()
    for name, extra in (("homepage", ["--candidates", tmp_path / "pages.txt"]), ("latency", [])):
        out = tmp_path / f"result.{kind}"
        wanted = ["--chart", out] if kind in ("png", "svg") else ["--format", kind, "--out", out]
        decode_command(
            tmp_path / f"{name}.json", *extra, *wanted, "--confidence", "0.99", "--estimand", "population",
            "--correction", "benjamini-hochberg", "--exclude-absent",
        )  # fmt: skip
        assert taken[name] == out.read_bytes()


async def test_one_epoch_can_be_looked_at_by_itself(tmp_path) -> None:
    async with visiting(*write_samples(tmp_path)) as client:
        page = await text_of(client, "/metric/dark_theme?epoch=2026-11-04")
        file = await client.get("/metric/dark_theme/dark_theme.json?epoch=2026-11-04")
        content = await file.read()
    assert "4,000 reports; 4 November 2026." in words(page)
    assert json.loads(content)[0]["epochs"] == ["2026-11-04"]


async def test_a_file_can_have_each_period_by_itself(tmp_path) -> None:
    async with visiting(*write_samples(tmp_path)) as client:
        answer = await client.get("/metric/dark_theme/dark_theme.csv?epoch=all&each=period")
        rows = list(csv.DictReader((await answer.text()).splitlines()))
        whole = await client.get("/metric/dark_theme/dark_theme.csv?epoch=all")
        (row,) = csv.DictReader((await whole.text()).splitlines())
        assert (await client.get("/metric/dark_theme/dark_theme.csv?each=hour")).status == 400
    assert [(row["from"], row["to"]) for row in rows] == [(f"2026-11-0{day}",) * 2 for day in (3, 4, 5)]
    assert (row["from"], row["to"]) == ("2026-11-03", "2026-11-05")


async def test_two_epochs_are_compared_in_words(tmp_path) -> None:
    """Yes falls from 62 % to 20 % of 4000 installs at epsilon 1: 24 standard errors."""
    metric = REGISTRY["dark_theme"]
    q, p = float(metric.noise.q_star), float(metric.noise.p_star)
    ones = [round(4000 * (share * q + (1 - share) * p)) for share in (0.62, 0.62, 0.2)]
    tally = Tally(metric, {20_760 + day: Counts((4000,), ((n,),)) for day, n in enumerate(ones)})
    (tmp_path / "t.json").write_text(tally.to_json())
    async with visiting(str(tmp_path / "t.json")) as client:
        newest = words(await text_of(client, "/metric/dark_theme"))
        same = words(await text_of(client, "/metric/dark_theme?before=2026-11-03&after=2026-11-04"))
    assert re.search(r"A significant change: −42 points \(−4\d to −3\d points\)\.", newest)
    assert "Down 42 points since the day before" in newest
    assert "No significant change." in same
    assert "no significant change" in same


async def test_what_is_not_detected_is_said_in_words(tmp_path) -> None:
    metric = REGISTRY["dark_theme"]
    nobody = round(4000 * float(metric.noise.p_star))
    tally = Tally(metric, {20_760: Counts((4000,), ((nobody,),))})
    (tmp_path / "t.json").write_text(tally.to_json())
    async with visiting(str(tmp_path / "t.json")) as client:
        overview = words(await text_of(client, "/"))
        page = words(await text_of(client, "/metric/dark_theme"))
    limit = plain(limit_in_words(decode(tally)))
    for said in (overview, page):
        assert "No use detected" in said
        assert f"up to {limit} would be hidden by noise" in said
    assert "One day so far: there is nothing to compare it with." in page


async def test_the_privacy_label_stands_beside_the_numbers(tmp_path) -> None:
    async with visiting(*write_samples(tmp_path)) as client:
        page = words(await text_of(client, "/metric/homepage"))
    assert "with one report 95 of 100 with all reports 99 of 100 unprotected 100 of 100" in page
    assert "upper bound: 3 for one report, 5 for all reports of one answer." in page
    assert "After one message at most 95.3 % sure (epsilon 3)." in page
    assert "Each install belongs to one of 32 groups" in page
    assert "If 1.00 % of reports were fake, an estimate could be off by" in page
    assert "Groups of installs 32, of" in page


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/metric/nothing", 404, "There is no such page."),
        ("/nothing", 404, "There is no such page."),
        ("/metric/dark_theme/dark_theme.exe", 404, "There is no such page."),
        ("/metric/dark_theme/language.csv", 404, "There is no such page."),
        ("/metric/dark_theme?confidence=2", 400, "confidence must be one of 0.9, 0.95, 0.99, got '2'"),
        ("/metric/dark_theme?epoch=1999-01-01", 400, "epoch must be one of last-4, last-13, all, 2026-11-03, got"),
        ("/metric/dark_theme?token=secret", 400, "the address may choose epoch,"),
        ("/metric/dark_theme?series=maybe", 400, "series must be a value of dark_theme, got 'maybe'"),
    ],
)
async def test_mistakes_are_answered_in_words(tmp_path, path: str, status: int, sentence: str) -> None:
    async with visiting(*write_samples(tmp_path, days=1)) as client:
        assert sentence in words(await text_of(client, path, status))


async def test_several_viewers_cost_one_decode(tmp_path) -> None:
    """One, then ten at once, then ten more with the same counts: one decoding for each of three days."""
    async with visiting(*write_samples(tmp_path)) as client:
        await text_of(client, "/metric/language")
        for _ in range(2):
            await asyncio.gather(*(text_of(client, "/metric/language") for _ in range(10)))
        assert client.app_[DECODE_JOBS].made == 3
        assert client.app_[PAGE_CACHE].made <= 5, "one page for all, and at most one for each that was still to come"


async def test_pages_are_served_while_a_decode_is_under_way(tmp_path, monkeypatch) -> None:
    """The page says so, other pages answer, and the numbers come when they are there."""
    go_on = threading.Event()

    def slow(*arguments, **options):
        go_on.wait(60)
        return decode(*arguments, **options)

    monkeypatch.setattr("hubbub.dashboard.query.decode", slow)
    monkeypatch.setattr("hubbub.dashboard.routes.PATIENCE", 0.05)
    async with visiting(*write_samples(tmp_path)) as client:
        overview = await (await client.get("/")).text()
        waiting = await (await client.get("/metric/dark_theme")).text()
        alive = await (await client.get("/healthz")).text()
        go_on.set()
        done = await text_of(client, "/metric/dark_theme")
    assert "Decoding …" in overview
    assert "Decoding the counts …" in waiting
    assert "data-pending" in waiting
    assert 'http-equiv="refresh"' in waiting, "without scripts the page comes again by itself"
    assert alive == "ok\n"
    assert "of installs say yes" in words(done)


async def test_numbers_stay_while_newer_counts_are_decoded(tmp_path, monkeypatch) -> None:
    path = tmp_path / "t.json"
    path.write_text(sample(REGISTRY["dark_theme"], 1).to_json())
    go_on = threading.Event()
    go_on.set()

    def slow(*arguments, **options):
        go_on.wait(60)
        return decode(*arguments, **options)

    monkeypatch.setattr("hubbub.dashboard.query.decode", slow)
    async with visiting(str(path)) as client:
        await text_of(client, "/metric/dark_theme")
        go_on.clear()
        path.write_text(sample(REGISTRY["dark_theme"], 2).to_json())
        await read_again(client)
        between = words(await (await client.get("/metric/dark_theme")).text())
        go_on.set()
        after = words(await text_of(client, "/metric/dark_theme"))
    assert "4,000 reports" in between
    assert "Newer counts are being decoded." in between
    assert "4 November 2026" in after
    assert "Newer counts" not in after


async def test_a_file_that_is_half_written_leaves_the_last_numbers(tmp_path) -> None:
    path = tmp_path / "t.json"
    whole = sample(REGISTRY["dark_theme"], 1).to_json()
    path.write_text(whole)
    async with visiting(str(path)) as client:
        pages = [await text_of(client, "/")]
        for content in (whole[:100], whole + "\n", None):
            if content is None:
                path.unlink()
            else:
                path.write_text(content)
            await read_again(client)
            pages.append(await text_of(client, "/"))
    first, half, again, gone = map(words, pages)
    assert "Live" in first
    assert "The files cannot be read: " in half
    assert "not a tally: not JSON" in half
    assert "4,000 reports" in half
    assert "cannot be read" not in again
    assert "No such file or directory. Showing the last data received, " in gone


async def test_a_metric_that_cannot_be_decoded_says_why(tmp_path) -> None:
    """Two definitions of a range are not pooled."""
    old = REGISTRY["latency"]
    shape = type(old.shape)(low=old.shape.low, high=old.shape.high, unit="ms", num_leaves=16, branching=4)
    new = Definition(name="latency", every="day", shape=shape, noise=old.noise)
    for name, tally in (("a", sample(old, 1)), ("b", _empty(new))):
        (tmp_path / f"{name}.json").write_text(tally.to_json())
    async with visiting(str(tmp_path / "a.json"), str(tmp_path / "b.json")) as client:
        page = words(await text_of(client, "/metric/latency"))
    assert "This cannot be decoded." in page
    assert "definitions of a range decoded together must ask the same, got two shapes of latency" in page


def _empty(metric: Definition) -> Tally:
    widths = [metric.shape.width(cohort) for cohort in range(metric.shape.num_cohorts)]
    zeros = Counts((0,) * len(widths), tuple((0,) * width for width in widths))
    return Tally(metric, {20_760: zeros})


@pytest.mark.parametrize("name", [metric.name for metric in REGISTRY])
async def test_an_epoch_without_reports_is_no_mistake(tmp_path: Path, name: str) -> None:
    (tmp_path / "t.json").write_text(_empty(REGISTRY[name]).to_json())
    async with visiting(str(tmp_path / "t.json"), candidates=CANDIDATES) as client:
        overview = words(await text_of(client, "/"))
        page = words(await text_of(client, f"/metric/{name}"))
    assert "Collecting" in overview
    assert "Nothing has been counted yet." in page
