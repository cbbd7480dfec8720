"""Where things lie in a message: worked out once for each block table, then looked up.

The installs of one release send the same table: the same metrics, epochs and counts. A `Layout` is what the table
means, and `Layouts` remembers it by the table's own bytes, so that of all the rules of `protocol.report.unpack` only
those about the reports themselves are left to be checked for each message. Whatever is not plainly right here goes
back to `unpack`, whose word is final: this module can make a batch cheap to accept, never acceptable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from hubbub.protocol.invalid import Invalid
from hubbub.protocol.metric import Definition
from hubbub.protocol.refusal import Refused
from hubbub.protocol.report import BATCH_ID_BYTES, Batch, Block, Report
from hubbub.protocol.vocabulary import Cadence
from hubbub.protocol.wire import BATCH_ID, BODY_LENGTH, CRC, ENTRY_BYTES, HEADER_BYTES, NUM_BLOCKS, crc_of

# What is kept of an accepted batch: its id, its crc (it tells bodies with one id apart), the day it may be forgotten.
ID_BYTES = BATCH_ID_BYTES
CRC_BYTES = CRC.stop - CRC.start
DAY_BYTES = 2
RECORD_BYTES = ID_BYTES + CRC_BYTES + DAY_BYTES
LOT_CADENCES: tuple[Cadence, ...] = ("day", "week", "month", "once")  # the fastest first
_LAST_DAY = 0xFFFF
_TABLES_REMEMBERED = 512
_LARGEST_REMEMBERED = 1 << 16
_SMALL = 4096


@dataclass(frozen=True, slots=True)
class Column:
    """The reports of one block: where their cohorts and vectors begin. `level` is set where it fixes the width."""

    metric: Definition
    epoch: int
    count: int
    cohorts_at: int
    vectors_at: int
    end: int
    level: int | None

    @property
    def regular(self) -> bool:
        """Whether the table alone says where each vector lies. Trees of several reports are not: levels differ."""
        return self.metric.shape.equal_widths or self.level is not None

    @property
    def question(self) -> str:
        """The hash of what is asked, whatever an install runs on."""
        return self.metric.undivided.metric_hash


Form = tuple[tuple[str, int, int, int, int, int | None], ...]
"""The questions of a table and where their reports lie: the same in all segments."""


@dataclass(frozen=True, eq=False)
class Layout:
    """What a block table means. `closes` is the first day on which its batches are too old."""

    columns: tuple[Column, ...]
    length: int
    closes: int
    unpaired: bool = False  # has both metrics of a pair and several reports of them, which are not counted together

    def fits(self, message: bytes) -> bool:
        """Whether a message with this table is a good one: its length, its crc, and every report possible."""
        return (
            len(message) == self.length
            and message[BODY_LENGTH] == self._length_bytes
            and message[CRC] == crc_of(message).to_bytes(CRC_BYTES, "little")
            and self._possible(message)
        )

    @cached_property
    def num_reports(self) -> int:
        return sum(column.count for column in self.columns)

    @cached_property
    def one_each(self) -> bool:
        return self.num_reports == len(self.columns)

    @property
    def regular(self) -> bool:
        return all(column.regular for column in self.columns)

    @cached_property
    def form(self) -> Form:
        """What it has in common with the layouts of other segments."""
        return tuple((c.question, c.epoch, c.cohorts_at, c.vectors_at, c.end, c.level) for c in self.columns)

    @cached_property
    def closes_bytes(self) -> bytes:
        return day_bytes(self.closes)

    @cached_property
    def lot(self) -> int:
        """Which batches have their ids kept together: 4 x the oldest epoch of the fastest metric, plus its cadence.

        It follows from the bytes of a message alone. Were it to depend on a clock or on a setting, one id could come to
        lie in two places, and its batch be counted twice.
        """
        fastest = min(LOT_CADENCES.index(column.metric.every) for column in self.columns)
        every = LOT_CADENCES[fastest]
        return 4 * min(column.epoch for column in self.columns if column.metric.every == every) + fastest

    @cached_property
    def _length_bytes(self) -> bytes:
        return (self.length - HEADER_BYTES).to_bytes(4, "little")

    @cached_property
    def _possible(self) -> Callable[[bytes], bool]:
        """Made only for a table that comes a second time, and once for all segments: what is at hand in the processor's
        cache is looked up faster."""
        if len(_checkers) >= _TABLES_REMEMBERED:
            _checkers.clear()
        found = _checkers.get(self.form)
        if found is None:
            found = _checkers[self.form] = _checker(self.columns, self.length)
        return found


def day_bytes(day: int) -> bytes:
    """The day from which a record may go, as a record ends with it."""
    return min(day, _LAST_DAY).to_bytes(DAY_BYTES, "little")


class Layouts:
    """The layouts of tables seen lately. A table with a tree metric branches on the level of its report."""

    def __init__(self) -> None:
        self._known: dict[bytes, Layout | _Branch] = {}

    def find(self, message: bytes) -> Layout | None:
        found = self._known.get(_table(message))
        while type(found) is _Branch:
            if found.at >= len(message):
                return None
            found = found.to.get(message[found.at])
        return found  # type: ignore[return-value]  # a Branch has been followed to its end

    def remember(self, message: bytes, layout: Layout) -> None:
        if not layout.regular or layout.length > _LARGEST_REMEMBERED:
            return
        if len(self._known) >= _TABLES_REMEMBERED:
            self._known.clear()  # someone sends many tables; the common ones are back at once
        trees = [column.cohorts_at for column in layout.columns if column.level is not None]
        if not trees:
            self._known[_table(message)] = layout
            return
        branch = self._known.setdefault(_table(message), _Branch(trees[0]))
        for at, following in pairwise(trees):
            assert isinstance(branch, _Branch)
            branch = branch.to.setdefault(message[at], _Branch(following))
        assert isinstance(branch, _Branch)
        branch.to[message[trees[-1]]] = layout

    def forget(self) -> None:
        self._known.clear()


class _Branch:
    __slots__ = ("at", "to")

    def __init__(self, at: int) -> None:
        self.at = at
        self.to: dict[int, Layout | _Branch] = {}


def _table(message: bytes) -> bytes:
    blocks = int.from_bytes(message[NUM_BLOCKS], "little") if len(message) >= HEADER_BYTES else 0
    return message[: BATCH_ID.start] + message[HEADER_BYTES : HEADER_BYTES + ENTRY_BYTES * blocks]


def layout_of(batch: Batch, closes: int, unpaired: bool = False) -> Layout:
    """The layout of a message, from the batch that `unpack` read in it."""
    at = HEADER_BYTES + ENTRY_BYTES * len(batch.blocks)
    columns = []
    for block in batch.blocks:
        vectors_at = at + len(block.cohorts)
        end = vectors_at + len(block.vectors)
        level = block.cohorts[0] if not block.metric.shape.equal_widths and block.count == 1 else None
        columns.append(Column(block.metric, block.epoch, block.count, at, vectors_at, end, level))
        at = end
    return Layout(tuple(columns), at, closes, unpaired)


# --- whether a metric can have made these reports -----------------------------------------------------------------


def check_block(block: Block) -> None:
    """What `protocol.report.check_block` says, in the same words, at the speed of numpy."""
    number = _first_impossible(block)
    if number is None:
        return
    cohort, bits = next(report for i, report in enumerate(block) if i == number)
    try:
        Report(block.metric, block.epoch, cohort, bits)
    except Invalid as error:
        detail = f"report {number} of metric {block.metric.name}: {error.problems[0]}"
        raise Refused("report-impossible", detail) from None
    raise AssertionError(f"report {number} of {block.metric.name} is possible after all")


def _first_impossible(block: Block) -> int | None:
    metric = block.metric
    cohorts = np.frombuffer(block.cohorts, f"<u{metric.cohort_bytes}")
    vectors = np.frombuffer(block.vectors, np.uint8)
    if not metric.shape.equal_widths:  # `unpack` has checked the levels: it had to know the widths
        sizes = np.array([metric.vector_bytes(level) for level in range(metric.shape.num_cohorts)])
        ends = np.cumsum(sizes[cohorts])
        tops = np.array([_unused(metric, level) for level in range(metric.shape.num_cohorts)], np.uint8)
        bad = (vectors[ends - 1] & tops[cohorts]) != 0
    else:
        rows = vectors.reshape(-1, metric.vector_bytes(0))
        bad = (rows[:, -1] & np.uint8(_unused(metric, 0))) != 0
        bad |= cohorts >= metric.shape.num_cohorts
        if metric.weight is not None:
            bad |= np.bitwise_count(rows).sum(axis=1) != metric.weight
    return int(bad.argmax()) if bad.any() else None


def _unused(metric: Definition, level: int) -> int:
    """The bits of a vector's last byte that lie beyond its width."""
    used = (metric.shape.width(level) - 1) % 8 + 1
    return 0xFF & ~((1 << used) - 1)


Check = Callable[[bytes], bool]
_checkers: dict[Form, Check] = {}
"""By what a message asks and where it lies."""


def _checker(columns: tuple[Column, ...], length: int) -> Check:
    """A function that says whether all reports of a message are possible, given that it has these columns."""
    if not all(column.regular for column in columns):
        return lambda message: False  # only `unpack` can say
    if length <= _SMALL:
        return _all_of([_no_forbidden_bits(columns, length), *_small_checks(columns)])
    return _all_of([check for column in columns for check in _bulk_checks(column)])


def _all_of(checks: list[Check]) -> Check:
    if len(checks) == 1:
        return checks[0]

    def check_all(message: bytes) -> bool:
        for check in checks:  # noqa: SIM110  # a generator would cost more than the checks
            if not check(message):
                return False
        return True

    return check_all


def _no_forbidden_bits(columns: tuple[Column, ...], length: int) -> Check:
    """All unused bits, and all cohorts of which only some bits may be set, in one operation on the whole message."""
    start = columns[0].cohorts_at
    forbidden = bytearray(length - start)
    for column in columns:
        size = column.metric.vector_bytes(column.level or 0)
        last_bytes = slice(column.vectors_at - start + size - 1, column.end - start, size)
        forbidden[last_bytes] = bytes([_unused(column.metric, column.level or 0)]) * column.count
        if _is_power_of_two(column.metric.shape.num_cohorts):
            cohorts = column.metric.cohort_bytes
            outside = (~(column.metric.shape.num_cohorts - 1) & (256**cohorts - 1)).to_bytes(cohorts, "little")
            forbidden[column.cohorts_at - start : column.vectors_at - start] = outside * column.count
    mask = int.from_bytes(forbidden, "little")
    return lambda message: not int.from_bytes(message[start:], "little") & mask


def _small_checks(columns: tuple[Column, ...]) -> Iterator[Check]:
    """What a mask cannot say."""
    for column in columns:
        if column.level is None and not _is_power_of_two(column.metric.shape.num_cohorts):
            yield _cohorts_below(column)
        if column.metric.weight is not None:
            yield _weighs(column, column.metric.weight)


def _bulk_checks(column: Column) -> Iterator[Check]:
    if column.level is None:
        yield _cohorts_below(column)
    unused = _unused(column.metric, column.level or 0)
    size = column.metric.vector_bytes(column.level or 0)
    if column.metric.weight is not None:
        yield _weighs(column, column.metric.weight)
    if unused:
        yield _only(slice(column.vectors_at + size - 1, column.end, size), {b for b in range(256) if not b & unused})


def _cohorts_below(column: Column) -> Check:
    limit, at, count = column.metric.shape.num_cohorts, column.cohorts_at, column.count
    if limit <= 256:
        return _only(slice(at, column.vectors_at), set(range(limit)))
    if limit % 256 == 0:  # then only the upper bytes matter
        return _only(slice(at + 1, column.vectors_at, 2), set(range(limit // 256)))
    return lambda message: int(np.frombuffer(message, "<u2", count, at).max()) < limit


def _weighs(column: Column, weight: int) -> Check:
    """Whether every report has so many bits set: one category, or a subset of so many."""
    at, end, count = column.vectors_at, column.end, column.count
    if end - at == count:
        return _only(slice(at, end), {byte for byte in range(256) if byte.bit_count() == weight})

    def check(message: bytes) -> bool:
        rows = np.frombuffer(message, np.uint8, end - at, at).reshape(count, -1)
        return bool((np.bitwise_count(rows).sum(axis=1) == weight).all())

    return check


def _only(where: slice, allowed: set[int]) -> Check:
    """Whether bytes at these places are all among those allowed: nothing is left when the allowed are taken out."""
    out = bytes(sorted(allowed))
    return lambda message: not message[where].translate(None, out)


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0
