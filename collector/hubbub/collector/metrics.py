"""What the collector tells Prometheus about itself: counts and latencies, nothing about senders.

Written from the event loop and from the store's thread; each number has one writer, so none needs a lock. That is why
prometheus_client is not used: its locks made counting a batch cost 2.2 microseconds instead of 0.25, and timing a group
9.4 instead of 0.8, where a whole request takes about 140. Only its text format is needed, and that is a few lines.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal, get_args

from hubbub.protocol.refusal import STATUS

_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

CheckpointResult = Literal["saved", "failed"]

# Each is told from the start, with 0: in a series that begins with its first refusal Prometheus sees no increase.
_REASONS = (*STATUS, "unauthorized", "too-many-reads", "internal")

_GAUGE_WORDS = {
    "ready": "1 if batches are taken, as /readyz says",
    "clock_believed": "1 if the clock may decide which reports count, 0 if it jumped",
    "seen_ids_max": "ids from which on batches are refused",
    "disk_free_min_bytes": "free space below which batches are refused",
    "unsaved_batches": "batches that are in the log and in no checkpoint yet",
    "store_reachable": "1 if the databases of a shared store can be reached, all of them",
    "databases": "databases over which the store is spread",
    "databases_unreachable": "of these, how many cannot be reached",
    "journal_bytes": "size of what is durable in the database and not in its counts yet, with the room it once took",
    "log_dropped_bytes": "bytes of an incomplete last group, dropped from the log at this start",
    "certificate_expiry_timestamp_seconds": "when the certificate ends that was last read; 0 if it had ended then",
}


class Histogram:
    """Observations in seconds, counted by upper bound."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_BOUNDS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(_BOUNDS, seconds)] += 1
        self._sum += seconds

    def plus(self, other: Histogram) -> Histogram:
        both = Histogram()
        both._counts = [mine + theirs for mine, theirs in zip(self._counts, other._counts, strict=True)]
        both._sum = self._sum + other._sum
        return both

    def lines(self, name: str) -> Iterator[str]:
        total = 0
        for bound, count in zip((*_BOUNDS, "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._sum:.6f}"
        yield f"{name}_count {total}"


@dataclass(slots=True)
class CollectorMetrics:
    """All that is counted or timed about this process."""

    stored: int = 0
    duplicates: int = 0
    reports: int = 0
    stopped_reports: int = 0
    unpaired: int = 0
    unread_cut_offs: int = 0
    certificate_expiry: float | None = None
    refused: Counter[str] = field(default_factory=Counter)
    checkpoints: Counter[CheckpointResult] = field(default_factory=Counter)
    commit_seconds: Histogram = field(default_factory=Histogram)
    sync_seconds: Histogram = field(default_factory=Histogram)
    checkpoint_seconds: Histogram = field(default_factory=Histogram)
    others: list[CollectorMetrics] = field(default_factory=list)
    """Of a store in several databases: the checkpoints and latencies of all but the first, each with its own writer."""

    def text(self, gauges: dict[str, float]) -> str:
        """The exposition format, version 0.0.4."""
        return "\n".join(self._lines(gauges)) + "\n"

    def _lines(self, gauges: dict[str, float]) -> Iterator[str]:
        yield from _head("hubbub_batches_total", "counter", "batches answered with 200, by status")
        yield f'hubbub_batches_total{{status="stored"}} {self.stored}'
        yield f'hubbub_batches_total{{status="duplicate"}} {self.duplicates}'
        yield from _head("hubbub_reports_total", "counter", "reports counted since the start")
        yield f"hubbub_reports_total {self.reports}"
        yield from _head(
            "hubbub_stopped_reports_total", "counter", "reports of stopped metrics, accepted and thrown away"
        )
        yield f"hubbub_stopped_reports_total {self.stopped_reports}"
        words = "batches of relays with several reports of metrics of a pair, which are not counted together"
        yield from _head("hubbub_unpaired_batches_total", "counter", words)
        yield f"hubbub_unpaired_batches_total {self.unpaired}"
        yield from _head("hubbub_rejects_total", "counter", "requests refused, by reason")
        for reason in sorted(_REASONS):
            yield f'hubbub_rejects_total{{reason="{reason}"}} {self.refused[reason]}'
        yield from _head("hubbub_unread_cut_offs_total", "counter", "senders cut off because they did not read answers")
        yield f"hubbub_unread_cut_offs_total {self.unread_cut_offs}"
        yield from _head("hubbub_checkpoints_total", "counter", "checkpoints, by result")
        for result in get_args(CheckpointResult):
            total = sum(part.checkpoints[result] for part in (self, *self.others))
            yield f'hubbub_checkpoints_total{{result="{result}"}} {total}'
        for name, histogram, words in (
            ("hubbub_commit_seconds", "commit_seconds", "one group commit: ids, log, sync"),
            ("hubbub_fsync_seconds", "sync_seconds", "the sync of a group commit"),
            ("hubbub_checkpoint_seconds", "checkpoint_seconds", "one checkpoint"),
        ):
            yield from _head(name, "histogram", words)
            yield from reduce(Histogram.plus, (getattr(part, histogram) for part in (self, *self.others))).lines(name)
        if self.certificate_expiry is not None:
            gauges = {**gauges, "certificate_expiry_timestamp_seconds": self.certificate_expiry}
        for name, value in gauges.items():
            yield from _head(f"hubbub_{name}", "gauge", _GAUGE_WORDS.get(name, name.replace("_", " ")))
            yield f"hubbub_{name} {value:.15g}"


def _head(name: str, kind: str, words: str) -> tuple[str, str]:
    return f"# HELP {name} {words}", f"# TYPE {name} {kind}"
