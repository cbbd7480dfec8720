"""Counters, batch ids and the log behind them. One thread owns it; a batch starts to count in `commit`.

    commit       look up ids, append the new batches to the log, sync: only now may anyone be told
    fold         add up what has been committed since the last fold; done in bulk, before anything is read or saved
    snapshot     all that changed since the last checkpoint, with the log position it belongs to
    save         that, in one SQLite transaction; another thread may do it

A batch is in the counters exactly once because its id, its counts and the log position that covers it are saved
together: a restart loads one checkpoint and replays what the log has behind that very position.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

from hubbub.collector.catalog import Catalog, closing_day, day_of, sealed_through, with_known_names
from hubbub.collector.intake import Arrival
from hubbub.collector.message_layout import Layout, Layouts, layout_of
from hubbub.collector.storage.batch_ids import RECORD_CRC, BatchIds
from hubbub.collector.storage.checkpoint import Checkpoint, Snapshot
from hubbub.collector.storage.clock_guard import ClockGuard, steady_seconds
from hubbub.collector.storage.counting import Cells, MetricEpoch
from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.handing_out import Condition, HandingOut, ReadableCounts
from hubbub.collector.storage.kept_reports import check_can_keep, remove, shuffled, write_closed
from hubbub.collector.storage.log import DISK_FULL, Cut, Damaged, DiskFull, Log, Position, Replay, sync_folder
from hubbub.collector.storage.pair_counting import PairedColumns, add_pairs
from hubbub.collector.storage.stacking import stacked, stacks
from hubbub.collector.storage.store import Verdict
from hubbub.protocol.cadence import DAY, epoch_of, epoch_start
from hubbub.protocol.invalid import require
from hubbub.protocol.metric import Definition, Metric
from hubbub.protocol.pair import Counted
from hubbub.protocol.refusal import Refused
from hubbub.protocol.report import Block, by_short_hash
from hubbub.protocol.wire import unpack

TRY_AGAIN = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)
_FOLD_BYTES = 2 << 20
_FOLD_REPORTS = 1 << 16  # enough to make the cost of a fold small, few enough for the processor's cache
_FOLD_LAYOUTS = 8  # a fold costs something for each metric in each segment: with more of them, more reports are awaited
_FOLD_PATIENCE = 8  # but not more than so many times as many
_SWEEP_BUCKETS = 200
_LONGEST_GRACE = 60


class LoggedCounts:
    """A data directory at work: opened, its log's tail replayed, counting. Everything here happens on one thread.

    Without a catalogue it only reads: what was counted can be exported, nothing is added or changed.
    """

    def __init__(
        self,
        data_dir: DataDir,
        catalog: Catalog | None,
        clock: Callable[[], float],
        segment_bytes: int = 64 << 20,
        steady: Callable[[], float] = steady_seconds,
        accept_clock: bool = False,
        min_reports: int = 0,
    ) -> None:
        self.data_dir = data_dir
        self._counted = () if catalog is None else catalog.counted
        check_can_keep(() if catalog is None else catalog.metrics)
        self.checkpoint = Checkpoint(data_dir.database)
        try:
            self._load(catalog, clock, steady, min_reports)
            self._begin(catalog, clock, segment_bytes, accept_clock)
        except BaseException:
            self.checkpoint.close()
            raise

    def _load(
        self, catalog: Catalog | None, clock: Callable[[], float], steady: Callable[[], float], min_reports: int
    ) -> None:
        """Everything that was saved. Who only reads sees what could be seen when it was."""
        if catalog is not None:
            self.checkpoint.adopt(catalog.metrics, end_pairs=False)
        saved = self.checkpoint.load()
        self.definitions: dict[str, Counted] = _with(saved.definitions, catalog)
        self._paired = PairedColumns(saved.pairs)
        self.cells: dict[MetricEpoch, Cells] = dict(saved.cells)
        self.batch_ids = BatchIds()
        for records in saved.ids:
            self.batch_ids.load(records)
        self.sealed: dict[str, int] = dict(saved.sealed)
        self.day = saved.day
        self.clock = ClockGuard(clock, steady, saved.day)
        self.sync_seconds = 0.0
        self._retention_days = {
            **saved.retention_days,
            **{one.metric_hash: one.retention_days for one in self._counted},
        }
        self._sweeping = True  # for what closed while nobody was running
        self._pending: dict[Layout, list[bytes]] = {}
        self._pending_bytes = self._pending_reports = 0
        self._dirty: set[MetricEpoch] = set()
        shown_from = saved.min_reports if catalog is None else min_reports
        self.handing_out = HandingOut(shown_from, saved.handed_out, self.cells)
        self._being_read = set(self.cells)  # whose cells somebody may be reading: they are not changed any more
        self._new_ids: list[bytes] = []
        self._reports_to_keep: list[tuple[str, int, bytes, bytes]] = []
        self._purged: dict[MetricEpoch, Cells] = {}
        self._purge_due = True  # also at each start: a retention may have been shortened
        self._untold: list[MetricEpoch] = []
        self._new_day = False  # whether a new day has begun that no checkpoint knows of
        self.cut: Cut | None = None  # what was dropped from the end of the log
        self._loaded_to = saved.position, saved.clean

    def _begin(
        self, catalog: Catalog | None, clock: Callable[[], float], segment_bytes: int, accept_clock: bool
    ) -> None:
        """What the log has behind that; and, unless the store is only read, a segment of its own."""
        position, clean = self._loaded_to
        end = self._replay(position, catalog is not None, clean)
        if catalog is not None:
            self._log = Log(self.data_dir.log, end.segment + 1, segment_bytes, end.offset)
            self.checkpoint.mark_running(self.handing_out.min_reports)
            sync_folder(self.data_dir.path)  # the checkpoint's own name
            self._settle_pairs(catalog)
            self.checkpoint.adopt(catalog.counted)
            self._paired = PairedColumns(pair.plain for pair in catalog.pairs)
            if accept_clock or self.data_dir.clock_accepted.exists():
                self._accept_clock(clock())
            self._untold = self.seal()

    def adopt(self, catalog: Catalog) -> None:
        """Count the metrics of another catalogue from now on. Raises `Invalid`, nothing changed, if that cannot be.

        A grace stays as it is while the store is open: ids in memory are kept for as long as it said when they came.
        """
        before = {metric.metric_hash: metric for metric in self._counted if isinstance(metric, Metric)}
        require(
            f"metric {metric.name}: grace can only change with a restart, "
            f"from {before[metric.metric_hash].grace} to {metric.grace}"
            for metric in catalog.metrics
            if metric.metric_hash in before and before[metric.metric_hash].grace != metric.grace
        )
        check_can_keep(catalog.metrics)
        self._settle_pairs(catalog)
        checkpoint = Checkpoint(self.data_dir.database)  # one of its own: the other may be in the middle of a save
        try:
            checkpoint.adopt(catalog.counted)
        finally:
            checkpoint.close()
        self.fold()  # what has been acknowledged up to now is counted in the pairs there were
        self._counted = catalog.counted
        self._paired = PairedColumns(pair.plain for pair in catalog.pairs)
        self.definitions = _with(self.definitions, catalog)  # a new one: others may be reading the old
        for (metric_hash, _), cells in (*self.cells.items(), *self.handing_out.seen.items()):
            cells.rename(self.definitions.get(metric_hash, cells.metric))
        self._retention_days.update((one.metric_hash, one.retention_days) for one in self._counted)

    def changes_pairs(self, catalog: Catalog) -> bool:
        """Whether others would be counted with it: then no save may be under way while it is adopted."""
        return {pair.metric_hash for pair in catalog.pairs} != self._paired.hashes

    def _settle_pairs(self, catalog: Catalog) -> None:
        """Before other pairs are counted, save what was acknowledged under those there were: a replay counts in the
        pairs that the checkpoint has, and must not meet a batch from before they changed."""
        if self.changes_pairs(catalog):
            snapshot = self.snapshot()
            try:
                self.save(snapshot)
            except BaseException:
                self.not_saved(snapshot)
                raise
            self.saved(snapshot)

    # -- counting

    def commit(self, arrivals: Sequence[Arrival]) -> list[Verdict]:
        """Make batches durable. Returns when they are; raises `DiskFull`, nothing changed, or OSError: all is lost."""
        verdicts = [self._judge(arrival) for arrival in arrivals]
        new = [arrival for arrival, verdict in zip(arrivals, verdicts, strict=True) if verdict is Verdict.STORED]
        if new:
            try:
                self._log.append([arrival.message for arrival in new])
            except DiskFull:
                self.batch_ids.forget(arrival.id_record for arrival in new)
                raise
            started = perf_counter()
            self._log.sync()
            self.sync_seconds = perf_counter() - started
            for arrival in new:
                self._count(arrival)
        return verdicts

    def _judge(self, arrival: Arrival) -> Verdict:
        """What to do with a batch; claims its id if it is to be stored."""
        if arrival.layout.closes <= self.day:  # its id may be gone: it could be here for the second time
            return Verdict.EPOCH_CLOSED
        crc = self.batch_ids.claim(arrival.id_record)
        if crc is None:
            return Verdict.STORED
        return Verdict.DUPLICATE if crc == arrival.id_record[RECORD_CRC] else Verdict.ID_REUSED

    def _count(self, arrival: Arrival) -> None:
        self._new_ids.append(arrival.id_record)
        messages = self._pending.get(arrival.layout)
        if messages is None:
            messages = self._pending[arrival.layout] = []
        messages.append(arrival.message)
        self._pending_bytes += len(arrival.message)
        self._pending_reports += arrival.layout.num_reports

    def fold_if_many(self) -> None:
        times = min(max(1, len(self._pending) // _FOLD_LAYOUTS), _FOLD_PATIENCE)
        if self._pending_bytes >= times * _FOLD_BYTES or self._pending_reports >= times * _FOLD_REPORTS:
            self.fold()

    def fold(self) -> None:
        """Count what is pending: all reports of one metric and epoch together, whatever batches they came in."""
        pending, self._pending, self._pending_bytes, self._pending_reports = self._pending, {}, 0, 0
        messages = stacks(pending)
        for reports in stacked(messages):
            keys = [(column.metric.metric_hash, column.epoch) for column in reports.columns]
            reports.add_to([self._changing(key) for key in keys])
            for number, key in enumerate(keys):
                metric = self.definitions[key[0]]
                if isinstance(metric, Metric) and metric.keep_reports:
                    cohorts, vectors = reports.of(number)
                    self._reports_to_keep.append((*key, *shuffled(metric, cohorts.tobytes(), vectors.tobytes())))
        for found in self._paired.find(messages):
            add_pairs(self._changing((found.pair.metric_hash, found.epoch)), found)

    def _changing(self, key: MetricEpoch) -> Cells:
        """Counters that are about to change, and that nobody reads."""
        if key not in self.cells:
            self.cells[key] = Cells(self.definitions[key[0]])
        elif key in self._being_read:
            self.cells[key] = self.cells[key].copy()
            self._being_read.discard(key)
        self._dirty.add(key)
        self.handing_out.grew(key)
        return self.cells[key]

    def readable(self, wanted: Condition) -> ReadableCounts:
        """Counters that may be seen. Nobody changes them: counting goes on in a copy.

        So a year of counts is had without copying it, and one answer shows all of them at one moment.
        """
        self.fold()
        readable = self.handing_out.readable(self.cells, wanted)
        self._being_read.update(readable.cells)
        return readable

    def show_more(self) -> None:
        """Let readers see all they may. For a store that only reads; one at work does so with a checkpoint."""
        steps = self.handing_out.take_steps(self.cells)
        self.checkpoint.save_steps(steps)
        self.handing_out.saved(steps)

    def has_more_to_show(self) -> bool:
        """Whether readers could see more than they do, once it is saved."""
        self.fold()
        return self.handing_out.is_due(self.cells)

    # -- checkpoints

    @property
    def unsaved(self) -> bool:
        return bool(self._new_ids or self._dirty or self._purged or self._new_day)

    @property
    def unsaved_batches(self) -> int:
        return len(self._new_ids)

    def snapshot(self, last: bool = False, for_readers: bool = False) -> Snapshot:
        """What changed, and where the log stands. Call `saved` or `not_saved` with it when that is known.

        The last one before a stop also says that no log will be needed; one for readers shows them all they may see.
        """
        self.fold()
        steps = self.handing_out.take_steps(self.cells) if for_readers else {}
        snapshot = Snapshot(
            position=self._log.position,
            day=self.day,
            cells={key: self.cells[key] for key in self._dirty},
            ids=tuple(self._new_ids),
            sealed=dict(self.sealed),
            reports_to_keep=tuple(self._reports_to_keep),
            purged=dict(self._purged),
            steps=steps,
            min_reports=self.handing_out.min_reports,
            clean=last,
        )
        self._being_read |= self._dirty | steps.keys()
        self._dirty, self._new_ids, self._reports_to_keep, self._purged = set(), [], [], {}
        self._new_day = False
        return snapshot

    def save(self, snapshot: Snapshot) -> None:
        """Write a checkpoint. The one thing here that another thread may do, one at a time."""
        self.checkpoint.save(snapshot)
        try:
            write_closed(self.checkpoint, snapshot.sealed, self.definitions, self.data_dir.reports)
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise  # else what is to be kept stays in the checkpoint until there is room
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in TRY_AGAIN:
                raise  # else it stays there until nobody reads the file; the checkpoint itself has been saved
        for metric_hash, epoch in snapshot.purged:
            remove(self.data_dir.reports, self.definitions[metric_hash], epoch)

    def saved(self, snapshot: Snapshot) -> None:
        self.handing_out.saved(snapshot.steps)
        self._log.drop_before(snapshot.position)

    def not_saved(self, snapshot: Snapshot) -> None:
        self._dirty |= snapshot.cells.keys() & self.cells.keys()
        self._new_ids = [*snapshot.ids, *self._new_ids]
        self._reports_to_keep = [*snapshot.reports_to_keep, *self._reports_to_keep]
        self._purged = {**snapshot.purged, **self._purged}
        self.handing_out.not_saved(snapshot.steps)
        self._new_day = True

    # -- time

    def seal(self) -> list[MetricEpoch]:
        """Close epochs whose grace has passed, forget counts whose retention has. Returns which counts went.

        Neither is done while the clock is in doubt.

        Ids of closed epochs go too, a few buckets at each call. Nothing of a closed epoch is accepted again, even if
        the clock is set back or the grace is raised: that it closed is saved.
        """
        purged, self._untold = self._untold, []
        now = self._look_at_the_clock()
        if now is not None and day_of(now) > self.day:
            self.day, self._sweeping, self._new_day = day_of(now), True, True
            for metric in self._counted:
                closed = sealed_through(metric, now)
                self.sealed[metric.metric_hash] = max(closed, self.sealed.get(metric.metric_hash, closed))
            self._purge_due = True
        if now is not None and self._purge_due:
            self._purge_due = False
            purged = [*purged, *self._purge(day_of(now))]
        if self._sweeping:
            self._sweeping = not self.batch_ids.sweep(self.day, _SWEEP_BUCKETS)
        return purged

    def _accept_clock(self, now: float) -> None:
        """The operator says that it is right. If days were counted that have not come yet, they are still to come.

        What was closed up to now stays closed, as the ids that tell duplicates are gone; later epochs are open again.
        """
        self.data_dir.clock_accepted.unlink(missing_ok=True)
        self.clock.accept()
        if day_of(now) < self.day:
            self.day, self._new_day = day_of(now), True
            for metric in self._counted:
                known = self.sealed.get(metric.metric_hash, -1)
                self.sealed[metric.metric_hash] = min(known, epoch_of(metric.every, now))

    def _look_at_the_clock(self) -> float | None:
        """The time if it is to be believed, by itself or because the operator says so."""
        now = self.clock.look()
        if now is None and self.data_dir.clock_accepted.exists():
            self.data_dir.clock_accepted.unlink()
            self.clock.accept()
            now = self.clock.look()
        return now

    def _purge(self, today: int) -> list[MetricEpoch]:
        """Take out the counts whose retention is over."""
        over = [key for key in self.cells if self._past_retention(key, today)]
        for key in over:
            self._purged[key] = self.cells.pop(key)
            self._dirty.discard(key)
        self.handing_out.drop(over)
        return over

    def _past_retention(self, key: MetricEpoch, today: int) -> bool:
        metric_hash, epoch = key
        end = epoch_start(self.definitions[metric_hash].every, epoch + 1) // DAY
        return end + self._retention_days[metric_hash] <= today

    def close(self) -> None:
        if self._counted:
            self._log.close()
        self.checkpoint.close()

    # -- opening

    def _replay(self, start: Position, mend: bool, may_be_missing: bool) -> Position:
        """Count what the log has behind a position; where it ends."""
        metrics = by_short_hash(metric for metric in self.definitions.values() if isinstance(metric, Definition))
        layouts = Layouts()
        replay = Replay(self.data_dir.log, start, mend, may_be_missing)
        for group in replay:
            for message in group.messages:
                arrival = Arrival(message, layouts.find(message) or self._layout(message, metrics, layouts))
                if self.batch_ids.claim(arrival.id_record) is None:
                    self._count(arrival)
            self.fold_if_many()
        self.fold()
        self.cut = replay.cut
        return replay.end

    def _layout(self, message: bytes, metrics: Mapping[bytes, Definition], layouts: Layouts) -> Layout:
        try:
            batch = unpack(message, metrics, check=lambda block: None)  # its reports were checked when they came
        except Refused as error:  # all definitions are saved before their first report is
            words = (
                f"{self.data_dir.log}: a batch cannot be read with the definitions in {self.data_dir.database}: {error}"
            )
            raise Damaged(words) from None
        layout = layout_of(batch, min(map(_closing_day, batch.blocks)))
        layouts.remember(message, layout)
        return layout


def _with(definitions: Mapping[str, Counted], catalog: Catalog | None) -> dict[str, Counted]:
    """These and those of the catalogue, with all names of spare places that are known."""
    found = dict(definitions)
    for metric in () if catalog is None else catalog.metrics:
        before = found.get(metric.metric_hash)
        found[metric.metric_hash] = with_known_names(metric, before) if isinstance(before, Definition) else metric
    return {**found, **{pair.metric_hash: pair.plain for pair in (() if catalog is None else catalog.pairs)}}


def _closing_day(block: Block) -> int:
    if isinstance(block.metric, Metric):
        return closing_day(block.metric, block.epoch)
    return epoch_start(block.metric.every, block.epoch + _LONGEST_GRACE + 1) // DAY  # no longer counted: no hurry
