"""Reports and batches: what a client sends and a collector reads. Their bytes are in `wire`.

A `Report` is one noisy answer. A `Batch` is what one message carries, in blocks of one metric and epoch each; a block
keeps its cohorts and bit vectors as they lie on the wire, so that a collector can count them without unpacking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hubbub.protocol.metric import Definition
from hubbub.protocol.value import Value

BATCH_ID_BYTES = 16
MAX_BLOCKS = 4096
"""Far more than an app has metrics; a block costs its reader some 400 bytes beyond those it has in the message."""

Metrics = Mapping[bytes, Definition]
"""The definitions a reader knows, by `short_hash`."""


def by_short_hash(metrics: Iterable[Definition]) -> dict[bytes, Definition]:
    """The definitions a reader knows, in the form that `unpack` and `from_json` ask for."""
    return {metric.short_hash: metric for metric in metrics}


class Report(Value):
    """One noisy answer: all that leaves a device about one metric and epoch."""

    metric: Definition  # what was asked
    epoch: int  # the number of the day, week or month it is about
    cohort: int  # the group of the install, for this metric
    bits: int  # the noisy answer; position i is bit i

    def _broken_rules(self) -> Iterator[str]:
        return broken_rules(self.metric, self.epoch, self.cohort, self.bits)


class Block(Value):
    """The reports of one metric and epoch, as they lie on the wire."""

    metric: Definition
    epoch: int
    cohorts: bytes
    vectors: bytes

    @property
    def count(self) -> int:
        return len(self.cohorts) // self.metric.cohort_bytes

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The cohort and the bits of each report."""
        size = self.metric.cohort_bytes
        at = 0
        for i in range(0, len(self.cohorts), size):
            cohort = int.from_bytes(self.cohorts[i : i + size], "little")
            end = at + self.metric.vector_bytes(cohort)
            yield cohort, int.from_bytes(self.vectors[at:end], "little")
            at = end


class Batch(Value):
    """What one message carries. The id is random; a message sent again has the same id and the same bytes."""

    batch_id: bytes  # 16 random bytes; what came twice is counted once
    blocks: tuple[Block, ...]  # the reports of each metric and epoch

    @classmethod
    def of(cls, batch_id: bytes, reports: Iterable[Report]) -> Batch:
        """A batch of these reports, in blocks by metric and epoch in the order in which they first appear."""
        groups: dict[tuple[str, int], list[Report]] = {}
        for report in reports:
            groups.setdefault((report.metric.metric_hash, report.epoch), []).append(report)
        return cls(batch_id, tuple(_block(group) for group in groups.values()))

    def _broken_rules(self) -> Iterator[str]:
        if len(self.batch_id) != BATCH_ID_BYTES:
            yield f"batch_id must have {BATCH_ID_BYTES} bytes, got {len(self.batch_id)}"
        if not 1 <= len(self.blocks) <= MAX_BLOCKS:
            yield f"a batch must have from 1 to {MAX_BLOCKS} blocks, got {len(self.blocks)}"

    @property
    def reports(self) -> Iterator[Report]:
        """All reports, block by block."""
        for block in self.blocks:
            for cohort, bits in block:
                yield Report(block.metric, block.epoch, cohort, bits)


def broken_rules(metric: Definition, epoch: int, cohort: int, bits: int) -> Iterator[str]:
    if not -(2**31) <= epoch < 2**31:
        yield f"epoch must fit 32 bits, got {epoch if epoch.bit_length() < 65 else 'a larger number'}"
    if not 0 <= cohort < metric.shape.num_cohorts:
        yield cohort_rule(metric, cohort)
    else:
        width = metric.shape.width(cohort)
        if bits < 0 or bits >> width:
            yield f"bits must have nothing set beyond the {width} positions of cohort {cohort}"
        elif metric.weight is not None and bits.bit_count() != metric.weight:
            exactly = "one position" if metric.weight == 1 else f"{metric.weight} positions"
            yield f"bits must have exactly {exactly} set, got {bits.bit_count()}"


def cohort_rule(metric: Definition, cohort: int) -> str:
    got = cohort if cohort.bit_length() < 65 else "a larger number"
    return f"cohort must be in [0, {metric.shape.num_cohorts - 1}], got {got}"


def _block(reports: list[Report]) -> Block:
    metric = reports[0].metric
    size = metric.cohort_bytes
    return Block(
        metric,
        reports[0].epoch,
        b"".join(report.cohort.to_bytes(size, "little") for report in reports),
        b"".join(report.bits.to_bytes(metric.vector_bytes(report.cohort), "little") for report in reports),
    )
