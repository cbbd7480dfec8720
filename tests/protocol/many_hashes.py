"""The positions of many texts in a cohort at once, in numpy: the rule of hubbub.protocol.bloom for a million texts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hubbub.protocol.bloom import digest

Words = NDArray[np.uint64]
Positions = NDArray[np.int64]


def digests(texts: Iterable[str]) -> tuple[Words, Words]:
    """h1 and h2 of each text."""
    both = np.array([digest(text) for text in texts], dtype=np.uint64)
    return both[:, 0], both[:, 1]


def positions_of_many(seeds: tuple[Words, Words], cohort: int, num_bits: int, num_hashes: int) -> Positions:
    """One row a text, one column a position, in the order in which they are picked."""
    h1, h2 = seeds
    words_per_cohort = (num_hashes + 1) // 2
    picked = np.empty((len(h1), num_hashes), dtype=np.int64)
    for i in range(num_hashes):
        number = np.uint64(cohort * words_per_cohort + i // 2 + 1)
        word = mixed(h1 + number * (h2 | np.uint64(1)))
        half = word & np.uint64(0xFFFF_FFFF) if i % 2 else word >> np.uint64(32)
        position = (half * np.uint64(num_bits - i) >> np.uint64(32)).astype(np.int64)
        for taken in np.sort(picked[:, :i], axis=1).T:
            position += position >= taken
        picked[:, i] = position
    return picked


def mixed(z: Words) -> Words:
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)
