"""What a result says of its own rows: which leads, which to show."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hubbub.analysis import Options, decode
from hubbub.analysis.result import ANSWER, NUMBER, Decoding
from hubbub.protocol.kinds import Choice, Flag, Histogram, Mean, Range, String
from tests.analysis.worlds import Strings, define, tally_of, zipf

RNG = np.random.default_rng(4)


def choices(size: int) -> Decoding:
    """The last one is the most common."""
    metric = define(Choice(choices=tuple(f"c{i}" for i in range(size)), absent="c0"))
    return decode(tally_of(metric, (zipf(size)[::-1] * 200_000).astype(int), RNG))


@pytest.mark.parametrize(
    ("shape", "counts", "options", "leader"),
    [
        (Flag(), [100, 900], Options(), "yes"),
        (Mean(low=Fraction(0), high=Fraction(9), absent=Fraction(0)), [500, 500], Options(), "mean"),
        (Range(low=Fraction(0), high=Fraction(4), num_leaves=4, branching=2), [500] * 5, Options(), "quantile 0.5"),
        (
            Range(low=Fraction(0), high=Fraction(4), num_leaves=4, branching=2),
            [500] * 5,
            Options(quantiles=(0.5, 0.99)),
            "quantile 0.5",
        ),
        (
            Range(low=Fraction(0), high=Fraction(4), num_leaves=4, branching=2),
            [0, 90_000, 0, 0, 100],
            Options(quantiles=()),
            "[1, 2)",
        ),
        (
            Histogram(edges=tuple(map(Fraction, range(4))), buckets_per_report=3),
            [0, 9_000, 10, 20_000],
            Options(),
            "[1, 2)",
        ),
    ],
)
def test_the_row_that_says_most_leads(shape, counts, options, leader):
    found = decode(tally_of(define(shape), counts, RNG), options=options)
    assert found.values[found.leading_row] == leader


def test_absent_and_other_never_lead():
    strings = Strings.of(define(String(num_bits=32, num_hashes=1, num_cohorts=16)), 3)
    tally = tally_of(strings.metric, [4_000, 9_000, 0, 90_000], RNG, strings.where)
    found = decode(tally, strings.texts.tolist())
    assert found.leading_row == 1
    assert decode(tally, []).leading_row is None


def test_few_rows_keep_their_order_and_long_lists_show_what_was_detected_first():
    short, long = choices(20), choices(60)
    assert short.top_rows(50) == list(range(20))
    rows = long.top_rows(50)
    detected = [i for i in rows if long.detected[i]]
    assert rows[: len(detected)] == detected
    assert 0 < len(detected) < 50
    assert len(rows) == len(detected) + 10, "ten more, so that the undetected do not bury the rest"
    assert all(a >= b for a, b in zip(long.estimate[detected], long.estimate[detected[1:]], strict=False))
    assert len(long.top_rows(3)) == 3


def test_an_open_list_is_sorted_however_short_and_ends_with_what_is_no_answer():
    strings = Strings.of(define(String(num_bits=32, num_hashes=1, num_cohorts=16)), 3)
    found = decode(tally_of(strings.metric, [40_000, 90_000, 0], RNG, strings.where), strings.texts.tolist())
    assert found.is_open
    assert found.top_rows(50) == [1, 0, 2, 3, 4]
    assert found.roles[3:] == ("absent", "other")


def test_numbers_are_all_shown():
    metric = define(Range(low=Fraction(0), high=Fraction(64), num_leaves=64, branching=4))
    found = decode(tally_of(metric, [100] * 65, RNG))
    assert found.top_rows(10) == list(range(len(found)))
    assert found.roles.count(NUMBER) == 5
    assert found.has_shares
    assert (
        found.largest_answers(2)
        == sorted((i for i in range(64) if found.roles[i] == ANSWER), key=lambda i: -found.estimate[i])[:2]
    )


def test_a_mean_has_no_shares():
    metric = define(Mean(low=Fraction(0), high=Fraction(9), absent=Fraction(0)))
    found = decode(tally_of(metric, [500, 500], RNG))
    assert not found.has_shares
    assert not found.is_open
    assert found.largest_answers(5) == []


def test_shares_are_counted_in_installs_and_numbers_count_nobody():
    metric = define(Range(low=Fraction(0), high=Fraction(4), num_leaves=4, branching=2))
    found = decode(tally_of(metric, [500, 200, 200, 100, 0], RNG, epochs=(1, 2)))
    is_number = np.array([role == NUMBER for role in found.roles])
    assert found.counts[~is_number] == pytest.approx(1_000 * found.estimate[~is_number]), "two epochs are averaged"
    assert np.isnan(found.counts[is_number]).all()
    assert is_number.sum() == 5
