"""The noise floor of a table is the estimate at which detection begins, by the law that its p-values are of."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hubbub.analysis import Decoding, Options, decode
from hubbub.analysis.arrays import Index, Mask
from hubbub.analysis.estimation.intervals import Variance, exceeded_with
from hubbub.analysis.result import ANSWER
from hubbub.protocol.kinds import Choice, Histogram, Range
from hubbub.protocol.metric import Definition
from hubbub.protocol.noise import many_bit_noise
from hubbub.protocol.tally import Counts, Tally
from tests.analysis.worlds import define, tally_of


def choice(size: int) -> Choice:
    return Choice(choices=tuple(f"choice {i}" for i in range(size)))


def counted(metric: Definition, installs: int, epochs: int, ones: Index) -> Tally:
    """So many installs that report in each epoch; so many ones of each bit in all, as evenly as can be."""
    of_epochs = {}
    for epoch in range(epochs):
        counts = np.zeros(metric.shape.width(0), dtype=int)
        counts[: len(ones)] = (ones + epoch) // epochs
        of_epochs[epoch] = Counts((installs,), (tuple(counts.tolist()),))
    return Tally(metric, of_epochs)


def answers(found: Decoding) -> Mask:
    return np.array([role == ANSWER for role in found.roles])


def normal_floor(found: Decoding) -> float:
    """What the floor would be if estimates were normal."""
    assert isinstance(found.variance, Variance)
    tests = int(np.count_nonzero(~np.isnan(found.p_value[answers(found)])))
    error = np.sqrt(found.variance.floor[answers(found)].max())
    return float(exceeded_with((1 - found.confidence) / tests) * error)


def misjudged(found: Decoding, floor: float) -> int:
    """How many answers are on the other side of this floor than the table says."""
    judged = answers(found) & ~np.isnan(found.p_value)
    return int(np.count_nonzero((found.estimate > floor)[judged] != found.detected[judged]))


@pytest.mark.parametrize("epsilon", [1, 4, 8])
@pytest.mark.parametrize("epochs", [1, 4])
@pytest.mark.parametrize("installs", [50, 200, 1_000])
def test_each_estimate_above_the_floor_is_detected_and_none_below(installs, epochs, epsilon) -> None:
    """Every count that an answer can have, each as that of one of many answers. A normal floor misjudges some."""
    metric = define(choice(installs), noise=many_bit_noise(Fraction(epsilon), Fraction(epsilon + 2), 1))
    counts = np.arange(epochs * installs + 1)
    wrong = by_normal = 0
    for start in range(0, len(counts), installs):
        found = decode(counted(metric, installs, epochs, counts[start : start + installs]))
        wrong += misjudged(found, found.noise_floor)
        by_normal += misjudged(found, normal_floor(found))
    assert wrong == 0
    assert by_normal > 0


@pytest.mark.parametrize("installs", [50, 200, 1_000])
def test_so_is_each_of_a_choice_whose_reports_name_one_answer(installs) -> None:
    """At epsilon 8, up to fifteen ones: the more, the surer. The noise makes .02 of 50 reports, so that a normal floor
    is below a single one, which chance makes of one in twenty tables."""
    metric = define(choice(20), "8", "8")
    assert metric.one_hot
    wrong = by_normal = 0
    for ones in range(16):
        found = decode(counted(metric, installs, 1, np.array([ones, *[0] * 19, installs - ones])))
        wrong += misjudged(found, found.noise_floor)
        by_normal += misjudged(found, normal_floor(found))
    assert wrong == 0
    assert by_normal > 0


@pytest.mark.parametrize(("installs", "of_each"), [(50, 10), (200, 3), (1_000, 2)])
@pytest.mark.parametrize("epsilons", [(1, 4), (8, 6)])
def test_so_is_each_of_two_definitions(installs, of_each, epsilons) -> None:
    """Beside each count of the one some of the other, which has other noise."""
    before, after = (
        define(choice(installs), noise=many_bit_noise(Fraction(each), Fraction(each + 2), 1)) for each in epsilons
    )
    counts, rng = np.arange(installs + 1), np.random.default_rng(installs)
    wrong = by_normal = 0
    for _ in range(of_each):
        others = rng.binomial(installs, counts / installs)
        found = decode(
            [counted(before, installs, 1, counts[:installs]), counted(after, installs, 1, others[:installs])]
        )
        wrong += misjudged(found, found.noise_floor)
        by_normal += misjudged(found, normal_floor(found))
    assert wrong == 0
    assert by_normal > 0


@pytest.mark.parametrize("epochs", [1, 4])
@pytest.mark.parametrize("epsilon", [4, 8])
def test_of_buckets_that_some_were_asked_about_the_floor_is_that_of_the_fewest(epochs, epsilon) -> None:
    """Up to twenty ones of that bucket are judged as it says, and what is above it is detected of every bucket."""
    shape = Histogram(edges=tuple(map(Fraction, range(9))), buckets_per_report=1)
    metric = define(shape, str(epsilon), str(epsilon + 2))
    reports = tuple(range(20, 20 + 10 * 8, 10))
    fewest = shape.bucket(0, 0)
    wrong = by_normal = 0
    for ones in range(reports[0] + 1):
        of_epochs = {
            epoch: Counts(reports, tuple(((ones * n // reports[0] + epoch) // epochs,) for n in reports))
            for epoch in range(epochs)
        }
        found = decode(Tally(metric, of_epochs))
        floor = found.noise_floor
        wrong += int(np.count_nonzero(~found.detected & (found.estimate > floor) & answers(found)))
        wrong += found.detected[fewest] != (found.estimate[fewest] > floor)
        by_normal += misjudged(found, normal_floor(found))
    assert wrong == 0
    assert by_normal > 0


@pytest.mark.parametrize("options", [Options(exclude_absent=True), Options(correction="benjamini-hochberg")])
def test_the_floor_is_of_the_shares_and_of_the_correction_of_its_table(options) -> None:
    """Counts one apart around it, and as many again far above: Bonferroni's floor, and that of shares of all, are on
    the other side of some."""
    metric = define(choice(60), noise=many_bit_noise(Fraction(2), Fraction(4), 1))
    counts = np.concatenate([np.arange(100, 250, 5), np.arange(400, 430), [250]])
    found = decode(counted(metric, 1_000, 1, counts), options=options)
    assert misjudged(found, found.noise_floor) == 0
    assert misjudged(found, decode(counted(metric, 1_000, 1, counts)).noise_floor) > 0


@pytest.mark.parametrize("epsilon", ["4", "8"])
@pytest.mark.parametrize("installs", [50, 1_000])
def test_each_cell_of_a_range_above_the_floor_is_detected(installs, epsilon) -> None:
    """A floor of a normal estimate leaves some above it undetected."""
    metric = define(Range(low=Fraction(0), high=Fraction(1), num_leaves=16, branching=4), epsilon, epsilon)
    wrong = by_normal = 0
    for seed in range(10):
        rng = np.random.default_rng([seed, installs])
        crowd = rng.multinomial(installs, rng.dirichlet(np.full(17, 0.3)))
        found = decode(tally_of(metric, crowd, rng))
        assert found.distribution is not None
        edges = np.linspace(0, 1, 17)
        tests = found.distribution.tested_shares(list(pairwise(edges.tolist())), of="all")[1]
        normal = exceeded_with(0.05 / 16) * tests.std_error.max()
        missed = answers(found) & ~found.detected
        wrong += int(np.count_nonzero(missed & (found.estimate > found.noise_floor)))
        by_normal += int(np.count_nonzero(missed & (found.estimate > normal)))
    assert wrong == 0
    assert by_normal > 0


def test_of_many_counts_the_floor_is_that_of_a_normal_estimate() -> None:
    """A count that strays by sd, as of a million reports by 440, must be z sd + (1 - 2 p) (z^2 - 1) / 6 above its mean
    (Cornish, Fisher 1938), and up to half a one more because it is whole."""
    metric, installs = define(choice(20), "1", "1"), 1_000_000
    p_star, z = float(metric.noise.p_star), exceeded_with(0.05 / 20)
    ones = np.full(20, round(installs * p_star))
    found = decode(counted(metric, installs, 1, ones))
    sd = np.sqrt(installs * p_star * (1 - p_star))
    skew = (1 - 2 * p_star) * (z**2 - 1) / 6
    assert found.noise_floor / normal_floor(found) - 1 == pytest.approx(skew / (z * sd), abs=0.5 / (z * sd))
    assert found.noise_floor == pytest.approx(normal_floor(found), rel=1e-3)
