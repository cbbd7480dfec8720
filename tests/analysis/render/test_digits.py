"""A number has the digits that its interval can tell."""

from __future__ import annotations

from math import inf, nan

import pytest

from hubbub.analysis.render.digits import Digits, decimals_of


@pytest.mark.parametrize(
    ("half_width", "decimals"),
    [(0.9, 1), (0.13, 2), (0.096, 2), (2.0, 0), (12.0, 0), (23.0, -1), (340.0, -2), (0.09999999999, 2), (1e-9, 6)],
)
def test_the_half_width_is_rounded_to_one_digit_or_two_if_it_begins_with_one(half_width: float, decimals: int) -> None:
    assert decimals_of(half_width) == decimals


@pytest.mark.parametrize("half_width", [0.0, -1.0, nan, inf])
def test_an_interval_without_a_width_tells_no_digits(half_width: float) -> None:
    assert decimals_of(half_width) is None
    assert Digits(None).figure(1234.5678) == "1.23e+03"


def plain(words: str) -> str:
    return words.replace("\N{NO-BREAK SPACE}", " ")


def test_a_share_an_interval_and_its_spread_are_written_as_in_the_rules() -> None:
    share = Digits.of([(0.614, 0.632)], is_share=True)
    assert plain(share.value(0.6234)) == "62.3 %"
    assert plain(share.interval(0.614, 0.632)) == "61.4 to 63.2 %"
    assert share.spread(0.623, 0.614, 0.632) == "± 0.9"
    assert share.spread(0.623, 0.610, 0.632) == "(61.0 to 63.2)"
    assert share.spread(0.0497, 0.0442, 0.0551) == "± 0.5", "0.55 below and 0.54 above are the same to that digit"
    assert plain(Digits.of([(0.69, 0.73)], is_share=True).interval(0.69, 0.73)) == "69 to 73 %"
    assert plain(Digits.of([(1.85, 2.03)], unit="s").value(1.9412)) == "1.94 s"
    assert Digits.of([(1000.0, 1680.0)]).figure(1234.0) == "1,200"


def test_the_narrowest_interval_of_a_column_decides() -> None:
    column = Digits.of([(0.0, 0.4), (0.30, 0.306), (nan, nan)], is_share=True)
    assert [column.figure(x) for x in (0.2, 0.303)] == ["20.0", "30.3"]


def test_no_share_is_written_below_zero_or_above_all() -> None:
    share = Digits.of([(-0.02, 0.03)], is_share=True)
    assert plain(share.value(-0.004)) == "0 %"
    assert plain(share.interval(-0.02, 1.03)) == "0 to 100 %"
    assert share.figure(nan) == share.value(nan) == share.difference(nan) == "unknown"


def test_a_difference_has_no_sign_and_that_of_shares_is_in_points() -> None:
    assert plain(Digits(0, is_share=True).difference(-0.06)) == "6 points"
    assert plain(Digits(0, is_share=True).difference(0.01)) == "1 point"
    assert plain(Digits(2, unit="s").difference(-0.2)) == "0.20 s"


def test_the_interval_of_a_difference_has_signs_and_its_unit_once() -> None:
    assert plain(Digits(1, is_share=True).signed(-0.012, 0.004)) == "−1.2 to +0.4 points"
    assert plain(Digits(2, unit="s").signed(0.07, 0.33)) == "+0.07 to +0.33 s"
    assert plain(Digits(2, unit="s").signed(0.2, 0.2)) == "+0.20 s"
    assert plain(Digits(1, is_share=True).signed(-0.029, -0.0001)) == "−2.9 to 0.0 points", "zero has no sign"
    assert Digits(2).signed(nan, 1.0) == "unknown"


def test_round_numbers_of_an_axis_have_as_few_decimals_as_write_them() -> None:
    assert [Digits(2, unit="s").exact([1.5, 2.0]).figure(x) for x in (1.5, 2.0)] == ["1.5", "2.0"]
    assert plain(Digits(1, is_share=True).exact([0.3, 0.6]).value(0.3)) == "30 %"
    assert Digits(2).exact([0.0, 20_000.0]).figure(20_000) == "20,000"


def test_a_number_that_is_rounded_to_nothing_is_not_negative() -> None:
    assert Digits(1).figure(-0.01) == "0.0"
