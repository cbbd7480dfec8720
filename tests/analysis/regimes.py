"""A grid of regimes: every kind, few installs and many, much noise and little, one epoch and several, and how often
what is stated holds there.

Every population holds half of the answers, with shares that fall like 1/rank; the other half nobody holds, and three in
ten did not answer. Of each population one interval is counted, each row in its turn, so that counts are binomial.

Rows are told apart by what is true of them, before anything is drawn: whether anybody holds them, because intervals of
empty rows hold more often and would hide what is wrong with the others; and whether few counts are behind them, that
is, whether the variance of the count is below 15 at the true shares (told by the estimate, those that look as if many
were are the ones that are far off). The count behind a string is that of its cells, each as far as it weighs (a cell
that a frequent string sets too hardly does), behind a mean that of its upper end, and behind a share of those who
answered that of the share of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise

import numpy as np
import pytest

from hubbub.analysis import Options, compare, decode
from hubbub.analysis.distribution import Distribution
from hubbub.analysis.estimation.cells import Cohort, PooledTally, finite_population, pool
from hubbub.analysis.estimation.detection import Rule
from hubbub.analysis.estimation.fit import cell_variance
from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.analysis.estimation.intervals import FEW, RatioVariance
from hubbub.analysis.estimation.law import Law, interval
from hubbub.analysis.estimation.shares import Samples, Shares, shares
from hubbub.analysis.estimation.tree import Levels
from hubbub.analysis.kinds.categorical import Questions, _among_answered, decode_answers
from hubbub.analysis.kinds.rows import Columns, assemble, cohorts_of, places_of
from hubbub.analysis.kinds.string import string_design
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


Class = tuple[str, str]
"""Held or empty, few counts or many."""
CLASSES: tuple[Class, ...] = (("held", "many"), ("held", "few"), ("empty", "many"), ("empty", "few"))


@dataclass
class Measured:
    """Of the intervals of each class: how many held the truth, and of how many."""

    held: Counter[Class] = field(default_factory=Counter)
    of: Counter[Class] = field(default_factory=Counter)
    populations: int = 0
    false_detections: int = 0

    def __add__(self, other: Measured) -> Measured:
        return Measured(
            self.held + other.held,
            self.of + other.of,
            self.populations + other.populations,
            self.false_detections + other.false_detections,
        )

    def __str__(self) -> str:
        seen = [
            f"{who}, {counts} counts {self.held[who, counts] / self.of[who, counts]:.3f} of {self.of[who, counts]}"
            for who, counts in CLASSES
            if self.of[who, counts]
        ]
        return "; ".join([*seen, f"falsely detected {self.false_detections / self.populations:.3f}"])


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


# --- many populations at once ---------------------------------------------------------------------------------------

AT_ONCE = 400


def side_by_side(regime: Regime, worlds: Sequence[list[Tally]]) -> Decoding:
    """Many populations decoded in one call: what `decode` does with their counts, as cohorts and answers of their own.

    Rows are those of the first population, then those of the second, and so on. Corrections for many tests are of all
    together, and not to be used.
    """
    pools, questions, options = _together(regime, worlds)
    return decode_answers(pools, questions, options)


def answered_side_by_side(regime: Regime, worlds: Sequence[list[Tally]]) -> Decoding:
    """The same of shares of those who answered. Shares of all installs are found together; then each population has
    ratios of its own."""
    pools, questions, options = _together(regime, worlds)
    every = decode_answers(pools, questions, options)
    cohorts, finite = cohorts_of(pools), finite_population(pools, regime.estimand)
    found = shares(cohorts, questions.asked, len(every), finite, places_of(pools))
    size = len(every) // len(worlds)
    names = [*map(str, range(size)), *(["absent"] if regime.kind == "histogram" else [])]  # of a choice it is the last
    beyond = [np.nan] * (len(names) - size)
    ratios = []
    for place, (part, own) in enumerate(_apart(regime, found, cohorts, size)):
        row = slice(place * size, (place + 1) * size)
        columns = {name: np.append(getattr(every, name)[row], beyond) for name in _COLUMNS}
        rows = Columns(values=names, roles=[*[ANSWER] * (len(names) - 1), ABSENT], **columns)
        ratios.append(_among_answered(rows, part, own, finite, options))
    together = Columns(
        values=[f"{place} {value}" for place, each in enumerate(ratios) for value in each.values],
        roles=[role for each in ratios for role in each.roles],
        **{name: np.concatenate([getattr(each, name) for each in ratios]) for name in _COLUMNS},
        variance=RatioVariance(
            np.concatenate([each.variance.coefficients for each in ratios], axis=1),
            np.concatenate([each.variance.step for each in ratios]),
        ),
    )
    return assemble(pools, options, together, diagnostics=every.diagnostics, noise_floor=0.0, answered_only=True)


_COLUMNS = ("estimate", "std_error", "low", "high", "p_value", "best_guess")


def _together(regime: Regime, worlds: Sequence[list[Tally]]) -> tuple[list[PooledTally], Questions, Options]:
    asked, size = _asked(regime.kind)
    pools = [_joined([pool(tallies[number]) for tallies in worlds]) for number in range(len(regime.metrics))]
    everyone = [[place * size + answer for answer in row] for place in range(len(worlds)) for row in asked]
    questions = Questions(
        values=[f"{place} {answer}" for place in range(len(worlds)) for answer in range(size)],
        roles=[ANSWER] * (size * len(worlds)),
        asked=everyone * len(pools),
        best_guess=lambda estimate, variance: np.clip(estimate, 0, 1),
        attack_gain=0.0,
    )
    # The interval of a mean is that of a sample, whichever is asked for (hubbub.analysis.kinds.mean).
    options = Options(estimand="population" if regime.kind == "mean" else regime.estimand)
    return pools, questions, options


def _apart(
    regime: Regime, found: Shares, cohorts: Sequence[Cohort], size: int
) -> Iterator[tuple[Shares, Sequence[Cohort]]]:
    """The shares of each population by themselves, and its cohorts. These stand by definition, population and place."""
    numbers = np.arange(len(cohorts)).reshape(len(regime.metrics), -1, SHAPES[regime.kind][0].num_cohorts)
    for place in range(numbers.shape[1]):
        own = numbers[:, place].ravel()
        number = np.zeros(len(cohorts), dtype=np.int64)
        number[own] = np.arange(len(own))
        cell, sample = (np.flatnonzero(each // size == place) for each in (found.answer, found.samples.answer))
        row = np.arange(place * size, (place + 1) * size)
        yield (
            replace(
                found,
                estimate=found.estimate[row],
                variance=found.variance.of(row),
                p_value=found.p_value[row],
                coefficient=found.coefficient[cell],
                answer=found.answer[cell] - row[0],
                cohort=number[found.cohort[cell]],
                samples=Samples(
                    found.samples.sample[sample] - found.samples.sample[sample].min(),
                    found.samples.answer[sample] - row[0],
                    found.samples.weight[sample],
                    found.samples.size[sample],
                ),
            ),
            [cohorts[i] for i in own],
        )


def ranges_side_by_side(regime: Regime, worlds: Sequence[list[Tally]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of ranges, a line for each population: the ends of the intervals of its cells and of `absent`, and the
    p-values of the cells. Trees are fitted one by one; their laws are searched together."""
    options = Options(estimand=regime.estimand)
    each = [distribution(regime, [pool(tally) for tally in tallies]) for tallies in worlds]
    cells = queries(each[0])
    law = Law.joined([found._law(cells) for found in each])
    share = np.concatenate([cells @ found.leaves for found in each])
    low, high = (
        end.reshape(len(worlds), -1) for end in interval(share, law.variance(), law.of_rows, options.confidence)
    )
    absent = 1 - high[:, -1], 1 - low[:, -1]
    low[:, -1], high[:, -1] = absent
    return low, high, law.p_values(share).reshape(len(worlds), -1)[:, :-1]


def distribution(regime: Regime, pools: Sequence[PooledTally]) -> Distribution:
    shape = pools[0].metric.shape
    assert isinstance(shape, Range)
    levels = Levels.of(shape.branching, [of.cohorts for of in pools])
    low, high = float(shape.low), float(shape.high)
    return Distribution.of(levels, low, high, finite_population(pools, regime.estimand), Options().confidence)


def queries(found: Distribution) -> np.ndarray:
    """Every cell, and everyone who answered."""
    edges = found.edges().tolist()
    return found.queries([*pairwise(edges), (edges[0], edges[-1])])


def _asked(kind: str) -> tuple[list[list[int]], int]:
    """Which answer each bit of each cohort asks about, and how many answers there are."""
    shape = SHAPES[kind][0]
    if isinstance(shape, Histogram):
        bits = range(shape.buckets_per_report)
        return [[shape.bucket(c, i) for i in bits] for c in range(shape.num_cohorts)], shape.num_buckets
    width = shape.width(0)
    return [list(range(width))], width


def _rows_side_by_side(kind: str) -> int:
    return SHAPES["range"][1] if kind == "range" else _asked(kind)[1]


def _joined(pools: Sequence[PooledTally]) -> PooledTally:
    return replace(pools[0], cohorts=tuple(cohort for each in pools for cohort in each.cohorts))


@dataclass(frozen=True)
class Judged:
    """Of one population: one row's interval, and which rows are detected."""

    low: float
    high: float
    detected: np.ndarray


def judged(found: Decoding, row: int) -> Judged:
    return Judged(float(found.low[row]), float(found.high[row]), found.detected)


def judged_side_by_side(
    regime: Regime, worlds: Sequence[list[Tally]], rows: Sequence[int], exclude_absent: bool
) -> list[Judged]:
    """The same of many populations. Two of them are decoded alone, too, and must come out the same."""
    if exclude_absent:
        every = _ratios(regime, worlds, rows)
    else:
        every = (_ranges if regime.kind == "range" else _answers)(regime, worlds, rows)
    for place in (0, len(worlds) - 1):
        alone = judged(decoded(regime, worlds[place], exclude_absent=exclude_absent), rows[place])
        ours = every[place]
        assert (ours.low, ours.high) == (pytest.approx(alone.low), pytest.approx(alone.high))
        assert (ours.detected == alone.detected[: len(ours.detected)]).all()
    return every


def _ranges(regime: Regime, worlds: Sequence[list[Tally]], rows: Sequence[int]) -> list[Judged]:
    low, high, p_value = ranges_side_by_side(regime, worlds)
    seen = p_value <= Rule(p_value.shape[1], Options().alpha).level
    return [Judged(float(low[i, row]), float(high[i, row]), seen[i]) for i, row in enumerate(rows)]


def _answers(regime: Regime, worlds: Sequence[list[Tally]], rows: Sequence[int]) -> list[Judged]:
    found, size = side_by_side(regime, worlds), _asked(regime.kind)[1]
    is_mean = regime.kind == "mean"
    low, high = (np.clip(end, 0, 1) if is_mean else end for end in (found.low, found.high))
    tests = size - (regime.kind == "choice")  # that somebody did not answer is no discovery
    seen = (found.p_value <= Rule(tests, 1 - found.confidence).level) & (not is_mean)
    every = []
    for place, row in enumerate(rows):
        mine = place * size + row
        own = seen[place * size : place * size + tests]
        every.append(Judged(float(low[mine]), float(high[mine]), own))
    return every


def _ratios(regime: Regime, worlds: Sequence[list[Tally]], rows: Sequence[int]) -> list[Judged]:
    found = answered_side_by_side(regime, worlds)
    size = len(found) // len(worlds)
    seen = (found.p_value <= Rule(size, 1 - found.confidence).level).reshape(len(worlds), size)
    mine = np.arange(len(worlds)) * size + rows
    return [Judged(*each) for each in zip(found.low[mine].tolist(), found.high[mine].tolist(), seen, strict=True)]


# --- what is measured -----------------------------------------------------------------------------------------------


def rests_on_few(regime: Regime, tallies: list[Tally], truth: np.ndarray) -> np.ndarray:
    """Of each row, whether the count behind it has a variance below 15 where these are the shares of all installs.
    Only the sizes of cohorts are taken from the tallies."""
    pools = [pool(tally) for tally in tallies]
    if regime.kind == "string":
        design, gain = string_design(pools, digests(TEXTS)), pools[0].cohorts[0].noise.gain
        weight = np.where(design.observed, 1 / cell_variance(design, design.scatter(truth[:-1])), 0.0)
        moved = weight * design.sampling / gain  # by one install, times the sum of the weights
        cells = design.offset[:, np.newaxis] + design.positions
        own = weight[cells].sum(axis=0) / moved[cells].max(axis=0) ** 2
        return np.append(own, np.sum((design.sampling[design.observed] / gain) ** -2 / weight[design.observed])) < FEW
    if regime.kind == "range":
        found = distribution(regime, pools)
        of_answered = found._law(queries(found)).variance()
        few = of_answered.rests_on_few(np.append(truth[:-1], 1 - truth[-1]))
        return np.asarray(few)
    if regime.kind == "mean":
        return shares(cohorts_of(pools), [[0]] * len(pools), 1, 0.0, places_of(pools)).variance.rests_on_few(truth)
    variance = decoded(regime, tallies).variance
    assert variance is not None
    return variance.rests_on_few(truth)


def measure(regime: Regime, populations: int, *, exclude_absent: bool = False) -> Measured:
    rng = np.random.default_rng(regime.seed)
    result = Measured(populations=populations)
    for start in range(0, populations, AT_ONCE):
        crowds = [crowd(regime, rng) for _ in range(min(AT_ONCE, populations - start))]
        truths = [_truth(regime, counts, exclude_absent) for counts in crowds]
        rows = [(start + i) % len(truth) for i, truth in enumerate(truths)]
        worlds = [tallies_of(regime, counts, rng) for counts in crowds]
        few = rests_on_few(regime, worlds[0], _truth(regime, crowds[0], False))
        every = _judged_all(regime, worlds, rows, exclude_absent)
        for truth, row, found in zip(truths, rows, every, strict=True):
            sort = ("held" if truth[row] > 0 else "empty", "few" if few[row] else "many")
            result.of[sort] += 1
            result.held[sort] += found.low - 1e-9 <= truth[row] <= found.high + 1e-9
            tested = min(len(truth), len(found.detected))
            result.false_detections += bool((found.detected[:tested] & (truth[:tested] == 0)).any())
    return result


def _truth(regime: Regime, counts: np.ndarray, exclude_absent: bool) -> np.ndarray:
    truth = counts / counts.sum() if regime.estimand == "reporting" else probabilities(regime.kind)
    truth = truth[1:] if len(truth) == 2 else truth
    return truth[:-1] / truth[:-1].sum() if exclude_absent else truth


def _judged_all(
    regime: Regime, worlds: Sequence[list[Tally]], rows: Sequence[int], exclude_absent: bool
) -> list[Judged]:
    """Side by side where that can be done: strings are decoded one by one, as are ranges among those who answered and
    what a histogram has no bit for."""
    size = 0 if _one_by_one(regime, exclude_absent) else _rows_side_by_side(regime.kind)
    found = {
        i: judged(decoded(regime, worlds[i], exclude_absent=exclude_absent), row)
        for i, row in enumerate(rows)
        if row >= size
    }
    together = [i for i in range(len(rows)) if i not in found]
    if together:
        some = judged_side_by_side(regime, [worlds[i] for i in together], [rows[i] for i in together], exclude_absent)
        found |= dict(zip(together, some, strict=True))
    return [found[i] for i in range(len(rows))]


def _one_by_one(regime: Regime, exclude_absent: bool) -> bool:
    return regime.kind == "string" or (exclude_absent and regime.kind == "range")


def changes(regime: Regime, pairs: int, times: int = 1) -> int:
    """Two crowds that hold the same, the one before so many `times` as large: how often a row, each in its turn, is
    said to have changed, tested by itself."""
    rng = np.random.default_rng([*regime.seed, times])
    sizes = replace(regime, installs=times * regime.installs), regime
    sides = [[tallies_of(size, crowd(size, rng), rng) for _ in range(pairs)] for size in sizes]
    if regime.kind in ONE_BY_ONE:
        both = zip(*([decoded(regime, tallies) for tallies in side] for side in sides), strict=True)
        return sum(bool(compare(*pair).p_value[i % SHAPES[regime.kind][1]] <= 0.05) for i, pair in enumerate(both))
    size = _asked(regime.kind)[1]
    rows = np.arange(pairs) % size
    p_value = compare(*(side_by_side(regime, side) for side in sides)).p_value[np.arange(pairs) * size + rows]
    alone = compare(*(decoded(regime, side[-1]) for side in sides)).p_value[rows[-1]]
    assert p_value[-1] == pytest.approx(alone)
    return int((p_value <= 0.05).sum())


def changes_among_answered(regime: Regime, pairs: int) -> np.ndarray:
    """The same of shares of those who answered: for each row how often it is said to have changed, tested by itself."""
    rng = np.random.default_rng([*regime.seed, 2])
    both = [[tallies_of(regime, crowd(regime, rng), rng) for _ in range(2)] for _ in range(pairs)]
    if _one_by_one(regime, exclude_absent=True):
        alone = [[decoded(regime, tallies, exclude_absent=True) for tallies in pair] for pair in both]
        p_value = np.array([compare(*pair).p_value for pair in alone])
    else:
        sides = (answered_side_by_side(regime, side) for side in zip(*both, strict=True))
        p_value = compare(*sides).p_value.reshape(pairs, -1)
        last = compare(*(decoded(regime, tallies, exclude_absent=True) for tallies in both[-1]))
        assert p_value[-1] == pytest.approx(last.p_value, nan_ok=True)
    with np.errstate(invalid="ignore"):  # nobody seems to have answered
        return np.asarray((p_value <= 0.05).sum(axis=0))
