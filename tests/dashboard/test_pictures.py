"""The pictures in docs/pictures: the real dashboard of a real collector. Made when asked for, by `make pictures`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from importlib.resources import files
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pytest
from playwright.sync_api import Browser

from hubbub.client.respond import respond
from hubbub.protocol.cadence import epoch_of
from hubbub.protocol.encoding import ABSENT, DITHER_BITS
from hubbub.protocol.kinds import Choice, Flag
from hubbub.protocol.metric import Definition
from hubbub.protocol.pair import Pair
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import Batch, Report
from hubbub.protocol.segments import Segment
from hubbub.protocol.tally import Tally
from hubbub.protocol.tally_files import write_tallies
from hubbub.protocol.wire import pack
from hubbub.simulations import sample_tally
from hubbub.simulations.demo.people import CANDIDATES, make_crowd
from hubbub.simulations.exact_tallies import assign_cohorts, ones_of
from hubbub.simulations.server import running_dashboard
from tests.analysis.joint_worlds import drawn, metric
from tests.dashboard import quill
from tests.dashboard.browser import running_browser, visit
from tests.dashboard.kit import REGISTRY
from tests.dashboard.test_browser import start_collector

FOLDER = os.environ.get("HUBBUB_PICTURES", "")
MOST_BYTES = 150_000
INSTALLS = 3000
METRICS = files("hubbub.simulations.demo") / "metrics.toml"
PLATFORMS = {"linux": 0.25, "macos": 0.25, "windows": 0.5}
PICTURES = {
    "dashboard-overview": ("/", "light", 1440, 1180),
    "dashboard-dark": ("/", "dark", 1440, 1180),
    "dashboard-string": ("/metric/homepage", "light", 1440, 1100),
    "dashboard-discovery": ("/metric/plugin", "light", 1440, 1100),
    "dashboard-range": ("/metric/latency", "light", 1440, 1100),
    "dashboard-narrow": ("/metric/language", "light", 375, 1180),
    "dashboard-crosstab": ("/crosstab/theme_language", "light", 1440, 1100),
    "dashboard-crosstab-narrow": ("/crosstab/theme_language", "dark", 375, 1180),
}
QUESTIONS = {
    "startup": "/metric/startup_time?by=platform",
    "exports": "/metric/exports?by=release",
    "features": "/metric/features",
}
"""What a team asks: how long a start takes by platform, exports a week by release, which features are used. No page
shows them; they are made to be looked at, whole, where the pictures of the pages are not."""
WINDOWS = {
    f"{where}-{scheme}": (scheme, width)
    for where, width in (("desktop", 1440), ("phone", 390))
    for scheme in ("light", "dark")
}

pytestmark = pytest.mark.skipif(not FOLDER, reason="pictures are made by `make pictures`")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory) -> Iterator[str]:
    """Of the demo's crowd over three days, relayed so that it takes seconds, and some rubbish that was refused."""
    folder, random = tmp_path_factory.mktemp("pictures"), Random(2026)
    (folder / "pages.txt").write_text("\n".join(CANDIDATES))
    with start_collector(folder / "collector") as collector:
        token = collector.relay_token()
        crowd = make_crowd(INSTALLS, 2026)
        cohorts = [random.getrandbits(16) for _ in range(INSTALLS)]
        for age, answers in enumerate(reversed(crowd.epochs), start=1):
            epoch = epoch_of("day", time.time() - age * 86_400)
            for metric in REGISTRY:
                reports = []
                for install, value in zip(cohorts, answers[metric.name], strict=True):
                    cohort = install % metric.shape.num_cohorts
                    given = ABSENT if value is None else value
                    mask = metric.shape.encode(given, cohort, dither=random.getrandbits(DITHER_BITS)).mask
                    reports.append(Report(metric, epoch, cohort, respond(metric, mask, cohort, random.randbytes).bits))
                body = pack(Batch.of(random.randbytes(16), reports))
                assert collector.post(body, path="/v1/relay", Authorization=f"Bearer {token}")[0] == 200
        for _ in range(7):
            collector.post(b"HUBB" + random.randbytes(60))
        options = ("--candidates", f"homepage={folder / 'pages.txt'}")
        source = [f"http://127.0.0.1:{collector.port}"]
        with running_dashboard(source, folder, *options, token=collector.token) as url:
            yield url


@pytest.fixture(scope="module")
def of_pairs(tmp_path_factory) -> Iterator[str]:
    """Of a pair of 120,000 installs: relayed reports, as those above, are counted in no pair."""
    folder: Path = tmp_path_factory.mktemp("pairs")
    languages = Choice(choices=("c", "go", "javascript", "python"), absent="c")
    pair = Pair("theme_language", (metric("dark_theme", Flag(), 2, 4), metric("language", languages, 2, 4)))
    installs = [[22_000, 3_000, 21_000, 14_000], [9_000, 12_000, 16_000, 23_000]]
    rng = np.random.default_rng(2026)
    tallies = [
        drawn(pair, np.array(installs), rng, (2966,)),
        sample_tally(pair.metrics[0], [120_000], [[60_000]], rng, (2966,)),
    ]
    for tally in tallies:
        (folder / f"{tally.metric.name}.json").write_text(tally.to_json())
    with running_dashboard([str(folder)], folder) as url:
        yield url


@pytest.fixture(scope="module")
def of_quill(tmp_path_factory) -> Iterator[str]:
    """Of an editor whose plug-ins nobody listed."""
    folder: Path = tmp_path_factory.mktemp("quill")
    write_tallies(quill.tallies("plugin", weeks=1)["plugin"], folder)
    with running_dashboard([str(folder)], folder) as url:
        yield url


@pytest.fixture(scope="module")
def of_questions(tmp_path_factory) -> Iterator[str]:
    """Of the demo's app as a team would ship it, weekly: eight weeks of 48,000 installs, of which windows starts more
    slowly, and release 2.1, which takes over, has a better menu for exports."""
    folder: Path = tmp_path_factory.mktemp("questions")
    asked = Registry.parse(METRICS.read_text(encoding="utf-8").replace('every = "day"', 'every = "week"'))
    rng, newest = np.random.default_rng(2026), epoch_of("week", time.time()) - 1
    for name in ("startup_time", "exports", "features"):
        found: dict[Segment, Tally] = {}
        for week, (platform, part), new in product(range(8), PLATFORMS.items(), (False, True)):
            segment = (("platform", platform), ("release", "2.1" if new else "2.0"))
            of_release = (week + 1) / 9 if new else (8 - week) / 9
            tally = _of_week(asked[name].in_segment(segment), round(48_000 * part * of_release), rng, newest - 7 + week)
            found[segment] = found[segment] + tally if segment in found else tally
        write_tallies(list(found.values()), folder)
    with running_dashboard([str(folder)], folder) as url:
        yield url


def _of_week(metric: Definition, installs: int, rng: np.random.Generator, week: int) -> Tally:
    where, cohorts = dict(metric.segment), metric.shape.num_cohorts
    start = {"linux": 0.17, "macos": 0.15, "windows": 0.24}[where["platform"]]
    shares = {
        "startup_time": [1 - start, start],
        "exports": [0.5, 0.3, 0.17, 0.03] if where["release"] == "2.1" else [0.62, 0.25, 0.11, 0.02],
        "features": [0.52, 0.31, 0.22, 0.06, 0.004],
    }[metric.name]
    held = np.round(installs * np.array([*shares, *([0.0] if metric.name == "exports" else [])])).astype(int)
    if metric.kind == "set":
        totals = np.full(cohorts, installs // cohorts)
        by_cohort = np.round(np.outer(totals, shares)).astype(int)
    else:
        held[0] += installs - held.sum()
        by_cohort = assign_cohorts(held, cohorts, rng)
        totals = by_cohort.sum(axis=1)
    return sample_tally(metric, totals, ones_of(metric.shape, by_cohort), rng, (week,))


@pytest.mark.skipif(Path(FOLDER).name == "pictures", reason="no page shows them: HUBBUB_PICTURES=/tmp/looked-at")
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_of_a_team_fits_its_window(browser, of_questions, question: str, window: str) -> None:
    scheme, width = WINDOWS[window]
    with visit(browser, of_questions, color_scheme=scheme, viewport={"width": width, "height": 900}) as seen:
        page = seen.open(QUESTIONS[question])
        page.wait_for_timeout(300)
        Path(FOLDER).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(FOLDER, f"{question}-{window}.png")), animations="disabled", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "it scrolls sideways"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_made_and_small(request: pytest.FixtureRequest, browser, name: str) -> None:
    path, scheme, width, height = PICTURES[name]
    others = {"/crosstab/theme_language": "of_pairs", "/metric/plugin": "of_quill"}
    dashboard = request.getfixturevalue(others.get(path, "dashboard"))
    window = {"color_scheme": scheme, "viewport": {"width": width, "height": height}}
    with visit(browser, dashboard, **window, device_scale_factor=0.8 if width > 1000 else 1.0) as seen:
        page = seen.open(path)
        page.wait_for_timeout(300)
        target = Path(FOLDER, f"{name}.png")
        target.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(target), animations="disabled")
        assert target.stat().st_size < MOST_BYTES
