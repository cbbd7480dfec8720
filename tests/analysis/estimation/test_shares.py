"""Cells, their variances, and the least squares of declared answers: against enumeration, lstsq and the formulas."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb, e

import numpy as np
import pytest
from scipy import stats

from hubbub.analysis import decode
from hubbub.analysis.estimation.cells import Cohort, TwoStageNoise, finite_population, pool
from hubbub.analysis.estimation.shares import Shares, covariance_with_others, possible, shares
from hubbub.protocol.kinds import Choice, Flag, Histogram, Mean
from hubbub.protocol.metric import Definition
from hubbub.protocol.tally import Counts, Tally
from tests.analysis.worlds import define, tally_of
from tests.chance import assert_binomial, power

CHOICES = tuple(f"choice {i}" for i in range(200))


def covariance_with(of: Shares, cohorts: list[Cohort], answers: np.ndarray, finite: float) -> np.ndarray:
    """Cov(estimate of each answer, sum of the estimates of `answers`)."""
    truth = possible(of.estimate)
    chosen = np.zeros(len(truth), dtype=bool)
    chosen[answers] = True
    return covariance_with_others(of, cohorts, chosen, finite, truth, truth) + np.where(chosen, of.std_error**2, 0)


@pytest.mark.parametrize("epsilons", [("0.5", "1"), ("1", "3"), ("4", "4"), ("2", "8")])
def test_noise_of_one_report_is_that_of_both_stages_enumerated(epsilons):
    metric = define(Flag(), *epsilons)
    noise = TwoStageNoise.of(metric.noise)
    for mask, memo_set in ((1, noise.a1), (0, noise.a0)):
        law = [(memo_set if memo else 1 - memo_set) * (noise.q if memo else noise.p) for memo in (0, 1)]
        mean = sum(law)
        variance = mean * (1 - mean) / noise.gain**2
        both = [(floor + slope * mask) for floor, slope in (noise.permanent, noise.instantaneous)]
        assert sum(both) == pytest.approx(variance, rel=1e-9)


def test_pooled_noise_is_enumerated_over_memo_and_reports():
    """Three reports of one install on one memo: the variance of their mean, by all sixteen outcomes."""
    noise = TwoStageNoise(0.7, 0.2, 0.9, 0.3)
    for mask, memo_set in ((1, 0.7), (0, 0.2)):
        first = second = 0.0
        for memo, *reports in product((0, 1), repeat=4):
            rate = 0.9 if memo else 0.3
            chance = memo_set if memo else 1 - memo_set
            for report in reports:
                chance *= rate if report else 1 - rate
            share = (sum(reports) / 3 - noise.p_star) / noise.gain
            first, second = first + chance * share, second + chance * share**2
        claimed = sum(
            (floor + slope * mask) / draws for (floor, slope), draws in ((noise.permanent, 1), (noise.instantaneous, 3))
        )
        assert first == pytest.approx(mask)
        assert second - first**2 == pytest.approx(claimed)


@pytest.mark.parametrize("d", [2, 4, 16, 100])
@pytest.mark.parametrize("epsilon", [1, 2])
def test_choices_have_the_variance_of_the_best_known_channel(d, epsilon):
    """k-ary: (d - 2 + E)/(E - 1)^2 at frequency 0; bits: 4E/(E - 1)^2. Within 3 %, for the rounding of channels."""
    power_of_e = e**epsilon
    choice = Choice(choices=CHOICES[:d], absent=CHOICES[0])
    metric = define(choice, str(epsilon), str(epsilon + 2))
    n = 10**6
    decoding = decode(tally_of(metric, [n] + [0] * (d - 1), np.random.default_rng(d)))
    kary = (d - 2 + power_of_e) / (power_of_e - 1) ** 2
    bits = 4 * power_of_e / (power_of_e - 1) ** 2
    assert metric.one_hot == (d < 3 * power_of_e + 2)
    nobody = decoding.std_error[d // 2 :] ** 2 * n
    assert nobody.mean() == pytest.approx(kary if metric.one_hot else bits, rel=0.03)


def test_a_mean_has_the_variance_of_one_bit():
    metric = define(Mean(low=Fraction(-1), high=Fraction(1), absent=Fraction(0)), "1", "3")
    decoding = decode(tally_of(metric, [500_000, 500_000], np.random.default_rng(0)))
    assert decoding.std_error[0] ** 2 * 10**6 == pytest.approx(((e + 1) / (e - 1)) ** 2, rel=0.03)
    assert decoding.std_error[1] == pytest.approx(10**6 * decoding.std_error[0])


def test_the_estimate_of_a_histogram_is_its_least_squares_solution():
    shape = Histogram(edges=tuple(map(Fraction, range(7))), buckets_per_report=3)
    metric = define(shape)
    counts = Counts(
        (900, 0, 1500, 700, 1100, 800),
        ((400, 300, 200), (0, 0, 0), (500, 400, 700), (300, 200, 100), (500, 500, 300), (200, 300, 100)),
    )
    found = decode(Tally(metric, {0: counts}))
    p, gain = float(metric.noise.p_star), float(metric.noise.q_star - metric.noise.p_star)
    rows, right = [], []
    for cohort, (n, ones) in enumerate(zip(counts.num_reports, counts.bit_counts, strict=True)):
        for position, y in enumerate(ones):
            if n:
                row = np.zeros(6)
                row[shape.bucket(cohort, position)] = 1
                rows.append(np.sqrt(n) * row)
                right.append(np.sqrt(n) * (y / n - p) / gain)
    solution = np.linalg.lstsq(np.array(rows), np.array(right), rcond=None)[0]
    assert found.estimate[:6] == pytest.approx(solution)
    assert found.estimate[6] == pytest.approx(1 - solution.sum())


SAMPLED = {
    "k-ary": Choice(choices=("a", "b", "c")),
    "bits": Choice(choices=tuple("abcdefghijklmnopq")),
    "histogram": Histogram(edges=tuple(map(Fraction, range(6))), buckets_per_report=2),
}


@pytest.mark.parametrize("estimand", ["reporting", "population"])
@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("epochs", [(0,), (0, 1, 2)])
def test_covariances_are_those_of_samples(name, estimand, epochs):
    """A variance that is off by a third is noticed here, one that is off by an eighth in the proof."""
    assert_variances_of_sums(SAMPLED[name], estimand, epochs, 450)


@pytest.mark.proof
@pytest.mark.parametrize("estimand", ["reporting", "population"])
@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("epochs", [(0,), (0, 1, 2)])
def test_covariances_are_those_of_many_samples(name, estimand, epochs, figure):
    ratio = assert_variances_of_sums(SAMPLED[name], estimand, epochs, 4_000)
    figure(f"variance of a sum over its estimate, {name}, {estimand}, {len(epochs)} epochs", f"{ratio:.3f}")


def assert_variances_of_sums(shape, estimand, epochs, populations):
    """Var of a sum of estimates, claimed and measured over many populations: a chi-square of as many degrees."""
    metric = define(shape, "2", "4")
    rng = np.random.default_rng(8)
    size = shape.categories if isinstance(shape, Choice) else shape.num_buckets + 1
    probability = np.arange(1, size + 1) / np.arange(1, size + 1).sum()
    fixed = (probability * 5_000).astype(int)
    part = np.arange(2)
    sums, claimed = [], []
    for i in range(populations):
        counts = fixed if estimand == "reporting" else rng.multinomial(5_000, probability)
        pooled = [pool(tally_of(metric, counts, rng, epochs=epochs))]
        if isinstance(shape, Choice):
            asked = [list(range(size))]
        else:
            asked = [[shape.bucket(c, j) for j in range(2)] for c in range(shape.num_cohorts)]
        finite = finite_population(pooled, estimand)
        found = shares(pooled[0].cohorts, asked, size - isinstance(shape, Histogram), finite)
        sums.append(found.estimate[part].sum())
        if i < 50:
            claimed.append(covariance_with(found, pooled[0].cohorts, part, finite)[part].sum())
    ratio = np.var(sums) / np.mean(claimed)
    # sqrt(2 / n) is one standard error of a variance; five of them are one false alarm in two million.
    assert abs(ratio - 1) < 5 * np.sqrt(2 / populations)
    return ratio


def test_nobody_is_surprised_twice_by_the_same_installs():
    """Pooling a hundred epochs of the same installs leaves the memo's noise; a hundred times the installs would not."""
    metric = define(Flag(), "1", "2")
    one = decode(tally_of(metric, [5_000, 5_000], np.random.default_rng(1)))
    many = decode(tally_of(metric, [5_000, 5_000], np.random.default_rng(1), epochs=tuple(range(100))))
    noise = TwoStageNoise.of(metric.noise)
    floor = (noise.permanent[0] + noise.permanent[1] / 2) / 10_000
    assert many.std_error[0] ** 2 == pytest.approx(floor, rel=0.1)
    assert many.std_error[0] < one.std_error[0]
    assert many.installs == 10_000


# --- covariances and p-values by identities -----------------------------------------------------------------------


def kary_cohort(memo: float, report: float, epochs: int = 1) -> Cohort:
    """Four categories through both stages, each of which keeps an answer with the given probability."""
    noise = TwoStageNoise(memo, (1 - memo) / 3, report, (1 - report) / 3)
    shares_held = np.array([0.4, 0.3, 0.2, 0.1])
    ones = 10_000 * epochs * (noise.p_star + noise.gain * shares_held)
    return Cohort(noise=noise, reports=10_000.0 * epochs, ones=ones, sampling=1 / 10_000, one_hot=True)


@pytest.mark.parametrize("finite", [0.0, 1 / 10_000])
@pytest.mark.parametrize(("memo", "report", "epochs"), [(0.6, 1.0, 1), (1.0, 0.6, 1), (0.6, 0.8, 1), (0.6, 0.8, 5)])
def test_what_always_adds_up_to_one_covaries_with_nothing(memo, report, epochs, finite):
    """A report names one category, so the estimates of all of them add up to exactly one: no answer can covary with
    that sum, whatever the noise of either stage, and whichever installs the numbers describe."""
    cohort = kary_cohort(memo, report, epochs)
    found = shares([cohort], [[0, 1, 2, 3]], 4, finite)
    assert found.estimate.sum() == pytest.approx(1)
    covariance = covariance_with(found, [cohort], np.arange(4), finite)
    assert np.abs(covariance).max() < 1e-9 * found.std_error.max() ** 2


@pytest.mark.parametrize("finite", [0.0, 1 / 10_000])
def test_subsets_covary_as_their_pairs_do(finite):
    """A subset has a fixed size, so all estimates add up to one; and the covariance of two is that of the draw."""
    shape = Choice(choices=tuple("abcdefgh"), absent="a")
    noise = shape.best_noise(Fraction(1), Fraction(1), once=True)
    metric = Definition(name="asked", every="once", shape=shape, noise=noise)
    held = np.array([4_000, 3_000, 1_000, 500, 500, 500, 300, 200])
    tally = tally_of(metric, held, np.random.default_rng(3))
    (cohort,) = pool(tally).cohorts
    found = shares([cohort], [list(range(8))], 8, finite)
    assert found.estimate.sum() == pytest.approx(1)
    covariance = covariance_with(found, [cohort], np.arange(8), finite)
    assert np.abs(covariance).max() < 1e-9 * found.std_error.max() ** 2
    q, p = (float(x) for x in noise.permanent.probabilities)
    one, neither = (float(x) for x in noise.permanent.pairs)
    f = np.clip(found.estimate, 0, 1)
    drawn = (f[0] + f[1]) * (one - q * p) + (1 - f[0] - f[1]) * (neither - p * p)
    sampled = -f[0] * f[1] * (1 / 10_000 - finite)
    both = covariance_with(found, [cohort], np.array([1]), finite)[0]
    assert both == pytest.approx(drawn / (q - p) ** 2 / 10_000 + sampled)


def test_without_noise_those_who_reported_are_known_exactly_and_a_population_is_sampled():
    cohort = kary_cohort(1.0, 1.0)
    held = np.array([0.4, 0.3, 0.2, 0.1])
    one = np.array([0])
    known = shares([cohort], [[0, 1, 2, 3]], 4, 1 / 10_000)
    assert np.abs(covariance_with(known, [cohort], one, 1 / 10_000)).max() < 1e-15
    sampled = shares([cohort], [[0, 1, 2, 3]], 4, 0.0)
    multinomial = (np.diag(held) - np.outer(held, held)) / 10_000
    assert covariance_with(sampled, [cohort], one, 0.0) == pytest.approx(multinomial[0])


def test_the_p_value_of_one_epoch_is_the_binomial_tail_with_the_count_itself():
    """P(so many ones or more) where nobody holds the answer, summed up by hand; of no ones at all it is 1."""
    metric = define(Flag(), "1", "2")
    p_star = float(metric.noise.p_star)
    for ones in (0, 3, 9):
        found = decode(Tally(metric, {0: Counts((12,), ((ones,),))}))
        by_hand = sum(comb(12, k) * p_star**k * (1 - p_star) ** (12 - k) for k in range(ones, 13))
        assert found.p_value[0] == pytest.approx(by_hand, rel=1e-9)


def test_pooled_epochs_of_nobody_alarm_as_often_as_they_say():
    """The memos of an install are the same in every epoch: counts of several are not binomial, and a test that took
    them so would alarm nearly three times as often."""
    metric = define(Flag(), "1", "2")
    rng = np.random.default_rng(11)
    trials = 600
    p_values = np.array(
        [decode(tally_of(metric, [3_000, 0], rng, epochs=tuple(range(10)))).p_value[0] for _ in range(trials)]
    )
    assert_binomial(int((p_values < 0.05).sum()), trials, 0.05)
    noise = TwoStageNoise.of(metric.noise)
    honest = noise.permanent[0] / 3_000 + noise.instantaneous[0] / 30_000
    binomial = noise.p_star * (1 - noise.p_star) / noise.gain**2 / 30_000
    alarms = float(stats.norm.sf(stats.norm.isf(0.05) * np.sqrt(binomial / honest)))
    assert power(trials, 0.05, alarms) > 0.999
