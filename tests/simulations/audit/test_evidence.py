"""What counts prove: the bound is wrong no more often than it says, and the laws behind the events are exact."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp, inf, log
from random import Random

import numpy as np
import pytest
from scipy import stats

from hubbub.client.respond import respond
from hubbub.protocol.epsilon import log_above
from hubbub.protocol.noise import kary_noise, many_bit_noise, one_bit_noise, rappor_noise
from hubbub.simulations.audit.enumeration import worst_odds
from hubbub.simulations.audit.evidence import STRAY, Chances, Seen, bound_expected, bound_shown, rarity
from hubbub.simulations.audit.pairs import far_pairs
from hubbub.simulations.audit.scores import MEMO, SCALE, score_law
from tests.simulations.audit.test_audit import STRING, registry

F = Fraction
NOISES = {
    "one bit": (one_bit_noise(F(1), F(2)), 1, 0),
    "many bits": (many_bit_noise(F(1), F(3), 1), 1, 1),
    "two hashes": (rappor_noise(F(1, 2), F(1, 4), F(3, 4)), 2, 2),
    "four categories": (kary_noise(F(1), F(2), 4), 1, 1),
    "a clear second stage": (many_bit_noise(F(2), F(2), 1), 1, 1),
}


@pytest.mark.parametrize(("one", "other"), [(0.5, 0.2), (0.9, 0.05), (0.2, 0.2)])
def test_the_bound_exceeds_the_truth_no_more_often_than_alpha(one: float, other: float) -> None:
    """Exactly: over all counts of 25 trials of each value."""
    trials, alpha = 25, 0.05
    exceeds = sum(
        float(stats.binom.pmf(k, trials, one) * stats.binom.pmf(j, trials, other))
        for k, j in product(range(trials + 1), repeat=2)
        if bound_shown(Seen(k, trials, j, trials), alpha) > log(one / other)
    )
    assert exceeds <= alpha


def test_the_expected_bound_is_the_mean_over_all_counts() -> None:
    trials, alpha, chances = 40, 0.01, Chances(0.6, 0.3)
    counts = list(product(range(1, trials + 1), range(trials + 1)))
    bounds = {(k, j): bound_shown(Seen(k, trials, j, trials), alpha) for k, j in counts}
    weight = {(k, j): float(stats.binom.pmf(k, trials, 0.6) * stats.binom.pmf(j, trials, 0.3)) for k, j in bounds}
    mean = sum(weight[at] * bounds[at] for at in bounds)
    spread = sum(weight[at] * (bounds[at] - mean) ** 2 for at in bounds) ** 0.5
    assert bound_expected(chances, (trials, trials), alpha) == pytest.approx((mean, spread), rel=1e-6)


@pytest.mark.parametrize("chances", [Chances(0.25, 0.1), Chances(0.6, 0.6), Chances(0.05, 0.01)], ids=str)
def test_a_bound_strays_as_rarely_as_stated_however_few_the_counts(chances: Chances) -> None:
    """Every pair of counts of 39 and 36 trials: the true law strays at most as often as a normal one would. By standard
    deviations of the bound, which has a long tail downwards, it strays far more often."""
    alpha, trials = 1e-6, (39, 36)
    mean, deviation = bound_expected(chances, trials, alpha)
    by_rarity = by_deviation = 0.0
    for one, other in product(range(trials[0] + 1), range(trials[1] + 1)):
        seen = Seen(one, trials[0], other, trials[1])
        weight = stats.binom.pmf(one, trials[0], chances.one) * stats.binom.pmf(other, trials[1], chances.other)
        by_rarity += weight * (rarity(chances, seen, alpha) < stats.norm.sf(STRAY))
        by_deviation += weight * (abs(bound_shown(seen, alpha) - mean) > STRAY * deviation)
    assert 0 < by_rarity <= 2 * stats.norm.sf(STRAY)
    assert by_deviation > 5 * by_rarity


def test_an_event_that_never_happened_proves_nothing() -> None:
    assert bound_shown(Seen(0, 100, 0, 100), 0.01) == -inf


def test_an_event_that_always_happens_tells_nothing() -> None:
    seen, chances = Seen(100, 100, 100, 100), Chances(1.0, 1.0)
    mean, spread = bound_expected(chances, (100, 100), 0.01)
    assert bound_shown(seen, 0.01) == pytest.approx(mean)
    assert mean < 0
    assert spread == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("reports", [MEMO, 1, 7])
@pytest.mark.parametrize("name", NOISES)
def test_the_largest_score_is_the_claimed_epsilon(name: str, reports: int) -> None:
    noise, lost, gained = NOISES[name]
    law = score_law(noise, lost, gained, reports)
    flips = ((lost, gained), (gained, lost))
    odds = noise.odds_permanent(flips) if reports == MEMO else noise.odds_after(reports, flips)
    largest = max(abs(int(law.scores[0])), int(law.scores[-1]))
    assert largest / SCALE == pytest.approx(log(odds), abs=(lost + gained) / SCALE)
    assert law.one.sum() == pytest.approx(1)
    assert law.other.sum() == pytest.approx(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(law.one / law.other)[law.one > 1e-300]
    assert float(np.max(np.abs(ratios))) <= float(log_above(odds)) + 1e-9


@pytest.mark.parametrize("reports", [MEMO, 1, 7])
@pytest.mark.parametrize("name", NOISES)
def test_the_code_fed_with_every_number_gives_the_claimed_odds(name: str, reports: int) -> None:
    noise, lost, gained = NOISES[name]
    flips = ((lost, gained), (gained, lost))
    claimed = noise.odds_permanent(flips) if reports == MEMO else noise.odds_after(reports, flips)
    found = worst_odds(noise, lost, gained, reports)
    assert found == claimed


def test_too_many_outcomes_are_not_enumerated() -> None:
    assert worst_odds(rappor_noise(F(1, 2), F(1, 4), F(3, 4)), 8, 8, 7) is None


def test_scores_of_real_reports_follow_their_law() -> None:
    """Real draws from a seed, by chi-square over the scores; a channel off by 0.02 would show."""
    metric = registry(asked=STRING)["asked"]
    (pair, *_) = far_pairs(metric)
    random, trials = Random(13).randbytes, 50_000
    law = score_law(metric.noise, *pair.differences, 1)
    bits = [respond(metric, pair.masks[0], pair.cohort, random).bits for _ in range(trials)]
    scores = law.of(pair.counts(bits, 1))
    seen = np.array([(scores == score).sum() for score in law.scores])
    assert float(stats.chisquare(seen, law.one * trials).pvalue) > 1e-6
    off = score_law(rappor_noise(F(46, 100), F(1, 4), F(3, 4)), *pair.differences, 1)
    excess = trials * float(((off.one - law.one) ** 2 / law.one).sum())
    assert float(stats.ncx2.sf(stats.chi2.isf(1e-6, len(seen) - 1), len(seen) - 1, excess)) > 0.99


def test_a_score_is_sharpest_where_the_bound_is_largest() -> None:
    law = score_law(one_bit_noise(F(1), F(2)), 1, 0, 1)
    assert law.reaches(law.sharpest(10_000, 1e-6)).one == pytest.approx(exp(1) / (1 + exp(1)), abs=1e-6)
