"""Messages become columns: all reports of one question and epoch together, whatever batches they came in.

Installs of several segments answer the same questions, so their messages lie alike and differ in the hashes of their
metrics alone. They are taken apart and counted together: to count the reports of one segment costs nearly as much as
to count those of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hubbub.collector.message_layout import Column, Form, Layout
from hubbub.collector.storage.counting import Bytes, Cells, Integers, add_all, add_level_of_all

Number = TypeVar("Number", bound=np.generic)


class Stack(NamedTuple):
    """Messages that lie alike, a row for each: those of the first layout, then those of the second, and so on."""

    layouts: list[Layout]
    sizes: list[int]  # how many messages each layout has
    rows: Bytes

    def by_layout(self) -> Iterator[tuple[Layout, Bytes]]:
        start = 0
        for layout, size in zip(self.layouts, self.sizes, strict=True):
            yield layout, self.rows[start : start + size]
            start += size


def stacks(messages: Mapping[Layout, Sequence[bytes]]) -> list[Stack]:
    forms: dict[Form, list[Layout]] = {}
    for layout in messages:
        forms.setdefault(layout.form, []).append(layout)
    return [_stack(layouts, messages) for layouts in forms.values()]


def _stack(layouts: list[Layout], messages: Mapping[Layout, Sequence[bytes]]) -> Stack:
    sizes = [len(messages[layout]) for layout in layouts]
    joined = b"".join(message for layout in layouts for message in messages[layout])
    return Stack(layouts, sizes, np.frombuffer(joined, np.uint8).reshape(sum(sizes), layouts[0].length))


class Gathered(NamedTuple):
    """All reports of one question, epoch and level. There is a column for each segment, whose places mean nothing;
    `owners` says for each report which of them it is of."""

    columns: list[Column]
    owners: Integers
    cohorts: Bytes
    vectors: Bytes

    def add_to(self, cells: Sequence[Cells]) -> None:
        """Add them to the counters of each column, in their order."""
        level = self.columns[0].level
        if len(cells) > 1 and level is None:
            add_all(cells, self.owners, self.cohorts, self.vectors)
        elif len(cells) > 1 and level is not None:
            add_level_of_all(cells, self.owners, level, self.vectors)
        elif level is None:
            cells[0].add(self.cohorts, self.vectors)
        else:
            cells[0].add_level(level, self.vectors)

    def of(self, number: int) -> tuple[Bytes, Bytes]:
        """Cohorts and vectors of one column."""
        if len(self.columns) == 1:
            return self.cohorts, self.vectors
        mine = self.owners == number
        cohorts, vectors = (every.reshape(len(mine), -1)[mine].reshape(-1) for every in (self.cohorts, self.vectors))
        return cohorts, vectors


def stacked(messages: Iterable[Stack]) -> Iterator[Gathered]:
    """What stacks hold, by question, epoch and level."""
    found: dict[tuple[str, int, int | None], list[_Piece]] = {}
    for stack in messages:
        for number, column in enumerate(stack.layouts[0].columns):
            for key, piece in _pieces(stack, number, column):
                found.setdefault(key, []).append(piece)
    return map(_gathered, found.values())


class _Piece(NamedTuple):
    """The reports of one question in one stack: so many of each column, one after the other."""

    columns: list[Column]
    numbers: list[int]
    cohorts: Bytes
    vectors: Bytes


def _pieces(stack: Stack, number: int, column: Column) -> Iterator[tuple[tuple[str, int, int | None], _Piece]]:
    if column.regular:
        columns = [layout.columns[number] for layout in stack.layouts]
        numbers = [column.count * size for size in stack.sizes]
        yield (column.question, column.epoch, column.level), _Piece(columns, numbers, *_taken(stack.rows, column))
    else:  # reports of different lengths, which only a segment's own counters take apart
        for layout, rows in stack.by_layout():
            own = layout.columns[number]
            key = (own.metric.metric_hash, own.epoch, own.level)
            yield key, _Piece([own], [own.count * len(rows)], *_taken(rows, own))


def _taken(rows: Bytes, column: Column) -> tuple[Bytes, Bytes]:
    cohorts = rows[:, column.cohorts_at : column.vectors_at].reshape(-1)
    return cohorts, rows[:, column.vectors_at : column.end].reshape(-1)


def _gathered(pieces: Sequence[_Piece]) -> Gathered:
    columns: dict[str, Column] = {}
    for piece in pieces:
        columns.update((column.metric.metric_hash, column) for column in piece.columns)
    place = {metric_hash: number for number, metric_hash in enumerate(columns)}
    owners = [np.repeat([place[c.metric.metric_hash] for c in piece.columns], piece.numbers) for piece in pieces]
    return Gathered(
        list(columns.values()),
        _joined(owners),
        _joined([piece.cohorts for piece in pieces]),
        _joined([piece.vectors for piece in pieces]),
    )


def _joined(arrays: Sequence[NDArray[Number]]) -> NDArray[Number]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
