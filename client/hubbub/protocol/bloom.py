"""The only hashing of values: one 128-bit digest per text, from which every cohort reads its own positions.

The digest (h1, h2) of MurmurHash3 x64 128, seed 0, over the NFC form in UTF-8, seeds a SplitMix64 stream
(Steele, Lea, Flood 2014): start h1, step h2 | 1. Word number w of the stream is mix(h1 + (w + 1)(h2 | 1)) mod 2**64.
With H = ceil(num_hashes / 2), cohort c reads words cH .. cH + H - 1 and cuts each into two halves of 32 bits, the
high one first; half number i picks one of the num_bits - i positions not yet taken, in ascending order:
(half * (num_bits - i)) >> 32. So a cohort's positions always differ, one digest serves all cohorts, and two texts
collide in one cohort without colliding in the next.

This is part of the wire format: tests/vectors/hash.json pins it for other languages.
"""

from __future__ import annotations

import unicodedata

import mmh3

_M64 = (1 << 64) - 1
Digest = tuple[int, int]


def canonical_text(text: str) -> bytes:
    """The bytes that are hashed. Raises UnicodeEncodeError for a text with a lone surrogate."""
    return unicodedata.normalize("NFC", text).encode("utf-8")


def digest(text: str) -> Digest:
    h1, h2 = mmh3.mmh3_x64_128_utupledigest(canonical_text(text), 0)
    return h1, h2


def positions(seed: Digest, cohort: int, num_bits: int, num_hashes: int) -> list[int]:
    """The distinct positions of a text in one cohort, in the order in which they were picked."""
    start, step = seed[0], seed[1] | 1
    words_per_cohort = (num_hashes + 1) // 2
    first_word = cohort * words_per_cohort
    picked: list[int] = []
    for i in range(num_hashes):
        word = mix(start + (first_word + i // 2 + 1) * step & _M64)
        half = word & 0xFFFF_FFFF if i % 2 else word >> 32
        position = half * (num_bits - i) >> 32
        for taken in sorted(picked):
            position += position >= taken
        picked.append(position)
    return picked


def string_mask(text: str, cohort: int, num_bits: int, num_hashes: int) -> int:
    """The mask of a text: one bit for each position; with a single bit, that bit is itself the hash."""
    if num_bits == 1:
        return positions(digest(text), cohort, 2, 1)[0]
    mask = 0
    for position in positions(digest(text), cohort, num_bits, num_hashes):
        mask |= 1 << position
    return mask


def mix(z: int) -> int:
    """SplitMix64's finaliser: every input bit moves every output bit."""
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _M64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _M64
    return z ^ z >> 31
