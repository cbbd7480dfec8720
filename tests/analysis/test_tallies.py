"""Exact tallies follow the law of real devices."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from hubbub.client.respond import respond
from hubbub.protocol.encoding import ABSENT
from hubbub.protocol.kinds import Choice, Flag, Histogram, Mean, Range, String
from hubbub.simulations.exact_tallies import assign_cohorts, ones_of, sample_tally
from tests.analysis.worlds import Strings, define, tally_of
from tests.chance import assert_binomial, power

INSTALLS = 3_000


@pytest.mark.parametrize(
    "shape",
    [
        Flag(),
        Choice(choices=("a", "b", "c")),
        Choice(choices=tuple("abcdefghijklmn")),
        Histogram(edges=(Fraction(0), Fraction(1), Fraction(2), Fraction(3)), buckets_per_report=2),
        Range(low=Fraction(0), high=Fraction(4), num_leaves=4, branching=2),
    ],
    ids=lambda shape: f"{shape.kind}-{shape.num_masks}",
)
def test_bits_arrive_as_often_as_from_real_devices(shape):
    """Each bit's frequency is compared with what real devices send for the same answers: both must be plausible
    draws of one probability, that of the sample of a million."""
    metric = define(shape, "2", "4")
    values = {"flag": [False, True], "choice": ["a", "b", ABSENT]}.get(shape.kind, [0.5, 2.5, ABSENT])
    seeded = random.Random(1)
    rng = np.random.default_rng(1)
    for cohort in range(shape.num_cohorts):
        installs = [INSTALLS // 3] * 3 if len(values) == 3 else [INSTALLS // 2] * 2
        masks = [shape.encode(value, cohort).mask for value in values]
        width = shape.width(cohort)
        ones = [
            np.array([sum(n for n, mask in zip(installs, masks, strict=True) if mask >> j & 1) for j in range(width)])
            * (c == cohort)
            if c == cohort
            else np.zeros(shape.width(c), dtype=int)
            for c in range(shape.num_cohorts)
        ]
        sizes = [INSTALLS * (c == cohort) for c in range(shape.num_cohorts)]
        many = sample_tally(metric, [1000 * n for n in sizes], [1000 * row for row in ones], rng).epochs[0]
        real = np.zeros(width, dtype=int)
        for n, mask in zip(installs, masks, strict=True):
            for _ in range(n):
                bits = respond(metric, mask, cohort, seeded.randbytes).bits
                real += np.array([bits >> j & 1 for j in range(width)])
        for j in range(width):
            assert_binomial(int(real[j]), INSTALLS, many.bit_counts[cohort][j] / (1000 * INSTALLS), false_alarm=1e-7)
    assert power(INSTALLS, 0.5, 0.56, false_alarm=1e-7) > 0.8


def test_epochs_share_their_memo():
    """Two epochs of one memo agree more than two of different ones: their counts covary by the permanent noise."""
    metric = define(Flag(), "1", "2")
    rng = np.random.default_rng(2)
    pairs = []
    for _ in range(4_000):
        tally = sample_tally(metric, [1_000], [[300]], rng, epochs=(5, 6))
        pairs.append([tally.epochs[epoch].bit_counts[0][0] for epoch in (5, 6)])
    a1, a0 = (float(x) for x in metric.noise.permanent.probabilities)
    q, p = (float(x) for x in metric.noise.instantaneous.probabilities)
    expected = (q - p) ** 2 * (300 * a1 * (1 - a1) + 700 * a0 * (1 - a0))
    measured = np.cov(np.array(pairs).T)[0, 1]
    # The sample covariance of n normal pairs has standard error sqrt((v1 v2 + c^2) / n); six of them: 1 in 10^9.
    spread = np.sqrt((np.var(pairs) ** 2 + expected**2) / len(pairs))
    assert abs(measured - expected) < 6 * spread
    assert expected > 12 * spread, "the test must tell the covariance from none"


def test_a_billion_installs_cost_what_a_thousand_do():
    strings = Strings.of(define(String(num_bits=32, num_hashes=2, num_cohorts=8)), 3)
    tally = tally_of(strings.metric, [10**9, 10**9, 10**9, 10**9], np.random.default_rng(3), strings.where)
    assert tally.num_reports == 4 * 10**9


def test_masks_are_those_that_devices_encode():
    shape = String(num_bits=16, num_hashes=3, num_cohorts=4)
    strings = Strings.of(define(shape), 5)
    by_cohort = assign_cohorts([10, 20, 30, 40, 50, 60], 4, np.random.default_rng(4))
    for cohort, ones in enumerate(ones_of(shape, by_cohort, strings.where)):
        masks = [shape.encode(text, cohort).mask for text in strings.texts]
        assert ones.tolist() == [
            sum(int(n) for n, mask in zip(by_cohort[cohort], masks, strict=False) if mask >> j & 1) for j in range(16)
        ]


def test_a_mean_sends_its_ends():
    metric = define(Mean(low=Fraction(0), high=Fraction(1), absent=Fraction(0)))
    tally = tally_of(metric, [0, 10**6], np.random.default_rng(5))
    assert_binomial(tally.epochs[0].bit_counts[0][0], 10**6, metric.noise.q_star)
