"""What a worker does with one file of a long list of candidates: count it, find repeats, score it, estimate it.

Every function here reads one file in pieces, takes all else it needs as an argument, and returns little: sums, and the
few candidates that stand out. Sums are of whole numbers (multiples of a power of two), so that they are the same
however a list is cut into files, and whoever adds up what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from hubbub.analysis.arrays import Array, Index
from hubbub.analysis.candidate_lists import pieces
from hubbub.analysis.estimation.design import gathered, scattered
from hubbub.analysis.estimation.hashing import Positions, Words, digests, positions
from hubbub.analysis.estimation.string_screen import Alone, is_known
from hubbub.protocol.kinds import String

PIECE = 1 << 16
"""Candidates at a time: with 128 cohorts their positions are 8 MB."""
MOST_OTHERS = 10
"""Candidates that are shown though they were not detected: those with the largest estimates."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One file: the number of its first candidate in the whole list, and which of its candidates came before."""

    path: str
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


# --- before anything is estimated ---------------------------------------------------------------------------------


def count(path: str) -> int:
    return sum(len(some) for some in pieces(path, PIECE))


class Part(NamedTuple):
    """Of a file, the candidates whose digests fall into part `part` of `parts`."""

    path: str
    part: int
    parts: int


def keys(wanted: Part) -> tuple[Words, Index]:
    """The digests' first halves, and which candidates of the file they are."""
    found, rows, start = [np.zeros(0, dtype=np.uint64)], [np.zeros(0, dtype=np.int64)], 0
    for some in pieces(wanted.path, PIECE):
        first_half = digests(some)[:, 0]
        here = np.flatnonzero(first_half % np.uint64(wanted.parts) == np.uint64(wanted.part))
        found.append(first_half[here])
        rows.append(here + start)
        start += len(some)
    return np.concatenate(found), np.concatenate(rows)


# --- a look -------------------------------------------------------------------------------------------------------


class LookAt(NamedTuple):
    shard: Shard
    hashing: Hashing
    scored: Array
    deviation: float
    threshold: float
    most: int
    taken: Index  # the numbers of those that are fitted already


def look(given: LookAt) -> Survivors:
    """The candidates that score above the threshold, at most so many, by their scores."""
    best = Survivors.joined([])
    for piece in _hashed(given.shard, given.hashing):
        z = piece.gather(given.scored) / given.deviation
        z[np.isin(piece.numbers, given.taken)] = -np.inf
        above = piece.survivors(np.flatnonzero(z > given.threshold), z, z)
        best = Survivors.joined([best, above]).best(given.most)
    return best


# --- the verdict --------------------------------------------------------------------------------------------------


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
class Verdict:
    """The sums over the candidates that were not taken in, and those of them that get a row: detected or large."""

    known: int
    unknown: int
    estimates: int  # in `estimate_unit`s
    variances: Array  # for each cell, in `variance_unit`s
    histogram: Index
    high: Survivors
    large: Survivors

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(
            self.known + other.known,
            self.unknown + other.unknown,
            self.estimates + other.estimates,
            self.variances + other.variances,
            self.histogram + other.histogram,
            Survivors.joined([self.high, other.high]),
            Survivors.joined([self.large, other.large]).best(MOST_OTHERS),
        )


def no_verdict(num_cells: int, edges: Array) -> Verdict:
    nobody = Survivors.joined([])
    return Verdict(0, 0, 0, np.zeros(num_cells), np.zeros(len(edges) - 1, dtype=np.int64), nobody, nobody)


def judge(given: Judge) -> Verdict:
    found = no_verdict(given.hashing.num_cells, given.edges)
    for piece in _hashed(given.shard, given.hashing):
        found += _judge_piece(given, piece)
    return found


def _judge_piece(given: Judge, piece: Piece) -> Verdict:
    others = ~np.isin(piece.numbers, given.taken)
    _, norm = given.alone.norms(piece.gather)
    known = is_known(norm, given.largest_own) & others
    estimate, std_error = given.alone.estimates(piece.gather, norm, known)
    variance = np.where(known, 1 / np.where(known, norm, 1), 0)
    z = np.where(known, estimate / std_error, -np.inf)
    high = z > given.least_z
    return Verdict(
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
    texts: list[str]
    seeds: Words
    gather: Callable[[Array], Array]
    scatter: Callable[[Array], Array]

    def survivors(self, chosen: Index, values: Array, errors: Array, most: int | None = None) -> Survivors:
        if most is not None and len(chosen) > most:
            chosen = np.sort(chosen[np.argsort(-values[chosen], kind="stable")[:most]])
        texts = tuple(self.texts[i] for i in chosen.tolist())
        return Survivors(self.numbers[chosen], self.seeds[chosen], texts, values[chosen], errors[chosen])


def _hashed(shard: Shard, hashing: Hashing) -> Iterator[Piece]:
    start = 0
    for texts in pieces(shard.path, PIECE):
        rows = np.arange(start, start + len(texts))
        start += len(texts)
        low, high = np.searchsorted(shard.repeats, [rows[0], start])
        if low < high:
            rows = np.delete(rows, shard.repeats[low:high] - rows[0])
            texts = [texts[i] for i in (rows - (start - len(texts))).tolist()]
        seeds = digests(texts)
        where = hashing.where(seeds)
        yield Piece(
            rows + shard.first,
            texts,
            seeds,
            partial(gathered, where, hashing.offset),
            partial(scattered, where, hashing.offset, hashing.num_cells),
        )
