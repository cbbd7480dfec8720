"""Texts that grow from nothing: all continuations of some beginnings, where each sets its bit, and which stand out.

A level of a metric asks its own installs for the first so many bytes of their text. A search keeps the beginnings that
stand out at one level, continues each in every way the alphabet allows, and scores these at the next. Nothing is tested
in the search, and nothing here is random: equal scores are taken in the order of the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from hubbub.analysis.arrays import Array, Index, Mask
from hubbub.analysis.estimation.hashing import Positions, Words, mix
from hubbub.protocol.kinds import Discovery
from hubbub.protocol.prefixes import END, GOLD, HOST, PRINTABLE, STEP

_CHUNK = 16_384
Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Beginnings:
    """Texts as far as they are known: their first `length` bytes, whether they are known to end there, the state of
    their hash, and where within a character of UTF-8 they stop (0: behind a whole one)."""

    symbols: Bytes
    length: Index
    ended: Mask
    states: Words
    within: Places

    def __len__(self) -> int:
        return len(self.states)

    def only(self, chosen: Index | Mask) -> Beginnings:
        return Beginnings(
            self.symbols[chosen], self.length[chosen], self.ended[chosen], self.states[chosen], self.within[chosen]
        )

    def raw(self, row: int) -> bytes:
        return self.symbols[row, : self.length[row]].tobytes()

    def text(self, row: int) -> str:
        """A beginning may stop within a character, which is then left out."""
        return self.raw(row).decode("utf-8", errors="ignore")

    @classmethod
    def nothing(cls, longest: int) -> Beginnings:
        """The beginning of every text."""
        return cls(
            np.zeros((1, longest), dtype=np.uint8),
            np.zeros(1, dtype=np.int64),
            np.zeros(1, dtype=bool),
            np.zeros(1, dtype=np.uint64),
            np.zeros(1, dtype=np.int8),
        )

    @classmethod
    def asked(cls, shape: Discovery, texts: Sequence[bytes], level: int) -> Beginnings:
        """What a level is asked of each of these texts."""
        reach, table = shape.reach(level), transitions(shape.alphabet)
        length = np.array([len(text) for text in texts], dtype=np.int64)
        ended = (length < reach) | ((length == reach) & (reach == shape.max_length))
        length = np.minimum(length, reach)
        symbols = np.zeros((len(texts), shape.max_length), dtype=np.uint8)
        for row, text in enumerate(texts):
            symbols[row, : length[row]] = np.frombuffer(text[:reach], dtype=np.uint8)
        states, within = np.zeros(len(texts), dtype=np.uint64), np.zeros(len(texts), dtype=np.int8)
        for place in range(reach):
            rows = np.flatnonzero(length > place)
            byte = symbols[rows, place]
            states[rows] = _next(states[rows], byte.astype(np.uint64))
            within[rows] = table[within[rows], byte]
        states[ended] = _next(states[ended], np.uint64(END))
        return cls(symbols, length, ended, states, within)

    @classmethod
    def joined(cls, one: Beginnings, other: Beginnings) -> Beginnings:
        """Those of both, each once: the ones in `other` that are new behind all others."""
        _, first = np.unique(other.states, return_index=True)
        new = other.only(np.sort(first))
        new = new.only(~np.isin(new.states, one.states))
        fields = ("symbols", "length", "ended", "states", "within")
        return cls(*(np.concatenate([getattr(one, name), getattr(new, name)]) for name in fields))


@cache
def transitions(alphabet: str) -> Places:
    """Where within a character a text is after each byte, from where it was; -1 where no text goes on like this.

    Of UTF-8 only what a text can hold (RFC 3629, no control characters): 0 is behind a whole character; 1, 2 and 3 lack
    so many bytes of any sort; 4 to 8 follow E0, ED, F0, F4 and C2, whose next byte has limits of its own.
    """
    if alphabet != "bytes":
        table = np.full((1, 256), -1, dtype=np.int8)
        table[0, np.frombuffer(HOST if alphabet == "host" else PRINTABLE, dtype=np.uint8)] = 0
        return table
    table = np.full((9, 256), -1, dtype=np.int8)
    table[0, 0x20:0x7F] = 0
    table[0, 0xC3:0xE0], table[0, 0xE1:0xF0], table[0, 0xF1:0xF4] = 1, 2, 3
    table[0, [0xE0, 0xED, 0xF0, 0xF4, 0xC2]] = 4, 5, 6, 7, 8
    table[1, 0x80:0xC0], table[2, 0x80:0xC0], table[3, 0x80:0xC0] = 0, 1, 2
    table[4, 0xA0:0xC0], table[5, 0x80:0xA0] = 1, 1
    table[6, 0x90:0xC0], table[7, 0x80:0x90] = 2, 2
    table[8, 0xA0:0xC0] = 0
    return table


@dataclass(frozen=True, slots=True)
class Continuations:
    """Beginnings that go on: which one each continues, by which bytes, and what is known of it then. The texts
    themselves are put together for the few that survive."""

    of: Beginnings
    parent: Index
    added: Bytes  # a row for each of the bytes that may be added
    grown: Places  # how many of them were
    ended: Mask
    states: Words
    within: Places

    def __len__(self) -> int:
        return len(self.states)

    def only(self, chosen: Index) -> Beginnings:
        parent, grown = self.parent[chosen], self.grown[chosen]
        symbols, start = self.of.symbols[parent].copy(), self.of.length[parent]
        for place, added in enumerate(self.added[:, chosen]):
            rows = np.flatnonzero(grown > place)
            symbols[rows, start[rows] + place] = added[rows]
        return Beginnings(symbols, start + grown, self.ended[chosen], self.states[chosen], self.within[chosen])


def most_continuations(shape: Discovery) -> int:
    """Into how many texts one beginning can grow at a level."""
    symbols = int((transitions(shape.alphabet) >= 0).sum(axis=1).max())
    return sum(int(symbols**grown) for grown in (*range(shape.step + 1), shape.step))


def continuations(shape: Discovery, known: Beginnings, level: int) -> Continuations:
    """All that a level could be asked of texts with these beginnings. Those that have ended stay as they are."""
    reach, steps = shape.reach(level), shape.step
    table = transitions(shape.alphabet)
    done = [_Grown.of(known, np.flatnonzero(known.ended), steps)]
    going = _Grown.of(known, np.flatnonzero(~known.ended), steps)
    length = int(known.length[~known.ended].max(initial=0))
    for place in range(reach - length):
        done.append(going.end())
        going = going.grow(table, place)
    if reach == shape.max_length and reach > length:
        done.append(going.end())
    done.append(going)
    names = ("parent", "grown", "ended", "states", "within")
    parent, grown, ended, states, within = (np.concatenate([getattr(part, name) for part in done]) for name in names)
    added = np.concatenate([part.added for part in done], axis=1)
    return Continuations(known, parent, added, grown, ended, states, within)


@dataclass(frozen=True, slots=True)
class _Grown:
    parent: Index
    added: Bytes
    grown: Places
    ended: Mask
    states: Words
    within: Places

    @classmethod
    def of(cls, known: Beginnings, rows: Index, steps: int) -> _Grown:
        return cls(
            rows.astype(np.int32),
            np.zeros((steps, len(rows)), dtype=np.uint8),
            np.zeros(len(rows), dtype=np.int8),
            known.ended[rows],
            known.states[rows],
            known.within[rows],
        )

    def end(self) -> _Grown:
        """The texts that end here, behind whole characters."""
        whole = self._only(np.flatnonzero(self.within == 0))
        return replace(whole, ended=np.ones(len(whole.states), dtype=bool), states=_next(whole.states, np.uint64(END)))

    def grow(self, table: Places, place: int) -> _Grown:
        """One byte longer, in every way."""
        parts = []
        for within in np.unique(self.within):
            rows = np.flatnonzero(self.within == within)
            allowed = np.flatnonzero(table[within] >= 0).astype(np.uint8)
            longer = self._only(np.repeat(rows, len(allowed)))
            byte = np.tile(allowed, len(rows))
            longer.added[place] = byte
            parts.append(
                replace(
                    longer,
                    grown=longer.grown + np.int8(1),
                    states=_next(longer.states, byte.astype(np.uint64)),
                    within=table[within][byte],
                )
            )
        if len(parts) < 2:
            return parts[0] if parts else self
        names = ("parent", "added", "grown", "ended", "states", "within")
        return _Grown(*(np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in names))

    def _only(self, rows: Index) -> _Grown:
        return _Grown(
            self.parent[rows],
            self.added[:, rows],
            self.grown[rows],
            self.ended[rows],
            self.states[rows],
            self.within[rows],
        )


def _next(states: Words, byte: npt.NDArray[np.uint64] | np.uint64) -> Words:
    with np.errstate(over="ignore"):
        return mix(states + (byte + np.uint64(1)) * np.uint64(STEP))


def positions(shape: Discovery, states: Words, level: int) -> Positions:
    """Where each beginning sets its bit: row g holds those of the level's group g."""
    found: Positions = np.empty((shape.num_groups, len(states)), dtype=np.uint8 if shape.num_bits <= 256 else np.uint16)
    first, gold = level * shape.num_groups, int(GOLD)
    offsets = [np.uint64((first + group + 1) * gold & 0xFFFF_FFFF_FFFF_FFFF) for group in range(shape.num_groups)]
    for chunk in _chunks(len(states)):
        for group, offset in enumerate(offsets):
            half = mix(states[chunk] + offset) >> np.uint64(32)
            found[group, chunk] = half * np.uint64(shape.num_bits) >> np.uint64(32)
    return found


def _chunks(size: int) -> Iterator[slice]:
    """What is worked on then fits the processor's cache."""
    return (slice(start, start + _CHUNK) for start in range(0, size, _CHUNK))


def best(scores: Array, most: int) -> Index:
    """The rows with the largest scores, in their order; of equal ones the first."""
    if len(scores) <= most:
        return np.arange(len(scores))
    # Only what reaches the last place need be sorted: of half a million, that is most of the time.
    edge = np.partition(scores, len(scores) - most)[len(scores) - most]
    reach = np.flatnonzero(scores >= edge)
    return np.sort(reach[np.argsort(-scores[reach], kind="stable")[:most]])
