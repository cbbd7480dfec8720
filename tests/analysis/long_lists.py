"""A string metric, a long list in files, and which of its strings are held: for tests and proofs of spread lists."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.protocol.kinds import String
from hubbub.protocol.tally import Tally
from tests.analysis.worlds import define, tally_of


def text(number: int) -> str:
    """Candidate so and so; every hundredth is not ASCII."""
    return f"site-{number}.example" if number % 100 else f"sité-{number}.example"


def tally_with(held: list[int], installs: int, num_cohorts: int, seed: int) -> Tally:
    """These strings are held by shares that fall as 1, 1/2, 1/3, ... of so many installs."""
    shape = String(num_bits=64, num_hashes=1, num_cohorts=num_cohorts)
    shares = 1 / np.arange(1, len(held) + 1)
    counts = (installs * shares / shares.sum()).astype(int)
    where = positions(shape, digests([text(number) for number in held]))
    return tally_of(define(shape), counts.tolist(), np.random.default_rng(seed), where)


def write_text(path: Path, numbers: range) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for start in range(numbers.start, numbers.stop, 100_000):
            some = range(start, min(start + 100_000, numbers.stop))
            file.write("".join(f"{text(number)}\n" for number in some))


def shards_of(total: int, files: int) -> Iterator[range]:
    """The numbers of each file: in order, of unequal length."""
    cuts = [total * place**2 // files**2 for place in range(files + 1)]
    return (range(low, high) for low, high in pairwise(cuts))
