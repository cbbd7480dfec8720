"""The demo's people are the same for the same seed, and answer as often as its table of populations says."""

from __future__ import annotations

from hubbub.simulations.demo.run import LANGUAGES, PAGES, demo_registry, make_crowd
from tests.chance import assert_binomial, power


def test_the_same_seed_gives_the_same_crowd_and_another_another() -> None:
    assert make_crowd(50, seed=1).epochs == make_crowd(50, seed=1).epochs
    assert make_crowd(50, seed=1).epochs != make_crowd(50, seed=2).epochs


def test_every_metric_of_the_demo_is_answered_by_every_install() -> None:
    crowd = make_crowd(50, seed=1)
    assert list(crowd.histories) == list(demo_registry().metrics)
    assert crowd.installs == 50
    assert all(len(answers) == 50 for epoch in crowd.epochs for answers in epoch.values())


def test_answers_last_unless_they_are_daily() -> None:
    first, second, _ = make_crowd(50, seed=1).epochs
    assert first["homepage"] == second["homepage"]
    assert first["startup_time"] != second["startup_time"]


def test_shares_medians_and_absences_are_those_asked_for() -> None:
    """20,000 installs tell 0.50 from 0.54 nearly always."""
    day = make_crowd(20_000, seed=3).epochs[0]
    assert_binomial(day["dark_theme"].count(True), 20_000, 0.62)
    assert_binomial(day["language"].count(None), 20_000, 0.1)
    said = 20_000 - day["language"].count(None)
    for language, weight in LANGUAGES.items():
        assert_binomial(day["language"].count(language), said, weight / 100)
    assert_binomial(day["homepage"].count(PAGES[0]), 20_000, 1 / sum(rank**-0.9 for rank in range(1, 9)))
    for name, median in (("startup_time", 2.4), ("file_size", 12.0), ("latency", 14.0)):
        # A number stands for its cell of the grid, which holds two thousandths of the people or fewer.
        assert_binomial(sum(number < median for number in day[name]), 20_000, 0.5)
    assert max(day["startup_time"]) <= 10.0
    assert power(20_000, 0.5, wrong_p=0.54) > 0.999
