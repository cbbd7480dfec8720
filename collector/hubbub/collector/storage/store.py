"""What a collector asks of its store, whichever it is: the embedded one in a folder, or a database that several share.

Everything above the store (`commit`, `http`, `export`, `reload`) goes through this and knows nothing else of it. One
thread calls these methods, the committer's, unless one says otherwise. Whatever a store raises besides what is named
here is final: nobody can tell any more what is durable, and the collector stops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol

from hubbub.collector.catalog import Catalog
from hubbub.collector.intake import Arrival
from hubbub.collector.storage.clock_guard import Belief
from hubbub.collector.storage.handing_out import Condition, ReadableCounts
from hubbub.collector.tokens import KnownToken
from hubbub.protocol.cadence import epoch_text
from hubbub.protocol.pair import Counted
from hubbub.protocol.refusal import Refused

CLOCK_NOT_BELIEVED = "the clock here jumped and is not believed; see the collector's log, and `hubbub clock accept`"


class Verdict(StrEnum):
    """What became of a batch."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    ID_REUSED = "id-reused"
    EPOCH_CLOSED = "epoch-closed"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the operator is to be told."""

    words: str
    level: Literal["info", "warning", "error"] = "info"
    facts: Mapping[str, object] = field(default_factory=dict)


class Store(Protocol):
    """Where batches start to count, and where counts are read."""

    @property
    def definitions(self) -> Mapping[str, Counted]:
        """All that has ever been counted here, by hash. On any thread."""

    @property
    def sealed(self) -> Mapping[str, int]:
        """The newest closed epoch by hash. The same object for as long as the store is open; on any thread."""

    @property
    def day(self) -> int:
        """The last day on which the clock was known to be right. On any thread."""

    @property
    def place(self) -> str:
        """Where the counts are, for people to read."""

    def now(self) -> float:
        """The time by the clock that this store goes by. On any thread."""

    def begin(self, wake: Callable[[], None]) -> None:
        """Called once, before anything else. The store may call `wake`, on any thread, to have `tick` called soon."""

    def refusal(self, waiting: int) -> Refused | None:
        """Why no batch can be taken now, if so many wait already; None if it can. On the event loop, for each batch."""

    @property
    def clock_accepts(self) -> bool:
        """Whether the clock may decide which reports count. On any thread."""

    def commit(self, arrivals: Sequence[Arrival]) -> Sequence[Verdict | Refused]:
        """Make batches durable. Returns when they are. Raises `Refused`: nothing is known to be stored, try again.

        An answer that is `Refused` is that of one batch, which is not stored.
        """

    def select(self, wanted: Condition, answer: Callable[[ReadableCounts | Refused], None]) -> None:
        """Have `answer` called, on any thread, with the counters that may be seen: everything acknowledged is in them.

        Nobody changes what has been handed out. Steps of `min_reports` are durable before they are shown.
        """

    def tick(self) -> list[Notice]:
        """Time passes, and there is time: count, save, close epochs, delete what is past its retention."""

    def adopt(self, catalog: Catalog) -> None:
        """Count the metrics of another catalogue from now on. Raises `Invalid`, nothing changed, if that cannot be."""

    def gauges(self) -> Mapping[str, float]:
        """What Prometheus is told. On any thread."""

    def tokens(self) -> tuple[list[KnownToken], dict[int, bytes]]:
        """The tokens there are now, and lines that are none. Raises OSError. On the event loop: it does not wait."""

    def first_token(self) -> str | None:
        """A new read token if there has never been a token. On the event loop."""

    def stopped(self) -> list[str]:
        """The names of stopped metrics. Raises OSError or UnicodeDecodeError. On the event loop: it does not wait."""

    def finish(self) -> list[Notice]:
        """Save all there is; nothing will be committed any more."""

    def close(self) -> None:
        """Let go of it. After `finish`, or after a failure."""


def purged(metric: Counted, epoch: int) -> Notice:
    facts = {"metric": metric.name, "epoch": epoch_text(metric.every, epoch)}
    return Notice("counts purged, their retention is over", facts=facts)


def clock_changed(belief: Belief) -> Notice:
    match belief:
        case Belief.NOT_BELIEVED:
            return Notice(
                "the clock is not believed: it jumped by more than an hour, or is more than a day behind the last "
                "start; batches are refused, nothing is closed or deleted. If it is right: hubbub clock accept",
                "error",
            )
        case Belief.UNPROVED:
            return Notice("the clock has moved on since the last stop; closing and deleting wait an hour")
        case Belief.IN_STEP:
            return Notice("the clock is believed")
