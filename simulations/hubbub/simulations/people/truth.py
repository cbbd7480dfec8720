"""What the estimates should have been: the truth about a crowd, row by row as a decoding has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.analysis.result import ABSENT, ANSWER, NUMBER, OTHER, Decoding
from hubbub.protocol.kinds import Choice, Flag, Mean, Range, String
from hubbub.protocol.metric import Definition
from hubbub.protocol.shape import Shape
from hubbub.simulations.people.masks import symbol_of

Truth = npt.NDArray[np.float64]


def truth_of(decoding: Decoding, metric: Definition, answers: Sequence[Sequence[Any]]) -> Truth:
    """The true value of each row, from what the installs recorded (None: nothing), epochs pooled as `decode` does.

    NaN where a row has no truth of this kind.
    """
    return truth_of_counts(decoding, metric, Counter(answer for epoch in answers for answer in epoch), len(answers))


def truth_of_counts(decoding: Decoding, metric: Definition, counts: Mapping[Any, int], epochs: int) -> Truth:
    """The same, from how often each answer was recorded in all epochs together."""
    if isinstance(metric.shape, Mean):
        return _mean(decoding, metric.shape, counts, epochs)
    shares = _shares(metric.shape, counts)
    if isinstance(metric.shape, Range):
        shares = _coarser(shares, metric.shape.num_leaves // sum(role == ANSWER for role in decoding.roles))
    listed = {value for value, role in zip(decoding.values, decoding.roles, strict=True) if role == ANSWER}
    rows = np.full(len(decoding), np.nan)
    number = 0
    for i, (value, role) in enumerate(zip(decoding.values, decoding.roles, strict=True)):
        if role == ABSENT:
            rows[i] = shares.get(None, 0.0)
        elif role == OTHER:
            rows[i] = sum(share for text, share in shares.items() if text is not None and text not in listed)
        elif role == ANSWER:
            key = value if isinstance(metric.shape, Flag | Choice | String) else number
            rows[i] = shares.get(key, 0.0)
            number += 1
        elif role == NUMBER and value.startswith("quantile "):
            rows[i] = _quantile(counts, float(value.removeprefix("quantile ")))
    return rows


def _shares(shape: Shape, counts: Mapping[Any, int]) -> dict[Any, float]:
    """Shares by what a row is about: a text, a bucket's or leaf's number, None for absent."""
    found: dict[Any, float] = {}
    everyone = max(sum(counts.values()), 1)
    for answer, number in counts.items():
        key = _row(shape, answer)
        found[key] = found.get(key, 0.0) + number / everyone
    return found


def leaf_shares(shape: Range, counts: Mapping[Any, int]) -> Truth:
    """The share of each leaf of a range."""
    shares = _shares(shape, counts)
    return np.array([shares.get(leaf, 0.0) for leaf in range(shape.num_leaves)])


def _coarser(shares: Mapping[Any, float], leaves: int) -> dict[Any, float]:
    """A decoding shows at most 64 cells of a range, each of so many leaves."""
    found: dict[Any, float] = {}
    for leaf, share in shares.items():
        cell = None if leaf is None else leaf // leaves
        found[cell] = found.get(cell, 0.0) + share
    return found


def _row(shape: Shape, answer: Any) -> Any:
    match shape:
        case Flag(absent=absent):
            return "yes" if (absent if answer is None else answer) else "no"
        case Choice(absent=absent):
            return absent if answer is None else answer
        case String():
            return answer
    return symbol_of(shape, answer)


def _quantile(counts: Mapping[Any, int], q: float) -> float:
    """As numpy's of all answers, one by one: between the two nearest, in proportion."""
    known = sorted((float(answer), number) for answer, number in counts.items() if answer is not None and number)
    if not known:
        return float("nan")
    numbers = np.array([number for number, _ in known])
    reached = np.cumsum([number for _, number in known])
    place = (int(reached[-1]) - 1) * q
    below, above = (numbers[np.searchsorted(reached, int(x), side="right")] for x in (place, np.ceil(place)))
    return float(below + (place - int(place)) * (above - below))


def _mean(decoding: Decoding, shape: Mean, counts: Mapping[Any, int], epochs: int) -> Truth:
    """Numbers beyond the range count as its ends, in the truth as well: that is what is asked."""
    low, high = float(shape.low), float(shape.high)
    total = sum(
        min(max(float(shape.absent if answer is None else answer), low), high) * number
        for answer, number in counts.items()
    )
    known = {"mean": total / max(sum(counts.values()), 1), "sum": total / epochs}
    return np.array([known.get(value, np.nan) for value in decoding.values])
