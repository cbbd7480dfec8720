"""No noise is wasted: the exact channels are as accurate as the formulas of the literature say is possible.

The formulas are written out here again, in floats, from the epsilons alone (Wang et al. 2017 for unary and k-ary
randomized response; Arcolezi et al. 2022 for the memoised L-OSUE; Ding et al. 2017 for one-bit means and dBitFlip).
`n Var` is the variance of an estimated frequency times the number of reports, at frequency 0.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from math import exp

import pytest

from hubbub.protocol.channel import BitChannel, Noise
from hubbub.protocol.epsilon import log_above
from hubbub.protocol.kinds import Choice, Flag, Histogram, Mean, Range, Set, String
from hubbub.protocol.noise import prefers_kary, rappor_noise
from hubbub.protocol.shape import Shape

F = Fraction
PAIRS = 50
WITHIN = 0.001


def choice(categories: int) -> Choice:
    return Choice(choices=tuple(str(i) for i in range(categories)), absent="0")


def two_point(noise: Noise) -> float:
    """Var(count of n reports that lack the bit) / n / (q* - p*)**2."""
    p, q = noise.p_star, noise.q_star
    return float(p * (1 - p) / (q - p) ** 2)


def warner(e: float) -> float:
    return e / (e - 1) ** 2


def unary(e: float) -> float:
    return 4 * e / (e - 1) ** 2


def kary(d: int) -> Callable[[float], float]:
    return lambda e: (d - 2 + e) / (e - 1) ** 2


def one_bit_spread(noise: Noise) -> float:
    """A bit as likely 0 as 1 has variance 1/4; its mean, or a parity's contrast of two halves, is that much noisier."""
    return float(1 / (noise.q_star - noise.p_star) ** 2)


def one_bit_bound(e: float) -> float:
    return ((e + 1) / (e - 1)) ** 2


EDGES = tuple(map(F, range(9)))
KINDS: dict[str, tuple[Shape, Callable[[Noise], float], Callable[[float], float], tuple[float, float]]] = {
    # shape, n Var of the channel, the formula, the epsilons for one report that are tried
    "flag": (Flag(), two_point, warner, (0.1, 8)),
    "choice of 4, k-ary": (choice(4), two_point, kary(4), (0.1, 8)),
    "choice of 40, k-ary": (choice(40), two_point, kary(40), (2.6, 8)),
    "choice of 40, bits": (choice(40), two_point, unary, (0.1, 2.5)),
    "string": (String(num_bits=64, num_hashes=1, num_cohorts=128), two_point, unary, (0.1, 8)),
    "parity": (String(num_bits=1, num_hashes=1, num_cohorts=128), one_bit_spread, one_bit_bound, (0.1, 8)),
    "mean": (Mean(low=F(0), high=F(1), absent=F(0)), one_bit_spread, one_bit_bound, (0.1, 8)),
    "histogram of 1": (Histogram(edges=EDGES, buckets_per_report=1), two_point, warner, (0.1, 8)),
    "histogram of 3": (Histogram(edges=EDGES, buckets_per_report=3), two_point, unary, (0.1, 8)),
    "range": (Range(low=F(0), high=F(1), num_leaves=256, branching=4), two_point, unary, (0.1, 8)),
    "set of 1": (Set(items=tuple("abcdefgh"), items_per_report=1), two_point, warner, (0.1, 8)),
    "set of 3": (Set(items=tuple("abcdefgh"), items_per_report=3), two_point, lambda e: warner(e ** (1 / 3)), (0.1, 8)),
}


def pairs(low: float, high: float, number: int = PAIRS) -> list[tuple[Fraction, Fraction]]:
    """Random (epsilon_one_report, epsilon_permanent), to four decimals, the second at least the first."""
    source = random.Random(20261116)
    found = []
    for _ in range(number):
        one = F(round(10_000 * source.uniform(low, high)), 10_000)
        permanent = F(round(10_000 * source.uniform(float(one), 8)), 10_000)
        found.append((one, max(one, permanent)))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_exact_channels_reach_the_variance_of_the_formulas(kind: str) -> None:
    shape, variance, formula, limits = KINDS[kind]
    for one, permanent in pairs(*limits):
        ratio = variance(shape.best_noise(one, permanent)) / formula(exp(one))
        # Rounding to 2**-24 may cost accuracy and must never buy it: less noise would mean less privacy.
        assert 1 - 1e-12 <= ratio <= 1 + WITHIN, (one, permanent, ratio)


@pytest.mark.proof
def test_thousands_of_channels_reach_the_variance_of_the_formulas(figure) -> None:
    for kind, (shape, variance, formula, limits) in KINDS.items():
        ratios = [variance(shape.best_noise(*pair)) / formula(exp(pair[0])) for pair in pairs(*limits, 2000)]
        assert min(ratios) >= 1 - 1e-12
        assert max(ratios) <= 1 + WITHIN
        figure(f"n Var over its formula, {kind}", f"1 to {max(ratios):.6f}, 2000 pairs of epsilons")


@pytest.mark.parametrize("kind", KINDS)
def test_a_memo_costs_no_accuracy(kind: str) -> None:
    """With or without a permanent stage to hide behind, one report is as good."""
    shape, variance, _, (low, high) = KINDS[kind]
    one = F(round(100 * (low + high) / 2), 100)
    alone, memoised = shape.best_noise(one, one), shape.best_noise(one, F(8))
    assert variance(memoised) == pytest.approx(variance(alone), rel=WITHIN)


def test_few_categories_go_as_one_and_many_as_bits() -> None:
    """At the border 3 E + 2 both wires are equally noisy; hubbub takes the better one on either side."""
    for epsilon in (F(1, 10), F(1), F(2)):
        border = 3 * exp(epsilon) + 2
        for categories in (int(border), int(border) + 1):
            chosen = choice(categories).best_noise(epsilon, epsilon)
            best = min(kary(categories)(exp(epsilon)), unary(exp(epsilon)))
            assert two_point(chosen) == pytest.approx(best, rel=WITHIN)
            assert isinstance(chosen.permanent, BitChannel) is not prefers_kary(epsilon, categories)


def test_two_hashes_cost_twice_the_variance() -> None:
    """Each hash gets half the epsilon, and the variance of half an epsilon is over four times that of a whole one."""
    one, permanent = F(1), F(3)
    shape = String(num_bits=128, num_hashes=2, num_cohorts=64)
    noise = shape.best_noise(one, permanent)
    assert two_point(noise) == pytest.approx(unary(exp(one / 2)), rel=WITHIN)
    assert two_point(noise) / 2 > 2 * unary(exp(one))  # two positions are observed, and yet


def test_the_published_rappor_is_more_than_twice_as_noisy_at_equal_epsilons() -> None:
    published = rappor_noise(F(1, 2), F(1, 2), F(3, 4))
    shape = String(num_bits=128, num_hashes=2, num_cohorts=16)
    odds = published.odds_after(1, shape.flips), published.odds_permanent(shape.flips)
    one, permanent = (log_above(ratio, 4) - F(1, 10_000) for ratio in odds)
    ours = String(num_bits=64, num_hashes=1, num_cohorts=128).best_noise(one, permanent)
    assert two_point(published) / 2 > 2.4 * two_point(ours)
