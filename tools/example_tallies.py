"""Writes examples/tallies: what a collector of examples/metrics.toml would have after four weeks of 200,000 installs,
its segments added up; examples/by_segment has three of these metrics for each platform and release by itself, and
examples/before the week before a release.

    python tools/example_tallies.py examples

The people are made up and drawn from a seed, so the truth is known (`TRUTH` below); the noise is that of the registry,
by the exact law of `hubbub.simulations.exact_tallies`. Pages and the notebook show what an analyst finds in these
files.
"""

import sys
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.protocol.cadence import parse_epoch
from hubbub.protocol.kinds import Set, String
from hubbub.protocol.metric import Definition, Metric
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally import Tally, undivided
from hubbub.protocol.tally_files import write_tallies
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

PLATFORMS = {"linux": 0.3, "macos": 0.2, "windows": 0.5}
RELEASES = {"2.0": 0.4, "2.1": 0.6}
BY_SEGMENT = {
    "startup_time": {"linux": 2.4, "macos": 3.0, "windows": 4.16},  # 3.4 of all
    # The last is absent: nobody, for a week in which nothing was added answers 0.
    "exports": {"2.0": [0.52, 0.27, 0.16, 0.05, 0], "2.1": [0.30, 0.31, 0.28, 0.11, 0]},
    "features": {
        "macros": 0.14, "multi_cursor": 0.47, "snippets": 0.22, "spell_check": 0.38, "split_view": 0.61,
        "terminal": 0.33, "vim_keys": 0.09, "zen_mode": 0.02,
    },
}  # fmt: skip
"""What is true of those metrics that are also shown by segment: of a platform, of a release, or of everyone."""


def homepage_shares() -> dict[str, float]:
    """Zipf's law over the held pages, nine in ten installs; the others hold pages that are on no list."""
    weights = 1 / np.arange(1, HELD + 1)
    return dict(zip(PAGES, (0.9 * weights / weights.sum()).tolist(), strict=False))


def make(registry: Registry) -> dict[str, list[Tally]]:
    """The tallies by folder: `tallies`, some of them `by_segment`, and what was counted `before` the last release."""
    rng = np.random.default_rng(SEED)
    mean = TRUTH["startup_time"]["before"]
    before = _tally(registry["startup_time"], [1 - mean / 30, mean / 30], DAYS["before"], rng)
    weeks = _weeks(registry, rng)
    apart = _by_segment(registry, rng)
    return {"before": [before], "by_segment": apart, "tallies": [*weeks, *undivided(apart)]}


def _by_segment(registry: Registry, rng: np.random.Generator) -> list[Tally]:
    found = []
    for (platform, many), (release, part) in product(PLATFORMS.items(), RELEASES.items()):
        installs = round(INSTALLS * many * part)
        mean = BY_SEGMENT["startup_time"][platform]
        starts, exports, features = (
            registry[name].in_segment((("platform", platform), ("release", release))) for name in BY_SEGMENT
        )
        found += [
            _tally(starts, [1 - mean / 30, mean / 30], DAYS["tallies"], rng, installs),
            _tally(exports, BY_SEGMENT["exports"][release], WEEKS, rng, installs),
            _features(features, rng, installs),
        ]
    return sorted(found, key=lambda tally: tally.metric.name)


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


def _tally(
    metric: Definition, shares: list[float], epochs: Sequence[str], rng: np.random.Generator, installs: int = INSTALLS
) -> Tally:
    held = rng.multinomial(installs, shares)
    by_cohort = assign_cohorts(held, metric.shape.num_cohorts, rng)
    numbers = [parse_epoch(metric.every, epoch) for epoch in epochs]
    return sample_tally(metric, by_cohort.sum(axis=1), ones_of(metric.shape, by_cohort), rng, numbers)


def _features(metric: Definition, rng: np.random.Generator, installs: int) -> Tally:
    """Who uses one item says nothing of another, and each install is asked about its cohort's alone."""
    assert isinstance(metric.shape, Set)
    sizes = rng.multinomial(installs, np.full(metric.shape.num_cohorts, 1 / metric.shape.num_cohorts))
    users = np.array([rng.binomial(size, list(BY_SEGMENT["features"].values())) for size in sizes])
    epochs = [parse_epoch(metric.every, week) for week in WEEKS]
    return sample_tally(metric, sizes, ones_of(metric.shape, users), rng, epochs)


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
        write_tallies(tallies, examples / folder)
    (examples / "homepages.txt").write_text("".join(f"{page}\n" for page in PAGES), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
