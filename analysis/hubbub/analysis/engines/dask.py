"""A Dask cluster that is already running: its scheduler's address, `tcp://HOST:PORT`.

The scheduler itself gives the work of a dead worker to another one, and gives up on an item that has killed several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hubbub.analysis.engines.engine import Engine, LostTooOften, R, T, answer, opened
from hubbub.analysis.optional import need
from hubbub.protocol.invalid import Invalid

_PATIENCE = "10s"  # for a scheduler to answer


def start(address: str) -> Engine:
    distributed = need("distributed", "'hubbub[dask]'")
    try:
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except OSError as error:
        raise Invalid([f"engine {address}: no Dask scheduler answers there ({error})"]) from None
    return _Dask(client, distributed.scheduler.KilledWorker)


class _Dask:
    def __init__(self, client: Any, killed: type[Exception]) -> None:
        self._client = client
        self._killed = killed

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        # One by one: items in one graph would travel as one message, however many they are.
        waiting = [self._client.submit(answer, function, item, pure=False) for item in items]
        try:
            for place, future in enumerate(waiting):
                yield opened(future.result())
                waiting[place] = None  # the cluster may forget it
        except self._killed as error:
            raise LostTooOften(f"engine Dask: {error}") from None
        finally:
            self._client.cancel([future for future in waiting if future is not None])

    def close(self) -> None:
        self._client.close()
