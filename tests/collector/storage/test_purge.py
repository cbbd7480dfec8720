"""Counts past their retention go at once, and can be had back for seven days; a reader of the file holds nobody up."""

import signal
import sqlite3
import time
from contextlib import closing
from random import Random

import pytest

from hubbub.collector.storage.purge import Purged, list_purged, restore_purged
from hubbub.protocol.cadence import epoch_of, epoch_text
from hubbub.protocol.invalid import Invalid
from tests.collector.kit import REGISTRY, REGISTRY_TOML, Collector, random_batch, run_command
from tests.collector.storage.kit import DAY, NOW, Place, daily, reports

SHORT = REGISTRY_TOML.replace("grace = 6", 'grace = 6\nretention = "10d"')
EPOCH = epoch_text("day", epoch_of("day", NOW))


def purged(path, count=3):
    """A directory of which so many reports of one metric and day have been purged."""
    place = Place(path, SHORT)
    with place.open() as (_, take, registry):
        for seed in range(count):
            take(daily(registry, NOW, seed))
    place.now += 11 * DAY
    with place.open() as (store, _, _):
        assert store.cells == {}
    return place


def test_purged_counts_can_be_listed_and_restored(tmp_path):
    place = purged(tmp_path)
    assert list_purged(tmp_path) == [Purged("dark_theme", EPOCH, 3, 7)]
    assert restore_purged(tmp_path, "language") == []
    assert restore_purged(tmp_path, None) == [Purged("dark_theme", EPOCH, 3, 7)]
    assert list_purged(tmp_path) == []
    place.toml = REGISTRY_TOML  # two years
    with place.open() as (store, _, _):
        assert reports(store) == 3


def test_the_restored_counts_are_the_ones_that_were_purged(tmp_path):
    whole = Place(tmp_path / "whole")
    with whole.open() as (store, take, registry):
        for seed in range(3):
            take(daily(registry, NOW, seed))
        store.fold()
        ((key, expected),) = store.cells.items()
    place = purged(tmp_path / "purged")
    restore_purged(place.path, "dark_theme")
    place.toml = REGISTRY_TOML
    with place.open() as (store, _, _):
        assert store.cells[key].counts() == expected.counts()


def test_after_seven_days_they_are_gone_for_good(tmp_path):
    place = purged(tmp_path)
    for days, left in ((6, [Purged("dark_theme", EPOCH, 3, 1)]), (1, [])):
        place.now += days * DAY
        with place.open():
            pass
        assert list_purged(tmp_path) == left


def test_counts_purged_before_they_were_saved_can_be_had_back_too(tmp_path):
    place = Place(tmp_path, SHORT)
    with place.open() as (store, take, registry):
        take(daily(registry, NOW))
        store.fold()
        place.now += 11 * DAY
        assert len(store.seal()) == 1
        store.not_saved(store.snapshot())
    assert [item.reports for item in list_purged(tmp_path)] == [1]


def test_what_was_restored_and_is_still_past_its_retention_is_purged_again_whole(tmp_path):
    place = purged(tmp_path)
    restore_purged(tmp_path, None)
    with place.open() as (store, _, _):
        assert store.cells == {}
    assert list_purged(tmp_path) == [Purged("dark_theme", EPOCH, 3, 7)]


def test_a_shortened_retention_acts_at_the_next_start_and_is_told(tmp_path):
    place = Place(tmp_path, SHORT.replace('"10d"', '"90d"'))
    with place.open() as (_, take, registry):
        take(daily(registry, NOW))
        place.now += 20 * DAY
    with place.open() as (store, _, _):
        assert reports(store) == 1
    place.toml = SHORT  # the same day
    with place.open() as (store, _, _):
        assert store.cells == {}
        ((metric_hash, _),) = store.seal()
        assert metric_hash == registry["dark_theme"].metric_hash
        assert store.seal() == []


def test_a_metric_that_is_asked_no_more_goes_when_its_own_retention_is_over(tmp_path):
    place = Place(tmp_path, SHORT)
    with place.open() as (_, take, registry):
        take(daily(registry, NOW))
    head, _, rest = SHORT.partition("[metrics.dark_theme]")
    place.toml = head + rest[rest.index("[metrics.") :]
    for days, left in ((9, 1), (11, 0)):
        place.now = NOW + days * DAY
        with place.open() as (store, _, registry):
            assert "dark_theme" not in registry.metrics
            assert reports(store) == left


def test_the_command_shows_and_restores(tmp_path):
    place = purged(tmp_path)

    def run(*arguments):
        done = run_command("purge", *arguments, "--data", tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    line = f"dark_theme  {EPOCH}  3 reports, deleted for good in 7 days\n"
    assert run("list") == f"{line}{tmp_path}: 1 purged epoch\n"
    assert run("restore").startswith(f"{tmp_path}: 1 epoch restored, 3 reports\n")
    assert run("list") == f"{tmp_path}: 0 purged epochs\n"
    with place.open(), pytest.raises(Invalid, match="must not be in use by another process"):
        list_purged(tmp_path)


def test_sigterm_does_not_wait_for_somebody_who_reads_the_checkpoint(tmp_path):
    collector = Collector(tmp_path, "--checkpoint-seconds", "1000")
    assert collector.send(random_batch(Random(1), list(REGISTRY), time.time()))[0] == 200
    with closing(sqlite3.connect(collector.data / "store.sqlite", isolation_level=None)) as reader:
        reader.execute("begin")
        reader.execute("select * from counts").fetchall()
        begun = time.monotonic()
        assert collector.stop(signal.SIGTERM) == 0
        assert time.monotonic() - begun < 10
    assert "the checkpoint could not be written" in collector.log_path.read_text()
    with Collector(tmp_path) as collector:
        assert collector.tallies()["dark_theme"].num_reports == 1
