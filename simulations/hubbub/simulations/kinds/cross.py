"""Two answers at once. A value is a pair: for each factor the number of its category, or a place between two points
where a mean is still to be rounded."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import product
from math import floor
from typing import Any

import numpy.typing as npt

from hubbub.protocol.encoding import ABSENT
from hubbub.protocol.kinds import Choice, Cross, Flag
from hubbub.protocol.shape import Factor
from hubbub.simulations.kinds.kind import Index, Kind, Population, ValueMasks
from hubbub.simulations.kinds.lists import list_population
from hubbub.simulations.kinds.symbols import one_bit_masks, subset_selection_variance, symbol_array


class CrossKind(Kind[Cross]):
    """The answers are the cells, row by row."""

    default_population = "zipf:1"
    answers_are_called = "combinations"

    @classmethod
    def example(cls, axes: Mapping[str, int]) -> Cross:
        eight = Choice(choices=tuple(f"choice {i}" for i in range(1, 9)), absent="choice 8")
        return Cross(factors=(Factor(name="listed", shape=eight), Factor(name="said", shape=Flag())))

    def population(self, name: str, numbers: list[float], text: str) -> Population:
        first, second = (range(len(factor.categories)) for factor in self.shape.factors)
        return list_population("cross", list(product(first, second)), name, numbers, text)

    def value(self, text: str) -> Any:
        return self.shape.typed(text)

    def prepared(self, values: Sequence[Any]) -> Index:
        return symbol_array([self.shape.encode(value, 0).mask.bit_length() - 1 for value in [*values, ABSENT]])

    def masks(self, prepared: Index, cohort: int) -> ValueMasks:
        return one_bit_masks(prepared, self.shape.width(cohort))

    def ones(self, by_cohort: Index, positions: npt.NDArray[Any] | None) -> list[Index]:
        return [by_cohort[0]]

    def row_of(self, answer: Any, num_rows: int) -> Hashable:
        mask = self.shape.encode(ABSENT if answer is None else answer, 0).mask
        return self.shape.answers[mask.bit_length() - 1]

    def shares(self, counts: Mapping[Any, int], num_rows: int) -> dict[Hashable, float]:
        """Of what is still to be rounded, the parts that are expected in each cell."""
        found: dict[Hashable, float] = {}
        everyone = max(sum(counts.values()), 1)
        for answer, number in counts.items():
            for cell, part in [(answer, 1.0)] if answer is None else _rounded(answer):
                row = self.row_of(cell, num_rows)
                found[row] = found.get(row, 0.0) + part * number / everyone
        return found

    def least_variance(self, e: float) -> float:
        return subset_selection_variance(self.shape.categories, e)

    def far_values(self, cohort: int) -> tuple[tuple[int, int], tuple[int, int]]:
        return (0, 0), (1, 1)


def _rounded(places: tuple[float, float]) -> Iterator[tuple[tuple[int, int], float]]:
    """The cells around a pair of places, and the chance of each."""
    sides = [[(floor(place), 1 - place % 1), (floor(place) + 1, place % 1)] for place in places]
    for (i, one), (j, other) in product(*sides):
        if one * other:
            yield (i, j), one * other
