"""Choices and histograms among those who answered: their standard errors are those of samples."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from hubbub.analysis import Options, decode
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Flag, Histogram, Range, Set
from hubbub.protocol.metric import Definition
from hubbub.protocol.tally import Counts, Tally
from tests.analysis.worlds import define, tally_of

QUICK, FULL = 300, 1_000
PROBABILITY = np.array([0.2, 0.1, 0.1, 0.6])  # the last is absent
SHAPES = {
    "k-ary": (Choice(choices=("a", "b", "c")), "6", "9"),
    "subsets": (Choice(choices=tuple("abcdefg")), "1", "1"),
    "bits": (Choice(choices=("a", "b", "c", *(f"nobody {i}" for i in range(30)))), "1", "3"),
    "histogram": (Histogram(edges=tuple(map(Fraction, range(4))), buckets_per_report=3), "6", "9"),
}


@pytest.mark.parametrize(
    ("name", "estimand"), [("k-ary", "population"), ("bits", "reporting"), ("histogram", "reporting")]
)
def test_shares_among_those_who_answered_have_the_errors_of_samples(name, estimand):
    assert_errors_are_those_of_samples(name, estimand, QUICK)


@pytest.mark.proof
@pytest.mark.parametrize("estimand", ["population", "reporting"])
@pytest.mark.parametrize("name", SHAPES)
def test_shares_of_everyone_and_of_reports_have_the_errors_of_samples(name, estimand, figure):
    ratio = assert_errors_are_those_of_samples(name, estimand, FULL)
    figure(f"variance of samples over its estimate, {name}, {estimand}", f"{ratio:.3f} of {FULL} populations")


def assert_errors_are_those_of_samples(name, estimand, populations):
    """Most did not answer, so that the number of those who did is much of what is not known. A variance over n
    populations is known to a fraction sqrt(2 / n); five of them are one false alarm in two million."""
    shape, one_report, permanent = SHAPES[name]
    once = name == "subsets"
    noise = shape.best_noise(Fraction(one_report), Fraction(permanent), once=once)
    metric = Definition(name="asked", every="once" if once else "week", shape=shape, noise=noise)
    assert (metric.weight == 2) == once
    assert metric.one_hot == (name == "k-ary")
    rng = np.random.default_rng([len(name), len(estimand)])
    options = Options(estimand=estimand, exclude_absent=True)
    nobody = [0] * (30 * (name == "bits") + 4 * once)
    estimates, variances = [], []
    for _ in range(populations):
        held = (PROBABILITY * 5_000).astype(int) if estimand == "reporting" else rng.multinomial(5_000, PROBABILITY)
        found = decode(tally_of(metric, [*held[:3], *nobody, held[3]], rng), options=options)
        estimates.append(found.estimate[0])
        variances.append(found.std_error[0] ** 2)
    assert np.mean(estimates) == pytest.approx(0.5, abs=5 * np.std(estimates) / np.sqrt(populations) + 0.01)
    # The median, because a ratio to an unlucky bottom has an error far out.
    ratio = np.var(estimates) / np.median(variances)
    assert ratio == pytest.approx(1, abs=5 * np.sqrt(2 / populations) + 0.05)
    return ratio


@pytest.mark.parametrize(
    ("metric", "silence"),
    [
        (define(Flag(absent=True)), "asked is a flag, in which those that recorded nothing count as yes"),
        (define(Set(items=("a", "b"))), "asked is a set, in which those that recorded nothing count as using none"),
        (define(Choice(choices=("a", "b"), absent="b")), "asked is a choice, in which those that .* count as b"),
    ],
)
def test_where_nobody_is_absent_shares_of_those_who_answered_are_refused(metric: Definition, silence: str) -> None:
    tally = Tally(metric, {})
    with pytest.raises(Invalid, match=rf"exclude_absent \(--exclude-absent\) needs .*: {silence}"):
        decode(tally, options=Options(exclude_absent=True))
    assert decode(tally).of == "all"


def test_nobody_is_absent_from_a_sum() -> None:
    """Nothing added is 0, which is in a bucket: all installs are, and the best guess knows it."""
    metric = define(Histogram(edges=tuple(map(Fraction, range(4))), buckets_per_report=3)).replace(accumulate="sum")
    tally = tally_of(metric, [500, 300, 200, 0], np.random.default_rng(4))
    found = decode(tally)
    assert found.roles == ("answer",) * 3
    assert found.best_guess.sum() == pytest.approx(1)
    numbers = define(Range(low=Fraction(0), high=Fraction(4), num_leaves=4, branching=4)).replace(accumulate="sum")
    assert "absent" not in decode(tally_of(numbers, [500, 300, 200, 0, 0], np.random.default_rng(5))).roles
    with pytest.raises(Invalid, match="those that recorded nothing count as 0, the sum of nothing"):
        decode(tally, options=Options(exclude_absent=True))


@pytest.mark.parametrize(
    ("installs", "epsilon"),
    [(10, "4"), (10, "8"), (50, "4"), (200, "1"), pytest.param(1_000, "6", marks=pytest.mark.proof)],
)
def test_that_nobody_was_absent_is_refused_no_more_often_than_the_p_value_says(installs, epsilon):
    """Enumerated: of a histogram whose every bucket is asked, all ones together are two binomial counts. By a normal
    law a p-value of .0005 came up 21 times as often with 10 installs at epsilon 8, and 7 times with 50 at epsilon 4."""
    buckets = 4
    shape = Histogram(edges=tuple(map(Fraction, range(buckets + 1))), buckets_per_report=buckets)
    metric = define(shape, epsilon, str(Fraction(epsilon) * 3 / 2))
    true, false = (float(metric.noise.q_star), installs), (float(metric.noise.p_star), (buckets - 1) * installs)
    law = np.convolve(*(binom.pmf(np.arange(trials + 1), trials, p) for p, trials in (true, false)))
    ones = np.flatnonzero((law > 1e-12) & (law.cumsum() < 0.6))  # in half of the cases less than everybody seems there
    found = [decode(evenly(metric, installs, int(number))) for number in ones]
    p_value = np.array([each.p_value[each.values.index("absent")] for each in found])
    for level in (0.05, 0.025, 0.005, 0.0005):
        assert law[ones][p_value <= level].sum() <= 1.001 * level
    assert law[ones][p_value <= 0.025].sum() > 0.025 / 4  # nor hardly ever: counts have steps


def evenly(metric: Definition, installs: int, ones: int) -> Tally:
    """Of one cohort: so many ones, spread over its bits."""
    width = metric.shape.width(0)
    row = tuple(ones // width + (i < ones % width) for i in range(width))
    return Tally(metric, {0: Counts((installs,), (row,))})
