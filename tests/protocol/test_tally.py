"""Tallies: counting is addition; definitions never mix; a file leads there and back or is refused in words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protocol.cadence import epoch_text
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.metric import Definition
from hubbub.protocol.report import Report
from hubbub.protocol.tally import Counts, Tally, count, merge
from tests.protocol.test_metric import mutated
from tests.protocol.test_report import reports
from tests.protocol.toml import SHAPES, registry


def definition(kind: str = "flag", /, **changes: str | None) -> Definition:
    return Definition.from_json(registry(kind, **changes)["it"].to_json())


METRIC = definition("histogram")
lists_of_reports = st.lists(
    st.builds(Report, st.just(METRIC), st.integers(1, 3), st.integers(0, 2), st.integers(0, 3)), max_size=12
)


def flags(*bits: int, epoch: int = 1) -> Tally:
    metric = definition()
    return count(metric, [Report(metric, epoch, 0, bit) for bit in bits])


def test_some_epochs_are_named_as_the_cadence_does_or_by_the_keys_of_epochs() -> None:
    both = flags(1, 0, epoch=2960) + flags(1, epoch=2961)
    (first, second), every = both.epochs, both.metric.every
    assert list(both.only(second).epochs) == [2961]
    assert both.only(*both.epochs) == both
    assert both.only(epoch_text(every, first)) == both.only(first)
    for missing in (7, epoch_text(every, 2959)):
        with pytest.raises(Invalid, match=f"epoch {missing} of it must be one that was counted"):
            both.only(missing)


# --- counting and adding ------------------------------------------------------------------------------------------


@given(lists_of_reports)
def test_counting_counts_each_bit_of_each_report(found: list[Report]) -> None:
    tally = count(METRIC, found)
    assert list(tally.epochs) == sorted({report.epoch for report in found})
    for epoch, counts in tally.epochs.items():
        for cohort in range(3):
            rows = [report.bits for report in found if (report.epoch, report.cohort) == (epoch, cohort)]
            assert counts.num_reports[cohort] == len(rows)
            assert counts.bit_counts[cohort] == tuple(sum(bits >> i & 1 for bits in rows) for i in range(2))
    assert tally.num_reports == len(found)


@given(st.lists(reports(), min_size=1, max_size=12))
def test_any_report_can_be_counted(found: list[Report]) -> None:
    for report in found:
        tally = count(report.metric, [report, report])
        ones = sum(map(sum, tally.epochs[report.epoch].bit_counts))
        assert (tally.num_reports, ones) == (2, 2 * report.bits.bit_count())


@given(lists_of_reports, lists_of_reports, lists_of_reports)
def test_merging_is_addition(a: list[Report], b: list[Report], c: list[Report]) -> None:
    one, two, three = (count(METRIC, part) for part in (a, b, c))
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)
    assert one + two == count(METRIC, a + b)
    assert one + count(METRIC, []) == one
    assert merge([one, two, three]) == {METRIC.metric_hash: one + two + three}


def test_tallies_of_different_definitions_never_mix() -> None:
    other = definition(every='"day"')
    with pytest.raises(Invalid) as caught:
        flags(1) + count(other, [])
    assert str(caught.value) == (
        f"tallies must be of one definition to be merged, got it {definition().metric_hash} and it {other.metric_hash}"
    )
    assert set(merge([flags(1), count(other, [])])) == {definition().metric_hash, other.metric_hash}


def test_a_tally_counts_no_report_of_another_definition() -> None:
    other = definition(every='"day"')
    with pytest.raises(Invalid, match="a tally of it cannot count a report of it"):
        count(definition(), [Report(other, 1, 0, 1)])


def test_a_metric_and_its_definition_count_as_one() -> None:
    """Terms are not part of a definition: a registry with another `why` counts on."""
    metric = registry(why='"Another reason"')["it"]
    assert count(definition(), [Report(metric, 1, 0, 1)]).num_reports == 1
    assert (flags(1) + Tally(metric, {})).num_reports == 1


# --- rules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "counts", "sentence"),
    [
        ("flag", Counts((1, 1), ((0,),)), "num_reports must have 1 cohorts, got 2"),
        ("flag", Counts((1,), ((0,), (0,))), "bit_counts must have 1 cohorts, got 2"),
        ("flag", Counts((1,), ((0, 0),)), "bit_counts of cohort 0 must have 1 bits, got 2"),
        ("flag", Counts((-1,), ((0,),)), "num_reports of cohort 0 must be in [0, 9223372036854775807], got -1"),
        ("flag", Counts((1,), ((2,),)), "bit_counts of cohort 0 must be in [0, num_reports=1], got 2 to 2"),
        ("flag", Counts((1,), ((-1,),)), "bit_counts of cohort 0 must be in [0, num_reports=1], got -1 to -1"),
        ("choice", Counts((3,), ((1, 1, 0, 0),)), "bit_counts of cohort 0 must add up to num_reports=3, got 2"),
    ],
)
def test_counts_that_cannot_be_are_refused_in_words(kind: str, counts: Counts, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        Tally(definition(kind), {7: counts})
    assert caught.value.problems == (f"metric it, epoch 7: {sentence}",)


def test_an_epoch_must_fit_32_bits() -> None:
    with pytest.raises(Invalid, match="epoch must fit 32 bits"):
        Tally(definition(), {2**31: Counts((0,), ((0,),))})


# --- files --------------------------------------------------------------------------------------------------------


@given(lists_of_reports)
def test_a_file_leads_back_to_the_tally(found: list[Report]) -> None:
    tally = count(METRIC, found)
    assert Tally.from_json(tally.to_json()) == tally
    assert Tally.from_json(tally.to_json().encode()) == tally


@pytest.mark.parametrize("kind", SHAPES)
def test_a_tally_of_each_kind_leads_back(kind: str) -> None:
    metric = definition(kind)
    tally = count(metric, [Report(metric, epoch, 0, 1) for epoch in (-3, 5, 5)])
    assert Tally.from_json(tally.to_json()) == tally


def test_a_file_has_one_epoch_a_line_in_ascending_order() -> None:
    lines = (flags(1, epoch=9) + flags(0, 1, epoch=8)).to_json().splitlines()
    assert lines[1:] == [
        '  {"epoch": 8, "num_reports": [2], "bit_counts": [[1]]},',
        '  {"epoch": 9, "num_reports": [1], "bit_counts": [[1]]}',
        "]}",
    ]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"format": "csv"}, "not a tally: format must be 'hubbub.tally', got 'csv'"),
        ({"version": 2}, "version must be 1, got 2"),
        ({"version": True}, "version must be 1, got True"),
        ({"metric_hash": "00"}, f"metric_hash must be {definition().metric_hash}, that of its metric, got '00'"),
        (
            {"note": 1},
            "a tally must have exactly the keys 'epochs', 'format', 'metric', 'metric_hash', 'version', got "
            "'epochs', 'format', 'metric', 'metric_hash', 'note', 'version'",
        ),
        ({"epochs": {}}, "epochs must be a list, got a table of 0"),
        ({"epochs": [1]}, "an epoch must have exactly the keys 'bit_counts', 'epoch', 'num_reports', got 1"),
        (
            {"epochs": [{"epoch": 1}]},
            "an epoch must have exactly the keys 'bit_counts', 'epoch', 'num_reports', got 'epoch'",
        ),
        (
            {"epochs": [{"epoch": "1", "num_reports": [0], "bit_counts": [[0]]}]},
            "epoch must be a whole number that comes once, got '1'",
        ),
        (
            {"epochs": [{"epoch": 1, "num_reports": [0], "bit_counts": 0}]},
            "bit_counts must be a list of lists, got 0",
        ),
        (
            {"epochs": [{"epoch": 1, "num_reports": [0.5], "bit_counts": [[0]]}]},
            "num_reports and the rows of bit_counts must be lists of whole numbers, got a list of 1",
        ),
    ],
)
def test_a_file_that_is_no_tally_is_refused_in_words(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        Tally.from_json(json.dumps({**json.loads(flags(1).to_json()), **changes}))
    assert str(caught.value) == sentence


@given(lists_of_reports, st.data())
def test_a_file_changed_anywhere_is_another_tally_or_refused(found: list[Report], data: st.DataObject) -> None:
    changed = mutated(json.loads(count(METRIC, found).to_json()), data.draw)
    try:
        tally = Tally.from_json(json.dumps(changed))
    except Invalid:
        return
    assert json.loads(tally.to_json())["metric"] == changed["metric"]
    by_epoch = {epoch["epoch"]: epoch for epoch in changed["epochs"]}
    assert {epoch["epoch"]: epoch for epoch in json.loads(tally.to_json())["epochs"]} == by_epoch


@given(st.binary(max_size=80) | st.text(max_size=80))
def test_any_bytes_are_a_tally_or_refused(source: bytes | str) -> None:
    with pytest.raises(Invalid):
        Tally.from_json(source)
