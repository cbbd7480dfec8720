"""Counting pairs: of each batch with one report of both metrics, which bits came together.

The result is that of `hubbub.protocol.pair.count_pairs`, integer for integer. Nothing here looks at a batch by itself
or keeps one: it takes the stacks of messages that counting takes, and adds to the counters of a pair.

How it counts: for each bit a column is made that has, for each batch, whether that bit was set; columns are packed, 64
batches to a word. Two columns have come together as often as their conjunction has bits set. A first column is
all ones, so that batches and single bits are counted by the same means. (A product of matrices would be as fast for
few bits, but it is done by a library with threads of its own, which wait for each other at the cost of other work.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hubbub.collector.message_layout import Column, Layout
from hubbub.collector.storage.counting import Bytes, Cells, Integers
from hubbub.collector.storage.stacking import Stack
from hubbub.protocol.pair import Pair, PairCounts
from hubbub.protocol.pair_shape import PairShape

_AT_ONCE = 1 << 15  # batches, so that 16 bits hold any count of them
_WORD = 64


class Together(NamedTuple):
    """Messages in which two columns are counted together, and which cohort pair each of them is of."""

    pair: Pair
    first: Column
    second: Column
    places: Integers
    stack: Bytes

    @property
    def epoch(self) -> int:
        return self.first.epoch


class PairedColumns:
    """Which columns of which messages are counted together, for the pairs that are counted now."""

    def __init__(self, pairs: Iterable[Pair] = ()) -> None:
        self._by_first: dict[str, list[Pair]] = {}
        for pair in pairs:
            self._by_first.setdefault(pair.metrics[0].metric_hash, []).append(pair)
        self.hashes = {pair.metric_hash for found in self._by_first.values() for pair in found}

    def find(self, stacks: Iterable[Stack]) -> Iterator[Together]:
        """What there is to count: messages that have one report of both metrics of a pair for one epoch."""
        if not self._by_first:
            return
        for layout, rows in (part for stack in stacks for part in stack.by_layout()):
            for pair, first, second in self._in(layout):
                if first.count == second.count == 1:
                    places, possible = _places(pair.shape, _cohorts(rows, first), _cohorts(rows, second))
                    if possible.all():
                        yield Together(pair, first, second, places, rows)
                    elif possible.any():  # whoever sent the others made them up: no install has such cohorts
                        yield Together(pair, first, second, places[possible], rows[possible])

    def _in(self, layout: Layout) -> Iterator[tuple[Pair, Column, Column]]:
        columns = {(column.metric.metric_hash, column.epoch): column for column in layout.columns}
        for (metric_hash, epoch), first in columns.items():
            for pair in self._by_first.get(metric_hash, ()):
                second = columns.get((pair.metrics[1].metric_hash, epoch))
                if second is not None:
                    yield pair, first, second


def add_pairs(cells: Cells, found: Together) -> None:
    """Count these messages."""
    for start in range(0, len(found.stack), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        _add(cells, found._replace(places=found.places[part], stack=found.stack[part]))


def _add(cells: Cells, found: Together) -> None:
    order = np.argsort(found.places, kind="stable")
    present, sizes = _runs(found.places[order])
    words = -(-sizes // _WORD)
    starts = np.cumsum(words) - words
    # Each cohort pair begins with a word of its own; what is left of its last one stays zero.
    at = np.arange(len(order)) + np.repeat(_WORD * starts - (np.cumsum(sizes) - sizes), sizes)
    total = _WORD * int(words.sum())
    stack = found.stack[order]
    a, b = (_columns(stack, column, at, total) for column in (found.first, found.second))
    counted = np.empty((len(present), len(a), len(b)), np.int64)
    for bit, column in enumerate(a):
        together = np.bitwise_count(column & b)
        counted[:, bit] = (
            together.sum(axis=1, dtype=np.uint16)
            if len(present) == 1
            else np.add.reduceat(together, starts, axis=1, dtype=np.uint16).T
        )
    _put(cells, found.pair.shape, present, counted)


def _put(cells: Cells, shape: PairShape, present: Integers, counted: Integers) -> None:
    cells.num_reports[present] += counted[:, 0, 0]
    rows = np.concatenate((counted[:, 1:, 0], counted[:, 0, 1:], counted[:, 1:, 1:].reshape(len(present), -1)), axis=1)
    if shape.equal_widths:
        cells.bit_counts.reshape(shape.num_cohorts, -1)[present] += rows
    else:
        for place, row in zip(present.tolist(), rows, strict=True):
            start = shape.starts[place]
            cells.bit_counts[start : start + len(row)] += row


def _cohorts(stack: Bytes, column: Column) -> Integers:
    cohorts = np.ascontiguousarray(stack[:, column.cohorts_at : column.vectors_at])
    return cohorts.view(f"<u{column.metric.cohort_bytes}").reshape(-1).astype(np.int64)


def _places(shape: PairShape, first: Integers, second: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """What `PairShape.place` says, for all at once."""
    m, n = shape.first.num_cohorts, shape.second.num_cohorts
    possible = (first * n < (second + 1) * m) & (second * m < (first + 1) * n)
    return first + second - first // (m // gcd(m, n)), possible


def _runs(ordered: Integers) -> tuple[Integers, Integers]:
    """The values of an ordered array, and how often each comes."""
    firsts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return ordered[firsts], np.diff(np.append(firsts, len(ordered)))


def _columns(stack: Bytes, column: Column, at: Integers, total: int) -> NDArray[np.uint64]:
    """A row of words for each bit, and one before them for the batches themselves."""
    vectors = stack[:, column.vectors_at : column.end]
    width = column.metric.shape.width(0 if column.level is None else column.level)
    bits = np.zeros((1 + width, total), np.uint8)
    bits[0, at] = 1
    bits[1:, at] = np.unpackbits(vectors, axis=1, bitorder="little", count=width).T
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint64)


def counts_of(cells: Cells) -> PairCounts:
    """The numbers of a pair as the protocol's value."""
    shape = cells.metric.shape
    assert isinstance(shape, PairShape)
    first, second, both = [], [], []
    for place in range(shape.num_cohorts):
        a, b, table = tables_at(cells, shape, place)
        first.append(tuple(a.tolist()))
        second.append(tuple(b.tolist()))
        both.append(tuple(map(tuple, table.tolist())))
    return PairCounts(tuple(cells.num_reports.tolist()), tuple(first), tuple(second), tuple(both))


def tables_at(cells: Cells, shape: PairShape, place: int) -> tuple[Integers, Integers, Integers]:
    """The counters of one cohort pair: of the first report's bits, of the second's, and of both."""
    a, b = shape.widths(place)
    row = cells.bit_counts[shape.starts[place] :][: shape.width(place)]
    return row[:a], row[a : a + b], row[a + b :].reshape(a, b)
