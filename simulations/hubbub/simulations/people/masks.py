"""The masks that installs would encode, for whole crowds at once, cohort by cohort.

A mask is known here by a number, its key, and by where its bits are. Values go through the client's own `encode` (and
strings through the decoder's hashing, which is tested to be the same); what depends on the cohort alone is arithmetic
on arrays. Which end of its range a `mean` is rounded to depends on the install: its dither is drawn here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.protocol.encoding import ABSENT as SILENCE
from hubbub.protocol.kinds import Choice, Flag, Histogram, Mean, Range, String
from hubbub.protocol.metric import Definition
from hubbub.protocol.shape import Shape
from hubbub.simulations.people.histories import AWAY, Index, Lives

NOWHERE = -1
"""In place of a position: the mask has no bit there. In place of a key: nothing is asked."""


class Asked(NamedTuple):
    """One cohort: `keys[r, e]` is the mask that each of `installs[r]` encodes in epoch e, or `NOWHERE` if it does not
    run; `where[key]` holds the positions of that mask's bits, `NOWHERE` for those it lacks."""

    cohort: int
    keys: Index
    installs: Index
    where: Index


class Masks(NamedTuple):
    """The masks of some values in one cohort: the key of each, that of silence last, and where each key has bits."""

    keys: Index
    where: Index


def asked_by_cohort(metric: Definition, lives: Lives, rng: np.random.Generator) -> Iterator[Asked]:
    """Every install joins a cohort by itself. Cohorts come one after the other: no more than one is held."""
    if isinstance(metric.shape, Mean):
        yield _ends(metric.shape, lives, rng)
        return
    rows = _rows_of(metric.shape, lives.values)
    num_cohorts = metric.shape.num_cohorts
    left = lives.installs
    for cohort in range(num_cohorts):
        here = left if cohort == num_cohorts - 1 else rng.binomial(left, 1 / (num_cohorts - cohort))
        left = left - here
        lived = np.flatnonzero(here)
        masks = masks_of(metric.shape, rows, cohort)
        answers = lives.answers[lived]
        keys = np.where(answers == AWAY, NOWHERE, masks.keys[answers])  # ABSENT = -1 is the last of them
        yield Asked(cohort, keys, here[lived], masks.where)


def symbol_of(shape: Shape, value: Any) -> int | None:
    """Which category, bucket or leaf the client makes of a value; None where it has no such thing."""
    match shape:
        case Flag():
            return shape.encode(SILENCE if value is None else value, 0).mask
        case Choice():
            return shape.encode(SILENCE if value is None else value, 0).mask.bit_length() - 1
        case Histogram() if value is not None:
            whole = Histogram(edges=shape.edges, buckets_per_report=shape.num_buckets)
            return whole.encode(value, 0).mask.bit_length() - 1
        case Range() if value is not None:
            return shape.encode(value, shape.num_levels - 1).mask.bit_length() - 1
    return None


def _rows_of(shape: Shape, values: Sequence[Any]) -> Index:
    """What `masks_of` needs to know of the values, whatever the cohort: their symbols, or their hashed positions."""
    if isinstance(shape, String):
        return np.asarray(positions(shape, digests(values)), dtype=np.int64)
    symbols = [symbol_of(shape, value) for value in [*values, None]]
    return np.array([NOWHERE if symbol is None else symbol for symbol in symbols], dtype=np.int64)


def masks_of(shape: Shape, rows: Index, cohort: int) -> Masks:
    match shape:
        case Flag():
            where = rows - 1
        case Choice():
            where = rows
        case Histogram():
            place = (rows - cohort) % shape.num_buckets
            where = np.where((rows == NOWHERE) | (place >= shape.buckets_per_report), NOWHERE, place)
        case Range():
            where = np.where(rows == NOWHERE, NOWHERE, rows // shape.branching ** (shape.num_levels - 1 - cohort))
        case String(num_bits=1):
            where = np.append(-rows[cohort], NOWHERE)  # the row holds 0 where the bit is set and 1 where it is not
        case String(num_hashes=1):
            where = np.append(rows[cohort], NOWHERE)
        case String(num_hashes=num_hashes):
            several = np.sort(rows[cohort * num_hashes : (cohort + 1) * num_hashes], axis=0).T
            several = np.concatenate([several, np.full((1, num_hashes), NOWHERE)])
            distinct, keys = np.unique(several, axis=0, return_inverse=True)
            return Masks(keys.reshape(-1), distinct)
        case _:
            raise AssertionError("unreachable: a mean has no masks but its ends")
    return Masks(where + 1, np.arange(-1, shape.width(cohort))[:, np.newaxis])


def _ends(shape: Mean, lives: Lives, rng: np.random.Generator) -> Asked:
    """Alpha-point rounding: a number is rounded up iff the install's alpha reaches 1 - its place in the range.

    The thresholds of one life cut [0, 1) into pieces; in which of them alpha lies says how every epoch is rounded.
    """
    low, high = float(shape.low), float(shape.high)
    numbers = np.clip(np.array([*lives.values, float(shape.absent)], dtype=np.float64), low, high)
    threshold = np.where(lives.answers == AWAY, 1.0, 1 - (numbers[lives.answers] - low) / (high - low))
    ends = np.ones((len(threshold), 1))
    pieces = np.concatenate([0 * ends, np.sort(threshold, axis=1), ends], axis=1)
    installs = rng.multinomial(lives.installs, np.diff(pieces, axis=1))
    life, piece = np.nonzero(installs)
    rounded_up = pieces[life, piece][:, np.newaxis] >= threshold[life]
    keys = np.where(lives.answers[life] == AWAY, NOWHERE, rounded_up.astype(np.int64))
    return Asked(0, keys, installs[life, piece], np.array([[NOWHERE], [0]]))
