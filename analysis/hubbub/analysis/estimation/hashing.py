"""The hash rule of `hubbub.protocol.bloom` for many candidates at once: the same positions, a million texts in seconds.

Only the digest needs Python for each text; the SplitMix64 stream, the cut into halves and the picking of distinct
positions are array operations, one cohort at a time, so that nothing larger than the result is ever held.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import mmh3
import numpy as np
import numpy.typing as npt

from hubbub.protocol.bloom import canonical_text
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import String

Positions = npt.NDArray[np.unsignedinteger[Any]]
"""The bits that strings set: whole numbers, a row for each string."""
Words = npt.NDArray[np.uint64]

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFF_FFFF)
_CHUNK = 16_384  # candidates at a time: what is worked on then fits the processor's cache


def digests(candidates: Sequence[str]) -> Words:
    """One row (h1, h2) for each candidate."""
    return digests_of_bytes([text.encode() if text.isascii() else canonical(text) for text in candidates])


def digests_of_bytes(canonical_texts: Iterable[bytes]) -> Words:
    """The same for candidates that are canonical bytes already."""
    whole = b"".join(map(mmh3.mmh3_x64_128_digest, canonical_texts))  # seed 0, its default
    return np.frombuffer(whole, dtype="<u8").reshape(-1, 2)


def canonical(text: str) -> bytes:
    """The bytes that are hashed (ASCII is its own NFC form); raises `Invalid` for a text that has none."""
    try:
        return canonical_text(text)
    except UnicodeEncodeError as error:
        raise Invalid(
            [f"a candidate must be valid Unicode, got a lone surrogate at {error.start} of {text!r}"]
        ) from None


def positions(shape: String, seeds: Words) -> Positions:
    """Where each candidate's bits are: row c * num_hashes + i holds position i of every candidate in cohort c.

    With `num_bits = 1` the bit itself is the hash; the row then holds 0 where it is set and 1 where it is not.
    """
    num_bits, num_hashes = shape.num_bits, shape.num_hashes
    if num_bits == 1:
        return np.subtract(1, _pick(shape.num_cohorts, 2, 1, seeds), dtype=np.uint8)
    return _pick(shape.num_cohorts, num_bits, num_hashes, seeds)


def _pick(num_cohorts: int, num_bits: int, num_hashes: int, seeds: Words) -> Positions:
    dtype = np.dtype(np.uint8 if num_bits <= 256 else np.uint16)
    picked: Positions = np.empty((num_cohorts * num_hashes, len(seeds)), dtype=dtype)
    for start in range(0, len(seeds), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        _pick_some(num_bits, num_hashes, seeds[chunk], picked[:, chunk])
    return picked


def _pick_some(num_bits: int, num_hashes: int, seeds: Words, picked: Positions) -> None:
    step = seeds[:, 1] | np.uint64(1)
    state = seeds[:, 0].copy()
    word, half = np.empty_like(state), np.empty_like(state)
    for first in range(0, len(picked), num_hashes):
        rows = picked[first : first + num_hashes]
        for i in range(num_hashes):
            if i % 2 == 0:
                state += step  # the stream's next word; it wraps at 2**64 as it should
                mix_into(word, state, half)
                np.right_shift(word, _HALF, out=half)
            else:
                np.bitwise_and(word, _LOW, out=half)
            half *= np.uint64(num_bits - i)
            half >>= _HALF
            rows[i] = half
            if i:
                for taken in np.sort(rows[:i], axis=0):
                    rows[i] += rows[i] >= taken


def mix(state: Words) -> Words:
    """SplitMix64's finaliser."""
    mixed = np.empty_like(state)
    mix_into(mixed, state, np.empty_like(state))
    return mixed


def mix_into(out: Words, state: Words, spare: Words) -> None:
    """`mix` without an array for each step, which is where a million texts would spend their time."""
    np.right_shift(state, np.uint64(30), out=out)
    out ^= state
    out *= np.uint64(0xBF58476D1CE4E5B9)
    np.right_shift(out, np.uint64(27), out=spare)
    out ^= spare
    out *= np.uint64(0x94D049BB133111EB)
    np.right_shift(out, np.uint64(31), out=spare)
    out ^= spare
