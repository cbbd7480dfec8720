"""Epochs and cohorts agree with their vectors in every time zone, and the vectors tell the usual mistakes apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hubbub.client.identity import cohort_of
from hubbub.protocol.cadence import DAY, epoch_of, epoch_start, epoch_text, parse_epoch
from tests.protocol.test_vectors import vectors
from tests.systems import needs_zones

EPOCHS, COHORTS = vectors("epochs"), vectors("cohorts")


pytestmark = needs_zones


@pytest.fixture(params=["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"], autouse=True)
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """At the front of the clock, and at its end."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def wrong(number_of: Callable[[str, float], int]) -> list[Any]:
    return [case for case in EPOCHS if number_of(case["every"], case["moment"]) != case["epoch"]]


def test_a_moment_is_in_the_epoch_of_its_vector() -> None:
    assert wrong(epoch_of) == []


def test_an_epoch_begins_and_is_called_as_its_vector_says() -> None:
    for case in EPOCHS:
        assert epoch_start(case["every"], case["epoch"]) == case["start"]
        assert epoch_text(case["every"], case["epoch"]) == case["text"]
        assert parse_epoch(case["every"], case["text"]) == case["epoch"]


def test_a_number_is_in_the_cohort_of_its_vector() -> None:
    for case in COHORTS:
        assert cohort_of(int(case["number"]), case["num_cohorts"]) == case["cohort"]


def week_from_sunday(every: str, moment: float) -> int:
    return (epoch_of("day", moment) + 4) // 7 if every == "week" else epoch_of(every, moment)


def month_from_one(every: str, moment: float) -> int:
    return epoch_of(every, moment) + (every in ("month", "once"))


def rounded_day(every: str, moment: float) -> int:
    return epoch_of(every, round(moment / DAY) * DAY)


def test_vectors_notice_a_week_from_sunday_months_from_one_and_days_that_are_rounded() -> None:
    for mistake in (week_from_sunday, month_from_one, rounded_day):
        assert wrong(mistake), mistake.__name__


def test_vectors_notice_a_local_month() -> None:
    def local_month(every: str, moment: float) -> int:
        if every != "month" or not 0 <= moment < 2**32:
            return epoch_of(every, moment)
        here = time.localtime(moment)
        return 12 * (here.tm_year - 1970) + here.tm_mon - 1

    assert bool(wrong(local_month)) == (time.timezone != 0)  # in UTC it is the right one


def test_vectors_notice_a_cohort_by_remainder() -> None:
    assert any(int(case["number"]) % case["num_cohorts"] != case["cohort"] for case in COHORTS)
