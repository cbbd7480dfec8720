"""How many candidates a list in files has, and which of them stand in it more than once: each is to count once.

Candidates are compared by 64 bits of their digests: among 10^8 different ones two are taken for one with a chance of 1
in 3000, and then one of them is not looked for. To hold 64 bits of each would take a gigabyte. So one pass collects 32
bits of each, and sorts them; a second pass asks for all 64, and where they stand, of those few that share their 32 bits
with another.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from hubbub.analysis.arrays import Index, Mask
from hubbub.analysis.candidate_lists import Stretch, most_candidates, stretches
from hubbub.analysis.engines.engine import Engine
from hubbub.analysis.estimation.hashing import Words
from hubbub.analysis.estimation.shards import Shard, hashed_pieces
from hubbub.analysis.progress import NamedProgress
from hubbub.protocol.invalid import Invalid

T = TypeVar("T")
R = TypeVar("R")
Fingerprints = npt.NDArray[np.uint32]

_PART = 1 << 27  # fingerprints sorted at a time: 512 MB
_SUSPECTS = 1 << 22  # fingerprints asked for at a time: their digests and places are some 130 MB
_MOST_REPEATS = 10_000_000
_TABLE_BITS = 24  # of a fingerprint, by which nearly all that are not asked for are passed over


@dataclass(frozen=True, slots=True)
class Lists:
    """All stretches of a long list, counted; `repeats` candidates stand in it more than once."""

    shards: tuple[Shard, ...]
    num_candidates: int
    repeats: int


class Spreading:
    """An engine, and somebody who is told how far each pass over the files has come."""

    def __init__(self, engine: Engine, progress: NamedProgress) -> None:
        self._engine = engine
        self._progress = progress
        self._passes = 0

    def map(self, function: Callable[[T], R], items: Sequence[T], what: str) -> Iterator[R]:
        self._passes += 1
        for done, found in enumerate(self._engine.map(function, items), 1):
            self._progress(done / len(items), f"pass {self._passes}: {what}")
            yield found


def counted(paths: Sequence[str], spreading: Spreading) -> Lists:
    """How many candidates each stretch of these files has, and which of them stand further up in the list."""
    all_stretches = [*chain.from_iterable(map(stretches, paths))]
    most = sum(spreading.map(most_candidates, all_stretches, "counting"))
    parts = max(1, -(-most // _PART))
    sizes: list[int] = []
    repeated: list[list[Index]] = [[] for _ in all_stretches]
    for part in range(parts):
        wanted = [Part(stretch, part, parts) for stretch in all_stretches]
        collected = array("I")
        sizes = []
        for size, found in spreading.map(fingerprints, wanted, "finding repeats"):
            sizes.append(size)
            collected.frombytes(found.tobytes())
        suspects = _shared(np.frombuffer(collected, dtype=np.uint32))
        del collected
        for start in range(0, len(suspects), _SUSPECTS):
            some = suspects[start : start + _SUSPECTS]
            _note_repeats(repeated, [Suspects(each, some) for each in wanted], spreading)
    firsts = np.cumsum([0, *sizes]).tolist()
    shards = tuple(
        Shard(stretch, first, np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *rows])))
        for stretch, first, rows in zip(all_stretches, firsts, repeated, strict=False)
    )
    repeats = sum(len(shard.repeats) for shard in shards)
    return Lists(shards, firsts[-1] - repeats, repeats)


def _shared(sorted_here: Fingerprints) -> Fingerprints:
    """The fingerprints that more than one candidate has."""
    sorted_here.sort()
    found = sorted_here[1:][sorted_here[1:] == sorted_here[:-1]]
    if len(found) > 2 * _MOST_REPEATS:  # of 2^27 different candidates two million share theirs with one before
        raise _too_many()
    return np.unique(found)


def _note_repeats(repeated: list[list[Index]], suspects: Sequence[Suspects], spreading: Spreading) -> None:
    found = [*spreading.map(located, suspects, "telling repeats apart")]
    again = _seen_before(np.concatenate([words for words, _ in found]))
    start = 0
    for noted, (words, rows) in zip(repeated, found, strict=True):
        noted.append(rows[again[start : start + len(words)]])
        start += len(words)
    if sum(len(rows) for noted in repeated for rows in noted) > _MOST_REPEATS:
        raise _too_many()


def _too_many() -> Invalid:
    return Invalid([f"candidates: at most {_MOST_REPEATS:,} repeats, got more; sort -u leaves each but once"])


def _seen_before(words: Words) -> Mask:
    again = np.zeros(len(words), dtype=bool)
    order = np.argsort(words, kind="stable")
    same = words[order[1:]] == words[order[:-1]]
    again[order[1:][same]] = True
    return again


# --- what a worker does -------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """Of a stretch, the candidates whose digests fall into part `part` of `parts`."""

    stretch: Stretch
    part: int
    parts: int

    def pieces(self) -> Iterator[tuple[int, Words, Index]]:
        """Piece by piece: how many candidates it has, the first halves of the wanted ones' digests, and which of the
        stretch they are."""
        start = 0
        for _, seeds in hashed_pieces(self.stretch):
            here = np.flatnonzero(seeds[:, 0] % np.uint64(self.parts) == np.uint64(self.part))
            yield len(seeds), seeds[here, 0], here + start
            start += len(seeds)


def fingerprints(wanted: Part) -> tuple[int, Fingerprints]:
    """How many candidates the stretch has in all, and 32 bits of each in the part."""
    size, found = 0, [np.zeros(0, dtype=np.uint32)]
    for number, keys, _ in wanted.pieces():
        size += number
        found.append(_fingerprint(keys))
    return size, np.concatenate(found)


class Suspects(NamedTuple):
    part: Part
    fingerprints: Fingerprints  # in ascending order


def located(wanted: Suspects) -> tuple[Words, Index]:
    """The digests' first halves of the candidates with one of these fingerprints, and which of the stretch they are."""
    found, rows = [np.zeros(0, dtype=np.uint64)], [np.zeros(0, dtype=np.int64)]
    shift, last = np.uint32(32 - _TABLE_BITS), len(wanted.fingerprints) - 1
    perhaps = np.zeros(1 << _TABLE_BITS, dtype=bool)
    perhaps[wanted.fingerprints >> shift] = True
    for _, keys, rows_here in wanted.part.pieces():
        marks = _fingerprint(keys)
        near = np.flatnonzero(perhaps[marks >> shift])
        next_one = np.minimum(np.searchsorted(wanted.fingerprints, marks[near]), last)
        here = near[wanted.fingerprints[next_one] == marks[near]]
        found.append(keys[here])
        rows.append(rows_here[here])
    return np.concatenate(found), np.concatenate(rows)


def _fingerprint(keys: Words) -> Fingerprints:
    return (keys >> np.uint64(32)).astype(np.uint32)
