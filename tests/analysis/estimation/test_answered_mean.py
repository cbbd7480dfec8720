"""The mean of those who answered: its variance enumerated, intervals that cover, and the sum in which silence is 0."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from hubbub.analysis import Options, compare, decode
from hubbub.analysis.estimation import answered_mean as answered
from hubbub.analysis.estimation.cells import pool
from hubbub.analysis.estimation.grid import noise_of_mean
from hubbub.analysis.kinds.mean_apart import MEAN_APART
from hubbub.analysis.options import ESTIMANDS
from hubbub.protocol.channel import KaryChannel
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Mean
from hubbub.protocol.kinds.mean import MOST_POINTS, best_points, worst_variance
from hubbub.protocol.tally import Tally
from hubbub.simulations.exact_tallies import sample_tally
from tests.analysis.mean_worlds import cohorts, held
from tests.analysis.worlds import define
from tests.chance import assert_binomial, power

INSTALLS = 4_000
CASES = [("1.5", 2), ("2", 3), ("4", 5)]
PEOPLE = {
    "all between two points, a third silent": lambda rng: _silent(np.full(INSTALLS, 0.375), 3),
    "at both ends, half silent": lambda rng: _silent((np.arange(INSTALLS) // 2 % 2).astype(float), 2),
    "mostly small, one in ten silent": lambda rng: _silent(rng.beta(2, 5, INSTALLS), 10),
}


def _silent(numbers: np.ndarray, every: int) -> np.ndarray:
    return np.where(np.arange(len(numbers)) % every == 0, np.nan, numbers)


def mean_of(epsilon: str, points: int):
    shape = Mean(low=Fraction(0), high=Fraction(1), absent="apart", points=points)
    return define(shape, epsilon, str(2 * Fraction(epsilon)))


def tally_of_numbers(metric, numbers: np.ndarray, rng: np.random.Generator, epochs=(0,)) -> Tally:
    """NaN is silence."""
    points = metric.shape.points
    spoken = numbers[~np.isnan(numbers)]
    rounded = np.floor(spoken * (points - 1) + rng.random(len(spoken))).astype(int)
    counts = np.append(np.bincount(rounded, minlength=points), len(numbers) - len(spoken))
    return sample_tally(metric, [len(numbers)], [counts], rng, epochs)


@pytest.mark.parametrize(("epsilon", "points"), CASES)
def test_the_variance_at_a_ratio_is_that_of_an_enumeration(epsilon: str, points: int) -> None:
    """Every memo and every report of one install, whose category has some law, and two thirds of which answer: n Var of
    T - r A by noise, where r is the true mean of those who answered."""
    metric = mean_of(epsilon, points)
    v, spoke = np.append(np.linspace(-0.5, 0.5, points), 0.0), np.append(np.ones(points), 0.0)
    law = np.append(2 / 3 * np.arange(1.0, points + 1) / np.arange(1, points + 1).sum(), 1 / 3)
    ratio = float(law @ v) / float(law @ spoke)
    first, then = metric.noise.permanent, metric.noise.instantaneous
    assert isinstance(first, KaryChannel)
    assert isinstance(then, KaryChannel)

    def matrix(channel: KaryChannel) -> np.ndarray:
        found = np.full((points + 1, points + 1), float(channel.other))
        np.fill_diagonal(found, float(channel.truth))
        return found

    kept, shown = matrix(first), matrix(then)
    inverse = np.linalg.inv(kept @ shown)  # what a report of a category counts as, for each category
    score = inverse @ (v - ratio * spoke)
    by_memo = shown @ score
    truth = v - ratio * spoke
    categories = range(points + 1)
    permanent = sum(
        law[sent] * kept[sent, memo] * (by_memo[memo] - truth[sent]) ** 2
        for sent, memo in product(categories, repeat=2)
    )
    instantaneous = sum(
        law[sent] * kept[sent, memo] * shown[memo, named] * (score[named] - by_memo[memo]) ** 2
        for sent, memo, named in product(categories, repeat=3)
    )
    (cohort,) = pool(tally_of_numbers(metric, np.full(1000, 0.3), np.random.default_rng(1), (0, 1))).cohorts
    scores = truth - truth.mean()
    found = noise_of_mean([cohort], np.ones(1), scores, float(law @ scores**2))
    assert found == pytest.approx(permanent / 1000 + instantaneous / 2000, rel=1e-9)
    # E[score^2] where r is true is A (m - r^2) + centre^2, which is what the module puts in.
    square = float(law @ v**2) / float(law @ spoke)
    assert float(law @ scores**2) == pytest.approx(
        float(law @ spoke) * (square - ratio**2) + float(truth.mean()) ** 2, rel=1e-9
    )
    parts = answered._Parts([cohort], np.ones(1), points, law[np.newaxis], cohort.sampling, "population")
    by_noise, by_sampling = parts.at(np.array([ratio]))
    assert by_noise[0] == pytest.approx(float(found), rel=1e-9)
    assert by_sampling[0] == pytest.approx(cohort.sampling * float(law @ truth**2), rel=1e-9)


def test_the_estimate_is_the_ratio_of_what_arrived() -> None:
    """With hardly any noise, of 3,000 installs 1,000 say 0.25 and 1,000 say 0.75 of a range from -10 to 30."""
    shape = Mean(low=Fraction(-10), high=Fraction(30), absent="apart", points=5)
    tally = sample_tally(define(shape, "16", "16"), [3_000], [[0, 1_000, 0, 1_000, 0, 1_000]], np.random.default_rng(2))
    found = decode(tally)
    assert found.values == ("mean", "sum", "absent")
    assert found.roles == ("number", "number", "absent")
    assert found.estimate == pytest.approx([10, 20_000, 1 / 3], rel=2e-3)
    assert all(
        low <= truth <= high for low, truth, high in zip(found.low, (10, 20_000, 1 / 3), found.high, strict=True)
    )
    assert found.notes[0] == (
        "The mean is of the installs that answered; the sum is over all, those that recorded nothing adding 0."
    )
    assert not found.has_shares
    assert found.of == "all"
    only = decode(tally, options=Options(exclude_absent=True))
    assert (only.values, only.of) == (("mean", "sum"), "answered")
    assert only.estimate == pytest.approx(found.estimate[:2])
    with pytest.raises(Invalid, match="must have the same of"):
        compare(found, only)


def test_where_nobody_may_have_answered_no_mean_is_excluded() -> None:
    metric = mean_of("1.5", 2)
    tally = sample_tally(metric, [500], [[0, 0, 500]], np.random.default_rng(3))
    found = decode(tally)
    assert (found.low[0], found.high[0]) == (0, 1)
    assert found.high[2] == pytest.approx(1, abs=0.2)
    nothing = decode(Tally(metric, {}))
    assert np.isnan(nothing.estimate[0])
    assert nothing.std_error[0] == np.inf


def test_definitions_with_and_without_absence_apart_are_not_stacked() -> None:
    plain = define(Mean(low=Fraction(0), high=Fraction(1), absent=Fraction(0), points=3), "2", "4")
    with pytest.raises(Invalid, match='must all be with absent = "apart", or all without it'):
        decode([Tally(mean_of("2", 3), {}), Tally(plain, {})])


def covered(epsilon: str, points: int, people: str, estimand: str, epochs: tuple[int, ...], populations: int) -> int:
    metric = mean_of(epsilon, points)
    rng = np.random.default_rng([18, points, len(epochs), *people.encode(), *estimand.encode()])
    numbers = PEOPLE[people](rng)
    return sum(
        held(answered.answered_means([some], points, estimand, 0.95), float(np.nanmean(numbers)), tally, estimand)
        for some, tally in cohorts(metric, numbers, estimand, populations, rng, len(epochs))
    )


@pytest.mark.parametrize(
    ("epsilon", "points", "people", "estimand", "epochs"),
    [
        ("4", 5, "all between two points, a third silent", "reporting", (0,)),
        ("2", 3, "at both ends, half silent", "population", (0, 1)),
        ("1.5", 2, "mostly small, one in ten silent", "population", (0,)),
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
    than it could have."""
    hits = covered(epsilon, points, people, estimand, epochs, 10_000)
    what = f"epsilon {epsilon}, {points} points, {people}, {estimand}, {len(epochs)} epochs"
    figure(f"coverage of a mean of those who answered, {what}", f"{hits / 10_000:.4f}")
    too_wide = estimand == "reporting" and not people.startswith("all between")
    assert_binomial(min(hits, 9_500) if too_wide else hits, 10_000, 0.95)
    assert power(10_000, 0.95, 0.932) > 0.99


@pytest.mark.parametrize(
    ("epsilon", "points", "variance"),
    [("1", 2, 6.392), ("1.5", 2, 2.931), ("2", 3, 1.275), ("3", 4, 0.436), ("4", 5, 0.186)],
)
def test_the_best_number_of_points_has_the_least_error_of_those_who_answered(epsilon, points, variance) -> None:
    """n Var on [-1, 1], all answering with the worst number, by trying many numbers and every number of points."""
    odds = float(np.exp(float(epsilon)))

    def tried(number: int) -> float:
        v = np.linspace(-1, 1, number)
        a, b = odds / (odds + number), 1 / (odds + number)
        t = np.linspace(-1, 1, 2001)
        left = np.clip(np.floor((t + 1) / 2 * (number - 1)).astype(int), 0, number - 2)
        spread = (t - v[left]) * (v[left + 1] - t)
        return float(np.max((b * ((v[:, np.newaxis] - t) ** 2).sum(axis=0) + (a - b) * spread) / (a - b) ** 2))

    assert best_points(Fraction(epsilon), apart=True) == points == min(range(2, 12), key=tried)
    worst = worst_variance(points, Fraction(odds), apart=True)
    assert float(worst) == pytest.approx(tried(points), rel=1e-5)
    assert float(worst) == pytest.approx(variance, abs=5e-4)
    shape = Mean(low=Fraction(0), high=Fraction(1), absent="apart").suited(Fraction(epsilon), ())
    assert shape.points == points <= MOST_POINTS
    noise = shape.best_noise(Fraction(epsilon), Fraction(epsilon))
    assert 4 * MEAN_APART.worst_variance(shape, noise) == pytest.approx(float(worst), rel=1e-3)


def test_absence_takes_one_of_the_answers_that_are_kept() -> None:
    shape = Mean(low=Fraction(0), high=Fraction(1), absent="apart")
    assert [shape.suited(Fraction(4), (), kept).points for kept in (None, 1, 2, 3, 4, 6, 9)] == [5, 5, 2, 2, 3, 5, 5]
    assert shape.suited(Fraction(4), ("points",), 9).points == 2
