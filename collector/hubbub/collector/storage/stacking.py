"""Messages become columns: all reports of one metric and epoch together, whatever batches they came in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from hubbub.collector.message_layout import Column, Layout
from hubbub.collector.storage.counting import Bytes, Cells

Stack = tuple[Layout, Bytes]
"""Messages of one layout, a row for each."""


def stacks(messages: Mapping[Layout, Sequence[bytes]]) -> list[Stack]:
    return [
        (layout, np.frombuffer(b"".join(alike), np.uint8).reshape(len(alike), layout.length))
        for layout, alike in messages.items()
    ]


def stacked(messages: Iterable[Stack]) -> Iterator[tuple[Column, Bytes, Bytes]]:
    """Cohorts and vectors by metric, epoch and level, which the column has; its places mean nothing."""
    parts: dict[tuple[str, int, int | None], tuple[Column, list[tuple[Bytes, Bytes]]]] = {}
    for layout, stack in messages:
        for column in layout.columns:
            cohorts = stack[:, column.cohorts_at : column.vectors_at].reshape(-1)
            vectors = stack[:, column.vectors_at : column.end].reshape(-1)
            key = (column.metric.metric_hash, column.epoch, column.level)
            parts.setdefault(key, (column, []))[1].append((cohorts, vectors))
    for column, pieces in parts.values():
        cohorts, vectors = (_joined(arrays) for arrays in zip(*pieces, strict=True))
        yield column, cohorts, vectors


def add_to(cells: Cells, level: int | None, cohorts: Bytes, vectors: Bytes) -> None:
    """Count the reports of a column."""
    if level is None:
        cells.add(cohorts, vectors)
    else:
        cells.add_level(level, vectors)


def _joined(arrays: Sequence[Bytes]) -> Bytes:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
