"""Kept reports: all of them, exactly once, in another order, without ids, in Parquet once their epoch has closed."""

from collections import Counter
from random import Random

import pytest

from hubbub.collector.storage.kept_reports import path_of
from hubbub.protocol.report import Batch
from hubbub.protocol.tally import count
from hubbub.protocol.wire import pack
from tests.collector.kit import REGISTRY_TOML, random_report
from tests.collector.test_store import DAY, NOW, World

parquet = pytest.importorskip("pyarrow.parquet")

KEEPING = REGISTRY_TOML.replace("grace = 6", "grace = 6\nkeep_reports = true")


def rows(path):
    table = parquet.read_table(path)
    assert table.column_names == ["cohort", "bits"]
    return list(zip(table["cohort"].to_pylist(), table["bits"].to_pylist(), strict=True))


@pytest.mark.parametrize("name", ["homepage", "minutes"])
def test_kept_reports_are_those_sent_shuffled_and_without_ids(tmp_path, name):
    world = World(tmp_path, KEEPING)
    random = Random(1)
    sent = []
    ids = []
    for _ in range(3):
        with world.open() as (_, take, registry):
            metric = registry[name]
            epoch = int(NOW // DAY)
            for _ in range(5):
                batch = Batch.of(random.randbytes(16), [random_report(metric, epoch, random) for _ in range(40)])
                ids.append(batch.batch_id)
                sent += batch.reports
                take(pack(batch))
    path = path_of(tmp_path / "reports", metric, epoch)
    assert not path.exists()
    world.now += 7 * DAY
    with world.open() as (store, _, _):
        store.seal()
    expected = [(r.cohort, r.bits.to_bytes((metric.shape.width(r.cohort) + 7) // 8, "little")) for r in sent]
    found = rows(path)
    assert Counter(found) == Counter(expected)
    assert found != expected
    everything = b"".join(p.read_bytes() for p in (tmp_path / "reports").rglob("*.parquet"))
    assert not any(batch_id in everything for batch_id in ids)
    with world.open() as (store, _, _):
        assert store.checkpoint.kept_epochs() == []
        assert store.cells[metric.metric_hash, epoch].counts() == count(metric, sent).epochs[epoch]


def test_kept_reports_go_with_their_retention(tmp_path):
    world = World(tmp_path, KEEPING.replace("grace = 6", 'grace = 6\nretention = "10d"'))
    with world.open() as (_, take, registry):
        metric, epoch = registry["homepage"], int(NOW // DAY)
        take(pack(Batch.of(bytes(16), [random_report(metric, epoch, Random(1))])))
    path = path_of(tmp_path / "reports", metric, epoch)
    for days, there in ((7, True), (12, False)):
        world.now = NOW + days * DAY
        with world.open() as (store, _, _):
            store.seal()
        assert path.exists() is there


def test_metrics_that_keep_nothing_leave_only_counts(tmp_path):
    world = World(tmp_path)
    with world.open() as (store, take, registry):
        metric, epoch = registry["homepage"], int(NOW // DAY)
        take(pack(Batch.of(bytes(16), [random_report(metric, epoch, Random(1))])))
    with world.open() as (store, _, _):
        assert store.checkpoint.kept_epochs() == []
    assert not (tmp_path / "reports").exists()
