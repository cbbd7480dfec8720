"""Group commit: nobody is told before the sync, the queue has an end, and a failure leaves nobody waiting."""

import asyncio
import sqlite3
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from hubbub.collector.catalog import Catalog
from hubbub.collector.commit import Committer
from hubbub.collector.intake import Intake
from hubbub.collector.metrics import Measures
from hubbub.collector.settings import Settings
from hubbub.collector.storage.data_dir import Folder
from hubbub.collector.storage.store import Store, Verdict
from hubbub.protocol.refusal import Refused
from hubbub.protocol.wire import MEDIA_TYPE, pack
from tests.collector.kit import REGISTRY, random_batch

NOW = 1_795_000_000.0
CATALOG = Catalog(REGISTRY)


class Events:
    def __init__(self):
        self.seen = []

    def __getattr__(self, name):
        return lambda value: self.seen.append((name, value))


@asynccontextmanager
async def working(folder, **settings):
    """A committer on a real store, whose sync waits until `go` is set."""
    opened = Folder(folder)
    store = Store(opened, CATALOG, lambda: NOW)
    go, sync = threading.Event(), store._log.sync
    store._log.sync = lambda: go.wait(20) and sync()
    events = Events()
    committer = Committer(
        store,
        Settings(metrics=Path("metrics.toml"), min_free_bytes=0, **settings),
        Measures(),
        **{name: getattr(events, name) for name in ("failed", "purged", "not_saved", "disk_turned")},
    )
    try:
        yield committer, store, go, events
    finally:
        go.set()
        await committer.drain()
        store.close()
        opened.close()


def arrivals(count, seed=1):
    intake, random = Intake(CATALOG, lambda: NOW, {}), Random(seed)
    return [intake.read(pack(random_batch(random, list(REGISTRY), NOW)), MEDIA_TYPE, False) for _ in range(count)]


def test_nobody_is_told_before_the_sync_and_then_all_are(tmp_path):
    async def check():
        async with working(tmp_path) as (committer, _, go, _):
            first, second = arrivals(2)
            waiters = [committer.submit(arrival) for arrival in (first, second, first)]
            await asyncio.sleep(0.3)
            assert not any(waiter.done() for waiter in waiters)
            go.set()
            assert await asyncio.gather(*waiters) == [Verdict.STORED, Verdict.STORED, Verdict.DUPLICATE]

    asyncio.run(check())


@pytest.mark.parametrize("limit", [{"max_queue_batches": 3}, {"max_queue_bytes": 700}])
def test_the_queue_has_an_end(tmp_path, limit):
    async def check():
        async with working(tmp_path, **limit) as (committer, _, go, _):
            good = arrivals(4)
            waiters = [committer.submit(arrival) for arrival in good[:3]]
            with pytest.raises(Refused, match="queue-full: too many batches are waiting to be written"):
                committer.submit(good[3])
            go.set()
            assert set(await asyncio.gather(*waiters)) == {Verdict.STORED}
            assert await committer.submit(good[3]) is Verdict.STORED

    asyncio.run(check())


def test_what_waits_when_told_to_stop_is_committed_and_saved(tmp_path):
    async def check():
        async with working(tmp_path) as (committer, store, go, _):
            waiters = [committer.submit(arrival) for arrival in arrivals(5)]
            go.set()
            await committer.drain()
            assert [await waiter for waiter in waiters] == [Verdict.STORED] * 5
            assert not store.unsaved

    asyncio.run(check())


def test_a_failed_sync_tells_everyone_and_is_final(tmp_path):
    async def check():
        async with working(tmp_path) as (committer, store, go, events):
            store._log.sync = lambda: go.wait(20) and (_ for _ in ()).throw(OSError(5, "Input/output error"))
            first, second, third = arrivals(3)
            waiters = [committer.submit(first)]
            await asyncio.sleep(0.1)
            waiters.append(committer.submit(second))
            asked = committer.call(lambda: "never")
            go.set()
            answers = await asyncio.gather(*waiters, asked, return_exceptions=True)
            assert [getattr(answer, "reason", answer) for answer in answers] == ["draining"] * 3
            with pytest.raises(Refused, match="draining: the store has failed"):
                committer.submit(third)
            ((name, error),) = events.seen
            assert (name, error.errno) == ("failed", 5)

    asyncio.run(check())


def test_a_checkpoint_without_room_is_tried_again_and_any_other_error_is_final(tmp_path):
    async def check():
        async with working(tmp_path, checkpoint_seconds=0.1) as (committer, store, go, events):
            go.set()
            save, errors = (
                store.checkpoint.save,
                [_sqlite_error(sqlite3.SQLITE_FULL), _sqlite_error(sqlite3.SQLITE_IOERR)],
            )

            def fail(snapshot):
                if errors:
                    raise errors.pop(0)
                save(snapshot)

            store.checkpoint.save = fail
            assert await committer.submit(arrivals(1)[0]) is Verdict.STORED
            for _ in range(60):
                await asyncio.sleep(0.05)
                if len(events.seen) == 2:
                    break
            assert [name for name, _ in events.seen] == ["not_saved", "failed"]

    asyncio.run(check())
    folder = Folder(tmp_path)
    store = Store(folder, CATALOG, lambda: NOW)  # the log has what no checkpoint could take
    assert sum(int(cells.num_reports.sum()) for cells in store.cells.values()) == len(REGISTRY)
    store.close()
    folder.close()


def _sqlite_error(code):
    error = sqlite3.OperationalError("planted")
    error.sqlite_errorcode = code
    return error
