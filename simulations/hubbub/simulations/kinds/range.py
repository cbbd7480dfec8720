"""A number whose distribution is wanted; each cohort reports one level of a tree."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.analysis.arrays import Array
from hubbub.analysis.kinds.variances import tree_gain
from hubbub.analysis.result import Decoding
from hubbub.protocol.kinds import Range
from hubbub.simulations.kinds.kind import NOWHERE, Index, Kind, Population, ValueMasks
from hubbub.simulations.kinds.numbers import GRID, number_population, true_quantile
from hubbub.simulations.kinds.symbols import one_bit_masks, remembered, subset_selection_variance, symbol_array


class RangeKind(Kind[Range]):
    """The answers are the leaves, in their order; a decoding shows at most 64 cells, each of some leaves. The median is
    what is read out."""

    headline = "a median of {reading}, and no share below any number off by more than {distance}"

    @classmethod
    def example(cls, axes: Mapping[str, int]) -> Range:
        return Range(low=Fraction(0), high=Fraction(256), num_leaves=256, branching=4)

    def population(self, name: str, numbers: list[float], text: str) -> Population:
        shape = self.shape
        cells = shape.num_leaves * max(1, GRID // shape.num_leaves)
        edges = np.linspace(float(shape.low), float(shape.high), cells + 1)
        return number_population("range", edges, shape.unit, name, numbers, text)

    # --- masks ----------------------------------------------------------------------------------------------------

    @cached_property
    def _leaf_of(self) -> Callable[[Any], int]:
        last, encode = self.shape.num_levels - 1, self.shape.encode
        return remembered(lambda value: encode(value, last).mask.bit_length() - 1)

    def _leaf(self, value: Any) -> int | None:
        return None if value is None else self._leaf_of(value)

    def prepared(self, values: Sequence[Any]) -> Index:
        return symbol_array([self._leaf(value) for value in [*values, None]])

    def masks(self, prepared: Index, cohort: int) -> ValueMasks:
        node = prepared // self.shape.branching ** (self.shape.num_levels - 1 - cohort)
        return one_bit_masks(np.where(prepared == NOWHERE, NOWHERE, node), self.shape.width(cohort))

    def ones(self, by_cohort: Index, positions: npt.NDArray[Any] | None) -> list[Index]:
        leaves = by_cohort[:, : self.shape.num_leaves]
        return [row.reshape(self.shape.width(cohort), -1).sum(axis=1) for cohort, row in enumerate(leaves)]

    # --- truth and verdict ----------------------------------------------------------------------------------------

    def row_of(self, answer: Any, num_rows: int) -> Hashable:
        leaf = self._leaf(answer)
        return None if leaf is None else leaf // (self.shape.num_leaves // num_rows)

    def true_number(self, name: str, counts: Mapping[Any, int], epochs: int) -> float:
        return true_quantile(name, counts)

    def headline_row(self, decoding: Decoding) -> int:
        return decoding.values.index("quantile 0.5")

    def _true_leaves(self, counts: Mapping[Any, int]) -> Array:
        shares = self.shares(counts, self.shape.num_leaves)
        return np.array([shares.get(leaf, 0.0) for leaf in range(self.shape.num_leaves)])

    def errors(self, decoding: Decoding, truth: Array, counts: Mapping[Any, int]) -> tuple[Array, Array]:
        assert decoding.distribution is not None
        known = self._true_leaves(counts)
        return decoding.distribution.leaves - known, known

    def distance(self, decoding: Decoding, truth: Array, counts: Mapping[Any, int]) -> float:
        """The largest error of the distribution function, which is of those who answered."""
        assert decoding.distribution is not None
        guess, known = (np.cumsum(x) for x in (decoding.distribution.best_guess, self._true_leaves(counts)))
        return float(np.max(np.abs(guess / max(guess[-1], 1e-300) - known / max(known[-1], 1e-300))))

    # --- theory and audit -----------------------------------------------------------------------------------------

    def seen_through(self, share: float, fitted: int) -> tuple[float, float]:
        return self.shape.num_levels * tree_gain(self.shape.branching, self.shape.num_levels), share

    def least_variance(self, e: float) -> float:
        return subset_selection_variance(self.shape.num_leaves, e)

    def far_values(self, cohort: int) -> tuple[Fraction, Fraction]:
        return self.shape.low, self.shape.high
