"""A grid of regimes: every kind, few installs and many, much noise and little, one epoch and several, and how often
what is stated holds there.

Every population holds half of the answers, with shares that fall like 1/rank; the other half nobody holds, and three in
ten did not answer. Of each population one interval is counted, each row in its turn, so that counts are binomial; rows
are told apart by whether few counts are behind them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from hubbub.analysis import Options, compare, decode
from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.analysis.options import Estimand
from hubbub.analysis.result import ABSENT, ANSWER, Decoding
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

    @property
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


@dataclass
class Measured:
    """Of the intervals where `few` counts are behind them, and of the others: how many held the truth, of how many."""

    held_few: int = 0
    few: int = 0
    held_many: int = 0
    many: int = 0
    populations: int = 0
    false_detections: int = 0

    def add(self, held: bool, is_few: bool) -> None:
        self.few, self.held_few = self.few + is_few, self.held_few + (is_few and held)
        self.many, self.held_many = self.many + (not is_few), self.held_many + (held and not is_few)

    def __str__(self) -> str:
        few = f"few counts {self.held_few / self.few:.3f} of {self.few}, " if self.few else ""
        many = f"many {self.held_many / self.many:.3f} of {self.many}, " if self.many else ""
        return f"{few}{many}falsely detected {self.false_detections / self.populations:.3f}"


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
    """Decoded, or as it was for the same counts: those of a flag recur."""
    key = (str(regime), exclude_absent, *(tuple(tally.epochs.items()) for tally in tallies))
    if key not in _DECODED:
        if len(_DECODED) > 5_000:
            _DECODED.clear()
        options = Options(estimand=regime.estimand, exclude_absent=exclude_absent)
        _DECODED[key] = decode(tallies, TEXTS if regime.kind == "string" else None, options)
    return _DECODED[key]


_DECODED: dict[object, Decoding] = {}


def measure(regime: Regime, populations: int, *, exclude_absent: bool = False) -> Measured:
    rng = np.random.default_rng(regime.seed)
    result = Measured(populations=populations)
    for population in range(populations):
        counts = crowd(regime, rng)
        found = decoded(regime, tallies_of(regime, counts, rng), exclude_absent=exclude_absent)
        truth = counts / counts.sum() if regime.estimand == "reporting" else probabilities(regime.kind)
        truth = truth[1:] if len(truth) == 2 else truth
        if exclude_absent:
            truth = truth[:-1] / truth[:-1].sum()
        rows = [i for i, role in enumerate(found.roles) if role in (ANSWER, ABSENT)][: len(truth)] or [0]
        row = rows[population % len(rows)]
        held = bool(found.low[row] - 1e-9 <= truth[population % len(rows)] <= found.high[row] + 1e-9)
        result.add(held, _rests_on_few(found, row))
        empty = truth == 0
        result.false_detections += bool((found.detected[: len(truth)] & empty).any())
    return result


def _rests_on_few(found: Decoding, row: int) -> bool:
    return found.variance is None or bool(found.variance.rests_on_few(found.estimate)[row])


def changes(regime: Regime, pairs: int) -> int:
    """Two crowds that hold the same: how often the first row is said to have changed, tested by itself."""
    rng = np.random.default_rng([*regime.seed, 1])
    seen = 0
    for _ in range(pairs):
        sides = [decoded(regime, tallies_of(regime, crowd(regime, rng), rng)) for _ in range(2)]
        seen += bool(compare(*sides).p_value[0] <= 0.05)
    return seen
