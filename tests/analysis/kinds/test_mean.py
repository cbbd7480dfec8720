"""Means: intervals keep to the limits, and the sum is that of the installs of an average epoch."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hubbub.analysis import Options, decode
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Mean
from hubbub.protocol.tally import Counts, Tally
from tests.analysis.worlds import define

METRIC = define(Mean(low=Fraction(-5), high=Fraction(30), absent=Fraction(0)))


@pytest.mark.parametrize("ones", [0, 40, 100])
def test_an_interval_keeps_to_the_limits_of_the_number(ones):
    found = decode(Tally(METRIC, {0: Counts((100,), ((ones,),))}))
    assert -5 <= found.low[0] <= found.high[0] <= 30
    assert -5 <= found.best_guess[0] <= 30
    assert (found.low[0] == -5) == (ones == 0)
    assert (found.high[0] == 30) == (ones == 100)


def test_the_sum_is_of_the_installs_of_an_average_epoch():
    found = decode(Tally(METRIC, {0: Counts((100,), ((60,),)), 1: Counts((300,), ((150,),))}))
    assert found.installs == 200
    for column in (found.estimate, found.std_error, found.low, found.high):
        assert column[1] == pytest.approx(200 * column[0])


def test_a_mean_of_those_who_answered_is_refused_in_words():
    metric = define(Mean(low=Fraction(0), high=Fraction(30), absent=Fraction(5)))
    tally = Tally(metric, {2960: Counts((1_000,), ((500,),))})
    words = "asked is a mean, in which those that recorded nothing count as 5 .absent = "
    with pytest.raises(Invalid, match=words):
        decode(tally, options=Options(exclude_absent=True))
