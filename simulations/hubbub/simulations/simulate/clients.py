"""Real clients: histories that the real `Client` runs through, against a real collector, over HTTP.

The slowest of three ways to run a population, and the one the other two are held against: nothing in it knows how
answers are noised, which memo answers when, or how bits are counted. Chance is the operating system's unless a seed
is given.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from hubbub.analysis.progress import Progress
from hubbub.protocol.cadence import epoch_of, epoch_start
from hubbub.protocol.invalid import Invalid, require
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally import Tally
from hubbub.protocol.tally_files import fetch_tallies
from hubbub.protocol.vocabulary import Cadence
from hubbub.simulations.fleet import FleetRun, run_fleet
from hubbub.simulations.people.histories import AWAY, Histories, InstallCrowd
from hubbub.simulations.server import running_collector

MOST_INSTALLS = 20_000


def client_tallies(
    source: str,
    histories: Mapping[str, Histories],
    *,
    now: float | None = None,
    processes: int = 1,
    seed: int | None = None,
    progress: Progress = lambda share: None,
) -> dict[str, Tally]:
    """The tallies of a registry of one cadence whose metrics have these histories, in the epochs just before `now`.

    Install i has history i of every metric. Without `now` it is this moment: a collector takes no reports of epochs
    that are longer ago than a metric's `grace`.
    """
    registry = Registry.parse(source)
    require(_broken_rules(registry, histories))
    (every,) = {metric.every for metric in registry}
    installs, epochs = next(iter(histories.values())).answers.shape
    start = first_moment(every, epochs, time.time() if now is None else now)
    with tempfile.TemporaryDirectory(prefix="hubbub-clients-") as directory:
        metrics = Path(directory, "metrics.toml")
        metrics.write_text(source, encoding="utf-8")
        with running_collector(metrics, Path(directory, "data")) as collector:
            fleet = FleetRun(
                source=source,
                endpoint=collector.url,
                start=start,
                make_crowd=partial(InstallCrowd, histories),
                resend_every=0,
                every=every,
                seed=seed,
            )
            counts: Counter[str] = Counter()
            for done, finished in enumerate(run_fleet(fleet, installs, processes or os.cpu_count() or 1), 1):
                counts += finished
                progress(min(1.0, done * 20 / installs))
            if counts["sent"] != counts["made"]:
                raise Invalid([f"all {counts['made']} reports should have been sent, got {counts['sent']}"])
            return {tally.metric.name: tally for tally in fetch_tallies(collector.url, collector.token)}


def first_moment(every: Cadence, epochs: int, now: float) -> int:
    """When so many epochs began that are over just now."""
    return epoch_start(every, epoch_of(every, now) - epochs)


def _broken_rules(registry: Registry, histories: Mapping[str, Histories]) -> list[str]:
    first = next(iter(histories.values()))
    installs, epochs = first.answers.shape
    problems = []
    if set(histories) != {metric.name for metric in registry if not metric.shape.made_of_others}:
        problems.append(f"every metric needs its lives, got those of {', '.join(sorted(histories))}")
    if len({metric.every for metric in registry}) > 1:
        problems.append("real clients are run for metrics of one cadence, got several")
    if installs > MOST_INSTALLS:
        problems.append(f"at most {MOST_INSTALLS:,} real clients are run, got {installs:,}")
    if any((history.installs != 1).any() for history in histories.values()):
        problems.append("every real client needs a life of its own, got lives that several installs share")
    if any(((history.answers == AWAY) != (first.answers == AWAY)).any() for history in histories.values()):
        problems.append("an install that does not run answers no metric, got one that answers some")
    for metric in registry:
        if epochs > metric.grace + 1:
            problems.append(f"{metric.name}: epochs must be at most grace + 1 = {metric.grace + 1}, got {epochs}")
    return problems
