"""The rules that every page keeps: plain words, no negative share, light pages; and worlds that are larger or stranger
than the usual ones."""

from __future__ import annotations

import re
from fractions import Fraction
from importlib.resources import files

import numpy as np
import pytest

from hubbub.dashboard.sentences import change
from hubbub.protocol.kinds import Choice, Flag
from hubbub.protocol.metric import Definition
from hubbub.protocol.tally import Counts, Tally
from hubbub.protocol.tally_files import write_tallies
from hubbub.simulations.demo.people import CANDIDATES
from tests.dashboard.kit import REGISTRY, text_of, visiting, words, write_samples

pytestmark = pytest.mark.anyio

BANNED = re.compile(r"\b(epochs?|cohorts?|memos?|noise floor)\b", re.IGNORECASE)
STRANGE = ("نعم أو لا", "👩‍💻 emoji", "x" * 120, "‏עברית‎", "a b  c")


def flag(name: str, segment: tuple[tuple[str, str], ...] = ()) -> Definition:
    shape = Flag()
    noise = shape.best_noise(Fraction(1), Fraction(2))
    return Definition(name=name, every="week", shape=shape, noise=noise, segment=segment)


def counted(metric: Definition, shares: list[float], reports: int = 20_000) -> Tally:
    """Weeks in which exactly so many say yes, as the noise would have it on average."""
    q, p = float(metric.noise.q_star), float(metric.noise.p_star)
    ones = [round(reports * (share * q + (1 - share) * p)) for share in shares]
    return Tally(metric, {2960 + week: Counts((reports,), ((n,),)) for week, n in enumerate(ones)})


async def test_no_page_for_analysts_says_a_word_of_ours(tmp_path) -> None:
    paths = ["/", *(f"/metric/{metric.name}" for metric in REGISTRY), "/nothing", "/metric/homepage?confidence=0.99"]
    async with visiting(*write_samples(tmp_path), candidates=CANDIDATES) as client:
        for path in paths:
            page = await text_of(client, path, 404 if path == "/nothing" else 200)
            labels = " ".join(re.findall(r'(?:aria-label|title)="([^"]*)"', page))
            assert BANNED.findall(words(page) + labels) == [], path


async def test_no_share_on_a_page_is_negative_and_none_is_above_all(tmp_path) -> None:
    """Nobody says yes and everybody does: estimates lie on both sides of what is possible."""
    tallies = [counted(flag("nobody"), [0.0, 0.0, -0.01]), counted(flag("all"), [1.0, 1.0, 1.01])]
    write_tallies(tallies, tmp_path)
    async with visiting(str(tmp_path)) as client:
        for path in ("/", "/metric/nobody", "/metric/all"):
            page = await text_of(client, path)
            assert not re.search(r"[-−]\d[\d.]* (to [\d.]+ )?%", words(page)), path
            assert not re.search(r'(?:width|x1|x2|cx)="(?:-|1\d\d\.\d*[1-9])', page), path
            assert all(float(number) <= 100 for number in re.findall(r"([\d.]+) %", words(page))), path


async def test_below_the_detection_limit_there_is_a_box_and_no_estimate_and_only_for_answers(tmp_path) -> None:
    """Who gave no answer is known less well than an answer, so the limit says nothing of them."""
    async with visiting(*write_samples(tmp_path), candidates=[*CANDIDATES, "https://nobody.example/"]) as client:
        page = await text_of(client, "/metric/homepage")
    row = re.search(r'<tr class="under"><th scope="row" title="https://nobody.example/">.*?</tr>', page)
    assert row
    assert 'class="limit"' in row[0]
    assert re.search(r"<td>&lt; [\d.]+.%</td>", row[0])
    absent = re.search(r'<tr><th scope="row" title="no answer">.*?</tr>', page)
    assert absent
    assert 'class="whisker"' in absent[0]


async def test_what_changed_is_told_after_correction_for_all_metrics_and_the_rest_in_the_exact_words(tmp_path) -> None:
    """A change that one metric alone would call significant is none among many; a large one is."""
    rng = np.random.default_rng(4)
    tallies = [counted(flag(f"still_{i}"), list(0.5 + rng.normal(0, 1e-4, 3))) for i in range(7)]
    write_tallies([*tallies, counted(flag("moved"), [0.5, 0.5, 0.6])], tmp_path)
    async with visiting(str(tmp_path)) as client:
        page = words(await text_of(client, "/"))
    assert re.search(
        r"What changed this week moved Up 10\.\d points to 6\d(\.\d)? %\. Look closer at moved 7 other", page
    )
    assert "No significant change. A change is called significant at 5 %, corrected for 8 metrics." in page
    assert page.count("No significant change since last week") == 7


def test_the_more_metrics_the_surer_a_change_must_be() -> None:
    from hubbub.analysis import decode

    metric = flag("it")
    before, after = (decode(counted(metric, [share])) for share in (0.5, 0.527))
    alone, among = (change(before, after, "since last week", metrics=number) for number in (1, 100))
    assert (alone.sign, among.sign) == ("▲", "")
    assert among.words == "No significant change since last week"


async def test_choices_stay_in_the_address_from_the_overview_to_a_metric(tmp_path) -> None:
    segments = [(("platform", name),) for name in ("linux", "macos")]
    write_tallies([counted(flag("it", segment), [0.5] * 5) for segment in segments], tmp_path)
    async with visiting(str(tmp_path)) as client:
        page = await text_of(client, "/?epoch=last-4&only.platform=linux")
        wrong = words(await text_of(client, "/?only.platform=amiga", 400))
    assert 'href="/metric/it?epoch=last-4&amp;only.platform=linux"' in page
    assert '<option value="last-4" selected>' in page
    assert '<option value="linux" selected>' in page
    assert "80,000 reports" in words(page)
    assert "only.platform must be one of linux, macos, got 'amiga'" in wrong


async def test_strange_values_and_64_segments_are_shown_whole(tmp_path) -> None:
    shape = Choice(choices=STRANGE)
    noise = shape.best_noise(Fraction(2), Fraction(4))
    tallies = []
    for number in range(64):
        segment = (("build", f"{STRANGE[number % 5][:40]} {number}"),)
        metric = Definition(name="odd", every="week", shape=shape, noise=noise, segment=segment)
        width = metric.shape.width(0)
        ones = tuple(4000 - 300 * i for i in range(width))
        tallies.append(Tally(metric, {2960: Counts((sum(ones),), (ones,))}))
    write_tallies(tallies, tmp_path)
    async with visiting(str(tmp_path)) as client:
        page, overview = words(await text_of(client, "/metric/odd")), words(await text_of(client, "/"))
    for value in STRANGE[:3]:
        shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in value)
        assert shown in page
        assert shown in overview
    assert "52 more in the table." in page


async def test_an_overview_of_eight_metrics_weighs_less_than_80_kb(tmp_path) -> None:
    """Page, style and script together, uncompressed; 13 weeks, three platforms, two releases."""
    segments = [(("platform", p), ("release", r)) for p in ("linux", "macos", "windows") for r in ("2.0", "2.1")]
    tallies = [counted(flag(f"metric_{i}", segment), [0.5] * 13) for i in range(8) for segment in segments]
    write_tallies(tallies, tmp_path)
    async with visiting(str(tmp_path)) as client:
        page = await text_of(client, "/")
    assert page.count('class="card"') == 8
    static = files("hubbub.dashboard") / "static"
    own = sum(len((static / name).read_bytes()) for name in ("page.css", "page.js", "icon.svg"))
    assert len(page.encode()) + own < 80_000
    assert len((static / "page.css").read_bytes()) < 12_000
