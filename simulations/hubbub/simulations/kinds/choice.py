"""One of a declared list."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.protocol.encoding import ABSENT
from hubbub.protocol.kinds import Choice
from hubbub.simulations.kinds.kind import Index, Kind, Population, ValueMasks
from hubbub.simulations.kinds.lists import list_population
from hubbub.simulations.kinds.symbols import one_bit_masks, subset_selection_variance, symbol_array


class ChoiceKind(Kind[Choice]):
    """The answers are the categories, in the order of the list, silence last where it is one."""

    default_population = "zipf:1"
    answers_are_called = "choices"

    @classmethod
    def example(cls, axes: Mapping[str, int]) -> Choice:
        return Choice(choices=tuple(f"choice {i}" for i in range(1, 17)), absent="choice 16")

    def population(self, name: str, numbers: list[float], text: str) -> Population:
        return list_population("choice", self.shape.listed, name, numbers, text)

    def prepared(self, values: Sequence[Any]) -> Index:
        return symbol_array([self.shape.encode(value, 0).mask.bit_length() - 1 for value in [*values, ABSENT]])

    def masks(self, prepared: Index, cohort: int) -> ValueMasks:
        return one_bit_masks(prepared, self.shape.width(cohort))

    def ones(self, by_cohort: Index, positions: npt.NDArray[Any] | None) -> list[Index]:
        """Spare places, which have no column, stand behind the choices."""
        listed, counts = len(self.shape.listed), by_cohort[0]
        return [np.insert(counts, [listed] * self.shape.spare, 0)]

    def row_of(self, answer: Any, num_rows: int) -> Hashable:
        return self.shape.absent if answer is None else answer

    def least_variance(self, e: float) -> float:
        return subset_selection_variance(self.shape.categories, e)

    def far_values(self, cohort: int) -> tuple[str, str]:
        return self.shape.choices[0], self.shape.choices[1]
