"""Counters as the text of GET /v1/tallies and /v1/pairs, in pieces of about a millisecond's work each, and a memory of
pieces.

The tallies are written as `hubbub.protocol.tally_files.tallies_to_json` does, byte for byte; numbers are
written by numpy, which takes a fifth of the time. Nothing here waits or knows of HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hubbub.collector.storage.counting import Cells, Integers, MetricEpoch
from hubbub.collector.storage.pair_counting import tables_at
from hubbub.protocol.metric import Definition
from hubbub.protocol.pair import Counted, Pair, PairTally
from hubbub.protocol.pair_shape import PairShape
from hubbub.protocol.tally import Tally
from hubbub.protocol.tally_files import Withheld

Sort = Literal["tallies", "pairs"]
"""What an answer holds, and the key under which it does."""

_NUMBERS_AT_ONCE = 1 << 14
_BETWEEN_NUMBERS, _BETWEEN_ROWS = b", ", b"], ["
_NO_EPOCHS = "\n]}\n"  # how the text of a tally without epochs ends


class EncodedEpochs:
    """Texts of epochs that were asked for lately, in at most so many bytes. A text is good while its counters are.

    Epochs that are over do not change, so theirs are made once; of an epoch that still grows only the newest is kept.
    """

    def __init__(self, max_bytes: int = 32 << 20) -> None:
        self._max_bytes = max_bytes
        self._texts: dict[MetricEpoch, tuple[Cells, bytes]] = {}  # the one that was not asked for longest comes first
        self.num_bytes = 0

    def get(self, key: MetricEpoch, cells: Cells) -> bytes | None:
        kept = self._texts.pop(key, None)
        if kept is None:
            return None
        if kept[0] is not cells:
            self.num_bytes -= len(kept[1])
            return None
        self._texts[key] = kept
        return kept[1]

    def keep(self, key: MetricEpoch, cells: Cells, text: bytes) -> None:
        if len(text) > self._max_bytes // 8:  # it would drive out too much else
            return
        _, before = self._texts.pop(key, (cells, b""))  # two may have made it at once
        self._texts[key] = cells, text
        self.num_bytes += len(text) - len(before)
        while self.num_bytes > self._max_bytes:
            _, oldest = self._texts.pop(next(iter(self._texts)))
            self.num_bytes -= len(oldest)


def pieces(
    cells: Mapping[MetricEpoch, Cells],
    encoded: EncodedEpochs,
    withheld: Iterable[Withheld] = (),
    key: Sort = "tallies",
) -> Iterator[bytes]:
    """The answer with all these counters: one tally for each definition, by name, its epochs ascending."""
    metrics = {metric_hash: counted.metric for (metric_hash, _), counted in cells.items()}
    epochs: dict[str, list[int]] = {}
    for metric_hash, epoch in sorted(cells):
        epochs.setdefault(metric_hash, []).append(epoch)
    between = f'{{"{key}": ['.encode()
    for metric_hash, metric in sorted(metrics.items(), key=lambda item: (item[1].name, item[0])):
        yield between + _head(metric)
        for number, epoch in enumerate(epochs[metric_hash]):
            before = b",\n  " if number else b""
            for piece in _epoch((metric_hash, epoch), cells[metric_hash, epoch], encoded):
                yield before + piece
                before = b""
        yield _NO_EPOCHS.rstrip("\n").encode()
        between = b",\n"
    yield (b"" if metrics else between) + b"]"
    yield b', "withheld": ' + json.dumps([item._asdict() for item in withheld]).encode() + b"}\n"


def _head(metric: Counted) -> bytes:
    empty = Tally(metric, {}) if isinstance(metric, Definition) else PairTally(metric, {})
    return empty.to_json().removesuffix(_NO_EPOCHS).encode()


def _epoch(key: MetricEpoch, cells: Cells, encoded: EncodedEpochs) -> Iterator[bytes]:
    text = encoded.get(key, cells)
    if text is not None:
        yield text
        return
    made: list[bytes] = []
    encode = _encode_pair if isinstance(cells.metric, Pair) else _encode
    for piece in encode(key[1], cells):
        made.append(piece)
        yield piece
    encoded.keep(key, cells, b"".join(made))


def _encode(epoch: int, cells: Cells) -> Iterator[bytes]:
    shape = cells.metric.shape
    widths = np.array([shape.width(cohort) for cohort in range(shape.num_cohorts)])
    row_ends = np.cumsum(widths) - 1
    reports = b"".join(_numbers(cells.num_reports, np.array([], np.int64)))[: -len(_BETWEEN_NUMBERS)]
    yield b'{"epoch": %d, "num_reports": [%b], "bit_counts": [[' % (epoch, reports)
    held = b""
    for piece in _numbers(cells.bit_counts, row_ends):
        yield held
        held = piece
    yield held.removesuffix(_BETWEEN_ROWS) + b"]]}"


def _encode_pair(epoch: int, cells: Cells) -> Iterator[bytes]:
    shape = cells.metric.shape
    assert isinstance(shape, PairShape)
    first, second, both = zip(*(tables_at(cells, shape, place) for place in range(shape.num_cohorts)), strict=True)
    yield f'{{"epoch": {epoch}, "num_batches": {cells.num_reports.tolist()}'.encode()
    for key, tables in (("first", first), ("second", second), ("both", both)):
        yield f', "{key}": ['.encode()
        yield from _tables(tables)
        yield b"]"
    yield b"}"


def _tables(tables: Iterable[Integers]) -> Iterator[bytes]:
    """Rows of numbers, or tables of rows, with what comes between them; few enough at once."""
    texts: list[str] = []
    size = 0
    between = ""
    for table in tables:
        for part in _parts(table):
            texts.append(between + part)
            size += len(part)
            between = ""
            if size > _NUMBERS_AT_ONCE:
                yield "".join(texts).encode()
                texts, size = [], 0
        between = ", "
    yield "".join(texts).encode()


def _parts(table: Integers) -> Iterator[str]:
    if table.ndim == 1:
        yield str(table.tolist())
        return
    for number, row in enumerate(table):
        yield f"{', ' if number else '['}{row.tolist()}"
    yield "]"


def _numbers(counts: Integers, row_ends: NDArray[np.int64]) -> Iterator[bytes]:
    """Numbers in decimal, each with what comes after it."""
    for start in range(0, len(counts), _NUMBERS_AT_ONCE):
        part = counts[start : start + _NUMBERS_AT_ONCE]
        ends = row_ends[(row_ends >= start) & (row_ends < start + len(part))] - start
        yield _decimal(part, ends)


def _decimal(numbers: Integers, row_ends: NDArray[np.int64]) -> bytes:
    """A table of characters, one row for each number, of which those are taken that are wanted."""
    digits = len(str(int(numbers.max())))
    between = slice(digits, digits + len(_BETWEEN_ROWS))
    characters = np.empty((len(numbers), between.stop), np.uint8)
    wanted = np.zeros(characters.shape, bool)
    rest = numbers.astype(np.uint32) if digits < 10 else numbers
    for place in range(digits - 1, -1, -1):
        # A digit is written if anything is left of the number there, and the last one always: 0 is a number too.
        wanted[:, place] = True if place == digits - 1 else rest != 0
        tenth = rest // 10
        characters[:, place] = rest - tenth * 10 + ord("0")
        rest = tenth
    characters[:, between] = np.frombuffer(_BETWEEN_NUMBERS.ljust(len(_BETWEEN_ROWS)), np.uint8)
    wanted[:, digits : digits + len(_BETWEEN_NUMBERS)] = True
    characters[row_ends, between] = np.frombuffer(_BETWEEN_ROWS, np.uint8)
    wanted[row_ends, between] = True
    return characters[wanted].tobytes()
