"""Which metrics are counted, and which of their epochs are open. Time is an argument.

The current registry and, from a folder, older ones: an install that was never updated goes on being counted under the
definition it has. Where two files give the same definition on different terms, the current file's terms hold; a name
that any of them has given to a spare place stays.
A pair of metrics is counted if any of the files declares it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from hubbub.protocol.cadence import DAY, epoch_of, epoch_start, epoch_text
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.metric import MOST_GRACE, Definition, Metric
from hubbub.protocol.pair import Pair
from hubbub.protocol.refusal import Refused
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import Batch
from hubbub.protocol.segments import all_segments


class CountedPair(Pair):
    """A pair with the terms of its counts: the stricter of its metrics'."""

    grace: int
    retention_days: int

    @property
    def plain(self) -> Pair:
        """The pair without its terms, as its counts have it."""
        return Pair(self.name, self.metrics)


@dataclass(frozen=True, slots=True)
class Catalog:
    """The metrics counted here, each segment for itself. `by_short_hash` is what `protocol.report.unpack` asks for."""

    registry: Registry
    older: tuple[Registry, ...] = ()
    rehearsal: bool = False
    """Whether epochs stay open as long as any registry could say: a crowd that is made up lives through the past."""
    by_short_hash: Mapping[bytes, Metric] = field(init=False)
    pairs: tuple[CountedPair, ...] = field(init=False)

    def __post_init__(self) -> None:
        known: dict[bytes, Metric] = {}
        for registry in (self.registry, *self.older):
            for metric in registry.in_all_segments():
                counted = metric.replace(grace=MOST_GRACE) if self.rehearsal else metric
                other = known.setdefault(metric.short_hash, counted)
                if other.metric_hash != metric.metric_hash:
                    raise Invalid(
                        [
                            f"metric_hash must differ in its first {len(metric.short_hash)} bytes, got "
                            f"{other.metric_hash} ({other.name}) and {metric.metric_hash} ({metric.name})"
                        ]
                    )
                known[metric.short_hash] = with_known_names(other, metric)
        object.__setattr__(self, "by_short_hash", MappingProxyType(known))
        object.__setattr__(self, "pairs", tuple(self._pairs().values()))

    def _pairs(self) -> dict[str, CountedPair]:
        """Each declared pair in each segment, by hash."""
        found = {}
        for registry in (self.registry, *self.older):
            segments = list(all_segments(registry.segments)) if registry.together else []
            for pair in registry.together.values():
                for one in map(pair.in_segment, segments):
                    terms = [self.by_short_hash[metric.short_hash] for metric in one.metrics]
                    found[one.metric_hash] = CountedPair(
                        one.name,
                        one.metrics,
                        grace=min(metric.grace for metric in terms),
                        retention_days=min(metric.retention_days for metric in terms),
                    )
        return found

    @classmethod
    def load(cls, metrics: Path, older: Path | None = None, rehearsal: bool = False) -> Catalog:
        """Read metrics.toml and every *.toml of the folder of older ones."""
        files: Iterable[Path] = ()
        if older is not None:
            if not older.is_dir():
                raise Invalid([f"older_metrics must be a folder of metrics.toml files, got {older}"])
            files = sorted(older.glob("*.toml"))
        return cls(Registry.load(metrics), tuple(Registry.load(path) for path in files), rehearsal)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return tuple(self.by_short_hash.values())

    def has_unpaired(self, batch: Batch) -> bool:
        """Whether a batch has both metrics of a pair and several reports of them: they are not counted together."""
        counts = {(block.metric.metric_hash, block.epoch): block.count for block in batch.blocks}
        if not self.pairs or max(counts.values()) == 1:
            return False
        epochs = {epoch for _, epoch in counts}
        both = (
            [counts.get((m.metric_hash, epoch), 0) for m in pair.metrics] for pair in self.pairs for epoch in epochs
        )
        return any(min(found) > 0 and max(found) > 1 for found in both)

    @property
    def counted(self) -> tuple[Metric | CountedPair, ...]:
        """All that there are counts of."""
        return (*self.metrics, *self.pairs)


def with_known_names(metric: Metric, other: Definition) -> Metric:
    """The metric, with the names that another of the same hash has for spare places behind those that it names itself.
    Where the two disagree, its own hold."""
    try:
        return metric.with_names_of(other)
    except Invalid:
        return metric


def day_of(now: float) -> int:
    """Days since 1970-01-01."""
    return int(now // DAY)


def closing_day(metric: Metric, epoch: int) -> int:
    """The first day on which a report of this epoch is too old."""
    return epoch_start(metric.every, epoch + metric.grace + 1) // DAY


def sealed_through(metric: Metric | CountedPair, now: float) -> int:
    """The newest epoch that has closed for good."""
    return epoch_of(metric.every, now) - metric.grace - 1


def last_epoch(metric: Metric) -> int:
    """The epoch in which the metric expires."""
    expires = datetime(metric.expires.year, metric.expires.month, metric.expires.day, tzinfo=UTC)
    return epoch_of(metric.every, expires.timestamp())


def check_epoch(metric: Definition, epoch: int, now: float, sealed: Mapping[str, int], day: int | None = None) -> None:
    """Refuse a report of an epoch that is closed or has not begun. `sealed` has the newest closed epoch by hash.

    `day` is the last one on which the clock was known to be right: a report is not called too old by a later one.
    """
    assert isinstance(metric, Metric)
    current = epoch_of(metric.every, now)
    known = current if day is None else epoch_of(metric.every, min(now, day * DAY))
    oldest = max(known - metric.grace, sealed.get(metric.metric_hash, -1) + 1)
    if epoch < oldest:
        raise Refused(
            "epoch-closed",
            f"metric {metric.name}: epoch must be at least {_name(metric, oldest)}, got {_name(metric, epoch)}",
        )
    if epoch > current:
        raise Refused(
            "epoch-in-future",
            f"metric {metric.name}: epoch must be at most {_name(metric, current)}, the present one, "
            f"got {_name(metric, epoch)}",
        )
    if epoch > last_epoch(metric):
        raise Refused(
            "epoch-closed",
            f"metric {metric.name}: epoch must be at most {_name(metric, last_epoch(metric))}, "
            f"because it expired on {metric.expires}, got {_name(metric, epoch)}",
        )


def _name(metric: Definition, epoch: int) -> str:
    try:
        return f"{epoch} ({epoch_text(metric.every, epoch)})"
    except (ValueError, OverflowError):  # a number that is no date
        return str(epoch)
