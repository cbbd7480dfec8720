"""Channels and epsilons: composed as RAPPOR says, refused in words, rounded to the side of privacy."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protocol.channel import UNITS, BitChannel, KaryChannel, Noise
from hubbub.protocol.epsilon import LARGEST, SMALLEST, exp_below, in_limits, log_above, show
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.noise import kary_noise, many_bit_noise, one_bit_noise, rappor_noise

F = Fraction
HALF, QUARTER = F(1, 2), F(1, 4)
EPSILONS = st.fractions(SMALLEST, LARGEST, max_denominator=1000)
PROBABILITIES = st.fractions(F(1, 1000), F(999, 1000), max_denominator=1000)


def problems_of(build) -> tuple[str, ...]:
    with pytest.raises(Invalid) as caught:
        build()
    return caught.value.problems


# --- composition --------------------------------------------------------------------------------------------------


@given(f=PROBABILITIES, p=PROBABILITIES, q=PROBABILITIES)
def test_the_composed_bit_channel_has_rappors_p_star_and_q_star(f: Fraction, p: Fraction, q: Fraction) -> None:
    """RAPPOR section 4, with the exact fractions before they are rounded for drawing."""
    if p >= q:
        return
    composed = BitChannel(1 - f / 2, f / 2).then(BitChannel(q, p))
    assert composed.when_one == f * (p + q) / 2 + (1 - f) * q
    assert composed.when_zero == f * (p + q) / 2 + (1 - f) * p
    assert composed.when_one - composed.when_zero == (1 - f) * (q - p)


@given(d=st.integers(2, 9), one=PROBABILITIES, two=PROBABILITIES)
def test_two_kary_channels_in_a_row_are_their_matrix_product(d: int, one: Fraction, two: Fraction) -> None:
    first, second = (KaryChannel(d, 1 - (d - 1) * other, other) for other in (one / (2 * d), two / (2 * d)))
    composed = first.then(second)

    def row(channel: KaryChannel, sent: int) -> list[Fraction]:
        return [channel.truth if arrived == sent else channel.other for arrived in range(d)]

    for sent in range(d):
        product = [sum(row(first, sent)[m] * row(second, m)[out] for m in range(d)) for out in range(d)]
        assert row(composed, sent) == product


def test_rappors_probabilities_are_rounded_towards_privacy() -> None:
    noise = rappor_noise(F(1, 3), F(1, 7), F(2, 3))
    (a1, a0), (q, p) = noise.permanent.probabilities, noise.instantaneous.probabilities
    for exact, rounded, down in ((F(5, 6), a1, True), (F(1, 6), a0, False), (F(2, 3), q, True), (F(1, 7), p, False)):
        assert rounded.denominator <= UNITS
        assert 0 < (exact - rounded if down else rounded - exact) < F(1, UNITS)


@given(one=EPSILONS, permanent=EPSILONS, hashes=st.integers(1, 64), categories=st.integers(2, 300))
def test_chosen_noise_keeps_its_epsilons_wherever_they_lie(
    one: Fraction, permanent: Fraction, hashes: int, categories: int
) -> None:
    one, permanent = sorted((one, permanent))
    for noise, flips in (
        (one_bit_noise(one, permanent), ((1, 0), (0, 1))),
        (many_bit_noise(one, permanent, hashes), ((hashes, hashes),)),
        (kary_noise(one, permanent, categories), ()),
    ):
        assert noise.odds_after(1, flips) <= exp_below(one)
        assert noise.odds_permanent(flips) <= exp_below(permanent)


@given(one=EPSILONS, permanent=EPSILONS)
def test_more_reports_tell_more_and_never_more_than_the_memo(one: Fraction, permanent: Fraction) -> None:
    one, permanent = sorted((one, permanent))
    for noise, flips in ((many_bit_noise(one, permanent, 1), ((1, 1),)), (kary_noise(one, permanent, 5), ())):
        odds = [noise.odds_after(number, flips) for number in (0, 1, 2, 3, 10, 50)]
        assert odds[0] == 1
        assert odds == sorted(odds)
        assert odds[-1] <= noise.odds_permanent(flips)


def test_the_bits_of_a_channel_that_is_drawn_are_kept_as_whole_numbers() -> None:
    noise = rappor_noise(HALF, QUARTER, F(3, 4))
    assert noise.permanent_units == (3 * UNITS // 4, UNITS // 4)
    assert noise.instantaneous_units == (3 * UNITS // 4, UNITS // 4)
    assert (noise.q_star, noise.p_star) == (F(5, 8), F(3, 8))


# --- rules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("one", "zero"), [(HALF, HALF), (QUARTER, HALF), (F(5, 4), HALF), (HALF, F(-1, 4))])
def test_a_bit_channel_must_tell_a_one_from_a_zero(one: Fraction, zero: Fraction) -> None:
    assert problems_of(lambda: BitChannel(one, zero)) == (
        f"a bit channel needs 0 <= when_zero < when_one <= 1, got when_zero={zero}, when_one={one}",
    )


@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        ((1, F(1), F(0)), "categories must be at least 2, got 1"),
        ((2, HALF, HALF), "a k-ary channel needs 0 <= other < truth <= 1, got other=1/2, truth=1/2"),
        ((3, HALF, F(1, 3)), "truth + 2 x other must be 1, got truth=1/2, other=1/3"),
    ],
)
def test_a_kary_channel_must_be_a_law(channel: tuple[int, Fraction, Fraction], expected: str) -> None:
    assert problems_of(lambda: KaryChannel(*channel)) == (expected,)


@given(st.fractions(-1, 20, max_denominator=10_000) | st.sampled_from([SMALLEST, LARGEST]))
def test_the_limits_of_an_epsilon_are_those_that_are_stated(epsilon: Fraction) -> None:
    assert in_limits(epsilon) == (SMALLEST <= epsilon <= LARGEST)


def test_the_memo_must_leave_doubt() -> None:
    clear = BitChannel(F(1), F(0))
    assert problems_of(lambda: Noise(clear, clear)) == (
        "the permanent channel must leave doubt: its probabilities must lie between 0 and 1, got 0, 1",
    )
    assert problems_of(lambda: Noise(BitChannel(HALF, F(0)), clear)) == (
        "the permanent channel must leave doubt: its probabilities must lie between 0 and 1, got 0, 1/2",
    )


def test_both_stages_must_be_of_one_sort() -> None:
    bits, three = BitChannel(F(3, 4), QUARTER), KaryChannel(3, HALF, QUARTER)
    four = KaryChannel(4, HALF + F(1, 8), F(1, 8))
    assert problems_of(lambda: Noise(bits, three)) == (
        "the permanent and the instantaneous channel must be of one sort",
    )
    assert problems_of(lambda: Noise(three, four)) == (
        "both channels must have the same number of categories, got 3 and 4",
    )


def test_what_is_drawn_must_be_a_multiple_of_the_smallest_step() -> None:
    assert problems_of(lambda: Noise(BitChannel(F(2, 3), QUARTER), BitChannel(F(3, 4), F(1, 5)))) == (
        "the permanent channel must have multiples of 2**-24, got 2/3",
        "the instantaneous channel must have multiples of 2**-24, got 1/5",
    )


# --- epsilons -----------------------------------------------------------------------------------------------------


@given(EPSILONS)
def test_exp_below_is_below_and_near(epsilon: Fraction) -> None:
    """Against the exponential to 200 digits."""
    context = Context(prec=200)
    exact = F(context.exp(context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))))
    assert 0 < (exact - exp_below(epsilon)) / exact < F(1, 10**57)


@given(st.fractions(F(1), F(10**7), max_denominator=10**6), st.integers(1, 8))
def test_log_above_is_the_first_step_that_reaches_the_odds(odds: Fraction, decimals: int) -> None:
    epsilon, step = log_above(odds, decimals), F(1, 10**decimals)
    assert (epsilon / step).denominator == 1
    assert odds == 1 or exp_below(epsilon) >= odds
    assert epsilon == 0 or exp_below(epsilon - step) < odds


def test_log_above_of_what_exp_below_allows_is_not_above_it() -> None:
    for epsilon in (F(1, 100), F(1, 2), F(1), F(31, 10), F(16)):
        assert log_above(exp_below(epsilon)) == epsilon


@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [(F(1), "1"), (F(11, 5), "2.2"), (F(100), "100"), (F(43945, 10000), "4.4"), (F(0), "0"), (F(1, 10**9), "0.01")],
)
def test_an_epsilon_is_shown_rounded_up(epsilon: Fraction, shown: str) -> None:
    assert show(epsilon) == shown


@given(st.fractions(F(0), F(100)), st.integers(1, 6))
def test_a_shown_epsilon_never_understates(epsilon: Fraction, decimals: int) -> None:
    assert 0 <= F(show(epsilon, decimals)) - epsilon < F(1, 10**decimals)
