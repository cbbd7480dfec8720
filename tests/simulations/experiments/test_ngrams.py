"""Strings from n-grams, the rival: its rule does what it says, so that it is not beaten by a mistake of ours."""

from __future__ import annotations

from itertools import combinations
from math import exp

import numpy as np
import pytest

from hubbub.simulations.experiments.ngrams import NGrams, _cliques, from_ngrams, pieces_of

TEXTS = ["abcdef", "abcdxy", "uvwxyz", "uvcdzz", "short", "rare00"]
HELD = np.array([300_000, 250_000, 200_000, 150_000, 99_000, 1_000])


def found(epsilon: float, seed: int = 1) -> set[str]:
    return set(from_ngrams(NGrams(1_000_000, 3, epsilon), TEXTS, HELD, 50, 0.05, np.random.default_rng(seed)))


def test_with_little_noise_all_common_strings_are_put_together_and_nothing_else() -> None:
    """`uvcdef`, all of whose pairs but one are common, is not among them."""
    assert found(30) == set(TEXTS)
    assert found(9) >= set(TEXTS[:4])
    assert "uvcdef" not in found(9)


def test_with_much_noise_nothing_is_found_and_nothing_is_made_up() -> None:
    assert all(found(0.3, seed) <= set(TEXTS) for seed in range(20))
    assert len(found(0.3)) < 2


def test_an_edge_is_as_uncertain_as_the_product_of_two_noises() -> None:
    """Simulated: two users' noises of variance V each, multiplied, over those who chose these positions."""
    given = NGrams(30_000, 3, 3.0)
    e = exp(1)
    assert given.variance == pytest.approx(4 * e / (e - 1) ** 2)
    rng = np.random.default_rng(3)
    noise = rng.normal(0, given.variance**0.5, (2, 400, 10_000))
    assert given.edge_error == pytest.approx(float((noise[0] * noise[1]).mean(axis=1).std()), rel=0.2)
    assert given.text_error == pytest.approx((given.variance / 30_000) ** 0.5)


def test_cliques_are_all_choices_with_every_edge() -> None:
    rng = np.random.default_rng(4)
    sizes = (4, 3, 5)
    edges = {pair: rng.random((sizes[pair[0]], sizes[pair[1]])) * (rng.random((sizes[pair[0]], sizes[pair[1]])) < 0.6)
             for pair in combinations(range(3), 2)}  # fmt: skip
    every = {
        (a, b, c)
        for a in range(4)
        for b in range(3)
        for c in range(5)
        if edges[0, 1][a, b] and edges[0, 2][a, c] and edges[1, 2][b, c]
    }
    assert set(_cliques(sizes, edges, 1000)) == every
    assert len(_cliques(sizes, edges, 3)) == 3


def test_pieces_are_equal_where_letters_are() -> None:
    pieces = pieces_of(["abcd", "abxd", "cdab"], 2)
    assert pieces[0, 0] == pieces[1, 0]
    assert pieces[0, 1] != pieces[1, 1]
