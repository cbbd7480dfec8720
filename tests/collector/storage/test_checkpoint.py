"""The checkpoint tells nothing of when a batch came, and is refused in words where this program cannot read it."""

import sqlite3
from contextlib import closing

import pytest

from hubbub.collector.export import Wanted, from_data
from hubbub.collector.storage.backup import backup
from hubbub.protocol.invalid import Invalid
from tests.collector.kit import REGISTRY_TOML
from tests.collector.storage.kit import DAY, NOW, Place, daily, reports

ADVICE = (
    "; run the hubbub that wrote the directory, or export its tallies with that one (`hubbub export --data`) "
    "and give this one a new directory"
)


def sql(path, statement):
    with closing(sqlite3.connect(path)) as db:
        found = db.execute(statement).fetchall()
        db.commit()
        return found


def saved_ids(path):
    """The ids of a checkpoint in the order in which they lie in the file, one list for each row."""
    return [[blob[at : at + 16] for at in range(0, len(blob), 20)] for (blob,) in sql(path, "select records from ids")]


def test_the_order_of_saved_ids_does_not_tell_the_order_in_which_batches_came(tmp_path):
    """Two collectors that got the same batches in opposite orders save the same bytes; those are sorted."""
    arrived, rows = [], []
    for name, seeds in (("forwards", range(40)), ("backwards", range(39, -1, -1))):
        place = Place(tmp_path / name)
        with place.open() as (_, take, registry):
            messages = [daily(registry, NOW, seed) for seed in seeds]
            for message in messages:
                take(message)
        arrived.append([message[8:24] for message in messages])
        rows.append(saved_ids(place.path / "store.sqlite"))
    assert rows[0] == rows[1]
    (ids,) = rows[0]
    assert ids == sorted(arrived[0]) == sorted(arrived[1])
    assert ids not in arrived


def test_ids_are_gone_from_the_file_on_the_day_their_epoch_closes(tmp_path):
    place = Place(tmp_path)
    with place.open() as (_, take, registry):
        take(daily(registry, NOW))
    for days, kept in ((6, 1), (7, 0)):  # a grace of 6 days
        place.now = NOW + days * DAY
        with place.open():
            pass
        assert len(saved_ids(tmp_path / "store.sqlite")) == kept


def test_a_metric_that_the_registry_has_no_more_keeps_the_retention_it_was_saved_with(tmp_path):
    short = REGISTRY_TOML.replace("grace = 6", 'grace = 6\nretention = "10d"')
    place = Place(tmp_path, short)
    with place.open() as (_, take, registry):
        take(daily(registry, NOW))
    place.toml = short.replace("[metrics.dark_theme]", "[metrics.another]")
    for days, kept in ((10, 1), (11, 0)):
        place.now = NOW + days * DAY
        with place.open() as (store, _, registry):
            assert "dark_theme" not in registry
            assert reports(store) == kept


def test_a_checkpoint_that_fails_half_way_leaves_the_last_one(tmp_path, monkeypatch):
    def fail(snapshot):
        raise RuntimeError("planted")

    with Place(tmp_path).open(save=False) as (store, take, registry):
        take(daily(registry, NOW))
        monkeypatch.setattr(store.checkpoint, "_save_position", fail)
        with pytest.raises(RuntimeError, match="planted"):
            store.save(store.snapshot())
    assert sql(tmp_path / "store.sqlite", "select * from counts") == []
    assert saved_ids(tmp_path / "store.sqlite") == []


def test_a_commit_of_the_file_survives_a_power_cut_and_a_failed_sync_is_noticed(tmp_path):
    """SQLite's own words for it: 3 is `extra`, which also syncs the removal of the journal; no write-ahead log."""
    with Place(tmp_path).open() as (store, _, _):
        db = store.checkpoint._db
        assert db.execute("pragma synchronous").fetchone() == (3,)
        assert db.execute("pragma journal_mode").fetchone() == ("delete",)


@pytest.mark.parametrize("version", [1, 99, -1])
def test_another_schema_version_is_refused_with_both_versions_and_what_to_do(tmp_path, version):
    place = Place(tmp_path / "data")
    with place.open():
        pass
    database = place.path / "store.sqlite"
    sql(database, f"pragma user_version = {version}")
    before = database.read_bytes()
    words = f"{database}: schema version must be 3, the one this hubbub reads, got {version}{ADVICE}"
    for attempt in (
        lambda: place.open().__enter__(),
        lambda: from_data(place.path, Wanted(), lambda: NOW),
        lambda: backup(place.path, tmp_path / "copy"),
    ):
        with pytest.raises(Invalid) as caught:
            attempt()
        assert caught.value.problems == (words,)
    assert database.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path):
    database = tmp_path / "store.sqlite"
    sql(database, "pragma journal_mode = wal")
    sql(database, "create table counts (of_something_else text)")
    before = database.read_bytes()
    with pytest.raises(Invalid, match="must be a collector's checkpoint, got another program's database"):
        Place(tmp_path).open().__enter__()
    assert database.read_bytes() == before


def test_an_empty_file_that_a_crash_left_becomes_a_checkpoint(tmp_path):
    (tmp_path / "store.sqlite").touch()
    with Place(tmp_path).open() as (_, take, registry):
        take(daily(registry, NOW))
    assert len(saved_ids(tmp_path / "store.sqlite")) == 1


def test_a_file_that_is_no_database_is_refused_in_words(tmp_path):
    (tmp_path / "store.sqlite").write_bytes(b"hello" * 1000)
    with pytest.raises(Invalid, match="must be a collector's checkpoint"), Place(tmp_path).open():
        pass
