"""Epochs: days, weeks and months as numbers and back, against the calendar of the standard library."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protocol.cadence import CADENCES, epoch_of, epoch_start, epoch_text, parse_epoch
from hubbub.protocol.vocabulary import Cadence

DAY = 86_400
TWO_HUNDRED_YEARS = [date(1970, 1, 1) + timedelta(days=n) for n in range(200 * 366)]
PERIODS = ("day", "week", "month")


def noon(day: date) -> float:
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC).timestamp()


def test_the_cadences_are_those_that_type_checkers_know() -> None:
    assert get_args(Cadence) == CADENCES


def test_a_day_is_named_as_its_date_for_200_years() -> None:
    for number, day in enumerate(TWO_HUNDRED_YEARS):
        assert epoch_of("day", noon(day)) == number
        assert epoch_text("day", number) == day.isoformat()


def test_a_week_is_named_as_in_the_iso_calendar_for_200_years() -> None:
    for day in TWO_HUNDRED_YEARS:
        year, week, weekday = day.isocalendar()
        number = epoch_of("week", noon(day))
        assert epoch_text("week", number) == f"{year}-W{week:02d}"
        assert epoch_start("week", number) == noon(day - timedelta(days=weekday - 1)) - DAY / 2


def test_a_month_is_named_as_in_its_date_for_200_years() -> None:
    for day in TWO_HUNDRED_YEARS:
        number = epoch_of("month", noon(day))
        assert number == 12 * (day.year - 1970) + day.month - 1
        assert epoch_text("month", number) == day.isoformat()[:7]
        assert epoch_start("month", number) == noon(day.replace(day=1)) - DAY / 2


def test_the_examples_of_the_documentation_hold() -> None:
    moment = noon(date(2026, 11, 16))
    assert [epoch_text(every, epoch_of(every, moment)) for every in PERIODS] == ["2026-11-16", "2026-W47", "2026-11"]
    assert [epoch_of(every, 0) for every in PERIODS] == [0, 0, 0]


@pytest.mark.parametrize("every", CADENCES)
@given(epoch=st.integers(0, 90_000))
def test_text_and_start_lead_back_to_the_epoch(every: str, epoch: int) -> None:
    assert parse_epoch(every, epoch_text(every, epoch)) == epoch
    start = epoch_start(every, epoch)
    assert epoch_of(every, max(0, start)) == epoch
    assert epoch_of(every, epoch_start(every, epoch + 1) - 1) == epoch


@pytest.mark.parametrize("every", PERIODS)
def test_epochs_follow_each_other_without_gap(every: str) -> None:
    for epoch in range(1, 3000):
        start = epoch_start(every, epoch)
        assert epoch_of(every, start) == epoch
        assert epoch_of(every, start - 0.001) == epoch - 1


def test_once_lives_in_months() -> None:
    assert epoch_of("once", noon(date(2026, 11, 16))) == epoch_of("month", noon(date(2026, 11, 16)))
    assert epoch_text("once", 682) == epoch_text("month", 682) == "2026-11"
    assert parse_epoch("once", "2026-11") == 682


def test_an_absurd_clock_gives_the_first_or_the_last_epoch() -> None:
    for every in PERIODS:
        assert epoch_of(every, -1e18) == epoch_of(every, 0)
        assert epoch_text(every, epoch_of(every, 1e18)).startswith("9999")


@pytest.mark.parametrize(
    ("every", "text"),
    [
        ("day", "2026-11"),
        ("day", "2026-02-30"),
        ("day", "2026-11-16T00:00"),
        ("day", "20261116"),
        ("day", " 2026-11-16"),
        ("day", "２０２６-11-16"),
        ("day", ""),
        ("week", "2026-47"),
        ("week", "2026-W54"),
        ("week", "2025-W53"),
        ("week", "2026-W00"),
        ("week", "2026-w47"),
        ("week", "２０２６-W47"),
        ("month", "2026-13"),
        ("month", "2026-00"),
        ("month", "2026-1"),
        ("month", "2026-11-16"),
        ("once", "2026-W47"),
    ],
)
def test_a_text_that_names_no_epoch_is_refused_in_words(every: str, text: str) -> None:
    form = {"day": "YYYY-MM-DD", "week": "YYYY-Www"}.get(every, "YYYY-MM")
    with pytest.raises(ValueError, match="must be") as caught:
        parse_epoch(every, text)
    assert str(caught.value) == f"an epoch of cadence {every!r} must be a real {form}, got {text!r}"


@pytest.mark.parametrize("every", PERIODS)
@given(text=st.text(max_size=12))
def test_any_text_is_an_epoch_or_refused(every: str, text: str) -> None:
    try:
        epoch = parse_epoch(every, text)
    except ValueError:
        return
    assert epoch_text(every, epoch) == text
