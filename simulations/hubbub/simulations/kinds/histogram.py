"""A number, by bucket; each cohort is asked about a few buckets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.analysis.arrays import Array
from hubbub.protocol.kinds import Histogram
from hubbub.simulations.kinds.kind import NOWHERE, Index, Kind, Population, ValueMasks
from hubbub.simulations.kinds.lists import bell
from hubbub.simulations.kinds.numbers import GRID, number_population, on_grid
from hubbub.simulations.kinds.symbols import one_bit_masks, remembered, subset_selection_variance, symbol_array


class HistogramKind(Kind[Histogram]):
    """The answers are the buckets, in their order."""

    answers_are_called = "buckets"

    @classmethod
    def example(cls, axes: Mapping[str, int]) -> Histogram:
        return Histogram(edges=tuple(Fraction(i) for i in range(9)), buckets_per_report=8)

    def population(self, name: str, numbers: list[float], text: str) -> Population:
        if name == "normal" and not numbers:
            steps = np.concatenate([[0.0], np.cumsum(bell(self.shape.num_buckets))])
            own = np.array([float(edge) for edge in self.shape.edges])
            return on_grid(self._grid(), lambda x: np.interp(x, own, steps / steps[-1]), "a bell over the buckets")
        return number_population("histogram", self._grid(), self.shape.unit, name, numbers, text)

    def _grid(self) -> Array:
        """No cell reaches over an edge that the metric knows."""
        parts = max(1, GRID // self.shape.num_buckets)
        own = [float(edge) for edge in self.shape.edges]
        inner = [np.linspace(a, b, parts, endpoint=False) for a, b in pairwise(own)]
        return np.concatenate([*inner, own[-1:]])

    @cached_property
    def _bucket_of(self) -> Callable[[Any], int]:
        """As the client finds it, were it asked about all buckets."""
        encode = self.shape.replace(buckets_per_report=self.shape.num_buckets).encode
        return remembered(lambda value: encode(value, 0).mask.bit_length() - 1)

    def _bucket(self, value: Any) -> int | None:
        return None if value is None else self._bucket_of(value)

    def prepared(self, values: Sequence[Any]) -> Index:
        return symbol_array([self._bucket(value) for value in [*values, None]])

    def masks(self, prepared: Index, cohort: int) -> ValueMasks:
        place = (prepared - cohort) % self.shape.num_buckets
        asked = (prepared != NOWHERE) & (place < self.shape.buckets_per_report)
        return one_bit_masks(np.where(asked, place, NOWHERE), self.shape.width(cohort))

    def ones(self, by_cohort: Index, positions: npt.NDArray[Any] | None) -> list[Index]:
        asked = [
            [self.shape.bucket(cohort, i) for i in range(self.shape.buckets_per_report)]
            for cohort in range(self.shape.num_cohorts)
        ]
        return [row[buckets] for row, buckets in zip(by_cohort, asked, strict=True)]

    def row_of(self, answer: Any, num_rows: int) -> Hashable:
        return self._bucket(answer)

    def seen_through(self, share: float, fitted: int) -> tuple[float, float]:
        return self.shape.num_buckets / self.shape.buckets_per_report, share

    def least_variance(self, e: float) -> float:
        return subset_selection_variance(self.shape.num_buckets, e)

    def far_values(self, cohort: int) -> tuple[Fraction, Fraction]:
        edges = self.shape.edges
        return edges[self.shape.bucket(cohort, 0)], edges[self.shape.bucket(cohort, 1)]
