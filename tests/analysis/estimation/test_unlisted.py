"""What strings that no list has add to a table: nothing where there are none, and the same from either side."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.factor_scores import Response, response, with_none
from hubbub.analysis.estimation.joint_law import PairGroup, PairLaw
from hubbub.analysis.estimation.unlisted import unlisted_excess
from hubbub.analysis.kinds.factor import one_bit
from hubbub.protocol.noise import many_bit_noise, one_bit_noise
from tests.analysis.joint_worlds import table

INSTALLS = 1_000_000
FLAG = one_bit(one_bit_noise(Fraction(1), Fraction(1)))
LISTED, BITS = 2, 6


def strings() -> Response:
    """Two listed strings have the first two of six bits; all others are taken to fall evenly on all of them. A listed
    one has what its bit has more than the four bits that are nobody's."""
    noise = many_bit_noise(Fraction(1), Fraction(1), 1)
    masks = np.vstack([np.eye(LISTED, BITS), np.full(BITS, 1 / BITS)])
    plain = response(noise, masks, np.zeros((LISTED + 1, BITS + 1)))
    gain = plain.expected[0, 0] - plain.expected[0, 1]
    scores = np.hstack([np.zeros((LISTED, 1)), np.eye(LISTED, BITS)])
    scores[:, 1 + LISTED :] = -1 / (BITS - LISTED)
    return response(noise, masks, with_none(scores / gain))


def law(uneven: float, turned: bool = False) -> PairLaw:
    """Counts as expected, but that two bits which no listed string has were set so much more and less often by those
    who have the flag."""
    text, shares = strings(), table(LISTED + 1, 2, 0.3)
    one, other = (np.hstack([np.ones((len(each.expected), 1)), each.expected]) for each in (text, FLAG))
    counts: Array = INSTALLS * one.T @ shares @ other
    counts[[3, 4], 1] += np.array([1, -1]) * uneven * INSTALLS
    sides = {"counts": counts.T, "first": FLAG, "second": text} if turned else {}
    group = PairGroup(**({"counts": counts, "first": text, "second": FLAG} | sides), sampling=1 / INSTALLS)
    return PairLaw([group], 1 / INSTALLS)


def test_counts_that_are_as_expected_add_nothing() -> None:
    assert not unlisted_excess(law(0.0), (True, False)).any()


def test_bits_that_are_set_unevenly_add_to_the_variance_of_every_string() -> None:
    """By their squares, less what noise explains: of twice the unevenness four times as much, and a little more."""
    small, large = (unlisted_excess(law(uneven), (True, False)) for uneven in (0.01, 0.02))
    assert small.shape == (LISTED + 1, 2)
    assert (small > 0).all()
    assert (large / small > 4).all()
    assert (large / small < 4.5).all()


def test_it_is_the_same_whichever_factor_is_a_string() -> None:
    by_row = unlisted_excess(law(0.02), (True, False))
    turned = unlisted_excess(law(0.02, turned=True), (False, True)).T
    assert turned == pytest.approx(by_row, rel=1e-9)
    assert not unlisted_excess(law(0.02, turned=True), (False, False)).any()
    assert not unlisted_excess(law(0.02), (False, False)).any()
    both = unlisted_excess(law(0.02), (True, True))
    assert both == pytest.approx(by_row + unlisted_excess(law(0.02), (False, True)), rel=1e-9)
