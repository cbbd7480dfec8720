"""Whom the demo makes up: users of an editor, what each of them does, and on which platform and release.

All of it is drawn from one seed, so that processes which share the work need not be told anybody's answers.
"""

from __future__ import annotations

from importlib.resources import files
from itertools import product
from math import prod

import numpy as np

from hubbub.client import Registry
from hubbub.simulations.people.behaviour import Behaviour
from hubbub.simulations.people.distribution import Distribution, parse_population, weighted_values
from hubbub.simulations.people.histories import InstallCrowd, draw_crowd, one_crowd

DAYS = 3
PAGES = [f"https://{name}.example/" for name in ("news", "mail", "search", "wiki", "maps", "weather", "radio", "chess")]
CANDIDATES = [*PAGES, "https://nobody.example/", "https://nowhere.example/"]

PLATFORMS = {"linux": 30, "macos": 20, "windows": 50}
RELEASES = {"2.0": 40, "2.1": 60}
"""How the installs divide: so many of a hundred, the one whatever the other."""

POPULATIONS = {"file_size": "lognormal:12,1.6", "latency": "lognormal:14,0.55"}
LANGUAGES = {"python": 34, "javascript": 26, "markdown": 18, "rust": 12, "other": 10}
DARK = 62
"""How many of a hundred."""

WRITERS = 35
"""So many of a hundred write texts and no programs: what they use differs, and nobody tells who is one."""
DARK_OF_WRITERS = 40
LANGUAGES_OF_WRITERS = {"python": 20, "javascript": 20, "markdown": 40, "rust": 6, "other": 14}
FEATURES = {"multi_cursor": 0.55, "spell_check": 0.40, "split_view": 0.30, "macros": 0.15, "vim_keys": 0.08}
"""Which part of all installs uses each."""

STARTUP_SECONDS = {"linux": 1.6, "macos": 2.2, "windows": 3.6}
"""The median of a start, by platform."""

EXPORTS = {"2.0": {0: 55, 1: 25, 4: 15, 12: 5}, "2.1": {0: 25, 1: 25, 4: 35, 12: 15}}
"""How many of a hundred export so often a day, by release: 2.1 has a new menu for it."""

BEHAVIOURS = {
    "language": Behaviour(absent=0.1),
    "startup_time": Behaviour(change=1.0),
    "exports": Behaviour(change=1.0),
}


def demo_registry() -> Registry:
    return Registry.parse(files("hubbub.simulations.demo").joinpath("metrics.toml").read_text(encoding="utf-8"))


def make_crowd(installs: int, seed: int) -> InstallCrowd:
    """The same people for the same seed, whoever asks."""
    rng = np.random.default_rng(seed)
    groups = list(product(PLATFORMS, RELEASES, (True, False)))
    shares = np.array(
        [PLATFORMS[platform] * RELEASES[release] * _of(WRITERS, writes) for platform, release, writes in groups],
        dtype=np.float64,
    )
    sizes = rng.multinomial(installs, shares / shares.sum()).tolist()
    crowds = [
        ({"platform": platform, "release": release}, draw_crowd(_people(platform, release, writes), size, DAYS, rng))
        for (platform, release, writes), size in zip(groups, sizes, strict=True)
        if size
    ]
    return one_crowd(crowds).shuffled(rng)  # or one platform would report after the other


def _of(share: int, inside: bool) -> int:
    return share if inside else 100 - share


def _rest(whole: float, part: float) -> float:
    """What programmers have, if all have `whole` and writers `part`, each of a hundred."""
    return (100 * whole - WRITERS * part) / (100 - WRITERS)


def _people(platform: str, release: str, writes: bool) -> dict[str, tuple[Distribution, Behaviour]]:
    registry = demo_registry()
    exports = EXPORTS[release]
    dark = DARK_OF_WRITERS if writes else _rest(DARK, DARK_OF_WRITERS)
    programming = {language: _rest(share, LANGUAGES_OF_WRITERS[language]) for language, share in LANGUAGES.items()}
    languages = LANGUAGES_OF_WRITERS if writes else programming
    populations = {
        "dark_theme": parse_population(registry["dark_theme"].shape, f"share:{dark}%"),
        "language": weighted_values(list(languages), list(languages.values()), "by weight", numeric=False),
        "homepage": weighted_values(PAGES, np.arange(1, len(PAGES) + 1) ** -0.9, "zipf:0.9", numeric=False),
        "startup_time": parse_population(registry["startup_time"].shape, f"lognormal:{STARTUP_SECONDS[platform]},0.4"),
        "exports": weighted_values(list(exports), list(exports.values()), "by weight", numeric=True),
        "features": _uses(FEATURES),
        **{name: parse_population(registry[name].shape, text) for name, text in POPULATIONS.items()},
    }
    return {name: (populations[name], BEHAVIOURS.get(name, Behaviour())) for name in registry.metrics}


def _uses(shares: dict[str, float]) -> Distribution:
    """Every set of items with its share, if nobody's use of one says anything of the others."""
    sets, weights = [], []
    for uses in product((True, False), repeat=len(shares)):
        chosen = dict(zip(shares, uses, strict=True))
        sets.append(frozenset(item for item, used in chosen.items() if used))
        weights.append(prod(shares[item] if used else 1 - shares[item] for item, used in chosen.items()))
    return weighted_values(sets, weights, "each item by its share", numeric=False)
