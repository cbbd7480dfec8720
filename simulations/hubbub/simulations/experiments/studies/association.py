"""Do two answers go together? Pairs of counted bits, one question for both, and an EM over raw reports.

Source: Fanti, Pihur, Erlingsson 2016 (Building a RAPPOR with the Unknown: Privacy-Preserving Learning of Associations
and Data Dictionaries, arXiv 1503.01214), section 3: the joint distribution of two variables from RAPPOR reports, by
expectation and maximisation over all raw reports. The paper's own data (app categories of a store and whether an app is
free) are not ours, and its plotted figures could not be checked here: what is reproduced is the setting, a category
and a yes or no that go together, and the rival, the EM, which is our own implementation of it and runs here alone.

Setting: 12 categories with weights 1/r, of which from 50 % (the first) to 10 % (the last) also say yes. Two metrics
with epsilon 1 each, the category as bits and the yes as one bit, whose reports are counted in pairs; a cross of all 24
cells with epsilon 2; and the EM over the same reports as the pairs, kept one by one.

Expected, and why. The unbiased table of pairs and of the cross has the variance that `hubbub.analysis` states, exactly;
the cross has several times less, because one question of 24 cells with the whole epsilon tells more than two halves.
Intervals hold the truth 95 % of the time. The test of independence finds the relation with the power of the noncentral
chi-square law. The EM gives a possible table; so does the best guess of a pair tally, from counts that lose less than a
tenth against raw reports: neither should be much better than the other. (Where an EM stops, and how far a guess is
pulled back to the possible, matters more than that tenth; no theory gives the figure, so that its range is wide.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np
import numpy.typing as npt

from hubbub.analysis import Crosstab, crosstab
from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.independence import power_of
from hubbub.analysis.estimation.joint_intervals import Joint, cells_of, event_variance
from hubbub.analysis.estimation.joint_law import CrossGroup, CrossLaw, PairGroup, PairLaw
from hubbub.analysis.kinds.factor import one_bit, one_of
from hubbub.analysis.progress import Progress
from hubbub.analysis.render.plots import Plot, Scale
from hubbub.protocol.kinds import Choice, Cross, Flag
from hubbub.protocol.metric import Definition
from hubbub.protocol.pair import Pair
from hubbub.protocol.printed import fixed_percent, plain_percent
from hubbub.protocol.shape import Factor
from hubbub.simulations.exact_tallies import sample_tally
from hubbub.simulations.experiments import bounds
from hubbub.simulations.experiments.bounds import FALSE_ALARM
from hubbub.simulations.experiments.experiment import Experiment, Prediction, Published, StudyOutput
from hubbub.simulations.experiments.pictures import (
    BLUE,
    GREEN,
    ORANGE,
    lines_and_points,
    one,
    thousands,
)
from hubbub.simulations.joint_tallies import carry_rows, pair_tally_of

CATEGORIES = 12
SHARES = 1 / np.arange(1.0, CATEGORIES + 1)
TABLE = (SHARES / SHARES.sum())[:, None] * np.stack(
    [1 - np.linspace(0.5, 0.1, CATEGORIES), np.linspace(0.5, 0.1, CATEGORIES)], axis=1
)
"""The true shares: a row for each category; no, yes."""
PAIRS, CROSS, EM = "pairs, counted", "a cross", "EM over raw reports"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    installs: tuple[int, ...] = (5_000, 20_000, 60_000)
    repeats: int = 24
    steps: int = 300  # of the EM


def metrics() -> tuple[Definition, Definition]:
    category = Choice(choices=tuple(f"category {i}" for i in range(1, CATEGORIES + 1)), absent="category 1")
    first, second = (
        Definition(name=name, every="week", shape=shape, noise=shape.best_noise(Fraction(1), Fraction(1)))
        for name, shape in (("category", category), ("paid", Flag()))
    )
    return first, second


def crossed() -> Definition:
    first, second = (Factor(name=metric.name, shape=metric.shape) for metric in metrics())
    shape = Cross(factors=(first, second))
    return Definition(name="both", every="week", shape=shape, noise=shape.best_noise(Fraction(2), Fraction(2)))


def installs_of(n: int) -> npt.NDArray[np.int64]:
    return np.asarray(np.rint(TABLE * n), dtype=np.int64)


def describe(setting: Setting) -> Mapping[str, str]:
    return {
        "people": f"{CATEGORIES} categories with weights 1/r; of the first 50 % say yes, of the last 10 %",
        "pairs": "a choice and a flag, epsilon 1 each, counted together",
        "cross": "one question of 24 cells, epsilon 2",
        "rival": f"EM over the raw reports of the pairs, {setting.steps} steps from an even table; our own code",
        "installs": ", ".join(f"{n:,}" for n in setting.installs),
        "repeats": f"{setting.repeats:,} of each",
    }


def laws() -> dict[str, PairLaw | CrossLaw]:
    """Of one report."""
    first, second = metrics()
    category, paid = one_of(first.noise, CATEGORIES), one_bit(second.noise)
    counts = np.zeros((1 + CATEGORIES, 2))
    counts[0, 0] = 1
    cell = one_of(crossed().noise, 2 * CATEGORIES)
    group = CrossGroup(np.eye(1 + 2 * CATEGORIES)[0], 1.0, cell)
    return {
        PAIRS: PairLaw([PairGroup(counts=counts, sampling=1.0, first=category, second=paid)], 1.0),
        CROSS: CrossLaw(group, (CATEGORIES, 2)),
    }


def variance(law: PairLaw | CrossLaw) -> float:
    """n times the sum of the variances of all cells, of the installs that reported."""
    joint = Joint(law, TABLE, TABLE, 1.0, np.zeros_like(TABLE))
    return float(event_variance(joint, cells_of(law.shape)).at(TABLE.ravel()).sum())


def excess(law: PairLaw | CrossLaw) -> float:
    """The noncentrality of the test with one report: D' cov^-1 D, D in contrasts of rows and columns."""
    rows, columns = TABLE.sum(axis=1), TABLE.sum(axis=0)
    apart = (TABLE - np.outer(rows, columns)).ravel()
    # Without the last row and column, which follow from the others.
    kept = (np.arange(CATEGORIES - 1)[:, None] * 2).ravel()
    centred = np.kron(np.eye(CATEGORIES) - rows[:, None], np.eye(2) - columns[:, None])
    covariance = (centred @ law.if_independent(rows, columns) @ centred.T)[np.ix_(kept, kept)]
    return float(apart[kept] @ np.linalg.solve(covariance, apart[kept]))


def predict(setting: Setting) -> Mapping[str, Prediction]:
    found = {}
    for how, law in laws().items():
        expected = variance(law)
        low, high = bounds.mean_square(expected, setting.repeats * len(setting.installs))
        found[how] = Prediction(
            what=f"n x summed squared error, {how}",
            low=low,
            high=high,
            why=f"theory {expected:.3g}, summed over 24 cells; chi-square, a run counting as one error at least",
            false_alarm=FALSE_ALARM,
        )
        few = setting.installs[0]
        likely = power_of(CATEGORIES - 1, 0.05, few * excess(law))
        low, high = bounds.share(setting.repeats, max(likely - 0.03, 0), min(likely + 0.03, 1))
        found[f"{how} seen"] = Prediction(
            what=f"runs of {few:,} installs in which the relation is found, {how}",
            low=low,
            high=high,
            why=f"noncentral chi-square: {likely:.2f}, known to 0.03 where counts are few; binomial",
            false_alarm=FALSE_ALARM,
            form=".3f",
        )
    found["coverage"] = Prediction(
        what="95 % intervals of a cell of pairs that hold the truth",
        low=bounds.share(setting.repeats * len(setting.installs), 0.95)[0],
        high=1,
        why="at least 95 % of those of one cell, which are independent; binomial",
        false_alarm=FALSE_ALARM,
        form=".3f",
    )
    found["against EM"] = Prediction(
        what="summed squared error of the best guess from pair tallies, over that of the EM",
        low=0.3,
        high=1.6,
        why="counts of pairs lose less than a tenth against raw reports; how far noise is pulled back decides the rest",
    )
    return found


def run(setting: Setting, rng: np.random.Generator, progress: Progress) -> StudyOutput:
    squares: dict[tuple[str, int], float] = {}
    guesses, covered, seen = {PAIRS: 0.0, EM: 0.0}, 0, {PAIRS: 0, CROSS: 0}
    done, trials = 0, len(setting.installs) * setting.repeats
    for n in setting.installs:
        cells = installs_of(n)
        truth = cells / cells.sum()
        for _ in range(setting.repeats):
            pairs, em = _pairs_and_em(cells, setting.steps, rng)
            asked = _cross(cells, rng)
            for how, table in ((PAIRS, pairs), (CROSS, asked)):
                squares[how, n] = squares.get((how, n), 0.0) + _square(table.cells.estimate, truth) / setting.repeats
                seen[how] += table.related and n == setting.installs[0]
            squares[EM, n] = squares.get((EM, n), 0.0) + _square(em, truth) / setting.repeats
            guesses[PAIRS] += n * _square(pairs.cells.best_guess, truth)
            guesses[EM] += n * _square(em, truth)
            covered += bool(pairs.cells.low[0, 1] <= truth[0, 1] <= pairs.cells.high[0, 1])
            done += 1
            progress(done / trials)
    theory = {how: variance(law) for how, law in laws().items()}
    figures = {how: float(np.mean([n * squares[how, n] for n in setting.installs])) for how in (PAIRS, CROSS)}
    figures |= {f"{how} seen": seen[how] / setting.repeats for how in (PAIRS, CROSS)}
    figures |= {"coverage": covered / trials, "against EM": guesses[PAIRS] / guesses[EM]}
    return StudyOutput(
        figures=figures,
        columns=("installs", *(f"{how}, error" for how in (PAIRS, CROSS, EM))),
        rows=tuple(
            (f"{n:,}", *(fixed_percent(sqrt(squares[how, n]), 2) for how in (PAIRS, CROSS, EM)))
            for n in setting.installs
        ),
        chart=_picture(setting, squares, theory),
        caption="Root of the summed squared error over all cells. Lines: theory. Points: what was found.",
        meaning=(
            "Two answers can be read together without keeping a single report. The unbiased table of pair counts has "
            f"the error that theory states, and a cross of the same epsilon {theory[PAIRS] / theory[CROSS]:.0f} times "
            "less of it squared: whoever knows the question beforehand should ask it.",
            "The EM over raw reports gains little that would need them: the best guess from counts has "
            f"{figures['against EM']:.2f} of its squared error, with intervals and a test besides. How good an EM is "
            "depends on when it is stopped: after few steps it is still near the even table from which it began.",
        ),
        published=(
            Published(
                what="the joint distribution of two variables",
                theirs="an EM over all raw reports, with an asymptotic interval from its information matrix",
                ours="counts of pairs of bits, exact variances, no raw report",
                why="for bits and categories the pair counts hold nearly all that raw reports tell",
            ),
        ),
    )


def _square(found: Array, truth: Array) -> float:
    return float(np.sum((found - truth) ** 2))


def _pairs_and_em(cells: npt.NDArray[np.int64], steps: int, rng: np.random.Generator) -> tuple[Crosstab, Array]:
    """Both from the same reports."""
    pair = Pair("both", metrics())
    first, second = np.unravel_index(np.repeat(np.arange(cells.size), cells.ravel()), cells.shape)
    sent = np.eye(CATEGORIES, dtype=bool)[first], (second == 1)[:, None]
    one, other = (carry_rows(m.noise.composed, bits, rng) for m, bits in zip(pair.metrics, sent, strict=True))
    return crosstab(pair_tally_of(pair, one, other)), _em(pair, one, other, steps)


def _em(pair: Pair, one: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_], steps: int) -> Array:
    """The table under which these reports are most likely (Dempster, Laird, Rubin 1977), as far as so many steps go."""
    (q, p), (yes, no) = ((float(x) for x in metric.noise.composed.probabilities) for metric in pair.metrics)
    chances = np.where(np.eye(CATEGORIES, dtype=bool), q, p)
    first = np.exp(one @ np.log(chances / (1 - chances)).T + np.log(1 - chances).sum(axis=1))
    second = np.where(other, [no, yes], [1 - no, 1 - yes])
    likelihood = (first[:, :, None] * second[:, None, :]).reshape(len(one), -1)
    table = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(steps):
        posterior = likelihood * table
        table = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
    return np.asarray(table.reshape(CATEGORIES, 2))


def _cross(cells: npt.NDArray[np.int64], rng: np.random.Generator) -> Crosstab:
    return crosstab(sample_tally(crossed(), [int(cells.sum())], [cells.ravel()], rng))


def _picture(setting: Setting, squares: Mapping[tuple[str, int], float], theory: Mapping[str, float]) -> Plot:
    series = {PAIRS: BLUE, CROSS: GREEN, EM: ORANGE}
    lines = {how: [(float(n), sqrt(of / n)) for n in setting.installs] for how, of in theory.items()}
    points = {how: [(float(n), sqrt(squares[how, n])) for n in setting.installs] for how in series}
    x = Scale.logarithmic(setting.installs, thousands, "installs")
    y = Scale.logarithmic([0.01, 0.1, 1.0], plain_percent, "error over all cells")
    return one(lines_and_points(lines, points, x, y, series), series)


EXPERIMENT = Experiment(
    name="association",
    title="Do two answers go together?",
    question="Can a relation between two answers be read without keeping a single report, and what does that cost?",
    source="Fanti, Pihur, Erlingsson 2016, section 3, arXiv 1503.01214; the setting is reproduced, the EM is our own, "
    "and its plots rest on data that are not public",
    full=Setting(),
    quick=Setting(installs=(3_000, 6_000), repeats=6),
    describe=describe,
    predict=predict,
    run=run,
)
