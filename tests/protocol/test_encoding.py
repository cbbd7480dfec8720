"""From values to masks: every kind, absent, clamping, wrong values, and rounding by dither that is exactly fair."""

from __future__ import annotations

import copy
import pickle
import unicodedata
from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protocol.bloom import digest, positions, string_mask
from hubbub.protocol.encoding import ABSENT, DITHER_BITS, Encoded, WrongValue
from hubbub.protocol.kinds import Choice, Flag, Histogram, Mean, Range, String
from hubbub.protocol.shape import Shape

F = Fraction
FLAG = Flag(absent=True)
CHOICE = Choice(choices=("a", "b", "\u00e9"), absent=None)
STRING = String(num_bits=64, num_hashes=2, num_cohorts=128)
MEAN = Mean(low=F(-10), high=F(30), absent=F(10))
HISTOGRAM = Histogram(edges=(F(0), F(1), F(10), F(100), F(1000)), buckets_per_report=2)
RANGE = Range(low=F(0), high=F(64), num_leaves=64, branching=4)
NUMBERS: list[Shape] = [MEAN, HISTOGRAM, RANGE]
SHAPES: list[Shape] = [FLAG, CHOICE, STRING, *NUMBERS]


def kind(shape: Shape) -> str:
    return shape.kind


# --- each kind ----------------------------------------------------------------------------------------------------


def test_what_was_not_recorded_is_itself_in_every_copy_and_process() -> None:
    """`value is ABSENT` is asked everywhere."""
    assert copy.copy(ABSENT) is copy.deepcopy([ABSENT])[0] is pickle.loads(pickle.dumps(ABSENT)) is ABSENT
    assert repr(ABSENT) == "ABSENT"


def test_a_flag_is_its_bit() -> None:
    assert [FLAG.encode(value, 0).mask for value in (True, False, ABSENT)] == [1, 0, 1]
    assert Flag(absent=False).encode(ABSENT, 0).mask == 0


def test_a_choice_is_one_position() -> None:
    assert [CHOICE.encode(value, 0).mask for value in ("a", "b", "\u00e9", ABSENT)] == [1, 2, 4, 8]
    assert Choice(choices=("a", "b"), absent="b").encode(ABSENT, 0).mask == 2


def test_a_string_is_its_distinct_positions_and_absent_none() -> None:
    for cohort in range(128):
        mask = STRING.encode("example.org", cohort).mask
        assert mask.bit_count() == 2
        assert mask == sum(1 << position for position in positions(digest("example.org"), cohort, 64, 2))
    assert STRING.encode(ABSENT, 5).mask == 0


def test_a_string_of_one_bit_is_a_parity_that_cohorts_disagree_about() -> None:
    shape = String(num_bits=1, num_hashes=1, num_cohorts=64)
    masks = [shape.encode("example.org", cohort).mask for cohort in range(64)]
    assert set(masks) == {0, 1}
    assert masks == [positions(digest("example.org"), cohort, 2, 1)[0] for cohort in range(64)]


@given(st.text(), st.integers(0, 127))
def test_texts_that_look_the_same_are_the_same(text: str, cohort: int) -> None:
    try:
        mask = STRING.encode(text, cohort)
    except WrongValue:
        assert any("\ud800" <= character <= "\udfff" for character in text)
        return
    for form in ("NFC", "NFD"):
        assert STRING.encode(unicodedata.normalize(form, text), cohort) == mask


@given(
    text=st.text(st.characters(blacklist_categories=["Cs"]), max_size=20),
    cohort=st.integers(0, 65_535),
    num_bits=st.integers(2, 300),
    num_hashes=st.integers(1, 64),
)
def test_positions_are_distinct_and_in_range(text: str, cohort: int, num_bits: int, num_hashes: int) -> None:
    num_hashes = min(num_hashes, num_bits)
    found = positions(digest(text), cohort, num_bits, num_hashes)
    assert len(set(found)) == num_hashes
    assert set(found) <= set(range(num_bits))
    assert string_mask(text, cohort, num_bits, num_hashes).bit_count() == num_hashes


@pytest.mark.parametrize(
    ("value", "bucket"), [(0, 0), (0.999, 0), (1, 1), (F(99, 10), 1), (10, 2), (100, 3), (999, 3), (1000, 3)]
)
def test_a_histogram_asks_each_cohort_about_its_own_buckets(value: Any, bucket: int) -> None:
    for cohort in range(4):
        asked = [HISTOGRAM.bucket(cohort, position) for position in range(2)]
        expected = 1 << asked.index(bucket) if bucket in asked else 0
        assert HISTOGRAM.encode(value, cohort) == Encoded(expected, clamped=False)


def test_every_bucket_is_asked_by_as_many_cohorts() -> None:
    asked = [HISTOGRAM.bucket(cohort, position) for cohort in range(4) for position in range(2)]
    assert sorted(asked) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_histogram_that_asks_all_buckets_has_one_cohort() -> None:
    shape = Histogram(edges=HISTOGRAM.edges, buckets_per_report=4)
    assert shape.num_cohorts == 1
    assert [shape.encode(value, 0).mask for value in (0, 1, 10, 100)] == [1, 2, 4, 8]


@pytest.mark.parametrize(("value", "leaf"), [(0, 0), (0.5, 0), (1, 1), (63.999, 63), (64, 63), (F(32), 32)])
def test_a_range_shows_the_node_above_the_leaf_at_the_level_of_the_cohort(value: Any, leaf: int) -> None:
    assert [RANGE.encode(value, cohort).mask for cohort in range(3)] == [1 << leaf // 16, 1 << leaf // 4, 1 << leaf]


@given(st.fractions(-10, 74))
def test_each_node_lies_under_its_parent(value: Fraction) -> None:
    nodes = [RANGE.encode(value, cohort).mask.bit_length() - 1 for cohort in range(3)]
    assert [nodes[1] // 4, nodes[2] // 4] == nodes[:2]


@pytest.mark.parametrize("shape", [STRING, HISTOGRAM, RANGE], ids=kind)
def test_absent_is_the_empty_mask_where_none_is_declared(shape: Shape) -> None:
    assert all(shape.encode(ABSENT, cohort) == Encoded(0) for cohort in range(shape.num_cohorts))


# --- means --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sixteenths", range(17))
def test_a_mean_is_rounded_up_with_exactly_its_share_of_the_dithers(sixteenths: int) -> None:
    """A coarse set of dithers, one from the middle of each sixteenth of their range, is as fair as all 2**64."""
    value = MEAN.low + F(sixteenths, 16) * (MEAN.high - MEAN.low)
    dithers = [(2 * i + 1) * 2 ** (DITHER_BITS - 5) for i in range(16)]
    assert sum(MEAN.encode(value, 0, dither).mask for dither in dithers) == sixteenths


@given(st.fractions(MEAN.low, MEAN.high))
def test_the_dithers_that_round_up_are_counted_exactly(value: Fraction) -> None:
    """They are the topmost floor(2**64 share) ones: the mask changes there and nowhere else."""
    share = (value - MEAN.low) / (MEAN.high - MEAN.low)
    first = 2**DITHER_BITS - int(share * 2**DITHER_BITS)
    probes = {0, first - 2, first - 1, first, first + 1, 2**DITHER_BITS - 1}
    for dither in (dither for dither in probes if 0 <= dither < 2**DITHER_BITS):
        assert MEAN.encode(value, 0, dither).mask == (dither >= first)


def test_absent_in_a_mean_counts_as_the_declared_number() -> None:
    for dither in (0, 2**63 - 1, 2**63, 2**64 - 1):
        assert MEAN.encode(ABSENT, 0, dither) == MEAN.encode(10, 0, dither)


def test_one_install_rounds_rising_numbers_up_from_one_point_on() -> None:
    """Alpha is fixed for an install, so a number that moves a little seldom shows it."""
    for dither in (0, 2**60, 2**63, 2**64 - 1):
        masks = [MEAN.encode(value, 0, dither).mask for value in range(-10, 31)]
        assert masks == sorted(masks)


# --- numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", NUMBERS, ids=kind)
def test_a_number_out_of_range_is_clamped_and_said_to_be(shape: Shape) -> None:
    low, high = (shape.edges[0], shape.edges[-1]) if isinstance(shape, Histogram) else (shape.low, shape.high)
    for cohort in range(shape.num_cohorts):
        for inside, outside in ((low, low - F(1, 10**30)), (high, high + F(1, 10**30)), (low, -1e308), (high, 1e308)):
            assert shape.encode(inside, cohort, 7).clamped is False
            assert shape.encode(outside, cohort, 7) == Encoded(shape.encode(inside, cohort, 7).mask, clamped=True)


@pytest.mark.parametrize("shape", NUMBERS, ids=kind)
@pytest.mark.parametrize(
    "value",
    [
        *(3, 3.0, Decimal(3), F(3)),
        *(np.int8(3), np.int64(3), np.uint16(3), np.float16(3), np.float32(3), np.float64(3), np.array(3)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_number_of_any_type_is_the_same_number(shape: Shape, value: Any) -> None:
    for cohort in range(shape.num_cohorts):
        assert shape.encode(value, cohort, 2**63) == shape.encode(3, cohort, 2**63)


def test_a_number_is_the_decimal_that_a_person_writes() -> None:
    """The float 0.3 is a little less than three tenths, and means three tenths: it is not below an edge at 0.3."""
    shape = Histogram(edges=(F(0), F(3, 10), F(1)), buckets_per_report=2)
    assert [shape.encode(value, 0).mask for value in (0.3, Decimal("0.3"), F(3, 10))] == [2, 2, 2]
    assert shape.encode(0.29999999999999993, 0).mask == 1


@pytest.mark.parametrize(
    ("text", "mask", "clamped"),
    [("1e999999", 1, True), ("-1e999999", 0, True), ("1e-999999", 0, False), ("0e999999", 0, False)],
)
def test_a_decimal_too_long_to_write_out_costs_no_memory(text: str, mask: int, clamped: bool) -> None:
    shape = Mean(low=F(0), high=F(30), absent=F(0))
    assert shape.encode(Decimal(text), 0) == Encoded(mask, clamped)


def test_numpy_truth_is_a_flag_and_numpy_text_a_choice() -> None:
    assert [FLAG.encode(value, 0).mask for value in (np.True_, np.False_)] == [1, 0]
    assert CHOICE.encode(np.str_("b"), 0).mask == 2
    assert STRING.encode(np.str_("x"), 3) == STRING.encode("x", 3)


# --- wrong values -------------------------------------------------------------------------------------------------

WRONG: list[tuple[Shape, Any, str]] = [
    (FLAG, "secret", "must be True or False, got str"),
    (FLAG, 1, "must be True or False, got int"),
    (FLAG, None, "must be True or False, got NoneType"),
    (CHOICE, "secret", "must be one of the 3 declared choices, got an undeclared str"),
    (CHOICE, "e\u0301", "must be one of the 3 declared choices, got an undeclared str"),
    (CHOICE, ["a"], "must be one of the 3 declared choices, got an undeclared list"),
    (CHOICE, 0, "must be one of the 3 declared choices, got an undeclared int"),
    (STRING, b"secret", "must be a string, got bytes"),
    (STRING, 12345, "must be a string, got int"),
    (STRING, "secret\ud800", "must be valid Unicode, got a lone surrogate at 6"),
    *((shape, "12345", "must be a number, got str") for shape in NUMBERS),
    *((shape, True, "must be a number, got bool") for shape in NUMBERS),
    *((shape, np.True_, "must be a number, got bool") for shape in NUMBERS),
    *((shape, 1j, "must be a number, got complex") for shape in NUMBERS),
    *((shape, None, "must be a number, got NoneType") for shape in NUMBERS),
    *((shape, np.array([1, 2]), "must be a number, got ndarray") for shape in NUMBERS),
    *(
        (shape, value, "must be a finite number, got NaN or an infinity")
        for shape in NUMBERS
        for value in (nan, inf, -inf, Decimal("nan"), Decimal("snan"), Decimal("-inf"), np.float32(nan))
    ),
]


@pytest.mark.parametrize(("shape", "value", "sentence"), WRONG)
def test_a_wrong_value_is_refused_without_being_told(shape: Shape, value: Any, sentence: str) -> None:
    """The sentence may reach a log, so it names the rule and the type, never the value."""
    with pytest.raises(WrongValue) as caught:
        shape.encode(value, 0)
    assert str(caught.value) == sentence
    assert "secret" not in sentence
    assert "12345" not in sentence
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(),
    st.fractions(),
    st.complex_numbers(),
    st.text(),
    st.binary(max_size=4),
    st.lists(st.integers(), max_size=2),
    st.just(object()),
)


@pytest.mark.parametrize("shape", SHAPES, ids=kind)
@given(value=ANYTHING, cohort=st.integers(0, 2**20), dither=st.integers(0, 2**64 - 1))
def test_any_value_has_a_mask_within_the_width_or_is_wrong(shape: Shape, value: Any, cohort: int, dither: int) -> None:
    cohort %= shape.num_cohorts
    try:
        found = shape.encode(value, cohort, dither)
    except WrongValue:
        return
    assert 0 <= found.mask < 1 << shape.width(cohort)
    assert found == shape.encode(value, cohort, dither)
