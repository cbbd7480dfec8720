"""What counts of noisy reports tell about one of them: never less than exact enumeration finds, and not much more."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp

import numpy as np
import pytest
from scipy import stats

from hubbub.analysis.accounting.crowd import crowd_loss, fewest
from hubbub.analysis.accounting.mechanisms import kept_answer
from hubbub.analysis.accounting.privacy_loss import PrivacyLoss
from hubbub.protocol.channel import BitChannel, KaryChannel
from hubbub.protocol.noise import many_bit_noise, one_bit_noise

DELTA = 1e-9


def _one_release(epsilon_permanent: int, installs: int) -> float:
    """Of one of many bits: one is lost and one gained."""
    there, back = crowd_loss(many_bit_noise(Fraction(1, 2), Fraction(epsilon_permanent), 1).permanent, installs - 1)
    return there.then(back).epsilon(DELTA)


@pytest.mark.parametrize(
    ("epsilon_permanent", "installs", "stated", "attained"),
    [
        (1, 10**5, 0.0115, 0.0107),
        (2, 10**5, 0.0264, 0.0250),
        (4, 10**5, 0.0826, 0.0808),
        (2, 10**6, 0.0079, 0.0),
    ],
)
def test_one_release_of_a_crowd(epsilon_permanent: int, installs: int, stated: float, attained: float) -> None:
    """Between what the worst crowd attains and the figure with the blanket at its lower end, found independently."""
    assert attained < _one_release(epsilon_permanent, installs) < stated * 1.002
    assert _one_release(epsilon_permanent, installs) > stated * 0.985


def _known(channel: BitChannel, ones: int, zeros: int) -> PrivacyLoss:
    """A count beside a crowd whose kept answers are all known, exactly: so many ones and zeros."""
    q, p = (float(x) for x in channel.probabilities)
    count = np.convolve(stats.binom.pmf(np.arange(ones + 1), ones, q), stats.binom.pmf(np.arange(zeros + 1), zeros, p))
    one, zero = ((1 - bit) * np.append(count, 0) + bit * np.insert(count, 0, 0) for bit in (q, p))
    return PrivacyLoss.of(one, zero, 0.003)


def test_a_year_beside_a_known_crowd_is_bounded_and_not_by_far() -> None:
    """A flag of 1000 installs, 52 weeks: 1.98 is attained if all kept answers are known, half of them yes."""
    noise = one_bit_noise(Fraction(1), Fraction(2))
    attained = _known(noise.instantaneous, 500, 499).times(52).epsilon(DELTA)
    assert attained == pytest.approx(1.98, rel=0.01)
    there, back = crowd_loss(noise.instantaneous, 999)
    for ones in (0, 250, 500, 999):
        exact = _known(noise.instantaneous, ones, 999 - ones).times(52)
        for bound in (there, back):
            assert exact.epsilon(DELTA) <= bound.times(52).epsilon(DELTA) <= 1.4 * exact.epsilon(DELTA)
        mixed = kept_answer(exact, *(float(x) for x in noise.permanent.probabilities))[0].epsilon(DELTA)
        stated = kept_answer(there.times(52), *(float(x) for x in noise.permanent.probabilities))[0].epsilon(DELTA)
        assert mixed <= stated <= 1.4 * mixed


def _known_large(channel: BitChannel, ones: int, zeros: int) -> PrivacyLoss:
    """The same without the ends of the laws, where less than 1e-15 is."""
    q, p = (float(x) for x in channel.probabilities)
    ends = ((int(stats.binom.ppf(1e-16, n, r)), int(stats.binom.isf(1e-16, n, r))) for n, r in ((ones, q), (zeros, p)))
    laws = [stats.binom.pmf(np.arange(*end), n, r) for end, n, r in zip(ends, (ones, zeros), (q, p), strict=True)]
    count = np.convolve(*laws)
    one, zero = ((1 - bit) * np.append(count, 0) + bit * np.insert(count, 0, 0) for bit in (q, p))
    return PrivacyLoss.of(one, zero, (q - p) / 160_000**0.5 / 16)


def test_weeks_of_a_hundred_thousand_installs() -> None:
    """0.18 after a year if the one kept answer is known, too; what it is if not, by the exact law. (With others' kept
    answers drawn anew each week it would be a tenth less, which they are not.)"""
    noise = one_bit_noise(Fraction(1), Fraction(2))
    permanent = [float(x) for x in noise.permanent.probabilities]
    exact, (there, _) = _known_large(noise.instantaneous, 50_000, 49_999), crowd_loss(noise.instantaneous, 99_999)
    assert exact.times(52).epsilon(DELTA) == pytest.approx(0.18, rel=0.01)
    for weeks, found in ((1, 0.01724), (13, 0.06552), (52, 0.1345), (365, 0.3676)):
        mixed, stated = (kept_answer(loss.times(weeks), *permanent)[0].epsilon(DELTA) for loss in (exact, there))
        assert mixed == pytest.approx(found, rel=0.01)
        assert mixed <= stated <= 1.3 * mixed


def _normal_epsilon(apart: float, truth: float) -> float:
    """Of two normal laws so many deviations apart, mixed by a kept answer that is the true one with this probability:
    their likelihood ratio rises with the count, so that the worst set is a tail, and delta is in closed form."""

    def delta(epsilon: float) -> float:
        odds = exp(epsilon)
        if truth <= odds * (1 - truth):
            return 0.0
        ratio = (odds * truth - (1 - truth)) / (truth - odds * (1 - truth))
        threshold = np.log(ratio) / apart + apart / 2
        one, other = stats.norm.sf(threshold - apart), stats.norm.sf(threshold)
        return float((truth - odds * (1 - truth)) * one - (odds * truth - (1 - truth)) * other)

    low, high = 0.0, 2.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta(middle) > DELTA else (low, middle)
    return high


def test_what_each_figure_of_a_flag_assumes() -> None:
    """The three lines of a table in docs/publishing.md. The second by a closed form that shares no code with the
    privacy losses above; the third has the others' reports vary as if their kept answers were drawn anew each week."""
    noise = one_bit_noise(Fraction(1), Fraction(2))
    truth, _ = (float(x) for x in noise.permanent.probabilities)
    q, p = (float(x) for x in noise.instantaneous.probabilities)
    fresh = truth * q + (1 - truth) * p
    there, _ = crowd_loss(noise.instantaneous, 99_999)
    for weeks, stated, known, anew in (
        (1, 0.0221, 0.0172, 0.0154),
        (13, 0.0839, 0.0655, 0.0585),
        (52, 0.172, 0.134, 0.120),
        (365, 0.468, 0.368, 0.328),
    ):
        bound = kept_answer(there.times(weeks), truth, 1 - truth)[0].epsilon(DELTA)
        of_known, of_anew = (
            _normal_epsilon((q - p) * (weeks / (100_000 * one * (1 - one))) ** 0.5, truth) for one in (q, fresh)
        )
        assert (bound, of_known, of_anew) == pytest.approx((stated, known, anew), rel=0.005)


@pytest.mark.parametrize(
    "channel", [BitChannel(Fraction(3, 4), Fraction(1, 4)), BitChannel(Fraction(1, 2), Fraction(1, 8))]
)
@pytest.mark.parametrize("others", [0, 1, 3, 5])
def test_no_small_crowd_of_bits_tells_more(channel: BitChannel, others: int) -> None:
    there, back = crowd_loss(channel, others)
    q, p = (float(x) for x in channel.probabilities)
    for ones in range(others + 1):
        count = np.convolve(
            stats.binom.pmf(np.arange(ones + 1), ones, q),
            stats.binom.pmf(np.arange(others - ones + 1), others - ones, p),
        )
        one, zero = ((1 - bit) * np.append(count, 0) + bit * np.insert(count, 0, 0) for bit in (q, p))
        for epsilon in (0.0, 0.2, 0.5, 0.8, 1.0):
            assert there.delta(epsilon) >= np.maximum(one - exp(epsilon) * zero, 0).sum() - 1e-12
            assert back.delta(epsilon) >= np.maximum(zero - exp(epsilon) * one, 0).sum() - 1e-12


def test_no_small_crowd_of_categories_tells_more() -> None:
    """Three categories, up to four others with any kept answers, every way they can report."""
    channel = KaryChannel(3, Fraction(1, 2), Fraction(1, 4))
    for others in range(5):
        there, back = crowd_loss(channel, others)
        for kept in {tuple(sorted(each)) for each in product(range(3), repeat=others)}:
            one, zero = (_counts((said, *kept)) for said in (0, 1))
            outcomes = one.keys() | zero.keys()
            for epsilon in (0.0, 0.2, 0.5, 0.65):
                exact = sum(max(one.get(x, 0) - exp(epsilon) * zero.get(x, 0), 0) for x in outcomes)
                assert min(there.delta(epsilon), back.delta(epsilon)) >= exact - 1e-12


def _counts(kept: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """The law of the counts of three categories."""
    law: dict[tuple[int, ...], float] = {}
    for said in product(range(3), repeat=len(kept)):
        chance = float(np.prod([0.5 if a == b else 0.25 for a, b in zip(said, kept, strict=True)]))
        key = tuple(said.count(category) for category in range(3))
        law[key] = law.get(key, 0.0) + chance
    return law


def _two_counts(channel: KaryChannel, coins: int) -> tuple[np.ndarray, np.ndarray]:
    """The law of the counts of two categories among so many even coins and one report, which is in the one or the
    other: all pairs of counts, with nothing left out."""
    truth, other = (float(p) for p in channel.probabilities)
    first, second = np.meshgrid(np.arange(coins + 2), np.arange(coins + 2), indexing="ij")
    d = channel.categories

    def law(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        rest = np.maximum(coins - a, 0)
        return stats.binom.pmf(a, coins, 1 / d) * stats.binom.pmf(b, rest, 1 / (d - 1)) * (a >= 0)

    in_first, in_second, elsewhere = law(first - 1, second), law(first, second - 1), law(first, second)
    outside = (d - 2) * other * elsewhere
    return truth * in_first + other * in_second + outside, other * in_first + truth * in_second + outside


@pytest.mark.parametrize(
    "channel",
    [
        KaryChannel(2, Fraction(3, 4), Fraction(1, 4)),
        KaryChannel(3, Fraction(1, 2), Fraction(1, 4)),
        KaryChannel(12, Fraction(7, 18), Fraction(1, 18)),
    ],
    ids=["2", "3", "12"],
)
def test_two_counts_among_many_are_bounded_and_hardly_more(channel: KaryChannel) -> None:
    """The reader is told how many coins there are; with so many the law of both counts can be written down."""
    others, blanket = 120, float(channel.probabilities[1]) * channel.categories
    deltas = dict.fromkeys((0.0, 0.1, 0.3, 0.6), 0.0)
    for coins in range(others + 1):
        one, two = _two_counts(channel, coins)
        chance = stats.binom.pmf(coins, others, blanket)
        for epsilon in deltas:
            deltas[epsilon] += chance * float(np.maximum(one - exp(epsilon) * two, 0).sum())
    for loss in crowd_loss(channel, others):
        for epsilon, exact in deltas.items():
            assert exact <= loss.delta(epsilon) * (1 + 1e-9) + 1e-13
            assert loss.delta(epsilon + 0.005) <= exact + 1e-13  # so little do bands and grid cost


@pytest.mark.parametrize("others", [10_000, 30_000, 1_000_000])
def test_a_crowd_of_categories_hides_about_as_well_as_theory_says(others: int) -> None:
    """Beside many others the loss is nearly normal: of 8 categories its deviation is (t - o) sqrt(2 d / coins)."""
    channel = KaryChannel(8, Fraction(9, 16), Fraction(1, 16))
    there, _ = crowd_loss(channel, others)
    assert there.deviation == pytest.approx((9 / 16 - 1 / 16) * (2 * 8 / (others / 2)) ** 0.5, rel=0.005)


def test_more_others_hide_better_and_none_not_at_all() -> None:
    channel = one_bit_noise(Fraction(1), Fraction(2)).instantaneous
    found = [crowd_loss(channel, others)[0].epsilon(DELTA) for others in (0, 100, 1000, 10**5)]
    assert found == sorted(found, reverse=True)
    q, p = (float(x) for x in channel.probabilities)
    assert found[0] == pytest.approx(np.log(q / p), rel=0.07)
    assert found[0] >= np.log((q - DELTA) / p)


def test_where_a_report_is_as_clear_as_what_is_kept_nothing_is_said() -> None:
    assert crowd_loss(BitChannel(Fraction(1), Fraction(0)), 1000) is None
    assert crowd_loss(BitChannel(Fraction(1), Fraction(1, 2)), 1000) is None
    assert crowd_loss(KaryChannel(4, Fraction(1), Fraction(0)), 1000) is None


def test_a_group_has_so_many_others_but_for_the_chance_stated() -> None:
    assert fewest(1000, 1, 1e-9) == 999
    found = fewest(100_000, 128, 1e-10)
    assert stats.binom.cdf(found - 1, 99_999, 1 / 128) <= 1e-10
    assert 0.75 * 781 < found < 781
    assert fewest(10, 128, 1e-10) == 0
