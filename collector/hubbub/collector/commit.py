"""Group commit: one thread takes whatever waits, makes it durable, and has everyone told at once.

While one group is being made durable the next one gathers; the busier it is, the larger the groups. Where a commit
itself costs much, whatever the size of its group, the next one waits a little after the last, by `gather` of the time
that took: those who were answered last may send again, and two groups become one. A batch that comes when nothing is
under way is never kept waiting. The thread owns the store (`storage.store`): between two groups it answers what was
asked and lets the store know that time passes.

An error that the store does not know how to go on from is final: everyone waiting is told to come back later, and the
process stops.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any, Protocol, TypeVar

from hubbub.collector.catalog import Catalog
from hubbub.collector.intake import Arrival
from hubbub.collector.metrics import CollectorMetrics
from hubbub.collector.settings import Settings
from hubbub.collector.storage.handing_out import Condition, ReadableCounts
from hubbub.collector.storage.store import Notice, Store, Verdict
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.refusal import Refused

_GROUP_BYTES = 8 << 20
_TICK_SECONDS = 0.5
_LONGEST_GATHERING = 0.005
SHARED_GATHER = 0.5
"""For a store in a database: with 64 connections groups of 50 batches instead of 30, and a batch costs a tenth less."""

Waiting = tuple[Arrival, "asyncio.Future[Verdict]"]
Call = Callable[[], None]
Result = TypeVar("Result")
Value = TypeVar("Value")


class Events(Protocol):
    """Who is told of what happens to the store. Always called on the event loop."""

    def failed(self, error: BaseException) -> None:
        """The store is lost; nothing more will be committed."""

    def notify(self, notice: Notice) -> None:
        """The store has something to tell the operator."""


class Committing(Protocol):
    """What whoever answers asks for: of one store's `Committer`, or of those of several."""

    def submit(self, arrival: Arrival) -> asyncio.Future[Verdict]: ...
    def select(self, wanted: Condition) -> asyncio.Future[ReadableCounts]: ...
    async def adopt(self, catalog: Catalog) -> None: ...
    def refusal(self) -> Refused | None: ...
    def gauges(self) -> dict[str, float]: ...
    async def drain(self) -> None: ...


class Committer:
    """Between the event loop, where batches arrive, and the store, where they count."""

    def __init__(
        self, store: Store, settings: Settings, own_metrics: CollectorMetrics, events: Events, gather: float = 0.0
    ) -> None:
        self._gather = gather
        self._gather_until = 0.0
        self._pause = threading.Event()  # never set: as `queue` waits, which also a clock that is set does not prolong
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
        self._failure: BaseException | None = None
        self._running = True
        store.begin(lambda: self._queue.put(_nothing))
        self._thread = threading.Thread(target=self._run, name="hubbub-committer", daemon=True)
        self._thread.start()

    # -- on the event loop

    def submit(self, arrival: Arrival) -> asyncio.Future[Verdict]:
        """The verdict on a batch, once it is durable. Raises `Refused` if there is no room for it now."""
        size = len(arrival.message)
        if self._failure is not None:
            raise _store_failed()
        refusal = self._store.refusal(self._waiting)
        if refusal is not None:
            raise refusal
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

    def select(self, wanted: Condition) -> asyncio.Future[ReadableCounts]:
        """The counters that may be seen; everything acknowledged is in them."""
        if self._failure is not None:
            raise _store_failed()
        future: asyncio.Future[ReadableCounts] = self._loop.create_future()
        self._open_calls.add(future)
        future.add_done_callback(self._open_calls.discard)

        def tell(answer: ReadableCounts | Refused) -> None:
            if future.done():
                return
            if isinstance(answer, Refused):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self._queue.put(lambda: self._store.select(wanted, lambda readable: self._on_loop(tell, readable)))
        return future

    async def adopt(self, catalog: Catalog) -> None:
        """Count the metrics of another catalogue from now on. Raises `Invalid`, nothing changed, if that cannot be."""
        problem = await self.call(lambda: _adopted(self._store, catalog))
        if problem is not None:
            raise problem

    def refusal(self) -> Refused | None:
        """Why no batch would be taken now."""
        return self._store.refusal(self._waiting)

    def gauges(self) -> dict[str, float]:
        return {"queue_batches": self._waiting, "queue_bytes": self._waiting_bytes, **self._store.gauges()}

    async def drain(self) -> None:
        """Commit all that waits, write a checkpoint, end the thread."""
        self._hand_over()
        self._queue.put(self._stop)
        await asyncio.to_thread(self._thread.join)

    def _acknowledge(self, group: list[Waiting], answer: Sequence[Verdict | Refused] | Refused) -> None:
        self._waiting -= len(group)
        for number, (arrival, waiter) in enumerate(group):
            self._waiting_bytes -= len(arrival.message)
            if waiter.done():  # the sender has gone; it will ask again
                continue
            verdict = answer if isinstance(answer, Refused) else answer[number]
            if isinstance(verdict, Refused):
                waiter.set_exception(Refused(verdict.reason, verdict.detail))
            else:
                waiter.set_result(verdict)

    def _fail(self, error: BaseException) -> None:
        """Tell everyone who waits; here on the loop, so that nobody can queue up behind us."""
        self._failure = error
        self._hand_over()
        while not self._queue.empty():
            item = self._queue.get_nowait()
            if isinstance(item, list):
                self._acknowledge(item, _store_failed())
        for future in list(self._open_calls):
            if not future.done():
                future.set_exception(_store_failed())
        self._events.failed(error)

    # -- on the store's thread

    def _run(self) -> None:
        try:
            while self._running:
                self._step()
            self._end()
        except BaseException as error:  # noqa: BLE001  # whatever it is, nobody may be left waiting
            self._loop.call_soon_threadsafe(self._fail, error)

    def _step(self) -> None:
        group, calls = self._take()
        if group:
            self._commit(group)
        for call in calls:
            call()
        self._tell(self._store.tick())

    def _take(self) -> tuple[list[Waiting], list[Call]]:
        group: list[Waiting] = []
        calls: list[Call] = []
        size = 0
        try:
            item = self._queue.get(timeout=_TICK_SECONDS)
            left = self._gather_until - perf_counter()
            if left > 0:
                self._pause.wait(left)
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
        answer: Sequence[Verdict | Refused] | Refused
        try:
            answer = self._store.commit([arrival for arrival, _ in group])
        except Refused as refused:
            answer = refused
        except BaseException:
            self._loop.call_soon_threadsafe(self._acknowledge, group, _store_failed())
            raise
        self._loop.call_soon_threadsafe(self._acknowledge, group, answer)
        ended = perf_counter()
        self._own_metrics.commit_seconds.observe(ended - started)
        self._gather_until = ended + min(_LONGEST_GATHERING, self._gather * (ended - started))

    def _answer(self, function: Callable[[], Result], future: asyncio.Future[Result]) -> None:
        result = function()

        def tell() -> None:
            if not future.done():
                future.set_result(result)

        self._loop.call_soon_threadsafe(tell)

    def _stop(self) -> None:
        self._running = False

    def _end(self) -> None:
        self._run_waiting_calls()
        self._tell(self._store.finish())
        self._run_waiting_calls()

    def _run_waiting_calls(self) -> None:
        while not self._queue.empty():
            call = self._queue.get_nowait()
            assert callable(call)
            call()

    def _tell(self, notices: list[Notice]) -> None:
        for notice in notices:
            self._on_loop(self._events.notify, notice)

    def _on_loop(self, function: Callable[[Value], None], value: Value) -> None:
        """From any thread. Once the loop is closed there is nobody left to be told."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, value)


def _adopted(store: Store, catalog: Catalog) -> Invalid | None:
    """On the store's thread, which an exception would end."""
    try:
        store.adopt(catalog)
    except Invalid as error:
        return error
    return None


def _nothing() -> None:
    """Wakes the store's thread, which then looks at the time."""


def _store_failed() -> Refused:
    return Refused("draining", "the store has failed and the collector is stopping")
