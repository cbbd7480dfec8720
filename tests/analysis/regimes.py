"""A grid of regimes: every kind, few installs and many, much noise and little, one epoch and several, and how often
what is stated holds there.

Every population holds half of the answers, with shares that fall like 1/rank; the other half nobody holds, and three in
ten did not answer. Of each population one interval is counted, each row in its turn, so that counts are binomial.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property

import numpy as np

from hubbub.analysis import Options, decode
from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.analysis.options import Estimand
from hubbub.analysis.result import Decoding
from hubbub.protocol.kinds import Choice, Flag, Histogram, Mean, Range, String
from hubbub.protocol.metric import Definition
from hubbub.protocol.shape import Shape
from hubbub.protocol.tally import Tally
from hubbub.simulations.exact_tallies import assign_cohorts, ones_of, sample_tally
from tests.analysis.worlds import define, zipf

SHAPES: dict[str, tuple[Shape, int]] = {
    "flag": (Flag(), 2),
    "choice": (Choice(choices=tuple(f"choice {i}" for i in range(12))), 13),
    "histogram": (Histogram(edges=tuple(map(Fraction, range(9))), buckets_per_report=2), 9),
    "range": (Range(low=Fraction(0), high=Fraction(16), num_leaves=16, branching=4), 17),
    "mean": (Mean(low=Fraction(0), high=Fraction(1), absent=Fraction(0)), 2),
    "string": (String(num_bits=16, num_hashes=1, num_cohorts=8), 13),
}
INSTALLS = (50, 200, 1_000, 20_000)
EPSILONS = ("0.1", "1", "4", "8")
HOW = ("one epoch", "four epochs", "two definitions")
ONE_BY_ONE = ("range", "string")
"""Kinds of which no two comparisons are made at once; the whole grid has fewer of them, because they take long."""
TEXTS = [f"text {i}" for i in range(12)]


@dataclass(frozen=True)
class Regime:
    kind: str
    installs: int
    epsilon: str
    estimand: Estimand
    how: str

    def __str__(self) -> str:
        return f"{self.kind}, n {self.installs}, epsilon {self.epsilon}, {self.estimand}, {self.how}"

    @property
    def seed(self) -> list[int]:
        return [16, self.installs, *str(self).encode()]

    @cached_property
    def metrics(self) -> list[Definition]:
        """The permanent epsilon is half as large again: both stages make noise. A second definition has larger ones."""
        shape, one = SHAPES[self.kind][0], Fraction(self.epsilon)
        both = [(one, one * 3 / 2), (one * 5 / 4, one * 15 / 8)]
        return [define(shape, str(a), str(b)) for a, b in both[: 2 if self.how == "two definitions" else 1]]


@cache
def _positions(kind: str) -> np.ndarray | None:
    shape = SHAPES[kind][0]
    return positions(shape, digests(TEXTS)) if isinstance(shape, String) else None


def probabilities(kind: str) -> np.ndarray:
    size = SHAPES[kind][1]
    if size == 2:
        return np.array([0.9, 0.1])
    present = (size - 1) // 2
    return np.concatenate([0.7 * zipf(present), np.zeros(size - 1 - present), [0.3]])


def crowd(regime: Regime, rng: np.random.Generator) -> np.ndarray:
    probability = probabilities(regime.kind)
    fixed = np.floor(probability * regime.installs).astype(np.int64)
    fixed[-1 if len(fixed) > 2 else 0] += regime.installs - fixed.sum()
    return fixed if regime.estimand == "reporting" else rng.multinomial(regime.installs, probability)


def tallies_of(regime: Regime, counts: np.ndarray, rng: np.random.Generator) -> list[Tally]:
    shape, where = SHAPES[regime.kind][0], _positions(regime.kind)
    people = assign_cohorts(counts, shape.num_cohorts, rng)
    ones = ones_of(shape, people) if where is None else ones_of(shape, people[:, :-1], where)
    epochs = (0, 1, 2, 3) if regime.how == "four epochs" else (0,)
    return [sample_tally(metric, people.sum(axis=1), ones, rng, epochs) for metric in regime.metrics]


def decoded(regime: Regime, tallies: list[Tally], *, exclude_absent: bool = False) -> Decoding:
    options = Options(estimand=regime.estimand, exclude_absent=exclude_absent)
    # Quantiles of a range are tested by themselves (test_distribution.py); here they would be most of the time.
    options = replace(options, quantiles=()) if regime.kind == "range" else options
    return decode(tallies, TEXTS if regime.kind == "string" else None, options)
