"""Few cohorts, and most of the crowd holds texts that nobody listed: what is called detected is held by somebody."""

from __future__ import annotations

from itertools import count
from math import comb

import numpy as np
import pytest

from hubbub.analysis import Options, decode
from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.protocol.kinds import String
from tests.analysis.worlds import define, tally_of
from tests.chance import binomial_bounds, power

UNLISTED = {
    "one of half": (0.5, 0.1, 0.05, *[0.01] * 10),
    "one of nine in ten": (0.9,),
    "some": (0.1, 0.05, *[0.005] * 10),
}
FITTED = [(16, 1, 2, 5), (16, 1, 4, 5), (16, 1, 8, 5), (64, 1, 2, 20), (64, 1, 4, 20), (128, 2, 2, 5), (64, 2, 4, 20)]
SEARCHED = [(16, 1, 4, 100), (64, 1, 4, 100)]
SHAPES = FITTED + SEARCHED
"""Bits, hashes, cohorts, and how many texts are listed that nobody holds."""


@pytest.mark.parametrize("num_hashes", [1, 2])
@pytest.mark.parametrize("unlisted", [[9_000], [4_000, 3_000, 500, 500]], ids=["one", "four"])
def test_of_all_places_of_a_text_that_nobody_has_no_more_score_high_than_stated(num_hashes, unlisted):
    """Exactly: the same counts, and a listed text in each place its hash might give it. With a law read off what is
    left after the text was fitted, the highest place had a p-value of 0."""
    shape = String(num_bits=16 // 2**num_hashes, num_hashes=num_hashes, num_cohorts=2)
    held = ["held by some", "held by few", *(f"nobody listed {i}" for i in range(len(unlisted)))]
    where = positions(shape, digests(held))
    tally = tally_of(define(shape, "2", "3"), [800, 200, *unlisted], np.random.default_rng(3), where)
    texts = one_text_for_each_place(shape)
    p_value = np.array([decode(tally, [*held[:2], text]).p_value[2] for text in texts])
    small = p_value[p_value < 0.1]
    assert len(small) > 0.05 * len(texts)
    for p in small:
        assert np.mean(p_value <= p) <= p * (1 + 1e-9)


def one_text_for_each_place(shape):
    found = {}
    places = comb(shape.num_bits, shape.num_hashes) ** 2
    for start in count(0, 1_000):
        texts = [f"nobody has {i}" for i in range(start, start + 1_000)]
        for text, where in zip(texts, positions(shape, digests(texts)).T.tolist(), strict=True):
            step = shape.num_hashes
            place = tuple(tuple(sorted(where[i : i + step])) for i in range(0, len(where), step))
            found.setdefault(place, text)
        if len(found) == places:
            return list(found.values())
    raise AssertionError


@pytest.mark.parametrize("shape", [(16, 1, 2, 5), (64, 1, 2, 20)], ids=str)
def test_texts_outside_the_list_make_no_discoveries(shape):
    detected, covered, *_ = populations(shape, ("1", "2"), UNLISTED["some"], 120)
    assert detected <= binomial_bounds(120, 0.05)[1]
    assert covered >= binomial_bounds(120, 0.93)[0]


@pytest.mark.proof
@pytest.mark.parametrize(
    ("unlisted", "epsilons"),
    [
        ("one of half", ("1", "2")),
        ("one of half", ("4", "6")),
        ("one of nine in ten", ("1", "2")),
        ("some", ("4", "6")),
    ],
)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_texts_outside_the_list_make_no_discoveries_in_any_shape(shape, epsilons, unlisted, figure):
    """A family-wise error of .14, which two cohorts had, would be noticed with this probability."""
    runs = 500
    assert power(runs, 0.05, 0.14) > 0.98
    detected, covered, held, known = populations(shape, epsilons, UNLISTED[unlisted], runs)
    figure(
        f"false detections, {shape}, epsilon {epsilons}, unlisted {unlisted}",
        f"{detected} of {runs}; {covered} intervals of an absent text hold 0, {held} of {known} of one that 5 % have",
    )
    assert detected <= binomial_bounds(runs, 0.05)[1]
    assert covered >= binomial_bounds(runs, 0.93)[0]
    assert held >= binomial_bounds(known, 0.93)[0]


def populations(shape, epsilons, unlisted, runs):
    """How many have a false detection; of how many the interval of a text that nobody has holds the truth, and that of
    one that an install in twenty has; of how many that one is known at all. It is not where its cells are set aside,
    because they look like those of a text outside the list."""
    num_bits, num_hashes, num_cohorts, listed = shape
    string = String(num_bits=num_bits, num_hashes=num_hashes, num_cohorts=num_cohorts)
    metric = define(string, *epsilons)
    rng = np.random.default_rng([*shape, *map(int, epsilons), len(unlisted)])
    probability = np.array([*[0.0] * listed, 0.05, *unlisted])
    probability = np.append(probability, max(1 - probability.sum(), 0)) / max(probability.sum(), 1)
    detected = covered = held = known = 0
    for run in range(runs):
        texts = [f"run {run}, text {i}" for i in range(listed + 1 + len(unlisted))]
        counts = rng.multinomial(20_000, probability)
        tally = tally_of(metric, counts, rng, positions(string, digests(texts)))
        found = decode(tally, texts[: listed + 1], Options(estimand="population"))
        detected += bool(found.detected[:listed].any())
        covered += bool(found.low[0] <= 0 <= found.high[0])
        held += bool(found.low[listed] <= probability[listed] <= found.high[listed])
        known += bool(np.isfinite(found.estimate[listed]))
    return detected, covered, held, known
