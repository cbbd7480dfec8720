"""A store that is spread over several databases: each has a committer of its own, and the id of a batch names one.

One batch, one database: nothing is coordinated when batches are stored, and counts add up. Over how many of the
databases the batches of a lot are spread is said by the first one, once for each lot, and never changes, so that a
batch that comes again finds its id. The first one's clock, tokens and stop list are those of all.

If one database is away, its batches are refused and the others' are taken; readers wait for all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from hubbub.collector.catalog import Catalog
from hubbub.collector.commit import SHARED_GATHER, Committer, Events
from hubbub.collector.intake import Arrival
from hubbub.collector.message_layout import ID_BYTES
from hubbub.collector.metrics import CollectorMetrics
from hubbub.collector.settings import Settings
from hubbub.collector.storage.handing_out import Condition, ReadableCounts
from hubbub.collector.storage.store import Notice, Store, Verdict
from hubbub.collector.storage.sums import Sums
from hubbub.protocol.refusal import Refused


class Database(Store, Protocol):
    """What is asked of the first database besides."""

    def databases_of(self, lot: int) -> int | None: ...
    def open_lot(self, lot: int) -> None: ...


class SpreadCommitter:
    """Between the event loop and several databases, in the order in which the store has them."""

    def __init__(
        self, stores: Sequence[Database], settings: Settings, own_metrics: CollectorMetrics, events: Events
    ) -> None:
        share = replace(
            settings,
            max_queue_batches=max(1, settings.max_queue_batches // len(stores)),
            max_queue_bytes=max(settings.max_batch_bytes, settings.max_queue_bytes // len(stores)),
        )
        self._stores = stores
        self._committers = [
            Committer(store, share, timed, _Named(events, store.place), SHARED_GATHER)
            for store, timed in zip(stores, [own_metrics, *own_metrics.others], strict=True)
        ]
        self._sums = Sums()
        self._opening: dict[int, asyncio.Task[Refused | None]] = {}

    def submit(self, arrival: Arrival) -> asyncio.Future[Verdict]:
        """The verdict on a batch, once it is durable. Raises `Refused` if it cannot be taken now."""
        spread = self._stores[0].databases_of(arrival.layout.lot)
        if spread is None:
            return asyncio.ensure_future(self._open_and_submit(arrival))
        return self._committers[self._number(arrival, spread)].submit(arrival)

    def _number(self, arrival: Arrival, spread: int) -> int:
        if spread > len(self._stores):
            words = f"these batches are spread over {spread} databases, and this collector was started with"
            raise Refused("store-unreachable", f"{words} {len(self._stores)}")
        return int.from_bytes(arrival.id_record[: ID_BYTES // 2], "little") % spread

    async def _open_and_submit(self, arrival: Arrival) -> Verdict:
        """The first batch of a lot, and those that came before its answer, wait until the first database knows it."""
        lot = arrival.layout.lot
        opening = self._opening.get(lot)
        if opening is None:
            opening = self._opening[lot] = asyncio.ensure_future(self._open(lot))
        refusal = await asyncio.shield(opening)
        if refusal is not None:
            raise Refused(refusal.reason, refusal.detail)
        spread = self._stores[0].databases_of(lot)
        assert spread is not None
        return await self._committers[self._number(arrival, spread)].submit(arrival)

    async def _open(self, lot: int) -> Refused | None:
        first = self._stores[0]

        def open_lot() -> Refused | None:
            try:
                first.open_lot(lot)
            except Refused as refusal:
                return refusal
            return None

        try:
            return first.refusal(0) or await self._committers[0].call(open_lot)
        except Refused as refusal:  # it is stopping
            return refusal
        finally:
            del self._opening[lot]

    def select(self, wanted: Condition) -> asyncio.Future[ReadableCounts]:
        """The counters that may be seen, of all databases together; everything acknowledged is in them."""
        return asyncio.ensure_future(self._select(wanted))

    async def _select(self, wanted: Condition) -> ReadableCounts:
        return self._sums.of(await asyncio.gather(*(committer.select(wanted) for committer in self._committers)))

    async def adopt(self, catalog: Catalog) -> None:
        """Raises `Invalid` if a database cannot be asked; those before it then know the catalogue already, which does
        no harm, and the next reload finds them so."""
        for committer in self._committers:
            await committer.adopt(catalog)

    def refusal(self) -> Refused | None:
        """Why no batch would be taken now, whichever it is."""
        refusals = [committer.refusal() for committer in self._committers]
        return refusals[0] if None not in refusals else None

    def gauges(self) -> dict[str, float]:
        each = [committer.gauges() for committer in self._committers]
        sums = {name: sum(gauges[name] for gauges in each) for name in each[0] if name != "store_reachable"}
        return {
            **sums,
            "store_reachable": min(gauges["store_reachable"] for gauges in each),
            "databases": len(each),
            "databases_unreachable": sum(not gauges["store_reachable"] for gauges in each),
            "clock_believed": float(all(store.clock_accepts for store in self._stores)),
        }

    async def drain(self) -> None:
        await asyncio.gather(*(committer.drain() for committer in self._committers))


class _Named:
    """What a committer reports, with the database that it is about."""

    def __init__(self, events: Events, place: str) -> None:
        self._events = events
        self._place = place

    def failed(self, error: BaseException) -> None:
        self._events.failed(error)

    def notify(self, notice: Notice) -> None:
        self._events.notify(replace(notice, facts={**notice.facts, "database": self._place}))
