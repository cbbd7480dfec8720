"""Strings put together from n-grams: the rule of Fanti, Pihur, Erlingsson 2016 ("Building a RAPPOR with the unknown"),
in our own words and lines; their code was not used.

Every user reports the whole string and two n-grams of it, at two positions of their choice, each with a third of the
epsilon: three answers about one string add up. The n-grams that are frequent at each position are the nodes of a graph,
and two of them at different positions have an edge if enough users reported both. What has an edge between all its
n-grams is a candidate, and candidates are tested on the reports of the whole string.

It is given the best case: estimates with just the error of an oracle without collisions (OLH), drawn anew for each;
which n-grams are frequent is known without error; an edge needs two standard errors and no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, exp, sqrt

import numpy as np
from scipy.stats import norm

from hubbub.analysis.arrays import Array, Index
from hubbub.analysis.estimation.prefix_search import best

SIZE = 2
ANSWERS = 3
"""The whole string and two n-grams."""
_EDGE = 2.0  # standard errors


@dataclass(frozen=True, slots=True)
class NGrams:
    """So many installs with texts of so many n-grams, and the epsilon of all that each of them says."""

    installs: int
    num_positions: int
    epsilon: float

    @property
    def variance(self) -> float:
        """Of one user's part in a share, through an oracle with a third of the epsilon: 4E/(E-1)^2."""
        e = exp(self.epsilon / ANSWERS)
        return 4 * e / (e - 1) ** 2

    @property
    def edge_error(self) -> float:
        """Of the share that has two n-grams, for two that nobody has: both noises multiply, and only those users count
        who chose these two positions."""
        return self.variance / sqrt(self.installs / comb(self.num_positions, 2))

    @property
    def text_error(self) -> float:
        return sqrt(self.variance / self.installs)


def pieces_of(texts: Sequence[str], num_positions: int) -> Index:
    """A row for each text: a number for the n-gram at each position."""
    numbers: dict[str, int] = {}
    rows = [
        [numbers.setdefault(text[SIZE * place : SIZE * (place + 1)], len(numbers)) for place in range(num_positions)]
        for text in texts
    ]
    return np.array(rows, dtype=np.int64)


def from_ngrams(
    given: NGrams, texts: Sequence[str], held: Index, most: int, alpha: float, rng: np.random.Generator
) -> list[str]:
    """The texts that it returns: candidates that pass the test at level alpha, corrected for their number. At each
    position the `most` frequent n-grams are looked at, and at most so many candidates are built."""
    pieces = pieces_of(texts, given.num_positions)
    nodes = [_frequent(pieces[:, place], held, most) for place in range(given.num_positions)]
    edges = {(i, j): _edges(given, pieces[:, [i, j]], nodes[i], nodes[j], held, rng)
             for i, j in combinations(range(given.num_positions), 2)}  # fmt: skip
    shares = dict(zip(texts, (held / given.installs).tolist(), strict=True))
    candidates = [
        "".join(_spelled(nodes, chosen, texts, pieces))
        for chosen in _cliques([len(some) for some in nodes], edges, most)
    ]
    if not candidates:
        return []
    threshold = float(norm.isf(alpha / len(candidates))) * given.text_error
    errors = rng.normal(0, given.text_error, len(candidates))
    return [
        text
        for text, error in zip(candidates, errors.tolist(), strict=True)
        if shares.get(text, 0.0) + error > threshold
    ]


def _frequent(pieces: Index, held: Index, most: int) -> Index:
    """The n-grams of a position that most installs have."""
    counts = np.bincount(pieces, held).astype(np.float64)
    return best(counts, most) if np.count_nonzero(counts) > most else np.flatnonzero(counts)


def _edges(given: NGrams, pairs: Index, first: Index, second: Index, held: Index, rng: np.random.Generator) -> Array:
    """How many standard errors the share of each two n-grams is estimated to have; 0 where that is no edge."""
    joint = np.zeros((len(first), len(second)))
    rows, columns = (_places(some, pairs[:, side]) for side, some in enumerate((first, second)))
    there = (rows >= 0) & (columns >= 0)
    np.add.at(joint, (rows[there], columns[there]), held[there] / given.installs)
    z = joint / given.edge_error + rng.normal(size=joint.shape)
    return np.where(z > _EDGE, z, 0.0)


def _places(known: Index, wanted: Index) -> Index:
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, place, -1)


def _cliques(sizes: Sequence[int], edges: dict[tuple[int, int], Array], most: int) -> list[tuple[int, ...]]:
    """One n-gram of each position, with an edge between every two: at most so many, those with the strongest edges."""
    found, strength = np.arange(sizes[0])[:, np.newaxis], np.zeros(sizes[0])
    for place in range(1, len(sizes)):
        scores = [edges[before, place][found[:, before]] for before in range(place)]
        linked = np.all([score > 0 for score in scores], axis=0)
        rows, added = np.nonzero(linked)
        total = strength[rows] + sum(score[rows, added] for score in scores)
        chosen = best(total, most)
        found = np.column_stack([found[rows[chosen]], added[chosen]])
        strength = total[chosen]
    return [tuple(row) for row in found.tolist()]


def _spelled(nodes: Sequence[Index], chosen: Sequence[int], texts: Sequence[str], pieces: Index) -> Iterator[str]:
    for place, (some, which) in enumerate(zip(nodes, chosen, strict=True)):
        holder = int(np.flatnonzero(pieces[:, place] == some[which])[0])
        yield texts[holder][SIZE * place : SIZE * (place + 1)]
