"""Which epochs are answered, and the message that each becomes. Runs inside the transaction of a look.

A look opens the epoch of this moment and no other: an epoch is answered if a process lived in it to look, whatever was
recorded. When an epoch is over, what was gathered in it is encoded, what was not recorded answers `absent`, and one
message goes to the outbox. Presence says nothing: there is exactly one report for every metric that the epoch asks.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator

from hubbub.client import outbox
from hubbub.client.budget import note_asked
from hubbub.client.facts import put, read_facts
from hubbub.client.recorder import ReportMaker
from hubbub.protocol.cadence import CADENCES, DAY, epoch_of, epoch_start
from hubbub.protocol.metric import Metric
from hubbub.protocol.segments import Segment, segment_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubbub.client.vocabulary import Chance, Delay
    from hubbub.protocol.report import Report
    from hubbub.protocol.vocabulary import Cadence


def open_current(maker: ReportMaker, now: float, segment: Segment) -> None:
    """Note that the app runs in the epochs of this moment, and as which build: an upgrade in mid-epoch changes the next
    message, not this one. What they ask counts as asked from here on."""
    for every in maker.registry.cadences:
        epoch = epoch_of(every, now)
        if epoch > epoch_of(every, maker.answered_at):
            row = (every, epoch, json.dumps(dict(segment)))
            maker.db.execute("INSERT OR IGNORE INTO epochs VALUES (?, ?, 0, ?)", row)
            if maker.is_sealed(every, epoch) is False:
                for metric in _metrics_asked(maker, every, epoch):
                    note_asked(maker.db, metric, epoch)
                    if metric.turns is not None:  # before there is any answer
                        from hubbub.client.histories import drawn_flags  # here, because few registries ask with `hold`

                        drawn_flags(maker.db, maker.who, metric, metric.turns, maker.draws)


def seal_past(maker: ReportMaker, now: float, delay: Delay, chance: Chance) -> None:
    """Turn every epoch that is over into a message that waits for its sending time. Sealed epochs are remembered for
    ever: whatever the clock does, none is reported twice. One whose cadence this registry no longer has makes no
    message, and what was gathered in it is deleted anyway."""
    for every in CADENCES:
        query = "SELECT epoch, segment FROM epochs WHERE every = ? AND epoch < ? AND sealed = 0 ORDER BY epoch"
        for epoch, build in maker.db.execute(query, (every, epoch_of(every, now))).fetchall():
            # As this registry tells builds apart, which is what the collector knows: an old release may be `other` now.
            segment = segment_of(maker.registry.segments, json.loads(build))
            _seal(maker, every, epoch, segment, delay, chance)
    _drop_gathered(maker.db, now)


def _seal(maker: ReportMaker, every: Cadence, epoch: int, segment: Segment, delay: Delay, chance: Chance) -> None:
    reports = [_final_report(maker, metric, epoch, segment) for metric in _metrics_asked(maker, every, epoch)]
    maker.db.execute("UPDATE epochs SET sealed = 1 WHERE every = ? AND epoch = ?", (every, epoch))
    # Reports of metrics that an upgrade took away or redefined meanwhile go too: were they sent, their presence would
    # tell that something was recorded.
    maker.db.execute("DELETE FROM reports WHERE every = ? AND epoch = ?", (every, epoch))
    _note_deleted(maker.db, maker.db.execute("DELETE FROM gathered WHERE every = ? AND epoch = ?", (every, epoch)))
    if not reports:
        return
    from hubbub.protocol.report import Batch  # here and below, because most starts of an app make no message
    from hubbub.protocol.wire import pack

    batch = Batch.of(chance("id", every, epoch, 0), reports)
    end = epoch_start(every, epoch + 1)
    window = float(min(end - epoch_start(every, epoch), DAY))
    message = outbox.Message(batch.batch_id, every, epoch, len(reports), pack(batch))
    outbox.add(maker.db, message, not_before=end + delay(every, epoch, window))


def _metrics_asked(maker: ReportMaker, every: Cadence, epoch: int) -> Iterator[Metric]:
    return (metric for metric in maker.registry.with_cadence(every) if maker.is_asked(metric, epoch))


def _final_report(maker: ReportMaker, metric: Metric, epoch: int, segment: Segment) -> Report:
    if not maker.has_report(metric, epoch):
        answer, recorded = maker.gathered(metric, epoch)
        maker.report(metric, maker.encode(metric, answer), epoch)
        maker.counts["made"] += 1
        maker.counts["absent"] += not recorded
    from hubbub.protocol.report import Report

    query = "SELECT cohort, bits FROM reports WHERE metric_hash = ? AND epoch = ?"
    cohort, bits = maker.db.execute(query, (metric.metric_hash, epoch)).fetchone()
    return Report(metric.in_segment(segment), epoch, cohort, int.from_bytes(bits, "little"))


def close_past(db: sqlite3.Connection, now: float) -> None:
    """Close every epoch that is over, without a message, whatever was recorded in it: were those with records closed
    alone, whether a message comes would tell. What is being collected stays."""
    for every in CADENCES:
        over = (every, epoch_of(every, now))
        db.execute("DELETE FROM reports WHERE every = ? AND epoch < ?", over)
        db.execute("UPDATE epochs SET sealed = 1 WHERE every = ? AND epoch < ? AND sealed = 0", over)
    _drop_gathered(db, now)


def _drop_gathered(db: sqlite3.Connection, now: float) -> None:
    """What was gathered in another epoch than that of this moment goes. One that is still to come was opened while the
    clock was wrong, and would lie here until it comes."""
    for every in CADENCES:
        query = "DELETE FROM gathered WHERE every = ? AND epoch != ?"
        _note_deleted(db, db.execute(query, (every, epoch_of(every, now))))


def discard_unsent(db: sqlite3.Connection) -> None:
    """Forget what was made and not sent. The epochs stay closed: none of them is reported again."""
    outbox.empty(db)
    db.execute("DELETE FROM reports")
    _note_deleted(db, db.execute("DELETE FROM gathered"))
    db.execute("UPDATE epochs SET sealed = 1")


def _note_deleted(db: sqlite3.Connection, deletion: sqlite3.Cursor) -> None:
    """SQLite's log still has what was gathered in plain; it is emptied as soon as nobody reads the file."""
    if deletion.rowcount:
        put(db, "plain_in_log", read_facts(db).plain_in_log + 1)
