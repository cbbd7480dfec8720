"""The demo's people are the same for the same seed, and answer as often as its table of populations says."""

from __future__ import annotations

from hubbub.simulations.demo.people import (
    EXPORTS,
    FEATURES,
    LANGUAGES,
    PAGES,
    PLATFORMS,
    RELEASES,
    STARTUP_SECONDS,
    demo_registry,
    make_crowd,
)
from tests.chance import assert_binomial, power


def test_the_same_seed_gives_the_same_crowd_and_another_another() -> None:
    assert make_crowd(50, seed=1).epochs == make_crowd(50, seed=1).epochs
    assert make_crowd(50, seed=1).epochs != make_crowd(50, seed=2).epochs


def test_every_metric_of_the_demo_is_answered_by_every_install() -> None:
    crowd = make_crowd(50, seed=1)
    assert list(crowd.histories) == list(demo_registry().metrics)
    assert crowd.installs == 50
    assert all(len(answers) == 50 for epoch in crowd.epochs for answers in epoch.values())


def test_every_install_has_a_platform_and_a_release_as_often_as_they_are_common() -> None:
    """20,000 installs tell 0.50 from 0.54 nearly always; platforms come in no order, so the first are a sample, too."""
    segments = make_crowd(20_000, seed=3).segments
    for key, weights in (("platform", PLATFORMS), ("release", RELEASES)):
        for value, weight in weights.items():
            assert_binomial(sum(segment[key] == value for segment in segments), 20_000, weight / 100)
            assert_binomial(sum(segment[key] == value for segment in segments[:2000]), 2000, weight / 100)


def test_starts_differ_by_platform_and_exports_by_release() -> None:
    crowd = make_crowd(20_000, seed=3)
    for platform, median in STARTUP_SECONDS.items():
        starts = crowd.only("platform", platform).epochs[0]["startup_time"]
        assert_binomial(sum(seconds < median for seconds in starts), len(starts), 0.5)
    for release, weights in EXPORTS.items():
        exports = crowd.only("release", release).epochs[0]["exports"]
        for number, weight in weights.items():
            assert_binomial(exports.count(number), len(exports), weight / 100)
    assert power(8000, 0.25, wrong_p=0.55) > 0.999, "the other release's"


def test_features_are_used_each_by_its_share_whoever_uses_the_others() -> None:
    used = make_crowd(20_000, seed=3).epochs[0]["features"]
    for item, share in FEATURES.items():
        assert_binomial(sum(item in items for items in used), 20_000, share)
    both = FEATURES["multi_cursor"] * FEATURES["macros"]
    assert_binomial(sum({"multi_cursor", "macros"} <= items for items in used), 20_000, both)
    assert list(FEATURES) == list(demo_registry()["features"].shape.items)


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
    for name, median in (("file_size", 12.0), ("latency", 14.0)):
        # A number stands for its cell of the grid, which holds two thousandths of the people or fewer.
        assert_binomial(sum(number < median for number in day[name]), 20_000, 0.5)
    assert max(day["startup_time"]) <= 10.0
    assert power(20_000, 0.5, wrong_p=0.54) > 0.999
