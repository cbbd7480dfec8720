"""The embedded store as its committer sees it: what a tick tells, and that the end of a save is heard of."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from hubbub.collector.catalog import Catalog
from hubbub.collector.intake import Intake
from hubbub.collector.metrics import CollectorMetrics
from hubbub.collector.settings import Settings
from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.embedded import EmbeddedStore
from hubbub.protocol.wire import MEDIA_TYPE, pack
from tests.collector.kit import REGISTRY, random_batch

NOW = 1_795_000_000.0
YEAR = 366 * 86_400
CATALOG = Catalog(REGISTRY)


class Wall:
    """A clock that somebody sets wrong, beside a steady one that stands still."""

    now = NOW


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[EmbeddedStore]:
    settings = Settings(metrics=Path("metrics.toml"), min_free_bytes=0, min_reports=0, checkpoint_batches=1)
    data_dir = DataDir(tmp_path)
    store = EmbeddedStore(data_dir, CATALOG, lambda: wall.now, settings, CollectorMetrics(), steady=lambda: 1000.0)
    try:
        yield store
    finally:
        store.close()
        data_dir.close()


def test_that_the_clock_is_not_believed_is_told_once_and_once_more_when_it_is(store: EmbeddedStore, wall: Wall) -> None:
    told = []
    for now in (NOW, NOW, NOW + YEAR, NOW + YEAR, NOW, NOW):
        wall.now = now
        told.append([notice.words.partition(":")[0] for notice in store.tick()])
    assert told == [[], [], ["the clock is not believed"], [], ["the clock is believed"], []]


def test_the_committer_is_woken_when_a_save_has_ended(store: EmbeddedStore) -> None:
    woken = threading.Event()
    store.begin(woken.set)
    intake = Intake(CATALOG, lambda: NOW, {})
    store.commit([intake.read(pack(random_batch(Random(1), list(REGISTRY), NOW)), MEDIA_TYPE, False)])
    assert store.tick() == []
    assert woken.wait(60)
    assert store.tick() == []
    assert not store.counts.unsaved


def test_where_nothing_is_withheld_a_reader_waits_for_no_save(store: EmbeddedStore, monkeypatch) -> None:
    """Not even while one is under way."""
    go_on, saved = threading.Event(), store.counts.save
    monkeypatch.setattr(store.counts, "save", lambda snapshot: (go_on.wait(60), saved(snapshot)))
    store.begin(lambda: None)
    intake = Intake(CATALOG, lambda: NOW, {})
    store.commit([intake.read(pack(random_batch(Random(1), list(REGISTRY), NOW)), MEDIA_TYPE, False)])
    store.tick()
    answers: list[object] = []
    store.select(lambda *_: True, answers.append)
    go_on.set()
    assert len(answers) == 1
