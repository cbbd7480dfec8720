"""What the estimates should have been: the truth about a crowd, row by row as a decoding has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.analysis.result import ABSENT, ANSWER, NUMBER, OTHER, Decoding
from hubbub.protocol.metric import Definition
from hubbub.protocol.shape import Shape
from hubbub.simulations.kinds import kind_of

Truth = npt.NDArray[np.float64]
"""What is true of the made-up people, row for row beside the estimates."""


def truth_of(decoding: Decoding, metric: Definition, counts: Mapping[Any, int], epochs: int) -> Truth:
    """The true value of each row, from how often each answer (None: nothing) was recorded in all these epochs together.

    Epochs are pooled as `decode` does. NaN where a row has no truth of this kind.
    """
    kind = kind_of(metric.shape)
    answers = [value for value, role in zip(decoding.values, decoding.roles, strict=True) if role == ANSWER]
    shares = kind.shares(counts, len(answers)) if answers or ABSENT in decoding.roles else {}
    listed = set(answers)
    rows = np.full(len(decoding), np.nan)
    number = 0
    for i, (value, role) in enumerate(zip(decoding.values, decoding.roles, strict=True)):
        if role == ABSENT:
            rows[i] = shares.get(None, 0.0)
        elif role == OTHER:
            rows[i] = sum(share for text, share in shares.items() if text is not None and text not in listed)
        elif role == ANSWER:
            rows[i] = shares.get(number if metric.shape.natural_order else value, 0.0)
            number += 1
        elif role == NUMBER:
            rows[i] = kind.true_number(value, counts, epochs)
    return rows


def cell_shares(shape: Shape, counts: Mapping[Any, int], cells: int) -> Truth:
    """The share of each of so many cells of a kind whose answers have an order."""
    shares = kind_of(shape).shares(counts, cells)
    return np.array([shares.get(cell, 0.0) for cell in range(cells)])
