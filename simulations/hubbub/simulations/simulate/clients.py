"""Real clients: lives that are lived by the real `Client`, against a real collector, over HTTP.

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

from hubbub.protocol.cadence import epoch_of, epoch_start
from hubbub.protocol.invalid import Invalid, require
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally import Tally
from hubbub.protocol.tally_files import fetch_tallies
from hubbub.simulations.fleet import Voyage, run_fleet
from hubbub.simulations.people.histories import ABSENT, AWAY, Lives
from hubbub.simulations.population import Crowd
from hubbub.simulations.server import running_collector
from hubbub.simulations.simulate.exact import Progress

MOST_INSTALLS = 20_000


def client_tallies(
    source: str,
    lives: Mapping[str, Lives],
    *,
    now: float | None = None,
    processes: int = 1,
    seed: int | None = None,
    progress: Progress = lambda share: None,
) -> dict[str, Tally]:
    """The tallies of a registry whose metrics have these lives, all of one cadence, in the epochs just before `now`.

    Install i lives life i of every metric. Without `now` it is this moment: a collector takes no reports of epochs that
    are longer ago than a metric's `grace`.
    """
    registry = Registry.parse(source)
    require(_broken_rules(registry, lives))
    (every,) = {metric.every for metric in registry}
    installs, epochs = next(iter(lives.values())).answers.shape
    start = first_moment(every, epochs, time.time() if now is None else now)
    with tempfile.TemporaryDirectory(prefix="hubbub-clients-") as directory:
        metrics = Path(directory, "metrics.toml")
        metrics.write_text(source, encoding="utf-8")
        with running_collector(metrics, Path(directory, "data")) as collector:
            voyage = Voyage(
                source=source,
                endpoint=collector.url,
                start=start,
                make_crowd=partial(crowd_of, lives),
                resend_every=0,
                every=every,
                seed=seed,
            )
            counts: Counter[str] = Counter()
            for done, home in enumerate(run_fleet(voyage, installs, processes or os.cpu_count() or 1), 1):
                counts += home
                progress(min(1.0, done * 20 / installs))
            if counts["sent"] != counts["made"]:
                raise Invalid([f"all {counts['made']} reports should have been sent, got {counts['sent']}"])
            return {tally.metric.name: tally for tally in fetch_tallies(collector.url, collector.token)}


def first_moment(every: str, epochs: int, now: float) -> int:
    """When so many epochs began that are over just now."""
    return epoch_start(every, epoch_of(every, now) - epochs)


def crowd_of(lives: Mapping[str, Lives]) -> Crowd:
    """Every install as itself."""
    first = next(iter(lives.values()))
    epochs = range(first.num_epochs)
    return Crowd(
        tuple({name: _recorded(life, epoch) for name, life in lives.items()} for epoch in epochs),
        tuple((first.answers[:, epoch] != AWAY).tolist() for epoch in epochs),
    )


def _recorded(lives: Lives, epoch: int) -> list[object]:
    return [lives.values[answer] if answer > ABSENT else None for answer in lives.answers[:, epoch].tolist()]


def _broken_rules(registry: Registry, lives: Mapping[str, Lives]) -> list[str]:
    first = next(iter(lives.values()))
    installs, epochs = first.answers.shape
    problems = []
    if set(lives) != set(registry.metrics):
        problems.append(f"every metric needs its lives, got those of {', '.join(sorted(lives))}")
    if len({metric.every for metric in registry}) > 1:
        problems.append("real clients are run for metrics of one cadence, got several")
    if installs > MOST_INSTALLS:
        problems.append(f"at most {MOST_INSTALLS:,} real clients are run, got {installs:,}")
    if any((life.installs != 1).any() for life in lives.values()):
        problems.append("every real client needs a life of its own, got lives that several installs share")
    if any(((life.answers == AWAY) != (first.answers == AWAY)).any() for life in lives.values()):
        problems.append("an install that does not run answers no metric, got one that answers some")
    for metric in registry:
        if epochs > metric.grace + 1:
            problems.append(f"{metric.name}: epochs must be at most grace + 1 = {metric.grace + 1}, got {epochs}")
    return problems
