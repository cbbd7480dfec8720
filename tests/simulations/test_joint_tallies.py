"""Exact pair tallies have the law of real installs: of each metric alone, and of both together."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from hubbub.client.respond import respond
from hubbub.protocol.kinds import Choice, Flag, Histogram
from hubbub.protocol.pair import Pair, PairTally, count_pairs
from hubbub.protocol.report import Batch, Report
from hubbub.simulations.joint_tallies import sample_pair_tally
from tests.analysis.joint_worlds import drawn, masks_of, metric
from tests.simulations.simulate.laws import assert_same_law

F = Fraction
TALLIES = 400
INSTALLS = np.array([[6, 3, 1], [2, 4, 4]])


def cells_of(tally: PairTally) -> np.ndarray:
    """Every count of one epoch, in a row."""
    (counts,) = tally.epochs.values()
    parts = [np.ravel(part) for rows in (counts.first, counts.second, counts.both) for part in rows]
    return np.concatenate([counts.num_batches, *parts])


def of_clients(pair: Pair, rng: np.random.Generator) -> np.ndarray:
    """Installs one by one, by the client's own noise, counted as a collector does."""
    chance = Random(int(rng.integers(2**63)))
    batches = []
    for (i, j), many in np.ndenumerate(INSTALLS):
        for _ in range(many):
            reported = []
            for definition, value in zip(pair.metrics, (i, j), strict=True):
                mask = sum(int(bit) << k for k, bit in enumerate(masks_of(definition.shape)[0][value]))
                bits = respond(definition, mask, 0, chance.randbytes).bits
                reported.append(Report(definition, 2950, 0, bits))
            batches.append(Batch.of(chance.randbytes(16), reported))
    return cells_of(count_pairs(pair, batches))


@pytest.mark.parametrize("sort", ["k-ary", "bits"])
def test_pair_tallies_have_the_law_of_clients(sort: str) -> None:
    shape = Choice(choices=("a", "b", "c"), absent="a")
    buckets = Histogram(edges=tuple(map(F, range(4))), buckets_per_report=3)
    second = metric("second", shape if sort == "k-ary" else buckets, 1, 2)
    pair = Pair("both", (metric("first", Flag(), 1, 2), second))
    rng = np.random.default_rng(3)
    installs = INSTALLS if sort == "k-ary" else np.hstack([INSTALLS, np.zeros((2, 1), dtype=np.int64)])
    exact = np.array([cells_of(drawn(pair, installs, rng)) for _ in range(TALLIES)])
    real = np.array([of_clients(pair, rng) for _ in range(TALLIES)])
    assert_same_law(exact[:, 1:], real[:, 1:])


def test_the_two_ways_to_draw_k_ary_pairs_have_one_law_over_epochs() -> None:
    """A k-ary pair is drawn by counts; beside a metric of bits the same metric is drawn install by install."""
    shape = Choice(choices=("a", "b", "c"), absent="a")
    first, second = metric("first", shape, 1, 2), metric("second", shape, 1, 2)
    rng = np.random.default_rng(4)
    installs = np.array([[6, 3, 1], [2, 4, 4], [1, 1, 5]])
    fast = [drawn(Pair("both", (first, second)), installs, rng, (2950, 2951)) for _ in range(TALLIES)]
    slow = [_one_by_one(Pair("both", (first, second)), installs, rng) for _ in range(TALLIES)]
    for epoch in (2950, 2951):
        one, other = (np.array([cells_of(tally.only(epoch)) for tally in tallies]) for tallies in (fast, slow))
        assert_same_law(one[:, 1:], other[:, 1:])
    # Both epochs of a tally hold the same installs: what they share is the kept answer.
    together = [
        np.array([cells_of(t.only(2950))[1:] + cells_of(t.only(2951))[1:] for t in tallies]) for tallies in (fast, slow)
    ]
    assert_same_law(*together)


def _one_by_one(pair: Pair, installs: np.ndarray, rng: np.random.Generator) -> PairTally:
    from hubbub.simulations import joint_tallies

    masks = tuple(np.asarray(masks_of(m.shape)[0], dtype=bool) for m in pair.metrics)
    owners = np.repeat(np.arange(installs.size), installs.ravel())
    first, second = np.unravel_index(owners, installs.shape)
    tables = []
    for reports in joint_tallies._reports(pair.metrics, (masks[0][first], masks[1][second]), rng, 2):
        one, other = (np.hstack([np.ones((len(bits), 1), dtype=int), bits.astype(int)]) for bits in reports)
        tables.append(one.T @ other)
    return PairTally(pair, {2950 + i: joint_tallies._counts([table]) for i, table in enumerate(tables)})


def test_installs_are_spread_over_cohorts_that_nest() -> None:
    """Of 4 cohorts and 6 there are 8 pairs; each holds its part of the line."""
    edges = tuple(map(F, range(5)))
    first = metric("first", Histogram(edges=edges, buckets_per_report=1), 1, 2)
    pair = Pair("both", (first, metric("second", Flag(), 1, 2)))
    installs = np.full((5, 2), 10_000)
    tally = sample_pair_tally(pair, installs, (masks_of(first.shape), masks_of(Flag())), np.random.default_rng(5))
    (counts,) = tally.epochs.values()
    assert sum(counts.num_batches) == 100_000
    assert max(counts.num_batches) - min(counts.num_batches) < 1_200  # 25,000 each, of a standard deviation of 137
