"""What the estimates should have been: the truth about a crowd, row by row as a decoding has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.analysis.decoding import ABSENT, ANSWER, NUMBER, OTHER, Decoding
from hubbub.protocol.metric import Definition
from hubbub.protocol.shape import Choice, Flag, Histogram, Mean, Range, Shape, String

Truth = npt.NDArray[np.float64]


def truth_of(decoding: Decoding, metric: Definition, answers: Sequence[Sequence[Any]]) -> Truth:
    """The true value of each row, from what the installs recorded (None: nothing), epochs pooled as `decode` does.

    NaN where a row has no truth of this kind.
    """
    recorded = [answer for epoch in answers for answer in epoch]
    if isinstance(metric.shape, Mean):
        return _mean(decoding, metric.shape, recorded, len(answers))
    shares = _shares(metric.shape, recorded)
    listed = {value for value, role in zip(decoding.values, decoding.roles, strict=True) if role == ANSWER}
    rows = np.full(len(decoding), np.nan)
    number = 0
    for i, (value, role) in enumerate(zip(decoding.values, decoding.roles, strict=True)):
        if role == ABSENT:
            rows[i] = shares.get(None, 0.0)
        elif role == OTHER:
            rows[i] = sum(share for text, share in shares.items() if text is not None and text not in listed)
        elif role == ANSWER:
            key = number if isinstance(metric.shape, Histogram | Range) else value
            rows[i] = shares.get(key, 0.0)
            number += 1
        elif role == NUMBER and value.startswith("quantile "):
            known = [float(answer) for answer in recorded if answer is not None]
            rows[i] = np.quantile(known, float(value.removeprefix("quantile ")))
    return rows


def _shares(shape: Shape, recorded: Sequence[Any]) -> dict[Any, float]:
    """Shares by what a row is about: a text, a bucket's or leaf's number, None for absent."""
    found: dict[Any, float] = {}
    for answer in recorded:
        key = _row(shape, answer)
        found[key] = found.get(key, 0.0) + 1 / len(recorded)
    return found


def _row(shape: Shape, answer: Any) -> Any:
    match shape:
        case Flag(absent=absent):
            return "yes" if (absent if answer is None else answer) else "no"
        case Choice(absent=absent):
            return absent if answer is None else answer
        case String():
            return answer
        case Histogram(edges=edges) if answer is not None:
            bucket = int(np.searchsorted([float(edge) for edge in edges], answer, side="right")) - 1
            return min(max(bucket, 0), shape.num_buckets - 1)
        case Range(low=low, high=high, num_leaves=leaves) if answer is not None:
            return min(max(int((answer - low) * leaves / (high - low)), 0), leaves - 1)
    return None


def _mean(decoding: Decoding, shape: Mean, recorded: Sequence[Any], epochs: int) -> Truth:
    numbers = [float(shape.absent if answer is None else answer) for answer in recorded]
    known = {"mean": float(np.mean(numbers)), "sum": float(np.sum(numbers)) / epochs}
    return np.array([known.get(value, np.nan) for value in decoding.values])
