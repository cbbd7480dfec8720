"""Group commit: one thread takes whatever waits, makes it durable, and has everyone told at once. No timer.

While one group is being synced the next one gathers; the busier it is, the larger the groups. The thread owns the
store: counters are read, sealed and snapshotted between groups; a snapshot is written to SQLite by a thread of its
own, off the path of acknowledgements.

An error of the disk other than "full" is final: what the kernel failed to write it may have dropped from memory too,
so a second fsync proves nothing. Everyone waiting is told to come back later, and the process stops.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol, TypeVar

from hubbub.collector.intake import Arrival
from hubbub.collector.metrics import CollectorMetrics
from hubbub.collector.settings import Settings
from hubbub.collector.storage.checkpoint import MetricEpoch, Snapshot
from hubbub.collector.storage.clock_guard import Belief
from hubbub.collector.storage.log import DiskFull
from hubbub.collector.storage.store import TRY_AGAIN, Store, Verdict
from hubbub.protocol.refusal import Refused

_GROUP_BYTES = 8 << 20
_TICK_SECONDS = 0.5
_READERS_WAIT_SECONDS = 0.5  # between checkpoints that are made for them, however many they are
CLOCK_NOT_BELIEVED = "the clock here jumped and is not believed; see the collector's log, and `hubbub clock accept`"

Waiting = tuple[Arrival, "asyncio.Future[Verdict]"]
Call = Callable[[], None]
Result = TypeVar("Result")


class Events(Protocol):
    """Who is told of what happens to the store. Always called on the event loop."""

    def failed(self, error: BaseException) -> None:
        """The store is lost; nothing more will be committed."""

    def purged(self, keys: list[MetricEpoch]) -> None:
        """Counts were deleted because their retention is over."""

    def not_saved(self, error: BaseException) -> None:
        """A checkpoint could not be written and will be tried again."""

    def disk_low(self, low: bool, min_free_bytes: int) -> None:
        """The disk is nearly full, or has room again."""

    def ids_full(self, full: bool, max_ids: int) -> None:
        """No more batch ids may be remembered, or there is room again."""

    def clock_changed(self, belief: Belief) -> None:
        """The clock jumped, or is in step again."""


class Committer:
    """Between the event loop, where batches arrive, and the store, where they count."""

    def __init__(self, store: Store, settings: Settings, own_metrics: CollectorMetrics, events: Events) -> None:
        self._store = store
        self._settings = settings
        self._own_metrics = own_metrics
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[list[Waiting] | Call] = queue.SimpleQueue()
        self._gathering: list[Waiting] = []
        self._open_calls: set[asyncio.Future[Any]] = set()
        self._waiting = 0
        self._waiting_bytes = 0
        self._free_bytes = store.data_dir.free_bytes()
        self._was_low = False
        self._was_full = False
        self._belief = Belief.IN_STEP
        self._failure: BaseException | None = None
        self._running = True
        self._saver: threading.Thread | None = None
        self._saves_begun = 0
        self._readers: list[tuple[int, asyncio.Future[None]]] = []  # each with the save that it waits for
        self._last_disk_check = self._last_save = perf_counter()
        self._thread = threading.Thread(target=self._run, name="hubbub-committer", daemon=True)
        self._thread.start()

    # -- on the event loop

    def submit(self, arrival: Arrival) -> asyncio.Future[Verdict]:
        """The verdict on a batch, once it is durable. Raises `Refused` if there is no room for it now."""
        size = len(arrival.message)
        if self._failure is not None:
            raise _store_failed()
        if self.disk_low:
            raise Refused("storage-full", "the disk is nearly full")
        if not self._store.clock.accepts:
            raise Refused("clock-not-believed", CLOCK_NOT_BELIEVED)
        if self.ids_full:
            raise Refused("too-many-ids", too_many_ids(self._settings.max_ids))
        if (
            self._waiting >= self._settings.max_queue_batches
            or self._waiting_bytes + size > self._settings.max_queue_bytes
        ):
            raise Refused("queue-full", "too many batches are waiting to be written")
        waiter: asyncio.Future[Verdict] = self._loop.create_future()
        self._waiting += 1
        self._waiting_bytes += size
        if not self._gathering:
            self._loop.call_soon(self._hand_over)
        self._gathering.append((arrival, waiter))
        return waiter

    def _hand_over(self) -> None:
        """All that came in one turn of the loop goes over together."""
        gathered, self._gathering = self._gathering, []
        if gathered:
            self._queue.put(gathered)

    def call(self, function: Callable[[], Result]) -> asyncio.Future[Result]:
        """Run a function on the store's thread, between two groups."""
        if self._failure is not None:
            raise _store_failed()
        future: asyncio.Future[Result] = self._loop.create_future()
        self._open_calls.add(future)
        future.add_done_callback(self._open_calls.discard)
        self._queue.put(lambda: self._answer(function, future))
        return future

    async def show_all_that_may_be_seen(self) -> None:
        """Wait until counts that have grown enough to be handed out are saved as handed out; not for a full disk."""
        if self._store.handing_out.min_reports:
            saved: asyncio.Future[None] = self._loop.create_future()
            self._open_calls.add(saved)
            saved.add_done_callback(self._open_calls.discard)
            await self.call(lambda: self._wait_for_save(saved))
            await saved

    @property
    def disk_low(self) -> bool:
        return self._free_bytes < self._settings.min_free_bytes

    @property
    def ids_full(self) -> bool:
        """Whether there may be no more ids, counting those that wait: without its id a batch could count twice."""
        return len(self._store.batch_ids) + self._waiting >= self._settings.max_ids

    @property
    def clock_accepts(self) -> bool:
        return self._store.clock.accepts

    def gauges(self) -> dict[str, float]:
        return {
            "queue_batches": self._waiting,
            "queue_bytes": self._waiting_bytes,
            "disk_free_bytes": self._free_bytes,
            "seen_ids": len(self._store.batch_ids),
            "seen_ids_max": self._settings.max_ids,
        }

    async def drain(self) -> None:
        """Commit all that waits, write a checkpoint, end the thread."""
        self._hand_over()
        self._queue.put(self._stop)
        await asyncio.to_thread(self._thread.join)

    def _acknowledge(self, group: list[Waiting], answer: list[Verdict] | Refused) -> None:
        self._waiting -= len(group)
        for number, (arrival, waiter) in enumerate(group):
            self._waiting_bytes -= len(arrival.message)
            if waiter.done():  # the sender has gone; it will ask again
                continue
            if isinstance(answer, Refused):
                waiter.set_exception(Refused(answer.reason, answer.detail))
            else:
                waiter.set_result(answer[number])

    def _fail(self, error: BaseException) -> None:
        """Tell everyone who waits; here on the loop, so that nobody can queue up behind us."""
        self._failure = error
        self._hand_over()
        while not self._queue.empty():
            item = self._queue.get_nowait()
            if isinstance(item, list):
                self._acknowledge(item, _store_failed())
        for future in list(self._open_calls):
            future.set_exception(_store_failed())
        self._events.failed(error)

    # -- on the store's thread

    def _run(self) -> None:
        try:
            while self._running:
                self._step()
            self._save_at_the_end()
        except BaseException as error:  # noqa: BLE001  # whatever it is, nobody may be left waiting
            self._loop.call_soon_threadsafe(self._fail, error)

    def _step(self) -> None:
        group, calls = self._take()
        if group:
            self._commit(group)
        for call in calls:
            call()
        self._store.fold_if_many()
        purged = self._store.seal()
        if purged:
            self._loop.call_soon_threadsafe(self._events.purged, purged)
        if self._store.clock.belief is not self._belief:
            self._belief = self._store.clock.belief
            self._loop.call_soon_threadsafe(self._events.clock_changed, self._belief)
        self._check_disk()
        self._save_if_due()

    def _take(self) -> tuple[list[Waiting], list[Call]]:
        group: list[Waiting] = []
        calls: list[Call] = []
        size = 0
        try:
            item = self._queue.get(timeout=_TICK_SECONDS)
            while True:
                if not isinstance(item, list):
                    calls.append(item)
                else:
                    group += item
                    size += sum(len(arrival.message) for arrival, _ in item)
                    if size > _GROUP_BYTES:
                        break
                item = self._queue.get_nowait()
        except queue.Empty:
            pass
        return group, calls

    def _commit(self, group: list[Waiting]) -> None:
        started = perf_counter()
        answer: list[Verdict] | Refused
        try:
            answer = self._store.commit([arrival for arrival, _ in group])
        except DiskFull:
            self._free_bytes = 0  # until the next check
            answer = Refused("storage-full", "the disk is full")
        except BaseException:
            self._loop.call_soon_threadsafe(self._acknowledge, group, _store_failed())
            raise
        self._loop.call_soon_threadsafe(self._acknowledge, group, answer)
        self._own_metrics.commit_seconds.observe(perf_counter() - started)
        self._own_metrics.sync_seconds.observe(self._store.sync_seconds)

    def _answer(self, function: Callable[[], Result], future: asyncio.Future[Result]) -> None:
        result = function()

        def tell() -> None:
            if not future.done():
                future.set_result(result)

        self._loop.call_soon_threadsafe(tell)

    def _wait_for_save(self, saved: asyncio.Future[None]) -> None:
        if self._store.has_more_to_show():
            self._readers.append((self._saves_begun + 1, saved))
        elif self._saver:
            self._readers.append((self._saves_begun, saved))
        else:
            self._tell_readers([saved])

    def _tell_readers(self, readers: list[asyncio.Future[None]]) -> None:
        def tell() -> None:
            for reader in readers:
                if not reader.done():
                    reader.set_result(None)

        self._loop.call_soon_threadsafe(tell)

    def _stop(self) -> None:
        self._running = False

    def _check_disk(self) -> None:
        if perf_counter() - self._last_disk_check >= _TICK_SECONDS:
            self._last_disk_check = perf_counter()
            self._free_bytes = self._store.data_dir.free_bytes()
            if self.disk_low != self._was_low:
                self._was_low = self.disk_low
                self._loop.call_soon_threadsafe(self._events.disk_low, self._was_low, self._settings.min_free_bytes)
            if self.ids_full != self._was_full:
                self._was_full = self.ids_full
                self._loop.call_soon_threadsafe(self._events.ids_full, self._was_full, self._settings.max_ids)

    def _save_if_due(self) -> None:
        elapsed = perf_counter() - self._last_save
        due = (
            elapsed >= self._settings.checkpoint_seconds
            or self._store.unsaved_batches >= self._settings.checkpoint_batches
            or (self._readers and elapsed >= _READERS_WAIT_SECONDS)
        )
        if due and not self._saver and (self._store.unsaved or self._readers):
            self._last_save = perf_counter()
            self._saves_begun += 1
            snapshot = self._store.snapshot(for_readers=bool(self._readers))
            self._saver = threading.Thread(target=self._save, args=[snapshot], daemon=True)
            self._saver.start()

    def _save_at_the_end(self) -> None:
        if self._saver:
            self._saver.join()
        self._run_waiting_calls()  # among them the result of that checkpoint
        self._saves_begun += 1
        self._save(self._store.snapshot(last=True, for_readers=bool(self._readers)))
        self._run_waiting_calls()

    def _run_waiting_calls(self) -> None:
        while not self._queue.empty():
            call = self._queue.get_nowait()
            assert callable(call)
            call()

    def _saved(self, snapshot: Snapshot, error: BaseException | None, seconds: float) -> None:
        self._saver = None
        try:
            self._judge_save(snapshot, error, seconds)
        finally:
            self._end_waiting()

    def _end_waiting(self) -> None:
        """No save is under way: whoever waits for one that has begun waits no more."""
        over = [reader for number, reader in self._readers if number <= self._saves_begun]
        self._readers = [(number, reader) for number, reader in self._readers if number > self._saves_begun]
        if over:
            self._tell_readers(over)

    def _judge_save(self, snapshot: Snapshot, error: BaseException | None, seconds: float) -> None:
        self._own_metrics.checkpoints["saved" if error is None else "failed"] += 1
        self._own_metrics.checkpoint_seconds.observe(seconds)
        if error is None:
            self._store.saved(snapshot)
            return
        if not isinstance(error, sqlite3.Error) or error.sqlite_errorcode & 0xFF not in TRY_AGAIN:
            raise error
        self._store.not_saved(snapshot)
        self._loop.call_soon_threadsafe(self._events.not_saved, error)

    # -- on the checkpoint's thread

    def _save(self, snapshot: Snapshot) -> None:
        started = perf_counter()
        outcome: BaseException | None = None
        try:
            self._store.save(snapshot)
        except BaseException as error:  # noqa: BLE001  # judged on the store's thread
            outcome = error
        self._queue.put(lambda: self._saved(snapshot, outcome, perf_counter() - started))


def too_many_ids(max_ids: int) -> str:
    """Why nothing more is taken, in words."""
    return (
        f"{max_ids} batch ids of open epochs are remembered, as many as max_ids allows; there is room when one closes"
    )


def _store_failed() -> Refused:
    return Refused("draining", "the store has failed and the collector is stopping")
