"""Populations are what their short forms and files say, and anything else is refused with the form that was wanted."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Flag, Histogram, Mean, Range, Set, String
from hubbub.simulations.people.distribution import FORMS, default_population, parse_population, weighted_values

FLAG = Flag()
CHOICE = Choice(choices=("a", "b", "c", "d"))
STRING = String(num_bits=8, num_hashes=1, num_cohorts=4)
MEAN = Mean(low=Fraction(0), high=Fraction(10), absent=Fraction(0), unit="s")
HISTOGRAM = Histogram(edges=tuple(map(Fraction, (0, 1, 10, 100))), buckets_per_report=3)
RANGE = Range(low=Fraction(0), high=Fraction(64), num_leaves=64, branching=4)
SET = Set(items=("a", "b", "c"))
SHAPES = (FLAG, CHOICE, STRING, MEAN, HISTOGRAM, RANGE, SET)


def shares(shape, text: str) -> dict:
    found = parse_population(shape, text)
    return dict(zip(found.values, found.shares.tolist(), strict=True))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.kind)
def test_every_kind_has_a_default_whose_shares_add_up(shape):
    found = default_population(shape)
    assert found.shares.sum() == pytest.approx(1, abs=1e-12)
    assert len(found.values) == len(set(found.values)) == len(found.shares)


def test_lists_fall_with_the_rank_as_their_form_says():
    assert shares(FLAG, "share:30%") == pytest.approx({True: 0.3, False: 0.7})
    zipf = shares(CHOICE, "zipf:1")
    assert zipf == pytest.approx({"a": 12 / 25, "b": 6 / 25, "c": 4 / 25, "d": 3 / 25})
    exponential = list(shares(STRING, "exponential:10,100").values())
    assert np.allclose(np.diff(np.log(exponential)), -0.1)
    assert shares(STRING, "uniform:4") == pytest.approx({f"string {i}": 0.25 for i in (1, 2, 3, 4)})
    bell = list(shares(STRING, "normal:101").values())
    assert bell.index(max(bell)) == 50
    assert bell == pytest.approx(bell[::-1])


def used_by(text: str) -> dict[str, float]:
    found = shares(SET, text)
    return {item: sum(share for used, share in found.items() if item in used) for item in SET.items}


def test_each_item_of_a_set_is_used_by_its_share_whoever_uses_the_others(tmp_path):
    assert used_by("zipf:1") == pytest.approx({"a": 1 / 2, "b": 1 / 4, "c": 1 / 6}, abs=1e-3)
    assert used_by("uniform:30%") == pytest.approx(dict.fromkeys("abc", 0.3), abs=1e-3)
    # 4096 people: the share of those who use both would be off by .03 with probability 1e-6.
    both = sum(share for used, share in shares(SET, "uniform:50%").items() if {"a", "b"} <= used)
    assert both == pytest.approx(0.25, abs=0.03)
    file = tmp_path / "people.csv"
    file.write_text('items,count\na,3\n"a, c",1\n"",4\n')
    assert shares(SET, f"csv:{file}") == pytest.approx(
        {frozenset("a"): 3 / 8, frozenset("ac"): 1 / 8, frozenset(): 4 / 8}
    )
    file.write_text("a,3\nd,1\n")
    with pytest.raises(Invalid, match="line 2: the value must be one of the 3 declared items, got an undeclared str"):
        parse_population(SET, f"csv:{file}")
    with pytest.raises(Invalid, match="the population of a set must be one of zipf, uniform, csv, column, got 'share'"):
        parse_population(SET, "share:30%")
    with pytest.raises(Invalid, match=r"shares must be in \[0, 1\], got 1.5 to 1.5"):
        parse_population(SET, "uniform:150%")


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("normal:4,1.5", stats.norm(4, 1.5)),
        ("lognormal:3,0.4", stats.lognorm(0.4, scale=3)),
        ("exponential:2", stats.expon(scale=2)),
        ("uniform:2,8", stats.uniform(2, 6)),
    ],
)
def test_numbers_have_the_distribution_of_their_form_clamped_to_the_range(text, law):
    found = parse_population(MEAN, text)
    numbers = np.array(found.values)
    for x in (1, 3, 5, 9):
        assert found.shares[numbers < x].sum() == pytest.approx(law.cdf(x), abs=2e-3)
    assert numbers.min() >= 0
    assert numbers.max() <= 10
    assert found.shares @ numbers == pytest.approx(law.expect(lambda x: np.clip(x, 0, 10)), abs=5e-3)


def test_the_grid_is_finer_than_what_a_metric_tells_apart():
    buckets = np.searchsorted([1, 10], parse_population(HISTOGRAM, "lognormal:5,1").values, side="right")
    for bucket, share in enumerate(np.diff(stats.lognorm(1, scale=5).cdf([0, 1, 10, np.inf]))):
        assert parse_population(HISTOGRAM, "lognormal:5,1").shares[buckets == bucket].sum() == pytest.approx(share)
    leaves = np.floor(parse_population(RANGE, "uniform").values)
    assert np.bincount(leaves.astype(int), parse_population(RANGE, "uniform").shares) == pytest.approx([1 / 64] * 64)


def test_a_csv_gives_values_with_counts_and_a_column_gives_values(tmp_path):
    table, column = tmp_path / "values.csv", tmp_path / "values.txt"
    table.write_text('value,count\n"x, y",3\nz,1\nz,4\n', encoding="utf-8")
    assert shares(STRING, f"csv:{table}") == pytest.approx({"z": 5 / 8, "x, y": 3 / 8})
    column.write_text("3\n3\n\n7.5\n", encoding="utf-8")
    assert shares(MEAN, f"column:{column}") == pytest.approx({3.0: 2 / 3, 7.5: 1 / 3})
    table.write_text("yes,1\nNo,3\n", encoding="utf-8")
    assert shares(FLAG, f"csv:{table}") == pytest.approx({True: 0.25, False: 0.75})


@pytest.mark.parametrize(
    ("shape", "text", "words"),
    [
        (CHOICE, "zip:1", "the population of a choice must be one of zipf, exponential, normal, uniform, csv, column"),
        (FLAG, "half", "the population of a flag must be one of share, zipf"),
        (
            MEAN,
            "zipf:1",
            "the population of a mean must be one of normal, lognormal, exponential, uniform, csv, column",
        ),
        (CHOICE, "zipf:1,7", "COUNT is for strings; a choice lists its own values, got 'zipf:1,7'"),
        (STRING, "zipf:1,0", "COUNT must be a whole number in [1, 200000], got 0"),
        (STRING, "zipf:1,2,3", "a population must have the form zipf:EXPONENT,COUNT, got 'zipf:1,2,3'"),
        (MEAN, "normal:1", "a population must have the form normal:MEAN,SD, got 'normal:1'"),
        (MEAN, "normal:1,0", "SD must be above 0, got 0"),
        (MEAN, "uniform:5,5", "HIGH - LOW must be above 0, got 0"),
        (MEAN, "exponential:x", "the figures of a population must be numbers, got 'x' in 'exponential:x'"),
        (MEAN, "exponential:inf", "the figures of a population must be numbers, got 'inf' in 'exponential:inf'"),
        (FLAG, "share:2", "share must be in [0, 1], got 2"),
        (STRING, "exponential:-1", "exponential needs a MEAN above 0, got -1"),
    ],
)
def test_anything_else_is_refused_with_the_form_that_was_wanted(shape, text, words):
    with pytest.raises(Invalid) as refusal:
        parse_population(shape, text)
    assert str(refusal.value).startswith(words)


@pytest.mark.parametrize(
    ("shape", "content", "words"),
    [
        (STRING, "a,1,2\n", "line 1: needs two columns, value and count, got 3"),
        (STRING, "a,1\nb,many\n", "line 2: count must be a number, got 'many'"),
        (STRING, "", "a population needs at least one value, got none"),
        (MEAN, "a,1\n", "line 1: the value must be a number, got 'a'"),
        (CHOICE, "e,1\n", "line 1: the value must be one of the 4 declared choices, got an undeclared str: 'e'"),
        (FLAG, "maybe,1\n", "line 1: the value must be True or False, got str: 'maybe'"),
        (STRING, "a,-1\n", "the weights of a population must be finite, none negative, and not all 0"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path, shape, content, words):
    path = tmp_path / "values.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(Invalid) as refusal:
        parse_population(shape, f"csv:{path}")
    assert words in str(refusal.value)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "values.csv"
    path.write_bytes(b"\xff,1\n")
    with pytest.raises(Invalid, match="must be UTF-8, got a wrong byte at 0"):
        parse_population(STRING, f"csv:{path}")


def test_more_values_than_can_be_held_are_refused():
    with pytest.raises(Invalid, match="at most 200,000 different values, got 200,001"):
        weighted_values(range(200_001), np.ones(200_001), "", True)


def test_the_help_names_every_form():
    for name in ("share", "zipf", "exponential", "normal", "uniform", "lognormal", "csv", "column"):
        assert name in FORMS
