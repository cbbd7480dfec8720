"""The store across restarts, days, changed terms: counted once, sealed for good, purged in time."""

import os
from random import Random

import pytest

from hubbub.collector.catalog import Catalog
from hubbub.collector.intake import Intake
from hubbub.collector.storage.backup import backup, restore
from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.log import DiskFull
from hubbub.collector.storage.store import Verdict
from hubbub.collector.tokens import new_token
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.refusal import Refused
from hubbub.protocol.report import Batch
from hubbub.protocol.wire import MEDIA_TYPE, pack
from tests.collector.kit import REGISTRY_TOML, random_batch
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
    for now in (place.now, NOW, place.now + DAY):
        place.now = now
        with place.open() as (_, take, _), pytest.raises(Refused, match="epoch-closed"):
            take(message)


@pytest.mark.parametrize(("name", "days"), [("dark_theme", 20), ("parity", 20 * 7)], ids=["daily", "weekly"])
def test_where_a_grace_grows_ids_are_kept_as_much_longer(tmp_path, name, days):
    place = Place(tmp_path)
    with place.open() as (_, take, registry):
        message = pack(random_batch(Random(1), [registry[name]], NOW))
        take(message)
    place.toml = REGISTRY_TOML.replace("grace = 6", "grace = 30")
    with place.open():
        pass
    place.now += days * DAY
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


def test_counts_that_were_purged_before_a_checkpoint_failed_are_gone_with_the_next(tmp_path):
    place = Place(tmp_path, REGISTRY_TOML.replace("grace = 6", 'grace = 6\nretention = "10d"'))
    with place.open() as (_, take, registry):
        take(daily(registry, NOW))
    place.now += 11 * DAY
    with place.open() as (store, _, _):
        store.not_saved(store.snapshot())
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


def test_a_snapshot_does_not_change_while_it_is_being_written(tmp_path):
    """What is committed meanwhile is behind the position of the snapshot, so a restart counts it from the log."""
    place = Place(tmp_path)
    with place.open(save=False) as (store, take, registry):
        take(daily(registry, NOW))
        snapshot = store.snapshot()
        take(daily(registry, NOW, seed=2))
        store.fold()
        store.save(snapshot)
    with place.open() as (store, _, _):
        assert reports(store) == 2


def test_an_id_that_is_in_the_log_twice_is_counted_once(tmp_path):
    place = Place(tmp_path)
    with place.open(save=False) as (store, _, registry):
        for _ in range(2):
            store._log.append([daily(registry, NOW)])
            store._log.sync()
    with place.open() as (store, _, _):
        assert reports(store) == 1


def test_an_id_with_another_body_is_told_from_a_duplicate_also_after_a_restart(tmp_path):
    place = Place(tmp_path)
    for save in (False, True, True):
        with place.open(save) as (store, take, registry):
            first, other = (random_batch(Random(seed), list(registry), NOW) for seed in (1, 2))
            assert take(pack(first)) in (Verdict.STORED, Verdict.DUPLICATE)
            assert take(pack(Batch(first.batch_id, other.blocks))) is Verdict.ID_REUSED
            assert reports(store) == len(list(registry))


def test_a_batch_for_which_there_was_no_room_is_stored_when_it_comes_again(tmp_path, monkeypatch):
    def no_room(messages):
        raise DiskFull("planted")

    with Place(tmp_path).open() as (store, take, registry):
        with monkeypatch.context() as patched:
            patched.setattr(store._log, "append", no_room)
            with pytest.raises(DiskFull):
                take(daily(registry, NOW))
        assert take(daily(registry, NOW)) is Verdict.STORED
        assert reports(store) == 1


def test_directories_are_0700_and_files_0600_also_in_a_backup(tmp_path):
    pytest.importorskip("pyarrow.parquet")
    place = Place(tmp_path / "data", REGISTRY_TOML.replace("grace = 6", "grace = 6\nkeep_reports = true"))
    before = os.umask(0)
    try:
        with place.open() as (_, take, registry):
            take(daily(registry, NOW))
        place.now += 7 * DAY
        with place.open():
            pass
        new_token(place.path / "tokens", "read", "analyst")
        backup(place.path, tmp_path / "copy")
        restore(tmp_path / "copy", tmp_path / "restored")
    finally:
        os.umask(before)
    for top in ("data", "copy", "restored"):
        found = [tmp_path / top, *(tmp_path / top).rglob("*")]
        assert {path.name for path in found} >= {"store.sqlite", "tokens", "log", "reports"}
        assert any(path.suffix == ".parquet" for path in found)
        assert any(path.suffix == ".log" for path in found)
        for path in found:
            assert oct(path.stat().st_mode & 0o777) == oct(0o700 if path.is_dir() else 0o600), path


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


def test_what_is_lent_to_a_reader_never_changes_and_is_not_copied_before_it_must_be(tmp_path):
    place = Place(tmp_path / "data")
    with place.open() as (store, take, registry):
        take(daily(registry, place.now, 1))
        (readable,) = store.readable(lambda metric, epoch: True).cells.values()
        (again,) = store.readable(lambda metric, epoch: True).cells.values()
        assert again is readable
        before, revision = readable.counts(), readable.revision
        take(daily(registry, place.now, 2))
        (newer,) = store.readable(lambda metric, epoch: True).cells.values()
        assert (readable.counts(), int(newer.num_reports.sum())) == (before, 2)
        assert newer.revision != revision
        assert store.readable(lambda metric, epoch: False).cells == {}
