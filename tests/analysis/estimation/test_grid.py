"""Means on a grid: each part of the variance enumerated, the most that rounding can add, intervals that cover."""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from hubbub.analysis import Options, decode
from hubbub.analysis.estimation.cells import pool
from hubbub.analysis.estimation.grid import (
    _TYPICAL_SQUARE,
    GridMeans,
    _noise,
    grid_mean,
    mean_of_places,
    means_of_places,
    most_rounding,
    weights_of,
)
from hubbub.analysis.estimation.intervals import Variance
from hubbub.analysis.estimation.mean_law import MeanLaw
from hubbub.analysis.options import ESTIMANDS
from hubbub.protocol.channel import KaryChannel
from hubbub.protocol.kinds import Mean
from hubbub.protocol.tally import Tally
from hubbub.simulations.exact_tallies import sample_tally
from tests.analysis.mean_worlds import cohorts, held
from tests.analysis.worlds import define
from tests.chance import assert_binomial, power

INSTALLS = 4_000
CASES = [("1.5", 3), ("2", 3), ("4", 5)]
PEOPLE = {
    "all between two points": lambda rng: np.full(INSTALLS, 0.375),
    "all on a point": lambda rng: np.full(INSTALLS, 0.5),
    "at both ends": lambda rng: (np.arange(INSTALLS) % 2).astype(float),
    "mostly small": lambda rng: rng.beta(2, 5, INSTALLS),
}


def mean_of(epsilon: str, points: int):
    shape = Mean(low=Fraction(0), high=Fraction(1), absent=Fraction(0), points=points)
    return define(shape, epsilon, str(2 * Fraction(epsilon)))


def tally_of_numbers(metric, numbers: np.ndarray, rng: np.random.Generator, epochs=(0,)) -> Tally:
    points = metric.shape.points
    rounded = np.floor(numbers * (points - 1) + rng.random(len(numbers))).astype(int)
    counts = np.bincount(rounded, minlength=points)
    return sample_tally(metric, [len(numbers)], [counts if points > 2 else counts[1:]], rng, epochs)


@pytest.mark.parametrize(("epsilon", "points"), CASES)
def test_both_parts_of_the_noise_are_those_of_an_enumeration(epsilon: str, points: int) -> None:
    """Every memo and every report of one install whose number was rounded to a point with some law."""
    metric, v = mean_of(epsilon, points), np.linspace(-0.5, 0.5, points)
    law = np.arange(1.0, points + 1) / np.arange(1, points + 1).sum()
    first, then = metric.noise.permanent, metric.noise.instantaneous
    assert isinstance(first, KaryChannel)
    assert isinstance(then, KaryChannel)

    def matrix(channel: KaryChannel) -> np.ndarray:
        found = np.full((points, points), float(channel.other))
        np.fill_diagonal(found, float(channel.truth))
        return found

    kept, shown = matrix(first), matrix(then)
    gain = float((first.truth - first.other) * (then.truth - then.other))
    by_memo = shown @ v / gain
    permanent = sum(
        law[sent] * kept[sent, memo] * (by_memo[memo] - v[sent]) ** 2 for sent, memo in product(range(points), repeat=2)
    )
    instantaneous = sum(
        law[sent] * kept[sent, memo] * shown[memo, named] * (v[named] / gain - by_memo[memo]) ** 2
        for sent, memo, named in product(range(points), repeat=3)
    )
    rng = np.random.default_rng(1)
    for epochs in ((0,), (0, 1, 2)):
        (cohort,) = pool(tally_of_numbers(metric, np.full(1000, 0.3), rng, epochs)).cohorts
        expected = permanent / 1000 + instantaneous / (1000 * len(epochs))
        assert _noise(cohort, v, float(law @ v**2)) == pytest.approx(expected, rel=1e-9)


def test_the_most_that_rounding_adds_is_found_by_a_general_search_as_well() -> None:
    rng = np.random.default_rng(2)
    for points in (2, 3, 4, 6):
        for _ in range(5):
            met = rng.dirichlet(np.full(points, 0.7))

            def added(up: np.ndarray, met: np.ndarray = met) -> float:
                rounded_up = np.append(np.clip(up, 0, 1) * met[1:-1], met[-1])
                down = np.concatenate([met[:1], met[1:-1] - rounded_up[:-1]])
                return -float(np.sum(down * rounded_up / np.maximum(down + rounded_up, 1e-300)))

            if points == 2:
                best = -met.prod() / met.sum()
            else:
                bounds = [(0, 1)] * (points - 2)
                best = minimize(added, np.full(points - 2, 0.5), bounds=bounds, method="L-BFGS-B", tol=1e-12).fun
            # Each is the sum of a division that there can be, so that neither is too large; the search stops early.
            assert -best - 1e-6 <= float(most_rounding(met[np.newaxis])[0]) <= -1.01 * best + 1e-6
    assert most_rounding(np.array([[0.0, 1.0, 0.0]])).tolist() == [0]
    assert most_rounding(np.array([[0.5, 0.5, 0.0]])) == pytest.approx([0.25])


@pytest.mark.parametrize(("epsilon", "points", "most"), [("2", 3, 1.17), ("4", 5, 1.42)])
def test_no_interval_is_wider_than_stated(epsilon: str, points: int, most: float) -> None:
    """Over all laws of points in eighths: the safe error over that of the noise alone, as if nothing were rounded."""
    metric, v, parts = mean_of(epsilon, points), np.linspace(-0.5, 0.5, points), 8
    (cohort,) = pool(tally_of_numbers(metric, np.full(1000, 0.5), np.random.default_rng(3))).cohorts
    worst = 0.0
    for law in product(range(parts + 1), repeat=points):
        if sum(law) == parts:
            share = np.array(law) / parts
            noise = _noise(cohort, v, float(share @ v**2)) * 1000
            worst = max(
                worst, float(np.sqrt(1 + float(most_rounding(share[np.newaxis])[0]) / (points - 1) ** 2 / noise))
            )
    assert most - 0.01 <= worst <= most


def covered(epsilon: str, points: int, people: str, estimand: str, epochs: tuple[int, ...], populations: int) -> int:
    metric = mean_of(epsilon, points)
    rng = np.random.default_rng([18, points, len(epochs), *people.encode(), *estimand.encode()])
    numbers, places = PEOPLE[people](rng), np.linspace(0, 1, points)
    return sum(
        held(means_of_places([some], places, points, estimand, 0.95), float(numbers.mean()), tally, estimand)
        for some, tally in cohorts(metric, numbers, estimand, populations, rng, len(epochs))
    )


@pytest.mark.parametrize(
    ("epsilon", "points", "people", "estimand", "epochs"),
    [
        ("4", 5, "all between two points", "reporting", (0,)),
        ("2", 3, "all between two points", "reporting", (0, 1, 2, 3)),
        ("4", 5, "mostly small", "population", (0, 1)),
    ],
)
def test_intervals_hold_the_truth(epsilon: str, points: int, people: str, estimand: str, epochs) -> None:
    """400 populations: .84 instead of .95 would show. Where all numbers lie alike between two points, or a population
    is meant, the interval is exact."""
    assert_binomial(covered(epsilon, points, people, estimand, epochs, 400), 400, 0.95)
    assert power(400, 0.95, 0.84) > 0.99


@pytest.mark.proof
@pytest.mark.parametrize("epochs", [(0,), (0, 1, 2, 3)], ids=["one epoch", "four epochs"])
@pytest.mark.parametrize("estimand", ESTIMANDS)
@pytest.mark.parametrize("people", PEOPLE)
@pytest.mark.parametrize(("epsilon", "points"), CASES)
def test_intervals_of_ten_thousand_populations_hold_the_truth(
    epsilon, points, people, estimand, epochs, figure
) -> None:
    """95 % are not refuted: 93.2 % would be. More is allowed to the installs that reported, where rounding added less
    than it could have; and where all are on one point, since hardly anything varies there but noise, few installs are
    behind what does, and their law allows for numbers that nobody named."""
    hits = covered(epsilon, points, people, estimand, epochs, 10_000)
    what = f"epsilon {epsilon}, {points} points, {people}, {estimand}, {len(epochs)} epochs"
    figure(f"coverage of a mean on a grid, {what}", f"{hits / 10_000:.4f}")
    too_wide = (estimand == "reporting" and people != "all between two points") or people == "all on a point"
    assert_binomial(min(hits, 9_500) if too_wide else hits, 10_000, 0.95)
    assert power(10_000, 0.95, 0.932) > 0.99


def test_two_definitions_of_the_same_installs_are_sampled_once() -> None:
    """The same numbers, rounded anew, through two channels. 400 populations, as above."""
    metrics = [mean_of("3", 4), mean_of("4", 4)]
    rng = np.random.default_rng(5)
    numbers, hits = rng.beta(2, 5, INSTALLS), 0
    for _ in range(400):
        sampled = numbers[rng.integers(0, INSTALLS, INSTALLS)]
        found = decode(
            [tally_of_numbers(metric, sampled, rng) for metric in metrics], options=Options(estimand="population")
        )
        hits += bool(found.low[0] <= numbers.mean() <= found.high[0])
    assert_binomial(min(hits, 380), 400, 0.95)
    assert power(400, 0.95, 0.84) > 0.99


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "4"])
def test_a_mean_is_nearer_to_the_truth_than_with_laplace_noise(epsilon: str) -> None:
    """By its predicted error of the installs that reported, 2 / epsilon**2 being Laplace's: numbers that are mostly
    small, and the default number of points. At 4 less than a half of it."""
    plain = Mean(low=Fraction(0), high=Fraction(1), absent=Fraction(0))
    metric = define(plain.suited(Fraction(epsilon), ()), epsilon, epsilon)
    rng = np.random.default_rng(6)
    found = decode(tally_of_numbers(metric, rng.beta(2, 5, 100_000), rng))
    ours, laplace = 100_000 * float(found.std_error[0]) ** 2, 2 / float(epsilon) ** 2
    assert ours < laplace * (0.5 if epsilon == "4" else 0.65)


def test_the_sum_the_limits_and_the_notes_are_those_of_a_mean() -> None:
    shape = Mean(low=Fraction(-5), high=Fraction(30), absent=Fraction(0), points=4)
    metric = define(shape, "3", "6")
    tally = sample_tally(metric, [2_000], [[2_000, 0, 0, 0]], np.random.default_rng(7))
    found = decode(tally)
    assert -5 <= found.low[0] <= found.high[0] <= 30
    assert found.estimate[1] == pytest.approx(2_000 * found.estimate[0])
    assert found.notes[1].startswith("The interval allows for the most that rounding can add; it is at most 1.")
    assert not np.isfinite(decode(Tally(metric, {})).estimate[0])
    nothing = grid_mean(pool(Tally(metric, {})).cohorts, 4, "population", 0.95)
    assert nothing.std_error == np.inf
    of_nobody = means_of_places([], np.linspace(0, 1, 4), 4, "population", 0.95)
    assert {len(getattr(of_nobody, field.name)) for field in fields(of_nobody)} == {1}, "one row, of every field"


def test_what_is_added_to_all_places_moves_the_mean_and_changes_no_error() -> None:
    metric = mean_of("2", 3)
    found = pool(tally_of_numbers(metric, np.full(INSTALLS, 0.3), np.random.default_rng(3))).cohorts
    places = np.array([0.1, 0.3, 0.5])
    here, moved = (mean_of_places(found, at, 3, "reporting", 0.95) for at in (places, places + 0.3))
    assert moved.place - here.place == pytest.approx(0.3)
    assert moved.std_error == pytest.approx(here.std_error)


def test_an_interval_by_the_law_of_few_counts_is_not_said_to_be_too_wide_by_rounding() -> None:
    """Two rows, of which one rests on few: the other stays as it was."""
    (cohort,) = pool(tally_of_numbers(mean_of("2", 3), np.full(20, 0.5), np.random.default_rng(9))).cohorts
    places, few = np.linspace(0, 1, 3), np.array([True, False])
    numbers = {"place": 0.5, "std_error": 0.1, "low": 0.3, "high": 0.7, "too_wide": 1.25}
    row = Variance(np.zeros(1), np.zeros(1), np.zeros(1))
    plain = GridMeans(
        **{key: np.full(2, number) for key, number in numbers.items()},
        few=np.zeros(2, dtype=bool),
        variances=(row, row),
    )
    law = MeanLaw(cohorts=[cohort], weight=np.ones(1), value=places, spoke=np.ones(3), points=3, estimand="reporting")
    found = plain.with_law(law, np.full((2, 3), 1 / 3), few, 0.95)
    assert found.too_wide.tolist() == [np.inf, 1.25]
    assert found.few.tolist() == [True, False]
    assert found[1] == plain[1]


def test_a_definition_counts_by_its_precision_with_the_noise_of_published_counts_in_it() -> None:
    """Weights are as one over the variance by noise, for a typical number; each point was named as often as another, so
    that the size of a cohort, which is published with noise as well, plays no part."""
    scores, known = np.linspace(-0.5, 0.5, 3), []
    for epsilon, installs, count_variance in (("1.5", 3_000, 4_000.0), ("2", 600, 900.0), ("2", 600, 0.0)):
        tally = sample_tally(mean_of(epsilon, 3), [installs], [[installs, 0, 0]], np.random.default_rng(8))
        (cohort,) = pool(tally).cohorts
        known.append(replace(cohort, ones=np.full(3, installs / 3), count_variance=count_variance))
    precision = np.array([1 / float(_noise(cohort, scores, np.array(_TYPICAL_SQUARE))) for cohort in known])
    assert weights_of(known, scores) == pytest.approx(precision / precision.sum(), rel=1e-9)
