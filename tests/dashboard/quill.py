"""Quill, an editor whose every kind of metric has been counted for thirteen weeks by platform and release: the world in
which pages are looked at, by machines and by people. In it starts became slower in the newest week, with release 3.2 on
Windows and nowhere else, and printing was used half as much as before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
from aiohttp import web
from scipy.stats import norm

from hubbub.protocol.cadence import epoch_of
from hubbub.protocol.metric import Definition
from hubbub.protocol.pair import PairTally
from hubbub.protocol.registry import Registry
from hubbub.protocol.segments import Segment
from hubbub.protocol.tally import Tally
from hubbub.protocol.tally_files import Withheld
from hubbub.simulations.exact_tallies import assign_cohorts, ones_of, sample_tally
from hubbub.simulations.joint_tallies import sample_pair_tally
from hubbub.simulations.kinds import kind_of
from hubbub.simulations.people.histories import Histories
from hubbub.simulations.simulate.exact import history_tally
from tests.dashboard.kit import ToldCollector

REGISTRY = Registry.load(Path(__file__).with_name("quill.toml"))
LAST = epoch_of("week", datetime(2026, 11, 9, tzinfo=UTC).timestamp())
WEEKS = range(LAST - 12, LAST + 1)
PAGES = [f"https://{name}.example/" for name in ("news", "mail", "search", "wiki", "games", "weather")]
PLUGINS = ["git-blame", "spelling", "vim-keys", "minimap", "git-graph", "latex", "tables", "words"]
STARTS = {"linux": 1.75, "macos": 1.58, "windows": 2.02}
SHARES = {"linux": 0.2, "macos": 0.3, "windows": 0.5}
FIRST_WEEK = {"3.0": 0, "3.1": 4, "3.2": 9}
"""Weeks after the first in which each release came; from then on it takes over."""
HEALTH = """hubbub_reports_total 384190
hubbub_batches_total{outcome="stored"} 48210
hubbub_batches_total{outcome="duplicate"} 3
hubbub_rejects_total{reason="epoch-closed"} 180
hubbub_rejects_total{reason="malformed"} 14
hubbub_disk_free_bytes 7.3e+10
"""
WITHOUT_ANSWERS = ("zoom_level", "print_pages")

LATENCIES = (np.diff(norm.cdf(np.log(np.arange(65) / 14 + 1e-9) / 0.55))).tolist()

Array = npt.NDArray[np.int64]


def on_release(week: int) -> dict[str, float]:
    """Which share runs which release, in a week counted from the first."""
    new = [1.0, *(np.clip((week - first + 1) / 5, 0, 0.9) for first in list(FIRST_WEEK.values())[1:])]
    return {"3.0": (1 - new[1]) * (1 - new[2]), "3.1": new[1] * (1 - new[2]), "3.2": new[2]}


def held(metric: Definition, installs: int, week: int, segment: Segment) -> Array:
    """How many hold each answer, as `ones_of` wants them."""
    where, newest = dict(segment), week == len(WEEKS) - 1
    slower = 0.6 if newest and (where["platform"], where["release"]) == ("windows", "3.2") else 0.0
    start = (STARTS[where["platform"]] + slower) / 5
    shares: dict[str, list[float]] = {
        "dark_theme": [0.38, 0.62] if where["platform"] != "macos" else [0.3, 0.7],
        "dedupe": [1.0, 0.0],
        "language": [0.32, 0.23, 0.16, 0.1, 0.07, 0.05, 0.03, 0.04],
        "homepage": [0.34, 0.23, 0.14, 0.1, 0.06, 0.03, 0.1],
        "plugin": [0.2, 0.15, 0.12, 0.1, 0.08, 0.06, 0.05, 0.04, 0.2],
        "startup_time": [1 - start, start],
        "file_size": [0.05, 0.37, 0.47, 0.08, 0.0, 0.03],
        "latency": LATENCIES,
        "features": [0.71, 0.38, 0.17, 0.06 if newest else 0.13, 0.08, 0.3, 0.05, 0.01],
        "plugins": [0.26, 0.43, 0.2, 0.1, 0.01],
        "crashed": [0.9, 0.1],
        "plugins_crashes": [0.24, 0.02, 0.405, 0.035, 0.175, 0.025, 0.08, 0.02, 0.0, 0.0],
    }
    counts = np.round(installs * np.array(shares[metric.name])).astype(int)
    if metric.kind != "set":  # of a set an install holds any number
        counts[int(np.argmax(counts))] += installs - counts.sum()
    return counts


def crowds() -> Iterator[tuple[int, Segment, int]]:
    """The week, platform and release, and how many installs."""
    for week in range(len(WEEKS)):
        for platform, share in SHARES.items():
            for release, part in on_release(week).items():
                if installs := round((41_000 + 600 * week) * share * part):
                    yield week, (("platform", platform), ("release", release)), installs


def counted(metric: Definition, rng: np.random.Generator) -> list[Tally]:
    """A tally for each platform and release. The noise of every week is drawn anew."""
    texts = {"homepage": PAGES, "plugin": PLUGINS}.get(metric.name)
    where = None if texts is None else kind_of(metric.shape).prepared(texts)
    found: dict[Segment, Tally] = {}
    for week, segment, installs in crowds():
        asked, cohorts = metric.in_segment(segment), metric.shape.num_cohorts
        if metric.kind == "set":
            totals = np.full(cohorts, installs // cohorts)
            by_cohort = np.array([held(metric, total, week, segment) for total in totals.tolist()])
        else:
            by_cohort = assign_cohorts(held(metric, installs, week, segment), cohorts, rng)
            totals = by_cohort.sum(axis=1)
        tally = sample_tally(asked, totals, ones_of(metric.shape, by_cohort, where), rng, (WEEKS[week],))
        found[segment] = found[segment] + tally if segment in found else tally
    return list(found.values())


def asked_by_turns(metric: Definition, rng: np.random.Generator) -> Tally:
    """What has a history, of installs that are the same for all weeks: a tenth switch it off in the seventh."""
    answers = np.ones((3, len(WEEKS)), dtype=int)
    answers[1], answers[2, 6:] = 0, 0
    return history_tally(metric, Histories((False, True), answers, np.array([30_000, 8_000, 4_000])), WEEKS, rng)


def both(rng: np.random.Generator) -> PairTally:
    """Dark themes by language, in the newest two weeks."""
    (pair,) = REGISTRY.together.values()
    light = np.array([0.10, 0.12, 0.11, 0.02, 0.02, 0.03, 0.01, 0.02])
    dark = np.array([0.22, 0.11, 0.05, 0.08, 0.05, 0.02, 0.02, 0.02])
    installs = np.round(48_000 * np.array([light, dark])).astype(int)
    masks = ([np.array([[0], [1]])], [np.eye(len(light), dtype=int)])
    return sample_pair_tally(pair, installs, masks, rng, WEEKS[-2:])


def tallies(*names: str, weeks: int = len(WEEKS), seed: int = 1) -> dict[str, list[Tally]]:
    """Of these metrics, or of all that have answers, in so many of the newest weeks."""
    rng = np.random.default_rng(seed)
    found = {
        metric.name: [asked_by_turns(metric, rng)] if metric.noise.history else counted(metric, rng)
        for metric in REGISTRY
        if metric.name not in WITHOUT_ANSWERS and (not names or metric.name in names)
    }
    return {name: [newest(tally, weeks) for tally in some] for name, some in found.items()}


def newest(tally: Tally, weeks: int) -> Tally:
    return Tally(tally.metric, {epoch: counts for epoch, counts in tally.epochs.items() if epoch > LAST - weeks})


class Quill(ToldCollector):
    """Its collector: hands out `tallies`, and says that it withholds the few reports of one metric."""

    def __init__(self, tallies: dict[str, list[Tally]], pair: PairTally) -> None:
        super().__init__({})
        self.segments, self.pair = tallies, pair
        few = REGISTRY["print_pages"]
        self.withheld = [Withheld("print_pages", few.metric_hash, LAST, 12, 20)._asdict()]

    async def answer(self, request: web.Request) -> web.Response:
        """As a collector does, with the tallies of segments and the pair."""
        if request.path == "/v1/metrics" and not self.down:
            terms = [metric.terms_to_json() for metric in REGISTRY]
            return web.json_response({"app": REGISTRY.app, "metrics": terms})
        if request.path == "/v1/pairs":
            return web.json_response({"pairs": [json.loads(self.pair.to_json())]})
        answer = await super().answer(request)
        if request.path == "/v1/tallies" and answer.status == 200:
            found = [json.loads(tally.to_json()) for each in self.segments.values() for tally in each]
            return web.json_response({"tallies": found, "withheld": self.withheld})
        if request.path == "/metrics" and answer.status == 200:
            return web.Response(text=HEALTH)
        return answer
