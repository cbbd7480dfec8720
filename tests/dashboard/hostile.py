"""A world in which every value that others choose was chosen by somebody who means harm, and what is wrong with a page.

Each value holds, after every way of ending what it stands in, an element `xss` and the name of the place it was put in.
Were it not escaped, a parser would find the element; were it not there, or escaped twice, the value would be missing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
from aiohttp import FormData, web
from aiohttp.test_utils import TestClient

from hubbub.protocol.kinds import Choice, Flag, Mean, String
from hubbub.protocol.metric import Definition
from hubbub.protocol.pair import Pair
from hubbub.protocol.shape import Shape
from hubbub.protocol.tally import Counts, Tally
from hubbub.simulations.joint_tallies import sample_pair_tally
from tests.dashboard.kit import TOKEN, ToldCollector, post, read_again, text_of, visiting

UNPRINTABLE = "\x1b[31m\u202egnp\u2028"


def hostile(place: str) -> str:
    return f"\"'></title></textarea></script><xss onxss=1>{place}&lt;"


def short(place: str) -> str:
    """Without quotes, where a parser of ours wants none, and short enough not to be cut."""
    return f"</script><xss onxss=1>{place}"


CHOICES = (hostile("choice"), hostile("other choice"), "#222222")
CANDIDATES = (hostile("candidate"), hostile("other candidate"), UNPRINTABLE)


def _definition(name: str, shape: Shape) -> Definition:
    return Definition(name=name, every="day", shape=shape, noise=shape.best_noise(Fraction(2), Fraction(4)))


def _tally(metric: Definition, ones: tuple[int, ...]) -> Tally:
    """Two days on which 6000 reports of each cohort had so many ones."""
    num_cohorts = metric.shape.num_cohorts
    counts = Counts((6000,) * num_cohorts, (ones,) * num_cohorts)
    return Tally(metric, {20_760: counts, 20_761: counts})


METRICS = {
    "chosen": _definition("chosen", Choice(choices=CHOICES)),
    "typed": _definition("typed", String(num_cohorts=2, num_bits=16, num_hashes=2)),
    "measured": _definition(
        "measured", Mean(low=Fraction(0), high=Fraction(10), absent=Fraction(0), unit=hostile("unit"))
    ),
}
ONES = {"chosen": (2500, 1500, 1200, 800), "typed": (2400,) * 16, "measured": (3000,)}


PAIR = Pair("both", (METRICS["chosen"], _definition("said", Flag())))
PAIR_TALLY = sample_pair_tally(
    PAIR,
    [[2000, 1000], [1500, 3000], [1000, 500], [200, 100]],
    ([np.eye(4)], [np.array([[0], [1]])]),
    np.random.default_rng(1),
    (20_761,),
)
PLATFORMS = (hostile("platform"), hostile("other platform"))


class HostileCollector(ToldCollector):
    """Says nothing that it could not say with harm in it. Told to be `unreadable`, its tallies are none."""

    def __init__(self) -> None:
        super().__init__({name: _tally(metric, ONES[name]) for name, metric in METRICS.items()})
        self.unreadable = False

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/v1/metrics":
            own = {"owner": hostile("owner"), "expires": hostile("expires"), "max_values": 4}
            terms = [{**metric.to_json(), **own, "why": hostile(f"why {name}")} for name, metric in METRICS.items()]
            return web.json_response({"app": hostile("app"), "metrics": terms})
        if request.path == "/metrics":
            reports = f"hubbub_reports_total {1 + self.unreadable}\n"  # something was counted: tallies are read again
            return web.Response(text=f'{reports}hubbub_rejects_total{{reason="{short("reason")}"}} 2\n')
        if request.path == "/v1/pairs":
            return web.json_response({"pairs": [json.loads(PAIR_TALLY.to_json())]})
        if request.path == "/v1/tallies" and self.unreadable:
            return web.json_response({"tallies": [{"format": short("words")}]})
        return await super().answer(request)


@asynccontextmanager
async def hostile_dashboard() -> AsyncIterator[tuple[TestClient, HostileCollector]]:
    """A visitor of a dashboard of such a collector."""
    collector = HostileCollector()
    async with collector.running() as url, visiting(url, token=TOKEN) as client:
        yield client, collector


def candidates_form(file_name: str, content: bytes) -> FormData:
    form = FormData(quote_fields=False)
    form.add_field("file", content, filename=file_name, content_type="text/plain")
    return form


async def hostile_pages(folder: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Every page, with the values that must stand on it."""
    pages: dict[str, tuple[str, tuple[str, ...]]] = {}
    async with hostile_dashboard() as (client, collector):
        pages["broken list"] = await upload(client, b"\xff"), (short("file"), hostile("app"))
        await upload(client, "\n".join(CANDIDATES).encode())
        everywhere = (hostile("app"),)
        whys = [hostile(f"why {name}") for name in METRICS]
        pages["overview"] = await text_of(client, "/"), (*everywhere, *whys, *CHOICES, *CANDIDATES[:2], short("reason"))
        terms = (*everywhere, hostile("owner"), hostile("expires"))
        pages["choice"] = await text_of(client, "/metric/chosen"), (*terms, whys[0], *CHOICES)
        pages["string"] = await text_of(client, "/metric/typed"), (*terms, whys[1], short("file"), *CANDIDATES[:2])
        pages["mean"] = await text_of(client, "/metric/measured"), (*terms, whys[2], hostile("unit"))
        query = "/metric/chosen?series=" + "%3C/script%3E%3Cxss%20onxss=1%3Equery"
        pages["two answers"] = await text_of(client, "/crosstab/both"), (*everywhere, *CHOICES)
        pages["two answers, turned"] = await text_of(client, "/crosstab/both?given=said"), (*everywhere, *CHOICES)
        pages["mistake"] = await text_of(client, query, 400), (*everywhere, short("query"))
        collector.unreadable = True
        await read_again(client)
        pages["stale"] = await text_of(client, "/"), (*everywhere, short("words"))
    async with visiting(*segment_files(folder)) as client:
        pages["segments"] = await text_of(client, "/metric/measured"), (*PLATFORMS, hostile("release"), hostile("unit"))
        pages["overview by segment"] = await text_of(client, "/"), (*PLATFORMS, hostile("release"), hostile("unit"))
    async with hostile_dashboard_that_asks() as client:
        answer = await post(client, "/token", data={"token": TOKEN})
        pages["token"] = await answer.text(), (short("words"),)
    path = folder / hostile("path").replace("/", "")
    path.write_text(_tally(METRICS["chosen"], ONES["chosen"]).to_json())
    async with visiting(str(path)) as client:
        pages["file"] = await text_of(client, "/metric/chosen"), (str(path), *CHOICES)
        path.unlink()
        await read_again(client)
        pages["lost file"] = await text_of(client, "/"), (f"The files cannot be read: {path}",)
    return pages


def segment_files(folder: Path) -> list[str]:
    """A mean by platform and release, on one platform larger on the second day: its page says for whom."""
    paths = []
    for place, platform in enumerate(PLATFORMS):
        for release in ("1", hostile("release")):
            metric = METRICS["measured"].in_segment((("platform", platform), ("release", release)))
            more = 800 * (place == 1 and release != "1")
            days = {20_760: Counts((6000,), ((3000,),)), 20_761: Counts((6000,), ((3000 + more,),))}
            paths.append(str(folder / f"segment-{len(paths)}.json"))
            Path(paths[-1]).write_text(Tally(metric, days).to_json())
    return paths


@asynccontextmanager
async def hostile_dashboard_that_asks() -> AsyncIterator[TestClient]:
    """It has no token yet, and the collector answers with nonsense to everyone."""
    collector = HostileCollector()
    collector.unreadable = True
    async with collector.running() as url, visiting(url) as client:
        yield client


async def upload(client: TestClient, content: bytes) -> str:
    answer = await post(client, "/metric/typed/candidates", data=candidates_form(short("file"), content))
    return await answer.text()


class _Page(HTMLParser):
    """What a parser makes of a page."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.injected: list[str] = []
        self.said: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.injected += [f"<{tag}>"] * (tag == "xss") + [name for name, _ in attrs if "xss" in name]
        self.said += [value for _, value in attrs if value]

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def problems_of(html: str, expected: Iterable[str]) -> list[str]:
    """Elements that a value made, and values that are not where they should be."""
    page = _Page(html)
    problems = list(page.injected)
    said = "\n".join(page.said)
    return problems + [f"not said: {value}" for value in expected if value not in said]
