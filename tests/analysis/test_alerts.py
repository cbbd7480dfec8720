"""Alerts: a year of looks has one promise, and every single look its part of it."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from hubbub.analysis import Options, compare, decode
from hubbub.analysis.alerts import LOOKS_A_YEAR, alert_levels, alerts
from hubbub.analysis.comparison import Comparison
from hubbub.analysis.render.text import comparison_table
from hubbub.analysis.result import Decoding
from hubbub.protocol.cadence import epoch_of, epoch_start
from hubbub.protocol.kinds import Choice, Flag, Mean
from hubbub.protocol.metric import Definition
from hubbub.protocol.tally import Counts, Tally
from tests.analysis.worlds import define, tally_of
from tests.chance import assert_binomial, power

DAYS = LOOKS_A_YEAR["day"]
POPULATION = Options(estimand="population")


def test_as_many_looks_as_epochs_end_in_any_year() -> None:
    for every, looks in LOOKS_A_YEAR.items():
        years = range(1971, 2400)
        starts = [epoch_of(every, epoch_start("month", 12 * (year - 1970))) for year in years]
        assert max(b - a for a, b in pairwise(starts)) <= looks


def test_the_error_of_a_year_is_shared_out_over_looks_and_rows() -> None:
    rng = np.random.default_rng(1)
    flag = define(Flag())
    two = define(Choice(choices=("a", "b")))
    found = [
        compare(*(decode(tally_of(metric, counts, rng)) for _ in range(2)))
        for metric, counts in ((flag, [700, 300]), (two, [500, 300, 200]))
    ]
    (level,) = set(alert_levels(found, {"asked": 53}).values())
    assert level == pytest.approx(0.05 / (4 * 53)), "one flag, and two choices with absent"


def looks(metric: Definition, before: int, days: np.ndarray, installs: tuple[int, int]) -> Comparison:
    """A year of looks at one flag at once, as the rows of a choice whose bits are noised one by one: the same counts
    before, others every day."""
    sides = [np.full(len(days), before), days]
    tallies = (
        Tally(metric, {0: Counts((n,), (tuple(side.tolist()),))}) for n, side in zip(installs, sides, strict=True)
    )
    return compare(*(decode(tally, options=POPULATION) for tally in tallies))


def years_with_alerts(years: int, epsilon: str, share: float, installs: tuple[int, int], daily: float = 0.0) -> int:
    """In how many years a look every day at a flag finds a change, where there is none; or at `daily` each."""
    rng = np.random.default_rng([5, years, installs[0], installs[1], round(1000 * share), *epsilon.encode()])
    metric = define(Choice(choices=tuple(f"day {i}" for i in range(DAYS)), absent="day 0"), epsilon, epsilon)
    ones = float(metric.noise.p_star) + share * float(metric.noise.q_star - metric.noise.p_star)
    alarmed = 0
    for _ in range(years):
        before, days = int(rng.binomial(installs[0], ones)), rng.binomial(installs[1], ones, DAYS)
        found = looks(metric, before, days, installs)
        alarmed += bool((found.p_value <= (daily or 0.05 / DAYS)).any())
    return alarmed


def test_a_year_of_daily_looks_raises_no_false_alert_more_often_than_said() -> None:
    years = 100
    assert_binomial(max(years_with_alerts(years, "1", 0.3, (28_000, 1_000)), 5), years, 0.05)
    assert power(years, 0.05, 0.35) > 0.99
    assert years_with_alerts(10, "1", 0.3, (28_000, 1_000), daily=0.05) == 10, "5 % a day is an alert every year"


def years_with_alerts_of_a_mean(years: int, epsilon: str, mean: float, installs: tuple[int, int]) -> int:
    """The same of a mean of two points that stays where it is, so far up its range."""
    rng = np.random.default_rng([6, years, installs[0], round(1000 * mean), *epsilon.encode()])
    metric = define(Mean(low=Fraction(0), high=Fraction(1), absent=Fraction(0)), epsilon, epsilon)
    ones = float(metric.noise.p_star) + mean * float(metric.noise.q_star - metric.noise.p_star)

    @cache
    def decoded(count: int, reports: int) -> Decoding:
        return decode(Tally(metric, {0: Counts((reports,), ((count,),))}), options=POPULATION)

    @cache
    def is_alert(before: int, day: int) -> bool:
        return bool(alerts([compare(decoded(before, installs[0]), decoded(day, installs[1]))], {"asked": DAYS}))

    alarmed = 0
    for _ in range(years):
        before, days = int(rng.binomial(installs[0], ones)), rng.binomial(installs[1], ones, DAYS)
        alarmed += any(is_alert(before, day) for day in days.tolist())
    return alarmed


def test_a_year_of_daily_looks_at_a_mean_raises_no_false_alert_more_often_than_said() -> None:
    """A day against four weeks, little noise, nearly all at one end: by a normal law .3 of years had false alerts."""
    years = 150
    assert_binomial(max(years_with_alerts_of_a_mean(years, "8", 0.002, (28_000, 1_000)), 7), years, 0.05)
    assert power(years, 0.05, 0.3) > 0.99


@pytest.mark.proof
@pytest.mark.parametrize("epsilon", ["4", "8"])
@pytest.mark.parametrize("mean", [0.002, 0.01, 0.05])
@pytest.mark.parametrize("installs", [(28_000, 1_000), (20_000, 500)])
def test_false_alerts_of_a_mean_in_a_year(epsilon, mean, installs, figure) -> None:
    years = 300
    alarmed = years_with_alerts_of_a_mean(years, epsilon, mean, installs)
    figure(f"epsilon {epsilon}, mean {mean}, {installs[0]} against {installs[1]}", f"{alarmed / years:.3f} of years")
    assert_binomial(max(alarmed, years // 20), years, 0.05)
    assert power(years, 0.05, 0.2) > 0.99


@pytest.mark.proof
@pytest.mark.parametrize("epsilon", ["0.5", "2", "4"])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("installs", [(28_000, 1_000), (20_000, 20_000), (560_000, 20_000)])
def test_false_alerts_of_a_year(epsilon, share, installs, figure) -> None:
    years = 1_000
    alarmed = years_with_alerts(years, epsilon, share, installs)
    figure(f"epsilon {epsilon}, share {share}, {installs[0]} against {installs[1]}", f"{alarmed / years:.3f} of years")
    assert_binomial(max(alarmed, years // 20), years, 0.05)


@pytest.mark.proof
def test_false_alerts_of_a_year_in_which_the_same_installs_report_every_day(figure) -> None:
    """Their kept answers make all days alike: fewer alerts than independent days have."""
    metric, rng, years = define(Flag()), np.random.default_rng(7), 60
    alarmed = 0
    for _ in range(years):
        crowd = tally_of(metric, [1_400, 600], rng, epochs=tuple(range(28 + DAYS)))
        before = decode(Tally(metric, {day: crowd.epochs[day] for day in range(28)}), options=POPULATION)
        found = [
            compare(before, decode(Tally(metric, {day: crowd.epochs[day]}), options=POPULATION))
            for day in range(28, 28 + DAYS)
        ]
        alarmed += any(alerts([one], {"asked": DAYS}) for one in found)
    figure("years with a false alert, the same 2,000 installs every day", f"{alarmed} of {years}")
    assert_binomial(max(alarmed, years // 20), years, 0.05)


def test_a_change_is_an_alert_the_day_it_is_large_enough() -> None:
    rng = np.random.default_rng(2)
    metric = define(Flag())
    before, after = (decode(tally_of(metric, [20_000 - n, n], rng), options=POPULATION) for n in (6_000, 7_500))
    (alert,) = alerts([compare(before, after)], {"asked": DAYS})
    assert (alert.row, alert.level) == (0, pytest.approx(0.05 / DAYS))
    assert alerts([compare(before, before)], {"asked": DAYS}) == []


def means(counts: list[int], rng: np.random.Generator, absent: Fraction | str = Fraction(0)) -> Decoding:
    """Of numbers in [0, 30]; so many are at the low end and at the high one (and, apart, so many said nothing)."""
    metric = define(Mean(low=Fraction(0), high=Fraction(30), absent=absent))
    return decode(tally_of(metric, counts, rng), options=POPULATION)


@pytest.mark.parametrize(("absent", "silent", "tests"), [(Fraction(0), [], 1), ("apart", [2_000], 2)])
def test_a_sum_that_grows_with_the_installs_is_no_alert(absent: Fraction | str, silent: list[int], tests: int) -> None:
    """Three times the installs answer alike: their sum is three times as large, and nothing changed."""
    rng = np.random.default_rng(8)
    crowd = [6_000, 4_000, *silent]
    found = compare(means(crowd, rng, absent), means([3 * n for n in crowd], rng, absent))
    assert found.difference[1] > 10 * found.std_error[1]
    assert alerts([found], {"asked": DAYS}) == []
    (level,) = alert_levels([found], {"asked": DAYS}).values()
    assert level == pytest.approx(0.05 / (tests * DAYS)), "the mean, and with apart those who said nothing"
    assert found.p_adjusted[0] == pytest.approx(found.p_value[0]), "the sum is no second test"
    assert found.columns()["changed"][1] is None
    text = comparison_table(found)
    assert "not tested" in text
    assert "it is a mean times the number of installs" in text


def test_a_mean_that_changed_is_one_alert() -> None:
    rng = np.random.default_rng(9)
    (alert,) = alerts([compare(means([6_000, 4_000], rng), means([4_000, 6_000], rng))], {"asked": DAYS})
    assert alert.comparison.values[alert.row] == "mean"
