"""Numbers in words, and the table printer that all commands share."""

from __future__ import annotations

from math import nan

import pytest

from hubbub.protocol.printed import (
    fixed_percent,
    in_points,
    intervals_of,
    number,
    percent,
    plain_percent,
    points,
    short_number,
    short_percent,
    text_table,
)


def test_a_table_has_names_to_the_left_numbers_to_the_right_and_no_trailing_blanks():
    lines = text_table(["metric", "found", ""], [["a", "1", "x"], ["longer", "1,000", ""]], left=(0, 2))
    assert lines == [
        "metric  found",
        "a           1  x",
        "longer  1,000",
    ]
    assert text_table(["n", "m"], [["1", "22"]], left=()) == ["n   m", "1  22"]


def test_a_cell_is_cut_where_it_is_too_long_and_writes_no_control_characters():
    (_, line) = text_table(["value"], [["x" * 50]])
    assert line == "x" * 39 + "…"
    assert text_table(["value"], [["a\x1b[31mb\n"]])[1] == "a�[31mb�"
    assert text_table(["value"], [["x" * 50]], longest=60)[1] == "x" * 50


@pytest.mark.parametrize(
    ("share", "words", "short"),
    [
        (0.5, "50.0 %", "50 %"),
        (0.0123, "1.23 %", "1.2 %"),
        (0.00045, "0.0450 %", "0.045 %"),
        (0.0, "0 %", "0 %"),
        (1e-9, "0 %", "0.00000010 %"),
    ],
)
def test_shares_are_percent_with_digits_that_say_something(share, words, short):
    assert percent(share) == words
    assert short_percent(share) == short


def test_what_is_not_known_is_said_so():
    assert percent(nan) == "unknown"
    assert number(nan) == "unknown"
    assert number(1234567.0) == "1.23457e+06"


@pytest.mark.parametrize(
    ("installs", "words"),
    [(999, "999"), (9_999, "9,999"), (12_345, "12,000"), (1_234_567, "1.23 M"), (4e9, "4 billion")],
)
def test_crowds_are_said_as_one_would_say_them_aloud(installs, words):
    assert short_number(installs) == words


def test_round_shares_and_intervals_have_no_more_digits_than_they_need():
    assert [plain_percent(share) for share in (0.05, 0.001, 0.07, 1 / 3)] == ["5 %", "0.1 %", "7 %", "33.3333 %"]
    assert plain_percent(0.12345, 3) == "12.3 %"
    assert [fixed_percent(0.5), fixed_percent(0.5, 0), fixed_percent(0.02, sign="+")] == ["50.0 %", "50 %", "+2.0 %"]
    assert intervals_of(0.95) == "95 % interval"


def test_shares_differ_by_points_of_percent():
    assert [points(0.05), points(0.1234, ".2g"), points(0.01)] == ["5 points", "12 points", "1 point"]
    assert [in_points(-0.012, ".1f"), points(nan)] == ["-1.2", "unknown points"]


def test_a_table_without_a_header_has_only_its_rows_and_may_cut_nothing():
    assert text_table((), [("a", "x" * 50)], left=(0, 1), longest=None, widths=(4, 0), gap=" ") == ["a    " + "x" * 50]
    assert text_table((), []) == []
