"""Kept reports: all of them, exactly once, in another order, without ids, in Parquet once their epoch has closed."""

import errno
import sqlite3
from collections import Counter
from random import Random

import pytest

from hubbub.collector.storage import kept_reports, logged_counts
from hubbub.collector.storage.kept_reports import path_of
from hubbub.protocol.report import Batch
from hubbub.protocol.tally import count
from hubbub.protocol.wire import pack
from tests.collector.kit import REGISTRY_TOML, random_report
from tests.collector.storage.kit import DAY, NOW, Place

parquet = pytest.importorskip("pyarrow.parquet")

KEEPING = REGISTRY_TOML.replace("grace = 6", "grace = 6\nkeep_reports = true")


def rows(path):
    table = parquet.read_table(path)
    assert table.column_names == ["cohort", "bits"]
    return list(zip(table["cohort"].to_pylist(), table["bits"].to_pylist(), strict=True))


@pytest.mark.parametrize("name", ["homepage", "minutes"])
def test_kept_reports_are_those_sent_shuffled_and_without_ids(tmp_path, name):
    place = Place(tmp_path, KEEPING)
    random = Random(1)
    sent = []
    ids = []
    for _ in range(3):
        with place.open() as (_, take, registry):
            metric = registry[name]
            epoch = int(NOW // DAY)
            for _ in range(5):
                batch = Batch.of(random.randbytes(16), [random_report(metric, epoch, random) for _ in range(40)])
                ids.append(batch.batch_id)
                sent += batch.reports
                take(pack(batch))
    path = path_of(tmp_path / "reports", metric, epoch)
    assert not path.exists()
    place.now += 7 * DAY
    with place.open() as (store, _, _):
        store.seal()
    expected = list(zip([r.cohort for r in sent], vectors(metric, sent), strict=True))
    found = rows(path)
    assert Counter(found) == Counter(expected)
    assert found != expected
    everything = b"".join(p.read_bytes() for p in (tmp_path / "reports").rglob("*.parquet"))
    assert not any(batch_id in everything for batch_id in ids)
    with place.open() as (store, _, _):
        assert store.checkpoint.kept_epochs() == []
        assert store.cells[metric.metric_hash, epoch].counts() == count(metric, sent).epochs[epoch]


def vectors(metric, reports):
    return [r.bits.to_bytes((metric.shape.width(r.cohort) + 7) // 8, "little") for r in reports]


def test_also_while_they_wait_for_their_epoch_to_close_their_order_says_nothing(tmp_path):
    """Fifty in one batch: left in order by chance once in 50! times."""
    place, random = Place(tmp_path, KEEPING), Random(2)
    with place.open() as (_, take, registry):
        metric, epoch = registry["homepage"], int(NOW // DAY)
        sent = [random_report(metric, epoch, random) for _ in range(50)]
        take(pack(Batch.of(random.randbytes(16), sent)))
    with place.open() as (store, _, _):
        ((_, waiting),) = store.checkpoint.kept_reports((metric.metric_hash, epoch))
    assert waiting != b"".join(vectors(metric, sent))
    assert Counter(waiting[at : at + 8] for at in range(0, len(waiting), 8)) == Counter(vectors(metric, sent))


def test_reports_of_different_checkpoints_are_shuffled_together(tmp_path):
    """Forty, each saved by itself: in the file they are not in the order in which they came."""
    place, random = Place(tmp_path, KEEPING), Random(3)
    sent = []
    with place.open() as (store, take, registry):
        metric, epoch = registry["homepage"], int(NOW // DAY)
        for _ in range(40):
            sent.append(random_report(metric, epoch, random))
            take(pack(Batch.of(random.randbytes(16), [sent[-1]])))
            place.save(store)
    place.now += 7 * DAY
    with place.open():
        pass
    found = [bits for _, bits in rows(path_of(tmp_path / "reports", metric, epoch))]
    assert Counter(found) == Counter(vectors(metric, sent))
    assert found != vectors(metric, sent)


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_for_which_there_is_no_room_is_written_later(tmp_path, monkeypatch):
    place = Place(tmp_path, KEEPING)
    with place.open() as (store, take, registry):
        metric, epoch = registry["homepage"], int(NOW // DAY)
        take(pack(Batch.of(bytes(16), [random_report(metric, epoch, Random(1))])))
        store.not_saved(store.snapshot())  # nor does a checkpoint that failed lose them
    place.now += 7 * DAY
    path = path_of(tmp_path / "reports", metric, epoch)
    with monkeypatch.context() as patched:
        patched.setattr(kept_reports, "_write", full_disk)
        with place.open():
            pass
        assert not path.exists()
    with place.open():
        pass
    assert len(rows(path)) == 1


def test_reports_that_could_not_be_written_before_their_retention_was_over_go_too(tmp_path, monkeypatch):
    place = Place(tmp_path, KEEPING.replace("grace = 6", 'grace = 6\nretention = "10d"'))
    with place.open() as (_, take, registry):
        take(pack(Batch.of(bytes(16), [random_report(registry["homepage"], int(NOW // DAY), Random(1))])))
    place.now += 12 * DAY
    monkeypatch.setattr(kept_reports, "_write", full_disk)
    with place.open() as (store, _, _):
        place.save(store)
        assert store.checkpoint.kept_epochs() == []


def test_kept_reports_go_with_their_retention(tmp_path):
    place = Place(tmp_path, KEEPING.replace("grace = 6", 'grace = 6\nretention = "10d"'))
    with place.open() as (_, take, registry):
        metric, epoch = registry["homepage"], int(NOW // DAY)
        take(pack(Batch.of(bytes(16), [random_report(metric, epoch, Random(1))])))
    path = path_of(tmp_path / "reports", metric, epoch)
    for days, there in ((7, True), (12, False)):
        place.now = NOW + days * DAY
        with place.open() as (store, _, _):
            store.seal()
        assert path.exists() is there


def test_metrics_that_keep_nothing_leave_only_counts(tmp_path):
    place = Place(tmp_path)
    with place.open() as (store, take, registry):
        metric, epoch = registry["homepage"], int(NOW // DAY)
        take(pack(Batch.of(bytes(16), [random_report(metric, epoch, Random(1))])))
    with place.open() as (store, _, _):
        assert store.checkpoint.kept_epochs() == []
    assert not (tmp_path / "reports").exists()


@pytest.mark.parametrize(("code", "is_final"), [(sqlite3.SQLITE_BUSY_SNAPSHOT, False), (sqlite3.SQLITE_CORRUPT, True)])
def test_files_that_cannot_be_made_because_somebody_reads_the_database_are_made_later(
    tmp_path, monkeypatch, code, is_final
):
    """Also where SQLite says why it is busy, in the upper digits of its code."""

    def meets_a_reader(*_):
        error = sqlite3.OperationalError("planted")
        error.sqlite_errorcode = code
        raise error

    monkeypatch.setattr(logged_counts, "write_closed", meets_a_reader)
    with Place(tmp_path, KEEPING).open(save=False) as (store, _, _):
        if is_final:
            with pytest.raises(sqlite3.OperationalError, match="planted"):
                Place.save(store)
        else:
            Place.save(store)
