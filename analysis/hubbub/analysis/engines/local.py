"""Processes of this machine. One that is killed breaks its pool: a new pool runs what was lost, a few times at most.

With one process there is no pool: the function runs here.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from hubbub.analysis.engines.engine import Engine, LostTooOften, R, Refusal, T, answer, opened

MOST_DEATHS = 3
"""So many pools in a row may break without one result more; an item that kills whoever takes it must end somewhere."""


def start(processes: int) -> Engine:
    return _Here() if processes == 1 else _Processes(processes)


class _Here:
    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        return map(function, items)

    def close(self) -> None:
        """Nothing was taken."""


class _Processes:
    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        waiting = self._submit(function, items, range(len(items)))
        deaths = 0
        for place in range(len(items)):
            while True:
                try:
                    found = waiting.pop(place).result()
                    break
                except BrokenProcessPool:
                    deaths += 1
                    self.close()
                    if deaths > MOST_DEATHS:
                        raise LostTooOften(
                            f"engine local:{self._processes}: workers died {deaths} times in a row, the last at item "
                            f"{place + 1} of {len(items)}; is there enough memory?"
                        ) from None
                    lost = [other for other, future in waiting.items() if not _has_result(future)]
                    waiting |= self._submit(function, items, [place, *lost])
            deaths = 0
            yield opened(found)

    def _submit(
        self, function: Callable[[T], R], items: Sequence[T], places: Sequence[int]
    ) -> dict[int, Future[R | Refusal]]:
        if self._pool is None:
            # Not forked: whoever calls may have threads, and a lock that one of them holds would stay locked.
            context = get_context("spawn")
            self._pool = ProcessPoolExecutor(self._processes, context, initializer=_leave_interrupts_to_the_parent)
        found: dict[int, Future[R | Refusal]] = {}
        for place in places:
            try:
                found[place] = self._pool.submit(answer, function, items[place])
            except BrokenProcessPool as broken:  # it may break while it is filled
                found[place] = Future()
                found[place].set_exception(broken)
        return found

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _has_result(future: Future[R]) -> bool:
    """Whether it holds a result, or an error of the function itself: anything but the end of its pool."""
    return future.done() and not future.cancelled() and not isinstance(future.exception(), BrokenProcessPool)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
