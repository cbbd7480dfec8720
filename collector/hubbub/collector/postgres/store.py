"""The shared store at work in one collector: three connections, for batches, for readers, and for what time brings.

If the database cannot be reached, batches are refused at once (503 `store-unreachable`), the process lives, and resumes
as soon as it can. The database's clock is the one that counts, and it is guarded as a collector's own would
be: a jump by more than an hour is not believed (`storage.clock_guard`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import perf_counter
from typing import TypeVar

from hubbub.collector.catalog import Catalog
from hubbub.collector.intake import Arrival
from hubbub.collector.metrics import CollectorMetrics
from hubbub.collector.postgres.journal import JournalReader, fold
from hubbub.collector.postgres.keeping import purge
from hubbub.collector.postgres.kept_rows import remove_old_files, write_kept
from hubbub.collector.postgres.listed import listed
from hubbub.collector.postgres.reading import CellsReader
from hubbub.collector.postgres.session import (
    Busy,
    Connection,
    Full,
    Session,
    Unreachable,
    Watch,
    check_server,
    check_version,
    refused,
    shown,
)
from hubbub.collector.postgres.shared import Look, Shared, Stale, accept_clock, adopt, look, read_shared, turn_day
from hubbub.collector.postgres.taking import take
from hubbub.collector.settings import Settings
from hubbub.collector.storage.clock_guard import Belief, ClockGuard, steady_seconds
from hubbub.collector.storage.handing_out import Condition, ReadableCounts
from hubbub.collector.storage.kept_reports import check_can_keep
from hubbub.collector.storage.store import CLOCK_NOT_BELIEVED, Notice, Verdict, clock_changed, purged
from hubbub.collector.tokens import KnownToken
from hubbub.protocol.cadence import DAY
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.pair import Counted
from hubbub.protocol.refusal import Refused

_LOOK_SECONDS = 0.5
_FOLD_BATCHES = 20_000  # the journal is folded earlier after so many of this collector's own
_KNOWN_BEFORE = frozenset((Verdict.DUPLICATE, Verdict.ID_REUSED))
_SLOW_SECONDS = 60.0  # for readers and folds

Result = TypeVar("Result")


class PostgresStore:
    """One collector's share in a database, as `hubbub.collector.storage.store.Store` describes it."""

    def __init__(
        self,
        address: str,
        catalog: Catalog,
        settings: Settings,
        own_metrics: CollectorMetrics,
        *,
        number: int = 0,
        databases: int = 1,
        accept: bool = False,
        steady: Callable[[], float] = steady_seconds,
    ) -> None:
        self._address = address
        self._settings = settings
        self._own_metrics = own_metrics
        self._steady = steady
        self._databases = databases
        self._reports = settings.data / "reports"
        if databases > 1:  # each has reports of its own for every epoch
            self._reports = self._reports / f"database-{number + 1}"
        self._notices: deque[Notice] = deque()
        self._failure: BaseException | None = None
        self._unreachable = False
        self._wake: Callable[[], None] = lambda: None
        self._taking = Session(address)
        self._keeping = Session(address, _SLOW_SECONDS)
        self._reading = Session(address, _SLOW_SECONDS)
        self._watch = Watch([self._taking, self._keeping, self._reading])
        self._readers = ThreadPoolExecutor(1, "hubbub-reader")
        self._ended = threading.Event()
        self._due = threading.Event()
        self._keeper: threading.Thread | None = None
        self._journal = JournalReader()
        self._cells = CellsReader()
        self._expect_new = True  # whether the last group was: retries and attacks come in numbers
        self._unfolded_batches = 0
        self._last_fold = perf_counter()
        self._purge_due = self._files_due = True
        self._sealed: dict[str, int] = {}
        try:
            self._open(catalog, accept)
        except Unreachable as error:
            self.close()
            raise Invalid([f"the database cannot be reached: {error}"]) from None
        except BaseException:
            self.close()
            raise

    def _open(self, catalog: Catalog, accept: bool) -> None:
        check_can_keep(catalog.metrics)
        self._keeping.run(check_server)
        self._keeping.run(check_version)
        self._keeping.run(lambda connection: adopt(connection, catalog.counted, self._settings.min_reports))
        if accept:
            self._keeping.run(accept_clock)
        self._shared = self._keeping.run(read_shared)
        self._sealed.update(self._shared.sealed)
        self._look = self._keeping.run(look)
        self._offset = self._look.now - self._steady()
        self._accepts = self._look.accepts
        self._guard = ClockGuard(self.now, self._steady, self._shared.day)
        self._belief = Belief.IN_STEP
        self._keep()

    @property
    def definitions(self) -> Mapping[str, Counted]:
        return self._shared.definitions

    @property
    def sealed(self) -> Mapping[str, int]:
        return self._sealed

    @property
    def day(self) -> int:
        return self._shared.day

    @property
    def place(self) -> str:
        return shown(self._address)

    @property
    def clock_accepts(self) -> bool:
        return self._guard.accepts

    def now(self) -> float:
        """The database's time when it was last looked at, and what has passed since."""
        return self._steady() + self._offset

    def begin(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._keeper = threading.Thread(target=self._keep_on, name="hubbub-keeper", daemon=True)
        self._keeper.start()

    # -- counting

    def refusal(self, waiting: int) -> Refused | None:
        if self._unreachable:
            return refused(Unreachable())
        if not self._guard.accepts:
            return Refused("clock-not-believed", CLOCK_NOT_BELIEVED)
        return None

    def commit(self, arrivals: Sequence[Arrival]) -> list[Verdict | Refused]:
        try:
            verdicts = self._until_current(
                self._taking,
                lambda connection, shared: take(connection, shared, arrivals, self._databases, self._expect_new),
            )
        except (Unreachable, Busy, Full) as error:
            self._tell_unreachable(error)
            raise refused(error) from None
        self._expect_new = _KNOWN_BEFORE.isdisjoint(verdicts)
        self._unfolded_batches += len(arrivals)
        if self._unfolded_batches >= _FOLD_BATCHES:
            self._due.set()
        return verdicts

    def databases_of(self, lot: int) -> int | None:
        """Over how many databases the batches of a lot are spread; None if that is not known yet. On any thread."""
        shared = self._shared
        return 1 if shared.is_closed(lot) else shared.lots.get(lot)  # of a closed one, anybody may say so

    def open_lot(self, lot: int) -> None:
        """From now on it is known. Raises `Refused`."""
        try:
            self._taking.run(lambda connection: connection.execute("select open_lots(%s::int[])", ([lot],)))
            self._take_up(self._taking.run(lambda connection: read_shared(connection, self._shared)))
        except (Unreachable, Busy, Full) as error:
            self._tell_unreachable(error)
            raise refused(error) from None

    def _until_current(self, session: Session, action: Callable[[Connection, Shared], Result]) -> Result:
        """Do something with what is shared, as it is now."""
        while True:
            try:
                return session.run(lambda connection: action(connection, self._shared))
            except Stale:
                self._take_up(session.run(lambda connection: read_shared(connection, self._shared)))

    def _take_up(self, shared: Shared) -> None:
        """Whichever was read last: after a failover the turn may be an earlier one."""
        self._sealed.update(shared.sealed)
        self._shared = shared

    def _tell_unreachable(self, error: Exception) -> None:
        if not self._unreachable and not isinstance(error, Full | Busy):
            self._unreachable = True
            words = "the database cannot be reached; batches are refused until it can"
            self._notices.append(Notice(words, "warning", {"error": str(error)}))
            self._wake()

    def adopt(self, catalog: Catalog) -> None:
        try:
            self._taking.run(lambda connection: adopt(connection, catalog.counted, self._settings.min_reports))
            self._take_up(self._taking.run(lambda connection: read_shared(connection, self._shared)))
        except (Unreachable, Busy, Full) as error:
            raise Invalid([f"the database cannot be reached: {error}"]) from None

    # -- reading

    def select(self, wanted: Condition, answer: Callable[[ReadableCounts | Refused], None]) -> None:
        self._readers.submit(self._select, wanted, answer)

    def _select(self, wanted: Condition, answer: Callable[[ReadableCounts | Refused], None]) -> None:
        try:
            answer(self._until_current(self._reading, lambda c, shared: self._cells.select(c, shared, wanted)))
        except (Unreachable, Busy, Full) as error:
            answer(refused(error))
        except BaseException as error:  # noqa: BLE001  # raised again in `tick`, which ends the collector and tells all
            self._failure = error
            self._wake()

    def gauges(self) -> Mapping[str, float]:
        return {"store_reachable": float(not self._unreachable), "journal_bytes": self._look.journal_bytes}

    def tokens(self) -> tuple[list[KnownToken], dict[int, bytes]]:
        return self._look.tokens, {}

    def first_token(self) -> str | None:
        return None

    def stopped(self) -> list[str]:
        return self._look.stopped

    # -- time

    def tick(self) -> list[Notice]:
        if self._failure is not None:
            raise self._failure
        notices = []
        while self._notices:
            notices.append(self._notices.popleft())
        return notices

    def _keep_on(self) -> None:
        """On a thread of its own."""
        try:
            while not self._ended.is_set():
                self._due.wait(_LOOK_SECONDS)
                self._due.clear()
                try:
                    self._keep()
                except (Busy, Full) as error:
                    self._own_metrics.checkpoints["failed"] += 1
                    self._notices.append(Notice("the database is busy; trying again", "warning", {"error": str(error)}))
                except Unreachable as error:
                    self._tell_unreachable(error)
                else:
                    self._tell_reachable()
        except BaseException as error:  # noqa: BLE001  # raised again in `tick`, where it ends the collector
            self._failure = error
            self._wake()

    def _tell_reachable(self) -> None:
        if self._unreachable:
            self._unreachable = False
            self._notices.append(Notice("the database is reached again"))
            self._wake()

    def _keep(self) -> None:
        self._take_up_look(self._keeping.run(look))
        if self._look.turn != self._shared.turn:
            self._take_up(self._keeping.run(lambda connection: read_shared(connection, self._shared)))
        now = self._guard.look()
        if self._guard.belief is not self._belief:
            self._belief = self._guard.belief
            self._notices.append(clock_changed(self._belief))
        if now is not None:
            self._close_what_is_over(now)
        if (
            perf_counter() - self._last_fold >= self._settings.checkpoint_seconds
            or self._unfolded_batches >= _FOLD_BATCHES
        ):
            self._fold()

    def _take_up_look(self, seen: Look) -> None:
        self._look = seen
        self._offset = seen.now - self._steady()
        if seen.accepts != self._accepts:
            self._accepts = seen.accepts
            self._guard.accept()

    def _close_what_is_over(self, now: float) -> None:
        if int(now // DAY) > self._shared.day:
            self._until_current(self._keeping, lambda connection, shared: turn_day(connection, shared, now))
            self._take_up(self._keeping.run(lambda connection: read_shared(connection, self._shared)))
            self._purge_due = self._files_due = True
        if self._purge_due:
            gone = self._until_current(self._keeping, lambda connection, shared: purge(connection, shared, now))
            self._purge_due = gone is None
            for metric_hash, epoch in gone or []:
                self._notices.append(purged(self._shared.definitions[metric_hash], epoch))
        if self._files_due:
            remove_old_files(self._shared, self._reports, now)
            self._files_due = not self._until_current(
                self._keeping, lambda c, shared: write_kept(c, self._journal, shared, self._reports)
            )

    def _fold(self) -> None:
        self._last_fold, self._unfolded_batches = perf_counter(), 0
        started = perf_counter()
        while self._until_current(self._keeping, lambda c, shared: fold(c, self._journal, shared)):
            pass
        self._own_metrics.checkpoints["saved"] += 1
        self._own_metrics.checkpoint_seconds.observe(perf_counter() - started)

    def finish(self) -> list[Notice]:
        self._end_threads()
        with suppress(Unreachable, Busy, Full):  # whoever comes next will do it
            self._fold()
        return self.tick()

    def close(self) -> None:
        self._end_threads()
        self._watch.end()
        for session in (self._taking, self._keeping, self._reading):
            session.close()

    def _end_threads(self) -> None:
        self._ended.set()
        self._due.set()
        if self._keeper is not None:
            self._keeper.join()
        self._readers.shutdown()


def open_all(
    catalog: Catalog, settings: Settings, own_metrics: CollectorMetrics, *, accept: bool = False
) -> list[PostgresStore]:
    """A store for each of the databases that the settings name. Raises `Invalid` unless they are all of one store."""
    addresses = listed(settings.store)
    own_metrics.others = [CollectorMetrics() for _ in addresses[1:]]
    stores: list[PostgresStore] = []
    try:
        for number, (address, timed) in enumerate(zip(addresses, [own_metrics, *own_metrics.others], strict=True)):
            databases = len(addresses)
            stores.append(
                PostgresStore(address, catalog, settings, timed, number=number, databases=databases, accept=accept)
            )
    except BaseException:
        for store in stores:
            store.close()
        raise
    return stores
