"""The design of strings: sums over a candidate's cells, whatever the definitions, by a matrix or by look-up."""

from __future__ import annotations

import numpy as np
import pytest

from hubbub.analysis.estimation import design as module
from hubbub.analysis.estimation.cells import pool
from hubbub.analysis.estimation.design import Design
from hubbub.analysis.estimation.hashing import digests
from hubbub.analysis.kinds.string import string_design
from hubbub.protocol.kinds import String
from tests.analysis.worlds import Strings, define, tally_of

TEXTS = [f"text {i}" for i in range(40)]
SHAPES = {
    "one definition": [String(num_bits=16, num_hashes=2, num_cohorts=4)],
    "two": [String(num_bits=16, num_hashes=2, num_cohorts=4), String(num_bits=64, num_hashes=1, num_cohorts=2)],
    "one bit": [String(num_bits=1, num_hashes=1, num_cohorts=32)],
}


def made(name: str) -> Design:
    pools = []
    for shape in SHAPES[name]:
        strings = Strings.of(define(shape), 40)
        pools.append(pool(tally_of(strings.metric, [100] * 40, np.random.default_rng(1), strings.where)))
    return string_design(pools, digests(TEXTS))


def explicit(design: Design) -> np.ndarray:
    """A row for each candidate, 1 in the cells it sets that count anything."""
    matrix = np.zeros((design.num_candidates, len(design.share)))
    for row, offset in zip(design.positions, design.offset, strict=True):
        matrix[np.arange(design.num_candidates), offset + row.astype(int)] = 1
    return matrix


@pytest.mark.parametrize("matrix", [True, False], ids=["matrix", "look-up"])
@pytest.mark.parametrize("name", SHAPES)
def test_sums_over_cells_are_those_of_the_explicit_matrix(name, matrix, monkeypatch):
    if not matrix:
        monkeypatch.setattr(module, "_MATRIX", 0)
    design = made(name)
    assert (design.matrix is not None) == matrix
    # What is gathered is always weighed, and cells that count nothing weigh nothing.
    cells = np.where(design.observed, np.random.default_rng(2).uniform(size=len(design.share)), 0.0)
    weights = np.random.default_rng(3).uniform(size=40)
    columns = explicit(design)
    gathered = design.gather(cells)
    assert gathered == pytest.approx(columns @ cells)
    assert design.gather_background(cells, gathered) == pytest.approx(columns @ (cells * design.background))
    assert design.scatter(weights) == pytest.approx(weights @ columns)
    assert design.rows_of(np.array([3, 7])).toarray() == pytest.approx(columns[[3, 7]])


@pytest.mark.parametrize("name", SHAPES)
def test_a_string_outside_the_list_sets_each_cell_as_often_as_the_background_says(name):
    """Of the listed strings all but chance: over the counted cells, the average of the columns is the background's."""
    design = made(name)
    counted = design.observed
    mean = explicit(design)[:, counted].mean(axis=0)
    expected = design.background[counted]
    spread = np.sqrt((expected * (1 - expected)).sum() / 40 / len(mean) ** 2)
    assert abs(mean.mean() - expected.mean()) < 6 * spread
