"""What tests of the store share: a data directory that is opened and closed at will, under a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from hubbub.collector.catalog import Catalog
from hubbub.collector.intake import Intake
from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.logged_counts import LoggedCounts
from hubbub.collector.storage.store import Verdict
from hubbub.protocol.registry import Registry
from hubbub.protocol.wire import MEDIA_TYPE, pack
from tests.collector.kit import REGISTRY_TOML, random_batch

NOW = 1_795_000_000.0
DAY = 86_400

Take = Callable[[bytes], Verdict]


class Place:
    """A data directory, a clock and a registry; opened and closed at will."""

    def __init__(self, path: Path, toml: str = REGISTRY_TOML, min_reports: int = 0) -> None:
        self.path = path
        self.min_reports = min_reports
        self.toml = toml
        self.now = NOW
        self.steady: Callable[[], float] | None = None  # unless a test has its own, time really passes as `now` says

    @contextmanager
    def open(
        self, save: bool = True, segment_bytes: int = 64 << 20, accept_clock: bool = True
    ) -> Iterator[tuple[LoggedCounts, Take, Registry]]:
        """A store at work, a function that commits one message to it, and the registry."""
        registry = Registry.parse(self.toml)
        catalog = Catalog(registry)
        data_dir = DataDir(self.path)
        try:
            steady = self.steady or (lambda: self.now)
            store = LoggedCounts(
                data_dir, catalog, lambda: self.now, segment_bytes, steady, accept_clock, self.min_reports
            )
            intake = Intake(catalog, lambda: self.now, store.sealed, lambda: store.day)
            try:
                yield store, lambda message: store.commit([intake.read(message, MEDIA_TYPE, True)])[0], registry
                if save:
                    self.save(store, last=True)
            finally:
                store.close()
        finally:
            data_dir.close()

    @staticmethod
    def save(store: LoggedCounts, last: bool = False, for_readers: bool = False) -> None:
        snapshot = store.snapshot(last, for_readers)
        store.save(snapshot)
        store.saved(snapshot)


def daily(registry: Registry, now: float, seed: int = 1) -> bytes:
    """One report of one daily metric, as a packed message."""
    return pack(random_batch(Random(seed), [registry["dark_theme"]], now))


def reports(store: LoggedCounts) -> int:
    """How many reports have been counted."""
    store.fold()
    return sum(int(cells.num_reports.sum()) for cells in store.cells.values())
