"""The vectorised hash gives the positions of the one that devices use."""

from __future__ import annotations

import numpy as np
import pytest

from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.analysis.kinds.string import distinct
from hubbub.protocol import bloom
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import String

TEXTS = [
    "",
    "a",
    "example.org",
    "Straße",
    "e\N{COMBINING ACUTE ACCENT}t\u00e9",
    "日本語",
    "x" * 1000,
    "\0",
    *map(str, range(40)),
]


@pytest.mark.parametrize(
    ("num_bits", "num_hashes", "num_cohorts"),
    [(1, 1, 8), (2, 1, 4), (2, 2, 4), (8, 8, 2), (64, 1, 128), (128, 2, 64), (256, 3, 4), (257, 5, 4), (65536, 64, 2)],
)
def test_every_position_is_that_of_the_device(num_bits, num_hashes, num_cohorts):
    shape = String(num_bits=num_bits, num_hashes=num_hashes, num_cohorts=num_cohorts)
    found = positions(shape, digests(TEXTS))
    assert found.shape == (num_cohorts * num_hashes, len(TEXTS))
    for i, text in enumerate(TEXTS):
        for cohort in range(num_cohorts):
            where = found[cohort * num_hashes : (cohort + 1) * num_hashes, i].tolist()
            mask = int(where == [0]) if num_bits == 1 else sum(1 << bit for bit in where)
            assert mask == bloom.string_mask(text, cohort, num_bits, num_hashes)


def test_chunks_make_no_difference():
    shape = String(num_bits=64, num_hashes=2, num_cohorts=2)
    many = [f"text {i}" for i in range(20_000)]
    seeds = digests(many)
    assert np.array_equal(positions(shape, seeds)[:, 9_000:9_100], positions(shape, seeds[9_000:9_100]))


def test_accents_composed_differently_are_one_candidate():
    assert distinct(["\u00e9", "e\N{COMBINING ACUTE ACCENT}", "a", "\u00e9"]) == ["\u00e9", "a"]
    seeds = digests(["\u00e9", "e\N{COMBINING ACUTE ACCENT}"])
    assert np.array_equal(seeds[0], seeds[1])


def test_a_lone_surrogate_is_refused_in_words():
    with pytest.raises(Invalid, match="must be valid Unicode, got a lone surrogate at 1"):
        digests(["a\ud800"])
