"""What the dashboard's tests share: a small world of every kind, a collector that answers as told, visits."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path

import numpy as np
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.dashboard.app import make_app
from hubbub.dashboard.candidates import CandidateList
from hubbub.dashboard.poller import POLLER
from hubbub.dashboard.settings import Settings
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally import Tally
from hubbub.simulations.demo.people import CANDIDATES, PAGES
from hubbub.simulations.exact_tallies import assign_cohorts, ones_of, sample_tally

REGISTRY = Registry.load(Path(__file__).with_name("every_kind.toml"))
FIRST_DAY = 20_760  # 2026-11-03
INSTALLS = 4000
TOKEN = "a-token-that-reads"
EVERY = 0.2
LONG = 60.0  # seconds: a limit for what never comes, not a claim about time


def held(metric: Metric, rng: np.random.Generator) -> np.ndarray:
    """How many installs hold each answer, as `ones_of` wants it."""
    shares = {
        "flag": [0.38, 0.62],
        "choice": [0.31, 0.23, 0.16, 0.11, 0.09, 0.1],
        "string": (1 / np.arange(1, 9) ** 0.9).tolist(),
        "mean": [0.75, 0.25],
        "histogram": [0.1, 0.35, 0.4, 0.15],
    }.get(metric.kind)
    if shares is None:
        numbers = np.clip(rng.lognormal(np.log(14), 0.55, INSTALLS), 0, 63.9)
        return np.histogram(numbers, 64, (0, 64))[0]
    return np.round(INSTALLS * np.array(shares) / sum(shares)).astype(int)


def sample(metric: Metric, days: int, seed: int = 3) -> Tally:
    """A crowd that answers anew every day."""
    rng = np.random.default_rng(seed)
    where = positions(metric.shape, digests(PAGES)) if metric.kind == "string" else None
    tally = Tally(metric, {})
    for day in range(days):
        by_cohort = assign_cohorts(held(metric, rng), metric.shape.num_cohorts, rng)
        counted = ones_of(metric.shape, by_cohort, where)
        tally += sample_tally(metric, by_cohort.sum(axis=1), counted, rng, (FIRST_DAY + day,))
    return tally


def samples(days: int = 3) -> dict[str, Tally]:
    return {metric.name: sample(metric, days) for metric in REGISTRY}


def write_samples(folder: Path, days: int = 3) -> list[str]:
    """Tally files and `pages.txt`, the candidates; the paths of the tallies."""
    paths = []
    for name, tally in samples(days).items():
        (folder / f"{name}.json").write_text(tally.to_json())
        paths.append(str(folder / f"{name}.json"))
    (folder / "pages.txt").write_text("\n".join(CANDIDATES))
    return paths


class ToldCollector:
    """Answers as it is told: with these tallies, to this token, or not at all. Counts what it was asked."""

    def __init__(self, tallies: dict[str, Tally] | None = None) -> None:
        self.tallies = samples(2) if tallies is None else tallies
        self.token = TOKEN
        self.other_tokens: set[str] = set()
        self.down = False
        self.withheld: list[dict[str, object]] = []
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        assert "token" not in str(request.rel_url)
        if self.down:
            return web.Response(status=503)
        if request.path == "/v1/metrics":
            terms = [metric.terms_to_json() for metric in REGISTRY]
            return web.json_response({"app": REGISTRY.app, "metrics": terms})
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in {self.token, *self.other_tokens}:
            return web.Response(status=401)
        if request.path == "/metrics":
            reports = sum(tally.num_reports for tally in self.tallies.values())
            text = f'hubbub_reports_total {reports}\nhubbub_rejects_total{{reason="malformed"}} 25\n'
            return web.Response(text=text + "hubbub_disk_free_bytes 5e+10\n")
        tallies = [json.loads(tally.to_json()) for tally in self.tallies.values()]
        return web.json_response({"tallies": tallies, "withheld": self.withheld})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_route("GET", "/{path:.*}", self.answer)
        async with TestServer(app) as server:
            yield str(server.make_url("")).rstrip("/")


class Clock:
    """Stands still until it is told that time has passed."""

    def __init__(self) -> None:
        self.now = 1_793_750_400.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def visiting(
    *source: str, candidates: list[str] | None = None, read: bool = True, **settings: object
) -> AsyncIterator[TestClient]:
    """A visitor of a dashboard that has `read` its source, and does so again when `read_again` says so."""
    given = {"": CandidateList(tuple(candidates), "given")} if candidates else {}
    clock = Clock()
    app = make_app(Settings(source=source, every=EVERY, **settings), given, clock=clock)
    async with TestClient(TestServer(app)) as client:
        client.app_, client.clock = app, clock
        if read:
            await app[POLLER].refresh(LONG)
        yield client


async def read_again(client: TestClient) -> None:
    """Time passes until the source is read again; a page would wait for that only as long as a visitor does."""
    client.clock.now += EVERY
    await client.app_[POLLER].refresh(LONG)


async def text_of(client: TestClient, path: str, status: int = 200) -> str:
    """A page once nothing in it is still being decoded."""
    while True:
        answer = await client.get(path)
        text = await answer.text()
        assert answer.status == status, text
        if "data-pending" not in text.partition("<body")[2][:60]:
            return text


async def post(client: TestClient, path: str, **options: object):
    """As a form on the dashboard's own page sends it."""
    return await client.post(path, headers={"Sec-Fetch-Site": "same-origin"}, allow_redirects=False, **options)


def words(html: str) -> str:
    """What a reader sees, on one line."""
    body = re.sub(r"<(script|style|noscript)\b.*?</\1>", " ", html.partition("<body")[2], flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())
