"""Populations whose texts nobody lists, and their tallies."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

from hubbub.protocol.kinds import Discovery
from hubbub.protocol.metric import Definition
from hubbub.protocol.tally import Tally
from hubbub.simulations.exact_tallies import assign_cohorts, ones_of, sample_tally
from hubbub.simulations.kinds import kind_of

SMALL = Discovery(discover=True, alphabet="host", max_length=4, step=2, num_bits=64, num_groups=8)
NAMES_UP_TO_18 = Discovery(discover=True, alphabet="host", max_length=18)


def package_names() -> list[str]:
    """10,000 names of packages with at most 18 letters, in an order drawn once. They are those of Debian 12 (`apt-cache
    pkgnames`); names are nobody's work, and under no licence."""
    return (Path(__file__).parent / "package_names.txt").read_text(encoding="ascii").split()


def asked(shape: Discovery, epsilon: float, permanent: float | None = None) -> Definition:
    one, kept = Fraction(epsilon), Fraction(permanent or epsilon)
    return Definition(name="plugin", every="week", shape=shape, noise=shape.best_noise(one, kept))


class Crowd:
    """Texts with Zipf's law, the first one the most common, and what their installs would leave."""

    def __init__(self, metric: Definition, texts: list[str]) -> None:
        self.metric, self.texts = metric, texts
        self._where = kind_of(metric.shape).prepared(texts)
        rank = np.arange(1, len(texts) + 1)
        self._weights = (1 / rank) / np.sum(1 / rank)

    def draw(self, installs: int, seed: int, epochs: int = 1, absent: float = 0.0) -> tuple[Tally, dict[str, float]]:
        """A tally, and the true share of each text."""
        rng = np.random.default_rng(seed)
        held = rng.multinomial(installs, [*(1 - absent) * self._weights, absent])
        by_cohort = assign_cohorts(held, self.metric.shape.num_cohorts, rng)
        ones = ones_of(self.metric.shape, by_cohort, self._where)
        tally = sample_tally(self.metric, by_cohort.sum(axis=1), ones, rng, range(epochs))
        return tally, dict(zip(self.texts, (held[:-1] / installs).tolist(), strict=True))
