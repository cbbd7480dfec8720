"""Counting bits per cohort, many reports at once, without looking at any one of them.

`Cells` holds the counts of one metric and epoch; `Cells.add` adds a block of reports as they lie on the wire. The
result is that of `hubbub.protocol.tally.count`, integer for integer. Nothing here knows of batches, files or clocks.

How it counts: reports are sorted by cohort; a vector is read as machine words; `(word >> i) & 0x0101...01` leaves bit
i of every byte in a lane of its own, and lanes are summed by plain addition of words, at most 255 at a time so
that none overflows. That is about an eighth of the additions that unpacked bits would take.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count, pairwise

import numpy as np
from numpy.typing import NDArray

from hubbub.protocol.metric import Definition
from hubbub.protocol.pair import Counted
from hubbub.protocol.tally import Counts

_LANE_LIMIT = 255
_AT_ONCE = 1 << 16  # rows that fit the processor's cache together with what is computed of them
_WORDS: dict[int, np.dtype[np.unsignedinteger]] = {size: np.dtype(f"<u{size}") for size in (1, 2, 4, 8)}

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
Words = NDArray[np.unsignedinteger]
MetricEpoch = tuple[str, int]  # the hash of a metric and the number of an epoch
_REVISIONS = count()


def num_cells(metric: Counted) -> int:
    """How many counters one epoch of a metric or a pair takes, the reports per cohort aside."""
    shape = metric.shape
    if not metric.shape.equal_widths:
        return sum(shape.width(cohort) for cohort in range(shape.num_cohorts))
    return shape.num_cohorts * shape.width(0)


class Cells:
    """The counts of one metric and epoch. Rows of cohorts lie one after the other, whatever their widths. Those of a
    pair lie as its shape says, a row for each cohort pair (`pair_counting` adds to them).

    `revision` is another in each object of this process, so that it names the counts of one that is no longer changed.
    """

    __slots__ = ("bit_counts", "metric", "num_reports", "revision")

    def __init__(self, metric: Counted, num_reports: Integers | None = None, bit_counts: Integers | None = None):
        self.metric = metric
        self.revision = next(_REVISIONS)
        self.num_reports = np.zeros(metric.shape.num_cohorts, np.int64) if num_reports is None else num_reports
        self.bit_counts = np.zeros(num_cells(metric), np.int64) if bit_counts is None else bit_counts

    def rename(self, metric: Counted) -> None:
        """The same counts, of the same definition with a spare place named: another text, so another revision."""
        if metric.shape.later_names != self.metric.shape.later_names:
            self.metric, self.revision = metric, next(_REVISIONS)

    def add(self, cohorts: Bytes, vectors: Bytes) -> None:
        """Count reports: the cohorts and the vectors of a block, or of several blocks put together, as bytes."""
        metric = self._metric
        if not metric.shape.equal_widths:
            self._add_levels(metric, cohorts, vectors)
            return
        rows = vectors.reshape(-1, metric.vector_bytes(0))
        if metric.shape.num_cohorts == 1:
            self.num_reports[0] += len(rows)
            self.bit_counts += _count_all(rows, metric.shape.width(0))
            return
        numbers = np.ascontiguousarray(cohorts).view(_WORDS[metric.cohort_bytes])
        for start in range(0, len(rows), _AT_ONCE):
            self._add_cohorts(metric, numbers[start : start + _AT_ONCE], rows[start : start + _AT_ONCE])

    @property
    def _metric(self) -> Definition:
        assert isinstance(self.metric, Definition)
        return self.metric

    def _add_cohorts(self, metric: Definition, cohorts: Words, rows: Bytes) -> None:
        width = metric.shape.width(0)
        present, counted, reports = _count_by_cohort(cohorts, rows, width)
        self.num_reports[present] += reports
        self.bit_counts.reshape(-1, width)[present] += counted

    def _add_levels(self, metric: Definition, cohorts: Bytes, vectors: Bytes) -> None:
        """A tree's levels differ in width: their vectors are picked out of the stream level by level."""
        widths = [metric.shape.width(level) for level in range(metric.shape.num_cohorts)]
        sizes = np.array([metric.vector_bytes(level) for level in range(len(widths))])
        taken = sizes[cohorts]
        starts = np.cumsum(taken) - taken
        row_at = 0
        for level, width in enumerate(widths):
            at = starts[cohorts == level]
            if len(at):
                rows = vectors[at[:, None] + np.arange(sizes[level])]
                self.num_reports[level] += len(at)
                self.bit_counts[row_at : row_at + width] += _count_all(rows, width)
            row_at += width

    def add_level(self, level: int, vectors: Bytes) -> None:
        """Count reports that are all of one level of a tree."""
        rows = vectors.reshape(-1, self._metric.vector_bytes(level))
        self._add_at(level, _count_all(rows, self._metric.shape.width(level)), len(rows))

    def _add_at(self, level: int, counted: Integers, reports: int) -> None:
        start = sum(self._metric.shape.width(lower) for lower in range(level))
        self.num_reports[level] += reports
        self.bit_counts[start : start + len(counted)] += counted

    @property
    def total(self) -> int:
        """All reports."""
        return int(self.num_reports.sum())

    def __add__(self, other: Cells) -> Cells:
        return Cells(self.metric, self.num_reports + other.num_reports, self.bit_counts + other.bit_counts)

    def copy(self) -> Cells:
        return Cells(self.metric, self.num_reports.copy(), self.bit_counts.copy())

    def counts(self) -> Counts:
        """The same numbers as the protocol's value."""
        shape = self.metric.shape
        ends = np.cumsum([shape.width(cohort) for cohort in range(shape.num_cohorts)]).tolist()
        flat = self.bit_counts.tolist()
        starts = [0, *ends[:-1]]
        rows = tuple(tuple(flat[start:end]) for start, end in zip(starts, ends, strict=True))
        return Counts(tuple(self.num_reports.tolist()), rows)


def add_all(cells: Sequence[Cells], owners: Integers, cohorts: Bytes, vectors: Bytes) -> None:
    """`Cells.add` for several metrics of one shape with cohorts of one width, such as a question in many segments:
    report i is of `cells[owners[i]]`. Each pair of metric and cohort is counted as a cohort of its own."""
    metric = cells[0]._metric
    rows = vectors.reshape(-1, metric.vector_bytes(0))
    num_cohorts = metric.shape.num_cohorts
    smallest = np.min_scalar_type(len(cells) * num_cohorts - 1)  # numbers of 16 bits are sorted fastest
    numbers = (owners * num_cohorts + np.ascontiguousarray(cohorts).view(_WORDS[metric.cohort_bytes])).astype(smallest)
    width = metric.shape.width(0)
    for start in range(0, len(rows), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        present, counted, reports = _count_by_cohort(numbers[part], rows[part], width)
        ends = np.searchsorted(present, np.arange(len(cells) + 1) * num_cohorts).tolist()
        for number, (first, end) in enumerate(pairwise(ends)):
            if first < end:
                its = present[first:end] - number * num_cohorts
                cells[number].num_reports[its] += reports[first:end]
                cells[number].bit_counts.reshape(-1, width)[its] += counted[first:end]


def add_level_of_all(cells: Sequence[Cells], owners: Integers, level: int, vectors: Bytes) -> None:
    """`Cells.add_level` for several metrics of one shape, likewise."""
    metric = cells[0]._metric
    rows = vectors.reshape(-1, metric.vector_bytes(level))
    numbers = owners.astype(np.min_scalar_type(len(cells) - 1))
    for start in range(0, len(rows), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        found = _count_by_cohort(numbers[part], rows[part], metric.shape.width(level))
        for number, counted, reports in zip(*found, strict=True):
            cells[number]._add_at(level, counted, reports)


def sum_of_reports(cells: Iterable[Cells]) -> int:
    """All reports of metrics. A pair's batches are these very reports, so they are left out."""
    return sum(counted.total for counted in cells if isinstance(counted.metric, Definition))


def _count_all(rows: Bytes, width: int) -> Integers:
    """How often each bit is set in all rows together."""
    if width == 1:
        return np.array([np.count_nonzero(rows)], np.int64)
    starts = np.arange(0, len(rows), _LANE_LIMIT)
    sums: Integers = _lane_sums(_words(rows), starts, width).sum(axis=0)
    return sums


def _count_by_cohort(cohorts: Words, rows: Bytes, width: int) -> tuple[Integers, ...]:
    """The cohorts present, how often each bit is set in each of them, and how many reports each has."""
    order = np.argsort(cohorts, kind="stable")
    words = _words(rows).take(order, axis=0)
    ordered = cohorts.take(order)
    firsts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    reports = np.diff(np.append(firsts, len(ordered)))
    chunks = -(-reports // _LANE_LIMIT)
    first_chunks = np.cumsum(chunks) - chunks
    starts = np.repeat(firsts - _LANE_LIMIT * first_chunks, chunks) + _LANE_LIMIT * np.arange(chunks.sum())
    sums = _lane_sums(words, starts, width)
    if len(starts) > len(firsts):
        sums = np.add.reduceat(sums, first_chunks, axis=0)
    return ordered[firsts].astype(np.int64), sums, reports.astype(np.int64)


def _words(rows: Bytes) -> Words:
    """Vectors as rows of machine words, padded with zero bytes to whole ones."""
    count, size = rows.shape
    word = next((w for w in _WORDS if size <= w), 8)
    padded = -(-size // word) * word
    if padded != size:
        wider = np.zeros((count, padded), np.uint8)
        wider[:, :size] = rows
        rows = wider
    return np.ascontiguousarray(rows).view(_WORDS[word])


def _lane_sums(words: Words, starts: NDArray[np.int64], width: int) -> Integers:
    """The sums of bits between one start and the next (at most 255 rows apart), one row for each start."""
    word = words.dtype
    ones = word.type(int.from_bytes(b"\x01" * word.itemsize, "little"))
    planes = min(width, 8)
    lanes = np.empty(len(words), word)
    # Axes: chunk, byte of the vector, bit of the byte: read in that order they are the positions of the vector.
    sums = np.empty((len(starts), words.shape[1] * word.itemsize, 8), np.int64)
    for bit in range(planes):
        for column in range(words.shape[1]):
            np.right_shift(words[:, column], word.type(bit), out=lanes)
            np.bitwise_and(lanes, ones, out=lanes)
            summed = np.add.reduceat(lanes, starts, dtype=word)
            at = column * word.itemsize
            sums[:, at : at + word.itemsize, bit] = summed.view(np.uint8).reshape(len(starts), word.itemsize)
    return sums.reshape(len(starts), -1)[:, :width]
