"""Strings as one side of a crosstab: those of a list that were detected, and all others together.

The share of each string is a weighted sum of cells by least squares, with a column for whatever is not listed, whose
bits fall anywhere (`estimation.design`). Each cell enters with its weight, so that a report's score is the sum over its
bits. Unlisted strings do not really fall evenly: what that adds to the error does not shrink with more reports, and
is read off how badly the cells fit (`Factor.unlisted`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.cells import PooledTally
from hubbub.analysis.estimation.factor_scores import bit_scores, response, with_none
from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.analysis.kinds.factor import Categories, Factor, reports_of
from hubbub.analysis.result import ANSWER, OTHER, Decoding
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import String

_MOST_STRINGS = 30  # more would be detected by nobody in pairs, and make a table that nobody reads


def string_factor(pool: PooledTally, decoding: Decoding) -> Factor:
    """Of the strings that `decoding` has detected, the most common first."""
    shape, noise = pool.metric.shape, pool.metric.noise
    assert isinstance(shape, String)
    detected = decoding.detected
    found = [decoding.values[i] for i in decoding.largest_answers(len(decoding)) if detected[i]]
    if not found:
        raise Invalid([f"no string of {pool.metric.name} was detected: there is nothing to put into a table"])
    shown = found[:_MOST_STRINGS]
    masks = _masks(shape, shown)
    background = 0.5 if shape.num_bits == 1 else shape.num_hashes / shape.num_bits
    reports = reports_of(pool)
    weights = _least_squares(masks, background, reports)
    bits = bit_scores(noise, shape.num_bits)
    # A cohort stands for all installs in as far as it weighs: weights are of cells, scores of single reports.
    scores = [
        with_none(reports.sum() / many * weight @ bits) if many else None
        for weight, many in zip(weights, reports, strict=True)
    ]
    return Factor(
        categories=Categories(name=pool.metric.name, values=(*shown, "other"), roles=(*(ANSWER for _ in shown), OTHER)),
        responses=tuple(
            None if score is None else response(noise, np.vstack([mask, np.full(shape.num_bits, background)]), score)
            for mask, score in zip(masks, scores, strict=True)
        ),
        unlisted=True,
        notes=(
            f"Of {pool.metric.name}, {len(found)} strings of the list were detected and are shown; all else, silence "
            "included, is `other`."
            if len(found) <= _MOST_STRINGS
            else f"Of {pool.metric.name}, the {len(shown)} most common of {len(found)} detected strings are shown; all "
            "else, silence included, is `other`.",
        ),
    )


def _masks(shape: String, strings: Sequence[str]) -> Array:
    """(cohorts, strings, bits)."""
    place = positions(shape, digests(list(strings))).reshape(shape.num_cohorts, shape.num_hashes, len(strings))
    masks = np.zeros((shape.num_cohorts, len(strings), shape.num_bits))
    for cohort in range(shape.num_cohorts):
        for row in place[cohort]:
            here = row < shape.num_bits  # of a parity bit, 1 stands for a bit that is not set
            masks[cohort, np.flatnonzero(here), row[here].astype(int)] = 1
    return masks


def _least_squares(masks: Array, background: float, reports: Array) -> Array:
    """(cohorts, strings, bits): how much each cell counts for each string. A cell weighs by the reports behind it."""
    cohorts, strings, bits = masks.shape
    columns = np.vstack([masks.transpose(1, 0, 2).reshape(strings, -1), np.full(cohorts * bits, background)])
    weighted = columns * np.repeat(reports, bits)
    solved = np.linalg.pinv(weighted @ columns.T) @ weighted
    return np.asarray(solved[:-1].reshape(strings, cohorts, bits).transpose(1, 0, 2))
