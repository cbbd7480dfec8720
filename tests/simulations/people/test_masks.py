"""Masks of whole crowds are those that the client encodes, one by one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hubbub.protocol.encoding import ABSENT as SILENCE
from hubbub.protocol.kinds import Choice, Flag, Histogram, Mean, Range, String
from hubbub.simulations.kinds.kind import NOWHERE
from hubbub.simulations.people.histories import ABSENT, AWAY, Histories
from hubbub.simulations.people.masks import masks_by_cohort
from tests.analysis.worlds import define
from tests.chance import assert_binomial, power

TEXTS = [f"text {i}" for i in range(40)]
NUMBERS = [-5.0, 0.0, 0.1, 0.3, 0.7, 1.0, 2.0, 3.9999, 4.0, 7.0]
EDGES = tuple(Fraction(x) for x in ("0", "0.1", "0.3", "1", "4"))


@pytest.mark.parametrize(
    ("shape", "values"),
    [
        (Flag(absent=True), [True, False]),
        (Choice(choices=("a", "b", "c")), ["a", "b", "c"]),
        (Choice(choices=("a", "b", "c"), absent="b"), ["a", "b", "c"]),
        (String(num_bits=16, num_hashes=1, num_cohorts=4), TEXTS),
        (String(num_bits=6, num_hashes=3, num_cohorts=4), TEXTS),
        (String(num_bits=1, num_hashes=1, num_cohorts=8), TEXTS),
        (Histogram(edges=EDGES, buckets_per_report=2), NUMBERS),
        (Histogram(edges=EDGES, buckets_per_report=4), NUMBERS),
        (Range(low=Fraction(0), high=Fraction(4), num_leaves=16, branching=2), NUMBERS),
    ],
    ids=lambda x: getattr(x, "kind", ""),
)
def test_keys_stand_for_the_masks_that_the_client_encodes(shape, values):
    """Also for silence, and in every cohort; and two values have one key exactly if they have one mask."""
    answers = np.array([*range(len(values)), ABSENT, AWAY])[:, np.newaxis]
    histories = Histories(tuple(values), answers, np.full(len(answers), 500))
    for masks in masks_by_cohort(define(shape), histories, np.random.default_rng(1)):
        encoded = [shape.encode(value, masks.cohort).mask for value in [*values, SILENCE]]
        keys = masks.keys[:, 0].tolist()
        assert keys[-1] == NOWHERE
        for key, mask in zip(keys, encoded, strict=False):
            assert sum(1 << int(bit) for bit in masks.where[key] if bit != NOWHERE) == mask
        assert len(set(keys[:-1])) == len(set(encoded))


def test_every_install_joins_one_cohort_and_all_are_equally_likely():
    shape = String(num_bits=8, num_hashes=1, num_cohorts=4)
    histories = Histories(("x",), np.zeros((1, 1), int), np.array([400_000]))
    sizes = [int(masks.installs.sum()) for masks in masks_by_cohort(define(shape), histories, np.random.default_rng(2))]
    assert sum(sizes) == 400_000
    for size in sizes:
        assert_binomial(size, 400_000, 0.25)
    assert power(400_000, 0.25, 0.255) > 0.99


def test_a_mean_is_rounded_as_one_dither_for_life_has_it():
    """Installs hold 2, then 7 of 10, then nothing: nobody is rounded up for 2 and down for 7, and the law over
    patterns is that of `encode` with a dither drawn once."""
    shape = Mean(low=Fraction(0), high=Fraction(10), absent=Fraction(5))
    histories = Histories((2.0, 7.0), np.array([[0, 1, ABSENT, AWAY]]), np.array([1_000_000]))
    (masks,) = masks_by_cohort(define(shape), histories, np.random.default_rng(3))
    found = {tuple(keys): int(n) for keys, n in zip(masks.keys.tolist(), masks.installs, strict=True)}
    expected: dict[tuple[int, ...], int] = {}
    for dither in range(0, 2**64, 2**64 // 1000):
        ends = (*(shape.encode(value, 0, dither).mask for value in (2.0, 7.0, SILENCE)), NOWHERE)
        expected[ends] = expected.get(ends, 0) + 1
    assert set(found) == set(expected)
    for pattern, thousandths in expected.items():
        assert_binomial(found[pattern], 1_000_000, round(thousandths, -1) / 1000)
    assert power(1_000_000, 0.2, 0.205) > 0.999
