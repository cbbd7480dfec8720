"""The pictures in docs/pictures: the real dashboard of a real collector. Made when asked for, by `make pictures`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
from playwright.sync_api import Browser

from hubbub.client.respond import respond
from hubbub.protocol.cadence import epoch_of
from hubbub.protocol.encoding import ABSENT, DITHER_BITS
from hubbub.protocol.kinds import Choice, Flag
from hubbub.protocol.pair import Pair
from hubbub.protocol.report import Batch, Report
from hubbub.protocol.tally_files import write_tallies
from hubbub.protocol.wire import pack
from hubbub.simulations import sample_tally
from hubbub.simulations.demo.people import CANDIDATES, make_crowd
from hubbub.simulations.server import running_dashboard
from tests.analysis.joint_worlds import drawn, metric
from tests.dashboard import quill
from tests.dashboard.browser import running_browser, visit
from tests.dashboard.kit import REGISTRY
from tests.dashboard.test_browser import start_collector

FOLDER = os.environ.get("HUBBUB_PICTURES", "")
MOST_BYTES = 150_000
INSTALLS = 3000
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
