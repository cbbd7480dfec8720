"""The store across restarts, days, changed terms: counted once, sealed for good, purged in time."""

import pytest

from hubbub.collector.catalog import Catalog
from hubbub.collector.intake import Intake
from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.store import Verdict
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.refusal import Refused
from hubbub.protocol.report import MEDIA_TYPE
from tests.collector.kit import REGISTRY_TOML
from tests.collector.storage.kit import DAY, NOW, Place, daily, reports


@pytest.mark.parametrize("save", [True, False])
def test_a_batch_is_counted_once_over_restarts_with_and_without_a_checkpoint(tmp_path, save):
    place = Place(tmp_path)
    for expected in (Verdict.STORED, Verdict.DUPLICATE, Verdict.DUPLICATE):
        with place.open(save) as (store, take, registry):
            assert take(daily(registry, NOW)) is expected
            assert reports(store) == 1


def test_the_same_id_twice_in_one_group_is_stored_once(tmp_path):
    with Place(tmp_path).open() as (store, _, registry):
        intake = Intake(Catalog(registry), lambda: NOW, {})
        arrivals = [intake.read(daily(registry, NOW), MEDIA_TYPE, False) for _ in range(3)]
        assert store.commit(arrivals) == [Verdict.STORED, Verdict.DUPLICATE, Verdict.DUPLICATE]
        assert reports(store) == 1


def test_ids_go_when_their_epoch_closes_and_the_batch_is_then_refused(tmp_path):
    place = Place(tmp_path)
    with place.open() as (store, take, registry):
        message = daily(registry, NOW)
        take(message)
        assert len(store.batch_ids) == 1
        place.now += 7 * DAY
        store.seal()
        assert len(store.batch_ids) == 0
        assert take(message) is Verdict.EPOCH_CLOSED
    with place.open() as (store, take, _):
        with pytest.raises(Refused, match="epoch-closed"):
            take(message)
        assert len(store.batch_ids) == 0
        assert reports(store) == 1


def test_a_batch_admitted_before_midnight_and_committed_after_is_not_counted_a_second_time(tmp_path):
    place = Place(tmp_path)
    with place.open() as (store, take, registry):
        message = daily(registry, NOW)
        take(message)
        late = Intake(Catalog(registry), lambda: NOW, {}).read(message, MEDIA_TYPE, False)
        place.now += 7 * DAY
        store.seal()
        assert store.commit([late]) == [Verdict.EPOCH_CLOSED]
        assert reports(store) == 1


def test_a_closed_epoch_stays_closed_though_the_clock_goes_back_or_the_grace_grows(tmp_path):
    place = Place(tmp_path)
    with place.open() as (_, take, registry):
        message = daily(registry, NOW)
        take(message)
    place.now += 10 * DAY
    with place.open():
        pass
    place.toml = REGISTRY_TOML.replace("grace = 6", "grace = 30")
    for now in (place.now, NOW):
        place.now = now
        with place.open() as (_, take, _), pytest.raises(Refused, match="epoch-closed"):
            take(message)


def test_where_a_grace_grows_ids_are_kept_as_much_longer(tmp_path):
    place = Place(tmp_path)
    with place.open() as (_, take, registry):
        message = daily(registry, NOW)
        take(message)
    place.toml = REGISTRY_TOML.replace("grace = 6", "grace = 30")
    with place.open():
        pass
    place.now += 20 * DAY
    with place.open() as (store, take, _):
        store.seal()
        assert take(message) is Verdict.DUPLICATE
        assert reports(store) == 1


def test_counts_are_purged_when_their_retention_is_over(tmp_path):
    place = Place(tmp_path, REGISTRY_TOML.replace("grace = 6", 'grace = 6\nretention = "10d"'))
    with place.open() as (store, take, registry):
        take(daily(registry, NOW))
        store.fold()
        place.now += 10 * DAY
        assert store.seal() == []
        place.now += DAY
        ((metric_hash, _),) = store.seal()
        assert metric_hash == registry["dark_theme"].metric_hash
    with place.open() as (store, _, _):
        assert store.cells == {}


def test_a_metric_that_is_no_longer_in_the_registry_keeps_its_counts(tmp_path):
    place = Place(tmp_path)
    with place.open(save=False) as (store, take, registry):
        take(daily(registry, NOW))
    place.toml = REGISTRY_TOML.replace("[metrics.dark_theme]", "[metrics.light_theme]")
    with place.open() as (store, take, _):
        assert reports(store) == 1
        with pytest.raises(Refused, match="metric-unknown"):
            take(daily(registry, NOW, seed=2))


def test_a_checkpoint_that_failed_is_made_up_for_by_the_next(tmp_path):
    place = Place(tmp_path)
    with place.open() as (store, take, registry):
        take(daily(registry, NOW))
        store.not_saved(store.snapshot())
        take(daily(registry, NOW, seed=2))
    with place.open() as (store, take, registry):
        assert reports(store) == 2
        assert take(daily(registry, NOW)) is Verdict.DUPLICATE


def test_a_restart_replays_only_what_no_checkpoint_has(tmp_path):
    place = Place(tmp_path)
    with place.open() as (_, take, registry):
        for seed in range(10):
            take(daily(registry, NOW, seed))
    with place.open(save=False) as (store, take, _):
        assert store.unsaved_batches == 0
        take(daily(registry, NOW, seed=10))
    with place.open() as (store, _, _):
        assert store.unsaved_batches == 1
        assert reports(store) == 11
        assert len(list((tmp_path / "log").iterdir())) == 3
    assert len(list((tmp_path / "log").iterdir())) == 1


def test_a_directory_is_used_by_one_process_at_a_time(tmp_path):
    with Place(tmp_path).open(), pytest.raises(Invalid, match="must not be in use by another process, got"):
        DataDir(tmp_path)
