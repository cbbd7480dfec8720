"""Fake reports at a collector's door: what its real intake refuses, and what is counted of the rest.

`received` reads messages as the collector does; `unchecked` counts the same messages as a collector would that
believes whatever it is sent. Nothing is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hubbub.collector.catalog import Catalog
from hubbub.collector.intake import Intake
from hubbub.protocol.cadence import DAY
from hubbub.protocol.metric import Metric
from hubbub.protocol.refusal import Refused
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import Batch, Block, Report
from hubbub.protocol.tally import Tally, count
from hubbub.protocol.wire import MEDIA_TYPE, pack

TODAY = 20_000
NOON = (TODAY + 0.5) * DAY

FakeReport = tuple[int, int, int]
"""Epoch, cohort and bits, as the attacker writes them."""


@dataclass(frozen=True, slots=True)
class Received:
    """What the collector made of some messages."""

    messages: int
    refused: Counter[str]
    counted: Tally

    @property
    def reason(self) -> str:
        """Why messages were refused, if they were."""
        return ", ".join(self.refused) or "-"


def messages_of(metric: Metric, fake_reports: Sequence[FakeReport], *, in_one: bool = False) -> list[bytes]:
    """The messages that carry these reports, one each or all in one. Written by hand: honest code refuses to."""
    blocks = [
        Block(
            metric,
            epoch,
            cohort.to_bytes(metric.cohort_bytes, "little"),
            bits.to_bytes(metric.vector_bytes(0), "little"),
        )
        for epoch, cohort, bits in fake_reports
    ]
    if in_one:
        joined = Block(
            metric, blocks[0].epoch, b"".join(b.cohorts for b in blocks), b"".join(b.vectors for b in blocks)
        )
        return [pack(Batch(bytes(16), (joined,)))]
    return [pack(Batch(number.to_bytes(16, "little"), (block,))) for number, block in enumerate(blocks)]


def received(registry: Registry, metric: Metric, messages: Sequence[bytes]) -> Received:
    """Through the collector's own checks, at noon of TODAY; what passes is counted."""
    catalog = Catalog(registry)
    intake = Intake(catalog, lambda: NOON, {})
    refused: Counter[str] = Counter()
    reports: list[Report] = []
    for message in messages:
        try:
            arrival = intake.read(message, MEDIA_TYPE, relayed=False)
        except Refused as refusal:
            refused[refusal.reason] += 1
        else:
            reports.append(_report_in(metric, arrival.message))
    return Received(len(messages), refused, count(metric, reports))


def _report_in(metric: Metric, message: bytes) -> Report:
    """The one report of a message that was let in: its cohort and vector are the last bytes."""
    size, width = metric.cohort_bytes, metric.vector_bytes(0)
    body = message[-size - width :]
    return Report(metric, TODAY, int.from_bytes(body[:size], "little"), int.from_bytes(body[size:], "little"))


def unchecked(metric: Metric, fake_reports: Sequence[FakeReport]) -> Tally:
    """What believing everything comes to: each report counts, today, in some cohort, in the bits that there are."""
    width = metric.shape.width(0)
    cohorts = metric.shape.num_cohorts
    return count(metric, [Report(metric, TODAY, c % cohorts, bits & ((1 << width) - 1)) for _, c, bits in fake_reports])
