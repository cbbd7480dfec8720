"""Small worlds whose truth is known: definitions, populations and their exact tallies, for tests and proofs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hubbub.analysis.estimation.hashing import Positions, digests, positions
from hubbub.protocol.channel import Noise
from hubbub.protocol.kinds import String
from hubbub.protocol.metric import Definition
from hubbub.protocol.noise import rappor_noise
from hubbub.protocol.shape import Shape
from hubbub.protocol.tally import Tally
from hubbub.simulations.exact_tallies import assign_cohorts, ones_of, sample_tally


def define(shape: Shape, one_report: str = "1", permanent: str = "3", noise: Noise | None = None) -> Definition:
    noise = noise or shape.best_noise(Fraction(one_report), Fraction(permanent))
    accumulate = shape.accumulations[0]
    return Definition(name="asked", every="week", shape=shape, noise=noise, accumulate=accumulate)


RAPPOR = rappor_noise(Fraction(1, 2), Fraction(1, 2), Fraction(3, 4))
"""f = 1/2, p = 1/2, q = 3/4: the noise of RAPPOR's Windows study."""


def tally_of(
    metric: Definition,
    counts: np.ndarray | list[int],
    rng: np.random.Generator,
    where: Positions | None = None,
    epochs: tuple[int, ...] = (0,),
) -> Tally:
    """So many installs hold each answer (columns as in `ones_of`); each joins a cohort and reports once an epoch."""
    by_cohort = assign_cohorts(counts, metric.shape.num_cohorts, rng)
    return sample_tally(metric, by_cohort.sum(axis=1), ones_of(metric.shape, by_cohort, where), rng, epochs)


def zipf(size: int, exponent: float = 1.0) -> np.ndarray:
    shares = 1 / np.arange(1, size + 1) ** exponent
    return shares / shares.sum()


@dataclass(frozen=True)
class Strings:
    """A string metric with texts to draw from: their positions are hashed once."""

    metric: Definition
    texts: np.ndarray
    where: Positions

    @classmethod
    def of(cls, metric: Definition, num_texts: int) -> Strings:
        assert isinstance(metric.shape, String)
        texts = [f"text {i}" for i in range(num_texts)]
        return cls(metric, np.array(texts, dtype=object), positions(metric.shape, digests(texts)))
