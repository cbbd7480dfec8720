"""What tests of the shared store share: collectors' stores in this process, on a database whose clock they set."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hubbub.collector.catalog import Catalog
from hubbub.collector.intake import Intake
from hubbub.collector.metrics import CollectorMetrics
from hubbub.collector.postgres.store import PostgresStore
from hubbub.collector.settings import Settings
from hubbub.collector.storage.handing_out import ReadableCounts
from hubbub.collector.storage.store import Verdict
from hubbub.protocol.refusal import Refused
from hubbub.protocol.registry import Registry
from hubbub.protocol.wire import MEDIA_TYPE
from tests.collector.kit import REGISTRY_TOML
from tests.postgres_server import ask, set_clock


class Shop:
    """A store, and the clock that is shown to it: `now` jumps when it is told, and real time passes besides."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address = address
        self.folder = folder
        self.ahead = 0.0

    @contextmanager
    def collector(
        self, toml: str = REGISTRY_TOML, number: int = 0, databases: int = 1, **settings: object
    ) -> Iterator[Counter]:
        """A collector's store, whose keeper runs only when it is told to. The steady clock follows the database's."""
        registry = Registry.parse(toml)
        chosen = Settings(
            metrics=Path("metrics.toml"), data=self.folder, store=self.address, **{"min_reports": 0, **settings}
        )
        counter = Counter(registry, self)
        counter.store = PostgresStore(
            self.address,
            Catalog(registry),
            chosen,
            CollectorMetrics(),
            number=number,
            databases=databases,
            accept=True,
            steady=counter.steady,
        )
        try:
            yield counter
        finally:
            counter.store.close()

    def move_clock(self, seconds: float) -> None:
        """The database's clock jumps; stores in this process think that so much time has really passed."""
        self.ahead += seconds
        set_clock(self.address, self.ahead)

    def rows(self, statement: str, *values: object) -> list[tuple]:
        return ask(self.address, statement, values)

    def wait_for(self, statement: str) -> None:
        """Until it has an answer."""
        deadline = time.monotonic() + 30
        while not self.rows(statement):
            assert time.monotonic() < deadline, statement
            time.sleep(0.02)


class Counter:
    """One collector's store, used as a committer would."""

    store: PostgresStore

    def __init__(self, registry: Registry, shop: Shop) -> None:
        self.registry = registry
        self._shop = shop
        self.stands_still = False  # whether a jump of the database's clock is one to this collector

    def steady(self) -> float:
        return time.time() + (0.0 if self.stands_still else self._shop.ahead)

    def send(self, *messages: bytes) -> list[Verdict]:
        return self.store.commit([self.read(message) for message in messages])

    def read(self, message: bytes):
        intake = Intake(Catalog(self.registry), self.store.now, self.store.sealed, lambda: self.store.day)
        return intake.read(message, MEDIA_TYPE, True)

    def adopt(self, toml: str) -> None:
        """As a reload does."""
        self.registry = Registry.parse(toml)
        self.store.adopt(Catalog(self.registry))

    def keep(self) -> list[str]:
        """Let time pass; what the operator is told."""
        self.store._keep()
        return [notice.words for notice in self.store.tick()]

    def readable(self, wanted=lambda metric, epoch: True) -> ReadableCounts:
        answers: list[ReadableCounts | Refused] = []
        done = threading.Event()
        self.store.select(wanted, lambda answer: (answers.append(answer), done.set()))
        assert done.wait(60)
        assert isinstance(answers[0], ReadableCounts), answers
        return answers[0]

    def reports(self) -> int:
        return sum(cells.total for cells in self.readable().cells.values())
