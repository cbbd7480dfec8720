"""Best guesses by a prior that the list teaches: possible shares, near the truth whatever the list looks like."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import lgamma

import numpy as np
import pytest

from hubbub.analysis import decode
from hubbub.analysis.estimation.guesses import likely_shares, nearest_shares
from hubbub.analysis.estimation.learnt_guesses import ENOUGH, _average_behind, _likely_sum, learnt_shares
from hubbub.protocol.kinds import Choice, Histogram
from tests.analysis.worlds import define, tally_of, zipf

SHAPES = {
    "Zipf 1.1": lambda size: zipf(size, 1.1),
    "Zipf 2": lambda size: zipf(size, 2.0),
    "uniform": lambda size: np.full(size, 1 / size),
    "sparse": lambda size: np.repeat([8 / size, 0.0], [size // 8, size - size // 8]),
    "one heavy": lambda size: np.append(0.9, np.full(size - 1, 0.1 / (size - 1))),
    "geometric": lambda size: 0.7 ** np.arange(size) / (0.7 ** np.arange(size)).sum(),
}


def priors_of_twenty() -> Iterator[tuple[float, float, float]]:
    """pi, shape and how usual they are. pi is from one in twenty to all, in six steps; of narrow laws in nineteen. It
    is 1 in a quarter of all lists, with a Cauchy law for the logarithm of the shape; else all are equally usual."""
    shapes = (0.15, 0.3, 0.6, 1.2, 2.5, 5, 10, 20, 50, 200, 1000)
    cauchy = [1 / (1 + np.log(shape / 1.5) ** 2) for shape in shapes]
    for shape, density in zip(shapes, cauchy, strict=True):
        steps = 6 if shape < 10 else 19
        for pi in np.geomspace(1 / 20, 1, steps):
            usual = 0.25 * density / sum(cauchy) if pi == 1 else 0.75 / 11 / (steps - 1)
            yield float(pi), shape, usual


def test_the_guess_is_the_average_over_the_prior_by_brute_force() -> None:
    """Of the same grid of priors, integrated numerically: 20 answers, none clear of the noise, known total."""
    rng = np.random.default_rng(3)
    truth = np.where(rng.random(20) < 0.5, rng.gamma(2.0, 1.0, 20), 0)
    truth /= truth.sum()
    std_error = 0.05
    x = np.minimum(truth + std_error * rng.standard_normal(20), 6 * std_error)
    x /= x.sum()
    f = np.linspace(1e-5, 14 * std_error, 20_001)
    width = f[1] - f[0]
    likelihood = np.exp(-0.5 * ((x[:, np.newaxis] - f) / std_error) ** 2)
    nobody = np.exp(-0.5 * (x / std_error) ** 2)
    logs, guesses = [], []
    for pi, shape, usual in priors_of_twenty():
        scale = 1 / 20 / (pi * shape)
        density = np.exp((shape - 1) * np.log(f / scale) - f / scale - lgamma(shape)) / scale
        # Of small shapes most lies below the first point: that mass is at nothing, as far as the noise can tell.
        below = max(0.0, 1 - float(density.sum() * width)) if shape < 1 else 0.0
        expected = (1 - pi + pi * below) * nobody + pi * (likelihood @ density) * width
        logs.append(np.log(expected).sum() + np.log(usual))
        guesses.append(pi * (likelihood @ (density * f)) * width / expected)
    weight = np.exp(np.array(logs) - max(logs))
    brute = np.array(guesses).T @ (weight / weight.sum())
    assert (x < 8 * std_error).all()
    free = learnt_shares(x, np.full(20, std_error**2), total=None)
    assert free == pytest.approx(brute, abs=0.02 * std_error), "the estimates add up to 1, which is then the total"
    together = learnt_shares(x, np.full(20, std_error**2), exactly=True)
    assert together == pytest.approx(nearest_shares(brute, np.ones(20), 1.0, exactly=True), abs=0.02 * std_error)


def test_a_clear_answer_is_moved_as_far_as_its_prior_is_steep() -> None:
    """By brute force again: two of twenty stand clear, one of them more than 16 standard errors up. Under a law for all
    they are drawn as the others are; under laws for all but one or both, those are as they are, and the rest has what
    they leave."""
    std_error, size = 0.012, 20
    x = zipf(size, 1.1) / zipf(size, 1.1).sum()
    clear = x > 8 * std_error
    apart = [x > np.inf, x > 16 * std_error, clear]
    assert [mask.sum() for mask in apart] == [0, 1, 2]
    f = np.linspace(1e-5, 0.6, 20_001)
    width = f[1] - f[0]
    likelihood = np.exp(-0.5 * ((x[:, np.newaxis] - f) / std_error) ** 2)
    nobody = np.exp(-0.5 * (x / std_error) ** 2)
    logs, guesses = [], []
    for pi, shape, usual in priors_of_twenty():
        for drawn in (~mask for mask in apart):
            scale = x[drawn].mean() / (pi * shape)
            density = np.exp((shape - 1) * np.log(f / scale) - f / scale - lgamma(shape)) / scale
            below = max(0.0, 1 - float(density.sum() * width)) if shape < 1 else 0.0
            expected = (1 - pi + pi * below) * nobody + pi * (likelihood @ density) * width
            chosen = 0.0
            if not drawn.all():  # any share is as likely as any other, and so is which answers stand apart
                few = size - drawn.sum()
                chosen = few * np.log(few / size * np.sqrt(2 * np.pi) * std_error)
                chosen += (size - few) * np.log(1 - few / size)
            logs.append(np.log(expected[drawn]).sum() + chosen + np.log(usual))
            guesses.append(np.where(drawn, pi * (likelihood @ (density * f)) * width / expected, x))
    weight = np.exp(np.array(logs) - max(logs))
    brute = np.array(guesses).T @ (weight / weight.sum())
    found = _average_behind(x, np.full(size, std_error), 1.0, together=False)
    assert (x - brute)[clear].min() > 0.03 * std_error, "far enough to be seen"
    assert found == pytest.approx(brute, abs=0.02 * std_error)


@pytest.mark.parametrize("found", [-0.1, 0.5, 0.96, 0.99, 1.02])
@pytest.mark.parametrize("spread", [0.01, 0.3])
def test_a_sum_is_averaged_over_what_it_may_be_by_brute_force(found: float, spread: float) -> None:
    """All in half of all lists; else the share that holds no answer is of any order of magnitude from .01 up."""
    sums = (np.arange(1_000_000) + 0.5) / 1_000_000
    density = 1 / (1 - sums + 0.01) / np.log(101)
    likelihood = np.exp(-0.5 * ((sums - max(found, -5 * spread)) / spread) ** 2)
    of_all = np.exp(-0.5 * ((1 - found) / spread) ** 2)
    brute = (of_all + (density * likelihood * sums).mean()) / (of_all + (density * likelihood).mean())
    likely = _likely_sum(np.full(16, found / 16), np.full(16, spread / 4), 1.0)
    assert likely == pytest.approx(brute, abs=0.01 * spread)


def test_the_noise_of_the_sum_is_taken_off_clear_answers_by_their_variances() -> None:
    """Of 16 buckets far from the noise: what they miss of the likely sum is missed most by the least certain."""
    std_error = np.repeat([1e-4, 2e-4], 8)
    truth, off = np.full(16, 1 / 16), 0.5 * float(np.sqrt((std_error**2).sum()))
    guess = learnt_shares(truth - off * std_error**2 / (std_error**2).sum(), std_error**2)
    missed = 1 - _likely_sum(np.full(16, (1 - off) / 16), std_error, 1.0)
    assert missed < 0.2 * off
    assert guess == pytest.approx(truth - missed * std_error**2 / (std_error**2).sum(), abs=0.05 * 1e-4)


@pytest.mark.parametrize("std_error", [0.005, 0.01, 0.02])
def test_where_two_answers_have_everything_the_others_share_a_tenth_of_what_noise_could_hide(std_error: float) -> None:
    """Estimates of the others add up to nothing, with an error of sqrt(18) standard errors: little is left for them."""
    noise = np.random.default_rng(5).standard_normal(18) * std_error
    x = np.concatenate([[0.6, 0.4], noise - noise.mean()])
    left = learnt_shares(x, np.full(20, std_error**2), total=None)[2:].sum()
    assert left == pytest.approx(0.1 * std_error * np.sqrt(20), rel=0.15)


def errors(shape: str, size: int, std_error: float, populations: int) -> np.ndarray:
    """Squared errors of learnt guesses and of those that a nonparametric mixture shrinks, on the same estimates."""
    rng = np.random.default_rng([7, size, *shape.encode()])
    truth, variance = SHAPES[shape](size), np.full(size, std_error**2)
    found = []
    for _ in range(populations):
        estimate = truth + std_error * rng.standard_normal(size)
        guesses = (guess(estimate, variance, exactly=True) for guess in (learnt_shares, likely_shares))
        found.append([float(((guess - truth) ** 2).sum()) for guess in guesses])
    return np.array(found)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_learnt_guess_is_nearer_to_the_truth(shape: str) -> None:
    """16 answers at the noise of epsilon 0.5 and 100,000 installs. Never farther beyond four standard errors of the
    difference, one false alarm in 30,000; and where the answers are even, several times nearer."""
    learnt, mixture = errors(shape, 16, 0.0125, 80).T
    excess = learnt - mixture
    assert excess.mean() < 4 * excess.std() / np.sqrt(len(excess))
    if shape == "uniform":
        assert learnt.mean() < 0.4 * mixture.mean()


ITEMS = {
    "falling": 0.8 / np.arange(1, 41) ** 0.8,
    "even": np.full(40, 0.5),
    "few": np.repeat([0.4, 0.0], [5, 35]),
    "two sorts": np.repeat([0.9, 0.05], 20),
    "nearly everybody": np.full(40, 0.97),
    "geometric": 0.9 * 0.8 ** np.arange(40),
    "rare": np.full(40, 0.01),
}


def item_errors(items: str, std_error: float, populations: int) -> np.ndarray:
    """Squared errors of guesses of items that can be held together: learnt, and each estimate by itself."""
    rng = np.random.default_rng([9, *items.encode()])
    truth, variance, found = ITEMS[items], np.full(40, std_error**2), []
    for _ in range(populations):
        estimate = truth + std_error * rng.standard_normal(40)
        guesses = (learnt_shares(estimate, variance, total=None), np.clip(estimate, 0, 1))
        found.append([float(((guess - truth) ** 2).sum()) for guess in guesses])
    return np.array(found)


@pytest.mark.parametrize("items", ITEMS)
def test_a_learnt_guess_of_items_is_nearer_to_the_truth_than_each_by_itself(items: str) -> None:
    """At the noise of 100,000 installs, 40 items and epsilon 1: nearer by four standard errors of the difference. (With
    one law for all items, also for those that stand clear, "two sorts" were 1.7 times as far off.)"""
    learnt, alone = item_errors(items, 0.03, 40).T
    gain = alone - learnt
    assert gain.mean() > 4 * gain.std() / np.sqrt(len(gain))


@pytest.mark.proof
@pytest.mark.parametrize("items", ITEMS)
def test_best_guesses_of_items(items: str, figure) -> None:
    """From hardly any noise to much: never farther by more than 5 %, beyond four standard errors."""
    for std_error in (0.003, 0.01, 0.03, 0.1):
        learnt, alone = item_errors(items, std_error, 200).T
        excess = learnt - 1.05 * alone
        figure(
            f"{items}, standard error {std_error}", f"squared error {learnt.mean() / alone.mean():.3f} of each alone"
        )
        assert excess.mean() < 4 * excess.std() / np.sqrt(len(excess))


@pytest.mark.parametrize("total", [None, 1.0, 0.3, 0.0])
@pytest.mark.parametrize("size", [1, ENOUGH - 1, ENOUGH, 300, 3_000])
def test_guesses_are_possible_whatever_the_estimates(total, size) -> None:
    rng = np.random.default_rng(size)
    for scale in (1e-9, 0.01, 10.0):
        estimate = rng.standard_normal(size) * scale
        variance = np.where(rng.random(size) < 0.1, np.inf, rng.uniform(0.1, 5, size) * scale**2)
        estimate[np.isinf(variance)] = np.nan
        guess = learnt_shares(estimate, variance, total)
        assert (guess >= 0).all()
        assert (guess <= 1).all()
        assert total is None or guess.sum() <= total + 1e-9
        assert (guess[np.isinf(variance)] == 0).all()
        assert (learnt_shares(estimate, variance, total) == guess).all(), "the same every time"


@pytest.mark.parametrize(("exponent", "held", "std_error"), [(1.0, 300, 0.002), (2.0, 2_000, 0.006)])
def test_neighbours_are_averaged_without_harm_in_long_lists(
    exponent: float, held: int, std_error: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the second, a few high ones of 2,000 tell nearly all: averaged with each other they moved a guess by 1.4
    standard errors."""
    rng = np.random.default_rng(4)
    truth = np.append(zipf(held, exponent), np.zeros(2_000 - held))
    estimate, variance = truth + std_error * rng.standard_normal(2_000), np.full(2_000, std_error**2)
    grouped = learnt_shares(estimate, variance, exactly=True)
    monkeypatch.setattr("hubbub.analysis.estimation.learnt_guesses._LEARNT_FROM", 10_000)
    each = learnt_shares(estimate, variance, exactly=True)
    assert np.abs(grouped - each).max() < 0.02 * std_error


FARTHER = {("buckets", "sparse", 100, "1"): 1.06}
"""Where learnt guesses are known to be farther from the truth than those they took the place of, and by how much at
most: where noise nearly hides that the few buckets that anybody is in have equal parts. Nowhere else are they farther,
beyond two standard errors."""


def ratio_of(error: np.ndarray, before: np.ndarray) -> tuple[float, float]:
    """Of two mean squared errors on the same populations, and its standard error."""
    ratio = error.mean() / before.mean()
    return ratio, (error - ratio * before).std() / np.sqrt(len(error)) / before.mean()


@pytest.mark.proof
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("size", "populations"), [(16, 200), (100, 60), (1_000, 25)])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "4"])
def test_best_guesses_over_six_shapes(shape, size, populations, epsilon, figure) -> None:
    """Through `decode`, 100,000 installs, against the mixture, which was the guess before, and the projection on the
    same estimates."""
    names = tuple(f"choice {i}" for i in range(size))
    metric = define(Choice(choices=names, absent=names[0]), epsilon, epsilon)
    held = np.floor(SHAPES[shape](size) * 100_000).astype(int)
    held[0] += 100_000 - held.sum()
    rng = np.random.default_rng([8, size, *shape.encode(), *epsilon.encode()])
    found = []
    for _ in range(populations):
        decoded = decode(tally_of(metric, held, rng))
        others = (
            guess(decoded.estimate, decoded.std_error**2, exactly=True) for guess in (likely_shares, nearest_shares)
        )
        found.append([((guess - held / 100_000) ** 2).sum() for guess in (decoded.best_guess, *others)])
    learnt, mixture, projected = np.array(found).T
    (over_mixture, error), (over_projected, _) = ratio_of(learnt, mixture), ratio_of(learnt, projected)
    figure(
        f"{shape}, {size} choices, epsilon {epsilon}: squared error over that of the mixture, of the projection",
        f"{over_mixture:.4f} (se {error:.4f}), {over_projected:.4f}",
    )
    assert over_mixture <= 1 + 2 * error


def histogram_errors(shape: str, size: int, epsilon: str, populations: int, answered: float = 1.0) -> np.ndarray:
    """Squared errors of guesses of buckets, through `decode`: learnt, by the mixture and projected. Four buckets are
    asked of each install, so that no sum is known. So many of all `answered` with a bucket."""
    asked = Histogram(edges=tuple(map(Fraction, range(size + 1))), buckets_per_report=4)
    metric = define(asked, epsilon, epsilon)
    in_any = round(100_000 * answered)
    held = np.floor(SHAPES[shape](size) * in_any).astype(int)
    held[0] += in_any - held.sum()
    rng = np.random.default_rng([10, size, *shape.encode(), *epsilon.encode()])
    found = []
    for _ in range(populations):
        decoded = decode(tally_of(metric, np.append(held, 100_000 - in_any), rng))
        estimate, variance = decoded.estimate[:size], decoded.std_error[:size] ** 2
        guesses = (decoded.best_guess[:size], likely_shares(estimate, variance), nearest_shares(estimate, variance))
        found.append([((guess - held / 100_000) ** 2).sum() for guess in guesses])
    return np.array(found)


def test_where_two_buckets_have_everything_the_noise_of_their_sum_is_not_given_to_others() -> None:
    """Made to add up to the sum that was estimated, guesses were 3.5 times as far off as the mixture's."""
    learnt, mixture, _ = histogram_errors("sparse", 16, "1", 15).T
    assert learnt.mean() < 1.2 * mixture.mean()


def test_where_the_sum_of_buckets_is_hardly_known_it_is_not_taken_for_none() -> None:
    """Its estimate is negative in one of these twelve tallies. Taken for nothing it left every bucket empty, and the
    guesses of all were 24 times as far off as they are now."""
    learnt, _, projected = histogram_errors("one heavy", 100, "0.5", 12).T
    assert learnt.mean() < 0.5 * projected.mean()


@pytest.mark.proof
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("size", "populations"), [(16, 120), (100, 40)])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "4"])
def test_best_guesses_of_buckets_over_six_shapes(shape, size, populations, epsilon, figure) -> None:
    """Against the projection, which was the guess before."""
    learnt, mixture, projected = histogram_errors(shape, size, epsilon, populations).T
    (over_mixture, _), (over_projected, error) = ratio_of(learnt, mixture), ratio_of(learnt, projected)
    figure(
        f"{shape}, {size} buckets, epsilon {epsilon}: squared error over that of the mixture, of the projection",
        f"{over_mixture:.4f}, {over_projected:.4f} (se {error:.4f})",
    )
    assert over_projected <= FARTHER.get(("buckets", shape, size, epsilon), 1) + 2 * error


@pytest.mark.proof
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("answered", [0.99, 0.98, 0.96, 0.9])
def test_best_guesses_of_buckets_where_a_few_have_none(shape, answered, figure) -> None:
    """That everybody has a bucket is usual. Where the noise nearly hides that some have none, guesses pay for that with
    5 % of the projection's error at most, beyond two standard errors: 16 buckets at epsilon 4."""
    learnt, _, projected = histogram_errors(shape, 16, "4", 120, answered).T
    ratio, error = ratio_of(learnt, projected)
    figure(
        f"{shape}, 16 buckets that {answered:.0%} are in, epsilon 4: squared error over that of the projection",
        f"{ratio:.3f} (se {error:.3f})",
    )
    assert ratio <= 1.05 + 2 * error
