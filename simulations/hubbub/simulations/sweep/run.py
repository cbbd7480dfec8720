"""A grid of settings, each simulated some times: how well it does, what theory says, and the bound nobody beats.

Points are independent, so the workers of an engine share them; every point that is done is kept as a line of a file, so
that a sweep that was interrupted goes on where it was. A point's figures depend on the point alone, never on who
computes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from hubbub.analysis.engines.engine import Engine
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.metric import Metric
from hubbub.simulations.kinds import kind_class
from hubbub.simulations.people.behaviour import Behaviour
from hubbub.simulations.people.distribution import default_population, parse_population
from hubbub.simulations.simulate.run import Setting, simulate_metric
from hubbub.simulations.simulate.theory import bound

AXES = ("epsilon", "installs", "change", "bits", "cohorts", "hashes")
MOST_POINTS = 10_000
FORMAT = 1
"""Of the file of results. Raised when figures would no longer be comparable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One setting. `bits`, `cohorts` and `hashes` are 0 for kinds whose shape has none."""

    kind: str
    epsilon: float
    permanent: float
    installs: int
    change: float = 0.0
    bits: int = 0
    cohorts: int = 0
    hashes: int = 0
    max_values: int = 3
    epochs: int = 1
    population: str = ""
    repeats: int = 5
    seed: int = 1

    @property
    def key(self) -> str:
        """What tells a point from all others, and is the same in every run."""
        return json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True)

    @property
    def metric(self) -> Metric:
        shape = kind_class(self.kind).example({"bits": self.bits, "cohorts": self.cohorts, "hashes": self.hashes})
        shape = shape.suited(Fraction(str(self.epsilon)), ())
        noise = shape.best_noise(Fraction(str(self.epsilon)), Fraction(str(self.permanent)))
        return Metric(
            name="swept",
            every="day",
            shape=shape,
            noise=noise,
            accumulate=shape.accumulations[0],
            why="To compare settings",
            owner="hubbub sweep",
            expires=date(2100, 1, 1),
            max_values=min(self.max_values, shape.most_slots),
        )

    def setting(self) -> Setting:
        metric = self.metric
        given, shape = self.population, metric.shape
        return Setting(
            metric=metric,
            people=parse_population(shape, given) if given else default_population(shape),
            behaviour=Behaviour(change=self.change),
            installs=self.installs,
            epochs=self.epochs,
        )


def grid(common: Point, axes: dict[str, Sequence[float]]) -> list[Point]:
    """Every combination of the values of these axes; each is checked before any is run."""
    names = list(axes)
    combinations = list(product(*axes.values()))
    if len(combinations) > MOST_POINTS:
        raise Invalid([f"a sweep must have at most {MOST_POINTS:,} points, got {len(combinations):,}"])
    whole = {"installs", "bits", "cohorts", "hashes"}
    points = []
    for values in combinations:
        given: dict[str, Any] = {n: int(v) if n in whole else float(v) for n, v in zip(names, values, strict=True)}
        point = replace(common, **given)
        point = replace(point, permanent=max(point.permanent, point.epsilon))
        try:
            point.setting()
        except Invalid as error:
            said = ", ".join(f"{name} {value:g}" for name, value in given.items())
            raise Invalid([f"{said}: {problem}" for problem in error.problems]) from None
        points.append(point)
    return points


def measure(point: Point) -> dict[str, Any]:
    """Simulate a point as often as it asks; errors are root mean squares, all else averages."""
    setting = point.setting()
    cards = [simulate_metric(setting, point.seed + 1000 * number).card for number in range(point.repeats)]
    installs = cards[0].reports / max(cards[0].epochs, 1)

    def average(name: str) -> float:
        return float(np.mean([getattr(card, name) for card in cards]))

    return {
        "error": float(np.sqrt(np.mean([card.error**2 for card in cards]))),
        "theory": float(np.sqrt(np.mean([card.theory**2 for card in cards]))),
        "bound": bound(setting.metric, installs, point.epochs),
        **{name: average(name) for name in ("found", "missed", "false", "distance", "coverage", "stale")},
    }


Figures = dict[str, Any]
"""A point and its figures, side by side."""


def run(points: Sequence[Point], engine: Engine, results: Path | None) -> Iterator[tuple[Point, Figures, bool]]:
    """Yields every point with its figures, and whether it was known before: those that were come first."""
    known = _read(results) if results else {}
    for point in points:
        if point.key in known:
            yield point, known[point.key], True
    left = [point for point in dict.fromkeys(points) if point.key not in known]
    for point, figures in zip(left, engine.map(measure, left), strict=True):
        if results:
            _append(results, point, figures)
        yield point, figures, False


def _read(path: Path) -> dict[str, Figures]:
    """Points done before. A line torn by a crash is a point not done."""
    found: dict[str, Figures] = {}
    if not path.exists():
        return found
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
            found[json.dumps(row["point"], sort_keys=True)] = row["figures"]
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _append(path: Path, point: Point, figures: Figures) -> None:
    line = json.dumps({"point": json.loads(point.key), "figures": figures})
    with path.open("ab+") as file:
        file.seek(0, os.SEEK_END)
        torn = file.tell() > 0 and not _ends_whole(file)
        file.write((b"\n" if torn else b"") + line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _ends_whole(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")
