"""Active installs are the reports of a period: by cadence, over definitions, whatever was answered."""

from __future__ import annotations

from hubbub.analysis import active_installs
from hubbub.protocol.kinds import Flag
from hubbub.protocol.metric import Definition
from hubbub.protocol.tally import Counts, Tally
from tests.analysis.worlds import define

FLAG = define(Flag())


def tally(name: str, reports: dict[int, int], every: str = "week", metric: Definition = FLAG) -> Tally:
    asked = metric.replace(name=name, every=every)
    width = asked.shape.width(0)
    return Tally(asked, {epoch: Counts((number,), ((number // 2,) * width,)) for epoch, number in reports.items()})


def found(*tallies: Tally) -> list[tuple[str, str, int, str]]:
    return [(each.counts, each.period, each.installs, each.metric) for each in active_installs(tallies)]


def test_the_reports_of_a_period_are_its_installs() -> None:
    assert found(tally("theme", {2961: 120, 2960: 100})) == [
        ("active installs", "2026-W39", 100, "theme"),
        ("active installs", "2026-W40", 120, "theme"),
    ]


def test_of_several_metrics_the_one_with_the_most_reports_counts() -> None:
    """One may have begun later, ended, or used up its budget on some installs."""
    assert found(tally("ended", {2960: 40}), tally("theme", {2960: 100}), tally("new", {2961: 70})) == [
        ("active installs", "2026-W39", 100, "theme"),
        ("active installs", "2026-W40", 70, "new"),
    ]


def test_definitions_of_one_metric_are_of_different_installs() -> None:
    other = FLAG.replace(shape=Flag(absent=True))
    assert found(tally("theme", {2960: 100}), tally("theme", {2960: 30}, metric=other)) == [
        ("active installs", "2026-W39", 130, "theme")
    ]


def test_cadences_are_apart_and_once_counts_new_installs() -> None:
    assert found(
        tally("weekly", {2960: 300}), tally("daily", {20_720: 100}, "day"), tally("machine", {681: 50}, "once")
    ) == [
        ("new installs", "2026-10", 50, "machine"),
        ("active installs", "2026-09-24", 100, "daily"),
        ("active installs", "2026-W39", 300, "weekly"),
    ]


def test_without_reports_there_are_no_installs() -> None:
    assert found() == []
    assert found(tally("theme", {})) == []
