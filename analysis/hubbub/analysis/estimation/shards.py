"""What a worker does with one stretch of a long list of candidates: score it, estimate it.

Every function here reads one stretch in pieces, takes all else it needs as an argument, and returns little: sums, and
the few candidates that stand out. Sums are of whole numbers (multiples of a power of two), so that they are the same
however a list is cut into files and stretches, and whoever adds up what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from hubbub.analysis.arrays import Array, Index
from hubbub.analysis.candidate_lists import Stretch, pieces
from hubbub.analysis.estimation.design import gathered, scattered
from hubbub.analysis.estimation.hashing import Positions, Words, canonical, digests_of_bytes, positions
from hubbub.analysis.estimation.string_screen import Alone, is_known
from hubbub.protocol.kinds import String

PIECE = 1 << 16
"""Candidates at a time: with 128 cohorts their positions are 8 MB."""
MOST_OTHERS = 10
"""Candidates that are shown though they were not detected: those with the largest estimates."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One stretch: the number of its first candidate in the whole list, and which of its candidates came before."""

    stretch: Stretch
    first: int
    repeats: Index


class Hashing(NamedTuple):
    """Where a text sets its bits, among all cells of all definitions."""

    shapes: tuple[String, ...]
    offset: Index
    num_cells: int

    def where(self, seeds: Words) -> Positions:
        found = [positions(shape, seeds) for shape in self.shapes]
        return found[0] if len(found) == 1 else np.concatenate(found)


@dataclass(frozen=True, slots=True)
class Survivors:
    """Candidates that stand out, in list order: their number in the whole list, digests, texts; and two columns."""

    numbers: Index
    seeds: Words
    texts: tuple[str, ...]
    values: Array
    errors: Array

    def __len__(self) -> int:
        return len(self.numbers)

    def only(self, chosen: Index) -> Survivors:
        texts = tuple(self.texts[i] for i in chosen.tolist())
        return Survivors(self.numbers[chosen], self.seeds[chosen], texts, self.values[chosen], self.errors[chosen])

    def best(self, most: int) -> Survivors:
        """Those with the largest values, in list order; of equal ones the first."""
        if len(self) <= most:
            return self
        return self.only(np.sort(np.argsort(-self.values, kind="stable")[:most]))

    @classmethod
    def joined(cls, parts: list[Survivors]) -> Survivors:
        if not parts:
            return cls(np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.uint64), (), np.zeros(0), np.zeros(0))
        return cls(
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.seeds for part in parts]),
            tuple(text for part in parts for text in part.texts),
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.errors for part in parts]),
        )


# --- a look -------------------------------------------------------------------------------------------------------


class LookAt(NamedTuple):
    shard: Shard
    hashing: Hashing
    scored: Array
    deviation: float
    least: float
    most: int
    taken: Index  # the numbers of those that are fitted already


def look(given: LookAt) -> Best:
    """The candidates that score above the least, in deviations; at most so many, the best ones."""
    best = Best(given.least, given.most)
    for piece in _hashed(given.shard, given.hashing):
        z = piece.gather(given.scored) / given.deviation
        z[piece.places(given.taken)] = -np.inf
        best.add(piece.survivors(np.flatnonzero(z > given.least), z, z))
    return best


class Best:
    """The survivors with the largest values, at most so many, in list order; whoever is not among them has a value of
    at most `floor`."""

    def __init__(self, floor: float, most: int) -> None:
        self.floor = floor
        self._most = most
        self._parts: list[Survivors] = []

    def add(self, some: Survivors, floor: float = -np.inf) -> None:
        """Survivors further down the list, and what those that are not among them have at most."""
        self.floor = max(self.floor, floor)
        self._parts.append(some)
        if sum(map(len, self._parts)) > 2 * self._most:
            self._parts = [self._cut()]

    def found(self) -> Survivors:
        self._parts = [self._cut()]
        return self._parts[0]

    def _cut(self) -> Survivors:
        whole = Survivors.joined(self._parts)
        if len(whole) <= self._most:
            return whole
        kept = whole.best(self._most)
        self.floor = max(self.floor, float(kept.values.min(initial=np.inf)))
        return kept


# --- what is left over ----------------------------------------------------------------------------------------------


class Judge(NamedTuple):
    shard: Shard
    hashing: Hashing
    alone: Alone
    largest_own: float
    taken: Index
    least_z: float  # from here on a candidate may be detected
    estimate_unit: float  # sums are of multiples of these
    variance_unit: float
    edges: Array  # of the histogram of estimates in their standard errors


@dataclass(frozen=True, slots=True)
class Unfitted:
    """The sums over the candidates that were not taken in, and those of them that get a row: detected or large."""

    known: int
    unknown: int
    estimates: int  # in `estimate_unit`s
    variances: Array  # for each cell, in `variance_unit`s
    histogram: Index
    high: Survivors
    large: Survivors

    def __add__(self, other: Unfitted) -> Unfitted:
        return Unfitted(
            self.known + other.known,
            self.unknown + other.unknown,
            self.estimates + other.estimates,
            self.variances + other.variances,
            self.histogram + other.histogram,
            Survivors.joined([self.high, other.high]),
            Survivors.joined([self.large, other.large]).best(MOST_OTHERS),
        )


def no_unfitted(num_cells: int, edges: Array) -> Unfitted:
    nobody = Survivors.joined([])
    return Unfitted(0, 0, 0, np.zeros(num_cells), np.zeros(len(edges) - 1, dtype=np.int64), nobody, nobody)


def judge(given: Judge) -> Unfitted:
    found = no_unfitted(given.hashing.num_cells, given.edges)
    for piece in _hashed(given.shard, given.hashing):
        found += _judge_piece(given, piece)
    return found


def _judge_piece(given: Judge, piece: Piece) -> Unfitted:
    others = np.ones(len(piece.numbers), dtype=bool)
    others[piece.places(given.taken)] = False
    _, norm = given.alone.norms(piece.gather)
    known = is_known(norm, given.largest_own) & others
    estimate, std_error = given.alone.estimates(piece.gather, norm, known)
    variance = np.where(known, 1 / np.where(known, norm, 1), 0)
    z = np.where(known, estimate / std_error, -np.inf)
    high = z > given.least_z
    return Unfitted(
        known=int(known.sum()),
        unknown=int((others & ~known).sum()),
        estimates=in_units(estimate[known], given.estimate_unit),
        variances=piece.scatter(np.rint(variance / given.variance_unit)),
        histogram=histogram(z[known], given.edges),
        high=piece.survivors(np.flatnonzero(high), estimate, std_error),
        large=piece.survivors(np.flatnonzero(known & ~high), estimate, std_error, MOST_OTHERS),
    )


def in_units(estimates: Array, unit: float) -> int:
    """The sum, each rounded to a multiple of the unit: whole numbers add up to the same in any order."""
    return int(np.sum(np.rint(estimates / unit)))


def histogram(z: Array, edges: Array) -> Index:
    return np.histogram(np.clip(z, edges[0], edges[-1]), edges)[0].astype(np.int64)


# --- pieces of a file, hashed -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Piece:
    numbers: Index
    lines: list[bytes]
    seeds: Words
    gather: Callable[[Array], Array]
    scatter: Callable[[Array], Array]

    def places(self, numbers: Index) -> Index:
        """Where the candidates with these numbers are, of those in this piece; none of them is a repeat."""
        low, high = np.searchsorted(numbers, [self.numbers[0], self.numbers[-1] + 1]) if len(self.numbers) else (0, 0)
        return np.searchsorted(self.numbers, numbers[low:high])

    def survivors(self, chosen: Index, values: Array, errors: Array, most: int | None = None) -> Survivors:
        if most is not None and len(chosen) > most:
            chosen = np.sort(chosen[np.argsort(-values[chosen], kind="stable")[:most]])
        texts = tuple(self.lines[i].decode() for i in chosen.tolist())
        return Survivors(self.numbers[chosen], self.seeds[chosen], texts, values[chosen], errors[chosen])


def hashed_pieces(stretch: Stretch) -> Iterator[tuple[list[bytes], Words]]:
    """The candidates of a stretch, piece by piece, with their digests."""
    for lines in pieces(stretch, PIECE):
        yield lines, digests_of_bytes([line if line.isascii() else canonical(line.decode()) for line in lines])


def _hashed(shard: Shard, hashing: Hashing) -> Iterator[Piece]:
    start = 0
    for lines, seeds in hashed_pieces(shard.stretch):
        rows = np.arange(start, start + len(lines))
        low, high = np.searchsorted(shard.repeats, [start, start + len(lines)])
        if low < high:
            rows = np.delete(rows, shard.repeats[low:high] - start)
            seeds = seeds[rows - start]
            lines = [lines[i] for i in (rows - start).tolist()]
        start = start + len(lines) + int(high - low)
        where = hashing.where(seeds)
        yield Piece(
            rows + shard.first,
            lines,
            seeds,
            partial(gathered, where, hashing.offset),
            partial(scattered, where, hashing.offset, hashing.num_cells),
        )
