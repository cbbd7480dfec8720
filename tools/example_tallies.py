"""Writes examples/tallies: what a collector of examples/metrics.toml would have after four weeks of 200,000 installs;
examples/before has the week before a release.

    python tools/example_tallies.py examples

The people are made up and drawn from a seed, so the truth is known (`TRUTH` below); the noise is that of the registry,
by the exact law of `hubbub.simulations.exact_tallies`. Pages and the notebook show what an analyst finds in these
files.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.protocol.cadence import parse_epoch
from hubbub.protocol.kinds import String
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally import Tally
from hubbub.simulations.exact_tallies import assign_cohorts, ones_of, sample_tally

INSTALLS = 200_000
SEED = 2026
WEEKS = ("2026-W43", "2026-W44", "2026-W45", "2026-W46")
DAYS = {
    "before": tuple(f"2026-11-{day:02}" for day in range(1, 8)),
    "tallies": tuple(f"2026-11-{day:02}" for day in range(8, 15)),
}
_NAMES = (
    "news mail search wiki maps weather radio chess code photos video music books recipes travel bank shop forum blog "
    "calendar notes garden trains cinema museum library school city sports stars"
)
PAGES = [f"https://{name}.example/" for name in _NAMES.split()]
HELD = 24  # so many of the pages are anybody's homepage; the rest of the list is guesses
UNLISTED = [f"https://home-{i}.example/" for i in range(300)]  # homepages that are on no list

TRUTH = {
    "dark_theme": {"2026-W43": 0.56, "2026-W44": 0.57, "2026-W45": 0.61, "2026-W46": 0.63},
    "language": {
        "c": 0.08, "go": 0.05, "java": 0.07, "javascript": 0.22, "markdown": 0.15, "python": 0.28, "rust": 0.10,
        "other": 0.03, "absent": 0.02,
    },
    "startup_time": {"before": 2.4, "tallies": 3.4},  # before and after a release, which was slower
    "file_size": [0.31, 0.34, 0.22, 0.09, 0.02, 0.02],  # the last: absent
    "latency": {"median": 14.0, "spread": 0.55},
}  # fmt: skip


def homepage_shares() -> dict[str, float]:
    """Zipf's law over the held pages, nine in ten installs; the others hold pages that are on no list."""
    weights = 1 / np.arange(1, HELD + 1)
    return dict(zip(PAGES, (0.9 * weights / weights.sum()).tolist(), strict=False))


def make(registry: Registry) -> dict[str, list[Tally]]:
    """The tallies by folder: `tallies`, and what was counted `before` the last release."""
    rng = np.random.default_rng(SEED)
    starts = {
        folder: _tally(registry["startup_time"], [1 - mean / 30, mean / 30], DAYS[folder], rng)
        for folder, mean in TRUTH["startup_time"].items()
    }
    return {"before": [starts["before"]], "tallies": [starts["tallies"], *_weeks(registry, rng)]}


def _weeks(registry: Registry, rng: np.random.Generator) -> list[Tally]:
    return [
        _add(
            _tally(registry["dark_theme"], [1 - share, share], [week], rng)
            for week, share in TRUTH["dark_theme"].items()
        ),
        _tally(registry["language"], list(TRUTH["language"].values()), WEEKS, rng),
        _homepage(registry["homepage"], rng),
        _tally(registry["file_size"], TRUTH["file_size"], WEEKS, rng),
        _tally(registry["latency"], _latency(), WEEKS, rng),
    ]


def _tally(metric: Metric, shares: list[float], epochs: Sequence[str], rng: np.random.Generator) -> Tally:
    held = rng.multinomial(INSTALLS, shares)
    by_cohort = assign_cohorts(held, metric.shape.num_cohorts, rng)
    numbers = [parse_epoch(metric.every, epoch) for epoch in epochs]
    return sample_tally(metric, by_cohort.sum(axis=1), ones_of(metric.shape, by_cohort), rng, numbers)


def _homepage(metric: Metric, rng: np.random.Generator) -> Tally:
    assert isinstance(metric.shape, String)
    shares = homepage_shares()
    texts = [*shares, *UNLISTED]
    rest = [(1 - sum(shares.values())) / len(UNLISTED)] * len(UNLISTED)
    by_cohort = assign_cohorts(rng.multinomial(INSTALLS, [*shares.values(), *rest]), metric.shape.num_cohorts, rng)
    where = positions(metric.shape, digests(texts))
    epochs = [parse_epoch(metric.every, "2026-10")]
    return sample_tally(metric, by_cohort.sum(axis=1), ones_of(metric.shape, by_cohort, where), rng, epochs)


def _latency() -> list[float]:
    """Cells of 1 ms of a log-normal law; what lies beyond 256 ms counts as the last cell."""
    from scipy.stats import lognorm

    law = lognorm(s=TRUTH["latency"]["spread"], scale=TRUTH["latency"]["median"])
    cells = np.diff(law.cdf(np.arange(257)))
    cells[-1] += 1 - cells.sum()
    return [*(0.97 * cells).tolist(), 0.03]  # three in a hundred: absent


def _add(tallies: Iterable[Tally]) -> Tally:
    first, *others = tallies
    for other in others:
        first = first + other
    return first


def main(examples: Path) -> None:
    for folder, tallies in make(Registry.load(examples / "metrics.toml")).items():
        (examples / folder).mkdir(exist_ok=True)
        for tally in tallies:
            (examples / folder / f"{tally.metric.name}.json").write_text(tally.to_json(), encoding="utf-8")
    (examples / "homepages.txt").write_text("".join(f"{page}\n" for page in PAGES), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
