"""Group commit: nobody is told before the sync, the queue has an end, and a failure leaves nobody waiting."""

import asyncio
import math
import sqlite3
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from hubbub.collector import commit
from hubbub.collector.catalog import Catalog
from hubbub.collector.commit import Committer
from hubbub.collector.intake import Intake
from hubbub.collector.metrics import CollectorMetrics
from hubbub.collector.settings import Settings
from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.embedded import EmbeddedStore
from hubbub.collector.storage.log import DiskFull
from hubbub.collector.storage.logged_counts import LoggedCounts
from hubbub.collector.storage.store import Verdict
from hubbub.protocol.refusal import Refused
from hubbub.protocol.wire import MEDIA_TYPE, pack
from tests.collector.kit import REGISTRY, random_batch

NOW = 1_795_000_000.0
CATALOG = Catalog(REGISTRY)
NOT_SAVED = "the checkpoint could not be written and will be tried again"

pytestmark = pytest.mark.anyio


class Events:
    """What the committer has said on the loop, in order: the name of the call and its argument."""

    def __init__(self):
        self._told = asyncio.Queue()

    def __getattr__(self, name):
        return lambda *values: self._told.put_nowait((name, values[0]))

    async def next(self):
        async with asyncio.timeout(20):
            return await self._told.get()

    async def words(self):
        name, notice = await self.next()
        assert name == "notify"
        return notice.words

    def empty(self):
        return self._told.empty()


class Gate:
    """A sync that stops when it is reached and goes on when it is let."""

    def __init__(self, sync):
        self._sync = sync
        self._reached, self._open = threading.Event(), threading.Event()

    def __call__(self):
        self._reached.set()
        assert self._open.wait(20)
        return self._sync()

    async def reached(self):
        assert await asyncio.to_thread(self._reached.wait, 20)

    def open(self):
        self._open.set()


@asynccontextmanager
async def working(folder, sync=None, **settings):
    """A committer on a real store, whose sync waits at a gate."""
    data_dir = DataDir(folder)
    chosen = Settings(metrics=Path("metrics.toml"), **{"min_free_bytes": 0, "min_reports": 0, **settings})
    own_metrics = CollectorMetrics()
    store = EmbeddedStore(data_dir, CATALOG, lambda: NOW, chosen, own_metrics)
    gate = store.counts._log.sync = Gate(sync or store.counts._log.sync)
    events = Events()
    committer = Committer(store, chosen, own_metrics, events)
    try:
        async with asyncio.timeout(60):
            yield committer, store, gate, events
    finally:
        gate.open()
        await committer.drain()
        store.close()
        data_dir.close()


def arrivals(count, seed=1):
    intake, random = Intake(CATALOG, lambda: NOW, {}), Random(seed)
    return [intake.read(pack(random_batch(random, list(REGISTRY), NOW)), MEDIA_TYPE, False) for _ in range(count)]


async def test_nobody_is_told_before_the_sync_and_then_all_are(tmp_path):
    async with working(tmp_path) as (committer, _, gate, _):
        first, second = arrivals(2)
        waiters = [committer.submit(arrival) for arrival in (first, second, first)]
        await gate.reached()
        await asyncio.sleep(0)  # a turn of the loop, in which whatever had been told would arrive
        assert not any(waiter.done() for waiter in waiters)
        gate.open()
        assert await asyncio.gather(*waiters) == [Verdict.STORED, Verdict.STORED, Verdict.DUPLICATE]


async def test_after_a_commit_those_who_were_answered_may_join_the_next_one(tmp_path, monkeypatch):
    asked, sleeping, enough = [], threading.Event(), threading.Event()

    def sleep(seconds):
        asked.append(seconds)
        sleeping.set()
        assert enough.wait(20)

    monkeypatch.setattr(commit, "_LONGEST_GATHERING", 60.0)
    groups = []
    async with working(tmp_path) as (committer, store, gate, _):
        gate.open()
        store_all = store.commit
        store.commit = lambda group: [groups.append(len(group)), store_all(group)][1]
        committer._gather = 1e9
        monkeypatch.setattr(committer._pause, "wait", sleep)
        first, second, third = arrivals(3)
        assert await committer.submit(first) is Verdict.STORED
        assert not asked, "nothing was under way before it"
        waiters = [committer.submit(second)]
        assert await asyncio.to_thread(sleeping.wait, 20)
        waiters.append(committer.submit(third))
        await asyncio.sleep(0)  # a turn of the loop, which hands it over
        enough.set()
        assert await asyncio.gather(*waiters) == [Verdict.STORED] * 2
        assert groups == [1, 2]
        assert 0 < asked[0] <= 60


@pytest.mark.parametrize("limit", [{"max_queue_batches": 3}, {"max_queue_bytes": 700}])
async def test_the_queue_has_an_end(tmp_path, limit):
    async with working(tmp_path, **limit) as (committer, _, gate, _):
        good = arrivals(4)
        waiters = [committer.submit(arrival) for arrival in good[:3]]
        with pytest.raises(Refused, match="queue-full: too many batches are waiting to be written"):
            committer.submit(good[3])
        gate.open()
        assert set(await asyncio.gather(*waiters)) == {Verdict.STORED}
        assert await committer.submit(good[3]) is Verdict.STORED


async def test_what_waits_when_told_to_stop_is_committed_and_saved(tmp_path):
    async with working(tmp_path) as (committer, store, gate, _):
        waiters = [committer.submit(arrival) for arrival in arrivals(5)]
        gate.open()
        await committer.drain()
        assert [await waiter for waiter in waiters] == [Verdict.STORED] * 5
        assert not store.counts.unsaved


async def test_a_failed_sync_tells_everyone_and_is_final(tmp_path):
    def failing():
        raise OSError(5, "Input/output error")

    async with working(tmp_path, sync=failing) as (committer, _, gate, events):
        first, second, third = arrivals(3)
        waiters = [committer.submit(first)]
        await gate.reached()
        waiters.append(committer.submit(second))
        asked = committer.call(lambda: "never")
        gate.open()
        answers = await asyncio.gather(*waiters, asked, return_exceptions=True)
        assert [getattr(answer, "reason", answer) for answer in answers] == ["draining"] * 3
        with pytest.raises(Refused, match="draining: the store has failed"):
            committer.submit(third)
        name, error = await events.next()
        assert (name, error.errno) == ("failed", 5)
        assert events.empty()


async def test_a_full_disk_refuses_the_group_and_whoever_comes_until_the_disk_is_checked_again(tmp_path, monkeypatch):
    async with working(tmp_path, min_free_bytes=1) as (committer, store, gate, _):
        gate.open()
        first, second = arrivals(2)
        store._last_look = math.inf  # no check in between, however slow the machine
        with monkeypatch.context() as patched:
            patched.setattr(store.counts._log, "append", _no_room)
            with pytest.raises(Refused, match="storage-full: the disk is full"):
                await committer.submit(first)
        with pytest.raises(Refused, match="storage-full: the disk is nearly full"):
            committer.submit(second)
        store._last_look = -math.inf
        await committer.call(lambda: None)
        await committer.call(lambda: None)  # the check comes after the calls of a round
        assert await committer.submit(first) is Verdict.STORED


async def test_ids_have_an_end_and_go_on_when_some_are_forgotten(tmp_path):
    async with working(tmp_path, max_ids=2) as (committer, store, gate, events):
        first, second, third = arrivals(3)
        waiting = [committer.submit(first), committer.submit(second)]
        words = "too-many-ids: 2 batch ids of open epochs are remembered, as many as max_ids allows"
        with pytest.raises(Refused, match=words):  # those that wait count, too
            committer.submit(third)
        gate.open()
        assert await asyncio.gather(*waiting) == [Verdict.STORED, Verdict.STORED]
        assert (committer.gauges()["seen_ids"], committer.gauges()["seen_ids_max"]) == (2, 2)
        with pytest.raises(Refused, match=words):
            committer.submit(third)
        assert await events.words() == "too many batch ids are remembered; batches are refused"
        await committer.call(lambda: store.counts.batch_ids.sweep(1 << 16, 1 << 20))  # as when their epochs have closed
        assert await events.words() == "batch ids have room again"
        assert await committer.submit(third) is Verdict.STORED


async def test_a_checkpoint_is_made_after_so_many_batches_though_its_time_has_not_come(tmp_path):
    limits = {"checkpoint_batches": 3, "checkpoint_seconds": 1e6}
    async with working(tmp_path, **limits) as (committer, store, gate, _):
        gate.open()
        saved, save = threading.Event(), store.counts.checkpoint.save
        store.counts.checkpoint.save = lambda snapshot: (save(snapshot), saved.set())
        good = arrivals(3)
        for arrival in good[:2]:
            await committer.submit(arrival)
        await committer.call(lambda: None)
        assert not saved.is_set()
        await committer.submit(good[2])
        assert await asyncio.to_thread(saved.wait, 20)


async def test_a_checkpoint_without_room_is_tried_again_and_any_other_error_is_final(tmp_path):
    async with working(tmp_path, checkpoint_seconds=0.1) as (committer, store, gate, events):
        gate.open()
        errors = [_sqlite_error(sqlite3.SQLITE_FULL), _sqlite_error(sqlite3.SQLITE_IOERR)]

        def fail(snapshot):
            raise errors.pop(0)

        store.counts.checkpoint.save = fail
        assert await committer.submit(arrivals(1)[0]) is Verdict.STORED
        assert await events.words() == NOT_SAVED
        assert (await events.next())[0] == "failed"
    data_dir = DataDir(tmp_path)
    counts = LoggedCounts(data_dir, CATALOG, lambda: NOW)  # the log has what no checkpoint could take
    assert sum(int(cells.num_reports.sum()) for cells in counts.cells.values()) == len(REGISTRY)
    counts.close()
    data_dir.close()


async def test_readers_wait_for_the_save_that_shows_them_more_and_not_for_a_full_disk(tmp_path):
    async with working(tmp_path, checkpoint_seconds=1e6, min_reports=2) as (committer, store, gate, events):
        gate.open()
        saves, save = [_sqlite_error(sqlite3.SQLITE_FULL)], store.counts.checkpoint.save

        def save_or_fail(snapshot):
            if saves:
                raise saves.pop()
            save(snapshot)

        async def shown():
            return {cells.total for cells in (await committer.select(lambda metric, epoch: True)).cells.values()}

        store.counts.checkpoint.save = save_or_fail
        first, second, third = arrivals(3)
        await committer.submit(first)
        assert await shown() == set()  # one is not enough, and nothing is saved for it
        assert saves
        await committer.submit(second)
        assert await shown() == set()
        assert await events.words() == NOT_SAVED
        assert await asyncio.gather(*(shown() for _ in range(5))) == [{2}] * 5
        await committer.submit(third)
        assert await shown() == {2}


def _no_room(messages):
    raise DiskFull("planted")


def _sqlite_error(code):
    error = sqlite3.OperationalError("planted")
    error.sqlite_errorcode = code
    return error
