"""Answers that are one of some symbols, a category, a bucket or a leaf, so that a mask has one bit or none; and the
least variance that any mechanism can have over so many of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from hubbub.simulations.kinds.kind import NOWHERE, Index, ValueMasks


def remembered(symbol_of: Callable[[Any], int]) -> Callable[[Any], int]:
    """The same, for values that are asked about again and again: finding a number's place in exact fractions takes 20
    microseconds. 1 and True are not one value, though they are equal."""
    return lru_cache(maxsize=1 << 14, typed=True)(symbol_of)


def symbol_array(symbols: list[int | None]) -> Index:
    return np.array([NOWHERE if symbol is None else symbol for symbol in symbols], dtype=np.int64)


def one_bit_masks(where: Index, width: int) -> ValueMasks:
    """The masks whose one bit is at these positions, among so many."""
    return ValueMasks(where + 1, np.arange(-1, width)[:, np.newaxis])


def subset_selection_variance(answers: int, e: float) -> float:
    """n times the mean squared error of one of d answers by subset selection at the best size w of the subset, which
    attains the bound of local privacy (Ye, Barg 2018), shared out over the answers."""
    d = answers
    total = min(
        (d - 1) ** 2 * (w * e + d - w) ** 2 / (d * w * (d - w) * (e - 1) ** 2) for w in range(1, max(2, d // 2 + 1))
    )
    # Of a sample from a population whose answers are all alike; the sampling is no error about those who reported.
    return (total - (1 - 1 / d)) / d
