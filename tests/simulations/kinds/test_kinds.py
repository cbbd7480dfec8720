"""A kind is one file and one line: those there are agree with the client's own encoding, one more needs no more."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from hubbub.protocol.encoding import ABSENT as SILENCE
from hubbub.protocol.encoding import Encoded
from hubbub.protocol.kinds import (
    FORMS,
    Choice,
    Cross,
    Discovery,
    Flag,
    Histogram,
    Mean,
    Range,
    Set,
    String,
    shape_class,
)
from hubbub.protocol.kinds import KINDS as PROTOCOL_KINDS
from hubbub.protocol.metric import Metric
from hubbub.protocol.shape import Factor, Shape
from hubbub.simulations.audit.pairs import far_pairs
from hubbub.simulations.kinds import KINDS, kind_class, kind_of
from hubbub.simulations.kinds.kind import NOWHERE, Kind
from hubbub.simulations.people.histories import ABSENT, Histories
from hubbub.simulations.simulate.exact import exact_tally
from tests.analysis.worlds import define
from tests.chance import assert_binomial, power

TEXTS = [f"text {i}" for i in range(30)]
NUMBERS = [-5.0, 0.0, 0.1, 0.3, 0.7, 1.0, 2.0, 3.9999, 4.0, 7.0]
EDGES = tuple(Fraction(x) for x in ("0", "0.1", "0.3", "1", "4"))
SHAPES = [
    (Flag(), [True, False]),
    (Choice(choices=("a", "b", "c")), ["a", "b", "c"]),
    (Choice(choices=("a", "b"), reserve=2, named=("c",)), ["a", "b", "c"]),
    (
        Set(items=tuple("abc"), items_per_report=2, reserve=2, named=("d",)),
        [frozenset(some) for some in ("", "ad", "c")],
    ),
    (String(num_bits=16, num_hashes=1, num_cohorts=4), TEXTS),
    (String(num_bits=6, num_hashes=3, num_cohorts=4), TEXTS),
    (String(num_bits=1, num_hashes=1, num_cohorts=8), TEXTS),
    (Discovery(discover=True, alphabet="ascii", max_length=5, num_bits=7, num_groups=2), TEXTS),
    (Histogram(edges=EDGES, buckets_per_report=2), NUMBERS),
    (Range(low=Fraction(0), high=Fraction(4), num_leaves=16, branching=2), NUMBERS),
    (Set(items=tuple("abcd"), items_per_report=2), [frozenset(used) for used in ("", "a", "bd", "acd", "abcd")]),
    (Set(items=tuple("abc"), items_per_report=3), [frozenset(used) for used in ("", "b", "abc")]),
    (
        Cross(factors=(Factor(name="a", shape=Choice(choices=("a", "b"))), Factor(name="b", shape=Flag()))),
        [(0, 0), (1, 1), (2, 0)],
    ),
]


def test_every_kind_of_the_protocol_can_be_simulated() -> None:
    forms = {shape_class(kind, [key]).__name__.lower() for kind, key in FORMS}
    assert set(KINDS) == {*PROTOCOL_KINDS, *forms, "mean_apart"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_shape_that_a_sweep_tries_is_of_its_kind(kind: str) -> None:
    found = kind_class(kind)
    axes = {name: int(default) for name, default in found.shape_axes.items()}
    assert found.example(axes).form == kind


@pytest.mark.parametrize(("shape", "values"), SHAPES, ids=lambda x: getattr(x, "kind", ""))
def test_masks_by_arithmetic_are_those_of_encoding_one_by_one(shape: Shape, values: list[Any]) -> None:
    """The base class asks `encode` about every value; what a kind does instead must come to the same masks."""
    kind = kind_of(shape)
    prepared = kind.prepared(values)
    for cohort in range(shape.num_cohorts):
        fast, slow = kind.masks(prepared, cohort), Kind.masks(kind, values, cohort)
        assert [_bits(fast, i) for i in range(len(values) + 1)] == [_bits(slow, i) for i in range(len(values) + 1)]


def _bits(masks: Any, value: int) -> set[int]:
    return {bit for bit in masks.where[masks.keys[value]].tolist() if bit != NOWHERE}


@pytest.mark.parametrize(
    ("shape", "values"),
    [
        *SHAPES,
        *((Mean(low=Fraction(0), high=Fraction(4), absent=absent), NUMBERS) for absent in (Fraction(0), "apart")),
    ],
)
def test_no_two_values_are_farther_apart_than_those_audited(shape: Shape, values: list[Any]) -> None:
    """Among the values here, in every cohort that `far_pairs` looks at."""
    for pair in far_pairs(define(shape)):
        masks = [shape.encode(value, pair.cohort).mask for value in values]
        widest = max((one ^ other).bit_count() for one, other in combinations(masks, 2))
        assert sum(pair.differences) >= widest


class Letters(Shape, kw_only=True):
    """Which of three letters a text has: a kind that nobody knows, with masks of no, one, two or three bits."""

    kind = "letters"

    @cached_property
    def num_masks(self) -> int:
        return 8

    @cached_property
    def num_cohorts(self) -> int:
        return 2

    @cached_property
    def flips(self) -> tuple[tuple[int, int], ...]:
        return ((3, 0), (2, 1))

    def width(self, cohort: int) -> int:
        return 3

    def encode(self, value: Any, cohort: int, dither: int = 0) -> Encoded:
        letters = "abc" if cohort == 0 else "cab"
        return Encoded(0 if value is SILENCE else sum(1 << i for i, x in enumerate(letters) if x in value))


class LettersKind(Kind[Letters]):
    """Brings nothing: what is the same for all kinds is enough."""


def test_a_kind_that_brings_nothing_is_simulated_from_its_encoding_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a million installs, so many of each cohort have each bit as hold the letter, through both noises."""
    monkeypatch.setitem(KINDS, "letters", f"{__name__}:LettersKind")
    shape = Letters()
    metric = Metric(
        name="letters",
        every="day",
        shape=shape,
        noise=shape.best_noise(Fraction(2), Fraction(4)),
        why="To try a kind",
        owner="nobody",
        expires=date(2100, 1, 1),
        max_values=1,
    )
    histories = Histories(("ab", "c"), np.array([[0], [1], [ABSENT]]), np.array([500_000, 300_000, 200_000]))
    counts = exact_tally(metric, histories, [0], np.random.default_rng(1)).tally.epochs[0]
    q, p = (float(x) for x in metric.noise.composed.probabilities)
    assert sum(counts.num_reports) == 1_000_000
    for cohort, letters in enumerate(("abc", "cab")):
        for bit, letter in enumerate(letters):
            held = 0.3 if letter == "c" else 0.5
            assert_binomial(counts.bit_counts[cohort][bit], counts.num_reports[cohort], held * q + (1 - held) * p)
    assert power(counts.num_reports[0], 0.5 * q + 0.5 * p, 0.52 * q + 0.48 * p) > 0.999
