"""The store across restarts, days, changed terms: counted once, sealed for good, purged in time."""

import sqlite3
from contextlib import contextmanager
from random import Random

import pytest

from hubbub.collector.catalog import Catalog
from hubbub.collector.intake import Intake
from hubbub.collector.storage.data_dir import Folder
from hubbub.collector.storage.store import Store, Verdict
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.refusal import Refused
from hubbub.protocol.registry import Registry
from hubbub.protocol.wire import MEDIA_TYPE, pack
from tests.collector.kit import REGISTRY_TOML, random_batch

NOW = 1_795_000_000.0
DAY = 86_400


class World:
    """A data directory, a clock and a registry; opened and closed at will."""

    def __init__(self, path, toml=REGISTRY_TOML):
        self.path = path
        self.toml = toml
        self.now = NOW

    @contextmanager
    def open(self, save=True):
        registry = Registry.parse(self.toml)
        catalog = Catalog(registry)
        folder = Folder(self.path)
        store = Store(folder, catalog, lambda: self.now)
        intake = Intake(catalog, lambda: self.now, store.sealed)
        try:
            yield store, lambda message: store.commit([intake.read(message, MEDIA_TYPE, True)])[0], registry
            if save:
                snapshot = store.snapshot()
                store.save(snapshot)
                store.saved(snapshot)
        finally:
            store.close()
            folder.close()


def daily(registry, now, seed=1):
    return pack(random_batch(Random(seed), [registry["dark_theme"]], now))


def reports(store):
    store.fold()
    return sum(int(cells.num_reports.sum()) for cells in store.cells.values())


@pytest.mark.parametrize("save", [True, False])
def test_a_batch_is_counted_once_over_restarts_with_and_without_a_checkpoint(tmp_path, save):
    world = World(tmp_path)
    for expected in (Verdict.STORED, Verdict.DUPLICATE, Verdict.DUPLICATE):
        with world.open(save) as (store, take, registry):
            assert take(daily(registry, NOW)) is expected
            assert reports(store) == 1


def test_the_same_id_twice_in_one_group_is_stored_once(tmp_path):
    with World(tmp_path).open() as (store, _, registry):
        intake = Intake(Catalog(registry), lambda: NOW, {})
        arrivals = [intake.read(daily(registry, NOW), MEDIA_TYPE, False) for _ in range(3)]
        assert store.commit(arrivals) == [Verdict.STORED, Verdict.DUPLICATE, Verdict.DUPLICATE]
        assert reports(store) == 1


def test_ids_go_when_their_epoch_closes_and_the_batch_is_then_refused(tmp_path):
    world = World(tmp_path)
    with world.open() as (store, take, registry):
        message = daily(registry, NOW)
        take(message)
        assert len(store.seen) == 1
        world.now += 7 * DAY
        store.seal()
        assert len(store.seen) == 0
        assert take(message) is Verdict.EPOCH_CLOSED
    with world.open() as (store, take, _):
        with pytest.raises(Refused, match="epoch-closed"):
            take(message)
        assert len(store.seen) == 0
        assert reports(store) == 1


def test_a_batch_admitted_before_midnight_and_committed_after_is_not_counted_a_second_time(tmp_path):
    world = World(tmp_path)
    with world.open() as (store, take, registry):
        message = daily(registry, NOW)
        take(message)
        late = Intake(Catalog(registry), lambda: NOW, {}).read(message, MEDIA_TYPE, False)
        world.now += 7 * DAY
        store.seal()
        assert store.commit([late]) == [Verdict.EPOCH_CLOSED]
        assert reports(store) == 1


def test_a_closed_epoch_stays_closed_though_the_clock_goes_back_or_the_grace_grows(tmp_path):
    world = World(tmp_path)
    with world.open() as (_, take, registry):
        message = daily(registry, NOW)
        take(message)
    world.now += 10 * DAY
    with world.open():
        pass
    world.toml = REGISTRY_TOML.replace("grace = 6", "grace = 30")
    for now in (world.now, NOW):
        world.now = now
        with world.open() as (_, take, _), pytest.raises(Refused, match="epoch-closed"):
            take(message)


def test_where_a_grace_grows_ids_are_kept_as_much_longer(tmp_path):
    world = World(tmp_path)
    with world.open() as (_, take, registry):
        message = daily(registry, NOW)
        take(message)
    world.toml = REGISTRY_TOML.replace("grace = 6", "grace = 30")
    with world.open():
        pass
    world.now += 20 * DAY
    with world.open() as (store, take, _):
        store.seal()
        assert take(message) is Verdict.DUPLICATE
        assert reports(store) == 1


def test_counts_are_purged_when_their_retention_is_over(tmp_path):
    world = World(tmp_path, REGISTRY_TOML.replace("grace = 6", 'grace = 6\nretention = "10d"'))
    with world.open() as (store, take, registry):
        take(daily(registry, NOW))
        store.fold()
        world.now += 10 * DAY
        assert store.seal() == []
        world.now += DAY
        ((metric_hash, _),) = store.seal()
        assert metric_hash == registry["dark_theme"].metric_hash
    with world.open() as (store, _, _):
        assert store.cells == {}


def test_a_metric_that_is_no_longer_in_the_registry_keeps_its_counts(tmp_path):
    world = World(tmp_path)
    with world.open(save=False) as (store, take, registry):
        take(daily(registry, NOW))
    world.toml = REGISTRY_TOML.replace("[metrics.dark_theme]", "[metrics.light_theme]")
    with world.open() as (store, take, _):
        assert reports(store) == 1
        with pytest.raises(Refused, match="metric-unknown"):
            take(daily(registry, NOW, seed=2))


def test_a_checkpoint_that_failed_is_made_up_for_by_the_next(tmp_path):
    world = World(tmp_path)
    with world.open() as (store, take, registry):
        take(daily(registry, NOW))
        store.not_saved(store.snapshot())
        take(daily(registry, NOW, seed=2))
    with world.open() as (store, take, registry):
        assert reports(store) == 2
        assert take(daily(registry, NOW)) is Verdict.DUPLICATE


def test_a_restart_replays_only_what_no_checkpoint_has(tmp_path):
    world = World(tmp_path)
    with world.open() as (_, take, registry):
        for seed in range(10):
            take(daily(registry, NOW, seed))
    with world.open(save=False) as (store, take, _):
        assert store.unsaved_batches == 0
        take(daily(registry, NOW, seed=10))
    with world.open() as (store, _, _):
        assert store.unsaved_batches == 1
        assert reports(store) == 11
        assert len(list((tmp_path / "log").iterdir())) == 3
    assert len(list((tmp_path / "log").iterdir())) == 1


def test_a_directory_is_used_by_one_process_at_a_time(tmp_path):
    with World(tmp_path).open(), pytest.raises(Invalid, match="must not be in use by another process, got"):
        Folder(tmp_path)


def test_another_schema_version_is_refused(tmp_path):
    with World(tmp_path).open():
        pass
    db = sqlite3.connect(tmp_path / "store.sqlite")
    db.execute("pragma user_version = 99")
    db.close()
    with pytest.raises(Invalid, match="schema version must be 1, got 99"), World(tmp_path).open():
        pass


def test_a_file_that_is_no_database_is_refused_in_words(tmp_path):
    (tmp_path / "store.sqlite").write_bytes(b"hello" * 1000)
    with pytest.raises(Invalid, match="must be a collector's checkpoint"), World(tmp_path).open():
        pass
