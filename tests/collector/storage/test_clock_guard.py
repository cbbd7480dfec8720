"""The wall clock closes and deletes only while it is in step with the machine's own seconds."""

from random import Random

import pytest

from hubbub.collector.catalog import Catalog
from hubbub.collector.storage.clock_guard import HOUR, Belief, ClockGuard, steady_seconds
from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.logged_counts import LoggedCounts
from hubbub.protocol.registry import Registry
from tests.collector.kit import REGISTRY_TOML
from tests.collector.storage.kit import DAY, NOW, Place, daily, reports

TODAY = int(NOW // DAY)
YEAR = 365 * DAY


class Clocks:
    """Two clocks that go on together; the wall clock can be set."""

    def __init__(self):
        self.seconds, self.offset = 1000.0, NOW

    def wall(self):
        return self.seconds + self.offset - 1000

    def steady(self):
        return self.seconds

    def guard(self, day=TODAY):
        return ClockGuard(self.wall, self.steady, day)


@pytest.mark.parametrize("jump", [2 * HOUR, DAY, 8 * DAY, 4 * YEAR, -2 * HOUR, -DAY, -10 * YEAR])
def test_a_jump_is_not_believed_until_the_clock_is_back(jump):
    clocks = Clocks()
    guard = clocks.guard()
    assert guard.look() == NOW
    for _ in range(3):
        clocks.offset += jump
        clocks.seconds += 4
        assert guard.look() is None
        assert not guard.accepts
        clocks.offset -= jump
        clocks.seconds += 1
        assert guard.look() == clocks.wall()
        assert guard.accepts


def test_a_jump_is_believed_when_the_clock_has_kept_pace_for_an_hour():
    clocks = Clocks()
    guard = clocks.guard()
    clocks.offset += 8 * DAY
    assert guard.look() is None
    clocks.seconds += HOUR - 1
    assert guard.look() is None
    clocks.offset += DAY  # it jumps again: from here on another hour
    assert guard.look() is None
    clocks.seconds += HOUR - 1
    assert guard.look() is None
    clocks.seconds += 1
    assert guard.look() == clocks.wall()


def test_a_jump_is_believed_when_the_operator_accepts_it():
    clocks = Clocks()
    guard = clocks.guard()
    clocks.offset += 8 * DAY
    assert guard.look() is None
    guard.accept()
    assert guard.look() == clocks.wall()


def test_small_steps_are_followed_and_many_of_them_within_an_hour_are_a_jump():
    clocks = Clocks()
    guard = clocks.guard()
    for _ in range(10):
        clocks.seconds += HOUR
        clocks.offset += HOUR * 0.9
        assert guard.look() == clocks.wall()
    clocks.offset += HOUR * 0.9
    assert guard.look() == clocks.wall()
    clocks.offset += HOUR * 0.9
    assert guard.look() is None


@pytest.mark.parametrize("days", [1, 8, 4 * 365])
def test_days_that_passed_before_a_start_count_at_once_and_close_after_an_hour(days):
    clocks = Clocks()
    guard = clocks.guard(TODAY - days)
    assert (guard.belief, guard.accepts, guard.look()) == (Belief.UNPROVED, True, None)
    clocks.seconds += HOUR - 1
    assert guard.look() is None
    clocks.seconds += 1
    assert guard.look() == clocks.wall()


def test_a_jump_before_that_hour_is_over_begins_it_anew():
    clocks = Clocks()
    guard = clocks.guard(TODAY - 3)
    clocks.seconds += HOUR - 10
    clocks.offset += YEAR
    assert (guard.look(), guard.belief) == (None, Belief.NOT_BELIEVED)
    clocks.offset -= YEAR
    assert (guard.look(), guard.belief) == (None, Belief.UNPROVED)
    clocks.seconds += HOUR - 1
    assert guard.look() is None
    clocks.seconds += 1
    assert guard.look() == clocks.wall()


def test_a_clock_more_than_a_day_behind_the_last_start_waits_for_the_operator():
    clocks = Clocks()
    assert clocks.guard(TODAY + 1).look() == NOW
    guard = clocks.guard(TODAY + 2)
    clocks.seconds += 10 * HOUR
    assert (guard.look(), guard.accepts) == (None, False)
    guard.accept()
    assert guard.look() == clocks.wall()


def test_the_first_start_of_all_believes_the_clock():
    assert Clocks().guard(0).look() == NOW


def test_the_steady_clock_goes_on():
    assert 0 < steady_seconds() <= steady_seconds()


RETENTION = REGISTRY_TOML.replace("grace = 6", 'grace = 6\nretention = "10d"')


def test_a_store_closes_and_purges_nothing_while_its_clock_is_wrong(tmp_path):
    place, random = Place(tmp_path, RETENTION), Random(5)
    place.steady = lambda: 1000.0
    with place.open() as (store, take, registry):
        for seed in range(50):
            assert take(daily(registry, NOW, seed)) == "stored"
            place.now = NOW + random.choice([-1, 1]) * random.uniform(HOUR * 2, 10 * YEAR)
            assert store.seal() == []
            assert not store.clock.accepts
            place.now = NOW
            assert store.seal() == []
        assert (store.day, reports(store), len(store.batch_ids)) == (TODAY, 50, 50)


def test_a_start_with_a_clock_years_ahead_counts_on_and_loses_nothing(tmp_path):
    """Nothing is refused as too old by a clock that is not proved; set right again, all goes on as before."""
    place = Place(tmp_path, RETENTION)
    with place.open() as (_, take, registry):
        take(daily(registry, NOW))
    place.now = NOW + 4 * YEAR
    with place.open(accept_clock=False) as (store, take, _):
        assert take(daily(registry, NOW, 2)) == "stored"
        assert reports(store) == 2
    place.now = NOW
    with place.open(accept_clock=False) as (store, take, _):
        assert take(daily(registry, NOW)) == "duplicate"
        assert take(daily(registry, NOW, 3)) == "stored"
        assert reports(store) == 3


def test_accepting_a_clock_that_was_years_ahead_opens_the_epochs_to_come(tmp_path):
    place = Place(tmp_path)
    place.now = NOW + 4 * YEAR
    with place.open():
        pass
    place.now = NOW
    with place.open(accept_clock=False) as (store, _, _):
        assert not store.clock.accepts
    (tmp_path / "clock-accepted").touch()
    with place.open(accept_clock=False) as (store, take, registry):
        assert not (tmp_path / "clock-accepted").exists()
        place.now = NOW + DAY
        store.seal()
        assert take(daily(registry, NOW + DAY)) == "stored"


def test_a_store_does_not_believe_a_clock_that_is_years_ahead_unless_told_to(tmp_path):
    place = Place(tmp_path)
    with place.open() as (_, take, registry):
        take(daily(registry, NOW))
    catalog = Catalog(Registry.parse(place.toml))
    for told, kept in (((), 1), ((64 << 20, lambda: 1000.0, True), 0)):
        data_dir = DataDir(tmp_path)
        store = LoggedCounts(data_dir, catalog, lambda: NOW + 4 * YEAR, *told)
        assert reports(store) == kept
        store.close()
        data_dir.close()
