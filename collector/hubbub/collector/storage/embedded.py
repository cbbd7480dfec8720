"""The embedded store: one folder, one process. Counts and log (`logged_counts`), and when what of them is saved.

A checkpoint is written by a thread of its own, off the path of acknowledgements; its outcome is looked at in `tick`.
Readers who may see more than they do wait for the checkpoint that says so.

An error of the disk other than "full" is final: what the kernel failed to write it may have dropped from memory too,
so a second fsync proves nothing.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

from hubbub.collector.catalog import Catalog
from hubbub.collector.intake import Arrival
from hubbub.collector.metrics import CollectorMetrics
from hubbub.collector.settings import Settings
from hubbub.collector.stopped import read_stopped
from hubbub.collector.storage.checkpoint import Snapshot
from hubbub.collector.storage.clock_guard import Belief, steady_seconds
from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.handing_out import Condition, ReadableCounts
from hubbub.collector.storage.log import Cut, DiskFull
from hubbub.collector.storage.logged_counts import TRY_AGAIN, LoggedCounts
from hubbub.collector.storage.store import CLOCK_NOT_BELIEVED, Notice, Verdict, clock_changed, purged
from hubbub.collector.tokens import KnownToken, new_token, read_tokens
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.pair import Counted
from hubbub.protocol.refusal import Refused

_LOOK_SECONDS = 0.5  # between looks at the disk
_READERS_WAIT_SECONDS = 0.5  # between checkpoints that are made for them, however many they are

Reader = tuple[Condition, Callable[[ReadableCounts | Refused], None]]


class EmbeddedStore:
    """A data directory at work, as `hubbub.collector.storage.store.Store` describes it."""

    def __init__(
        self,
        data_dir: DataDir,
        catalog: Catalog,
        clock: Callable[[], float],
        settings: Settings,
        own_metrics: CollectorMetrics,
        *,
        steady: Callable[[], float] = steady_seconds,
        accept_clock: bool = False,
    ) -> None:
        self.counts = LoggedCounts(
            data_dir, catalog, clock, settings.segment_bytes, steady, accept_clock, settings.min_reports
        )
        self._clock = clock
        self._settings = settings
        self._own_metrics = own_metrics
        self._data_dir = data_dir
        self._free_bytes = data_dir.free_bytes()
        self._was_low = False
        self._was_full = False
        self._belief = Belief.IN_STEP
        self._wake: Callable[[], None] = lambda: None
        self._saver: threading.Thread | None = None
        self._outcome: tuple[Snapshot, BaseException | None, float] | None = None
        self._saves_begun = 0
        self._readers: list[tuple[int, Reader]] = []  # each with the save that it waits for
        self._finished = False
        self._untold = [] if self.counts.cut is None else [_cut_short(self.counts.cut)]
        self._last_look = self._last_save = perf_counter()

    @property
    def definitions(self) -> Mapping[str, Counted]:
        return self.counts.definitions

    @property
    def sealed(self) -> Mapping[str, int]:
        return self.counts.sealed

    @property
    def day(self) -> int:
        return self.counts.day

    @property
    def place(self) -> str:
        return str(self._data_dir.path.resolve())

    @property
    def clock_accepts(self) -> bool:
        return self.counts.clock.accepts

    def now(self) -> float:
        return self._clock()

    def begin(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    # -- counting

    def refusal(self, waiting: int) -> Refused | None:
        if self._disk_low:
            return Refused("storage-full", "the disk is nearly full")
        if not self.counts.clock.accepts:
            return Refused("clock-not-believed", CLOCK_NOT_BELIEVED)
        if self._ids_full(waiting):
            return Refused("too-many-ids", too_many_ids(self._settings.max_ids))
        return None

    @property
    def _disk_low(self) -> bool:
        return self._free_bytes < self._settings.min_free_bytes

    def _ids_full(self, waiting: int = 0) -> bool:
        """Whether there may be no more ids, counting those that wait: without its id a batch could count twice."""
        return len(self.counts.batch_ids) + waiting >= self._settings.max_ids

    def commit(self, arrivals: Sequence[Arrival]) -> list[Verdict]:
        try:
            verdicts = self.counts.commit(arrivals)
        except DiskFull:
            self._free_bytes = 0  # until the next look
            raise Refused("storage-full", "the disk is full") from None
        self._own_metrics.sync_seconds.observe(self.counts.sync_seconds)
        return verdicts

    def adopt(self, catalog: Catalog) -> None:
        if self._saver and self.counts.changes_pairs(catalog):
            self._saver.join()
            self._untold += self._judge_save()
        try:
            self.counts.adopt(catalog)
        except (OSError, sqlite3.Error) as error:
            raise Invalid([str(error)]) from None

    # -- reading

    def select(self, wanted: Condition, answer: Callable[[ReadableCounts | Refused], None]) -> None:
        reader = wanted, answer
        if self._finished or not self.counts.handing_out.min_reports:
            self._answer([reader])
        elif self.counts.has_more_to_show():
            self._readers.append((self._saves_begun + 1, reader))
        elif self._saver:
            self._readers.append((self._saves_begun, reader))
        else:
            self._answer([reader])

    def _answer(self, readers: Sequence[Reader]) -> None:
        for wanted, answer in readers:
            answer(self.counts.readable(wanted))

    def gauges(self) -> Mapping[str, float]:
        cut = self.counts.cut
        return {
            "disk_free_bytes": self._free_bytes,
            "seen_ids": len(self.counts.batch_ids),
            "seen_ids_max": self._settings.max_ids,
            "disk_free_min_bytes": self._settings.min_free_bytes,
            "unsaved_batches": self.counts.unsaved_batches,
            "log_dropped_bytes": 0 if cut is None else cut.num_bytes,
        }

    def tokens(self) -> tuple[list[KnownToken], dict[int, bytes]]:
        return read_tokens(self._data_dir.tokens)

    def first_token(self) -> str | None:
        return None if self._data_dir.tokens.exists() else new_token(self._data_dir.tokens, "read", "first")

    def stopped(self) -> list[str]:
        return read_stopped(self._data_dir.stopped)

    # -- time

    def tick(self) -> list[Notice]:
        notices, self._untold = self._untold, []
        self.counts.fold_if_many()
        notices += [purged(self.counts.definitions[metric_hash], epoch) for metric_hash, epoch in self.counts.seal()]
        if self.counts.clock.belief is not self._belief:
            self._belief = self.counts.clock.belief
            notices.append(clock_changed(self._belief))
        notices += self._look_at_the_disk()
        notices += self._judge_save()
        self._save_if_due()
        return notices

    def _look_at_the_disk(self) -> list[Notice]:
        if perf_counter() - self._last_look < _LOOK_SECONDS:
            return []
        self._last_look = perf_counter()
        self._free_bytes = self._data_dir.free_bytes()
        notices = []
        if self._disk_low != self._was_low:
            self._was_low = self._disk_low
            notices.append(_disk_changed(self._was_low, self._settings.min_free_bytes))
        if self._ids_full() != self._was_full:
            self._was_full = self._ids_full()
            notices.append(_ids_changed(self._was_full, self._settings.max_ids))
        return notices

    def _save_if_due(self) -> None:
        elapsed = perf_counter() - self._last_save
        due = (
            elapsed >= self._settings.checkpoint_seconds
            or self.counts.unsaved_batches >= self._settings.checkpoint_batches
            or (self._readers and elapsed >= _READERS_WAIT_SECONDS)
        )
        if due and not self._saver and (self.counts.unsaved or self._readers):
            self._last_save = perf_counter()
            self._saves_begun += 1
            snapshot = self.counts.snapshot(for_readers=bool(self._readers))
            self._saver = threading.Thread(target=self._save, args=[snapshot], daemon=True)
            self._saver.start()

    def _save(self, snapshot: Snapshot) -> None:
        """On a thread of its own."""
        started = perf_counter()
        error: BaseException | None = None
        try:
            self.counts.save(snapshot)
        except BaseException as problem:  # noqa: BLE001  # judged on the store's thread
            error = problem
        self._outcome = snapshot, error, perf_counter() - started
        self._wake()

    def _judge_save(self) -> list[Notice]:
        """What became of the checkpoint that was being written, if it has ended. Raises what is final."""
        if self._outcome is None:
            return []
        (snapshot, error, seconds), self._outcome, self._saver = self._outcome, None, None
        self._own_metrics.checkpoints["saved" if error is None else "failed"] += 1
        self._own_metrics.checkpoint_seconds.observe(seconds)
        if error is None:
            self.counts.saved(snapshot)
        elif isinstance(error, sqlite3.Error) and error.sqlite_errorcode & 0xFF in TRY_AGAIN:
            self.counts.not_saved(snapshot)
        else:
            raise error
        # No save is under way: whoever waits for one that has begun waits no more, not even for a full disk.
        over = [reader for number, reader in self._readers if number <= self._saves_begun]
        self._readers = [(number, reader) for number, reader in self._readers if number > self._saves_begun]
        self._answer(over)
        words = "the checkpoint could not be written and will be tried again"
        return [] if error is None else [Notice(words, "warning", {"error": str(error)})]

    def finish(self) -> list[Notice]:
        if self._saver:
            self._saver.join()
        notices = self._judge_save()
        self._saves_begun += 1
        self._save(self.counts.snapshot(last=True, for_readers=bool(self._readers)))
        self._finished = True
        return [*notices, *self._judge_save()]

    def close(self) -> None:
        if self._saver:
            self._saver.join()
        self.counts.close()


def _cut_short(cut: Cut) -> Notice:
    words = (
        "an incomplete last group was dropped from the log: a crash cut it short before it was acknowledged; "
        "only damage to the disk since that crash could look the same"
    )
    return Notice(words, "warning", {"file": str(cut.path), "offset": cut.offset, "bytes": cut.num_bytes})


def too_many_ids(max_ids: int) -> str:
    """Why nothing more is taken, in words."""
    return (
        f"{max_ids} batch ids of open epochs are remembered, as many as max_ids allows; there is room when one closes"
    )


def _disk_changed(low: bool, min_free_bytes: int) -> Notice:
    if low:
        words = "the disk is nearly full; batches are refused"
        return Notice(words, "warning", {"min_free_bytes": min_free_bytes})
    return Notice("the disk has room again")


def _ids_changed(full: bool, max_ids: int) -> Notice:
    if full:
        return Notice("too many batch ids are remembered; batches are refused", "warning", {"max_ids": max_ids})
    return Notice("batch ids have room again")
