"""Yes or no."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from hubbub.analysis.arrays import Array
from hubbub.analysis.result import Decoding
from hubbub.protocol.encoding import ABSENT
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Flag
from hubbub.protocol.printed import plain_percent
from hubbub.simulations.kinds.kind import Index, Kind, Population, ValueMasks
from hubbub.simulations.kinds.lists import exactly, list_population
from hubbub.simulations.kinds.symbols import one_bit_masks, symbol_array

_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")


class FlagKind(Kind[Flag]):
    """The answers are no and yes, in this order where they are counted, and yes is what is read out."""

    default_population = "share:30%"
    counts_answers = False
    headline = "{reading}"

    @classmethod
    def example(cls, axes: Mapping[str, int]) -> Flag:
        return Flag()

    def population(self, name: str, numbers: list[float], text: str) -> Population:
        if name != "share":
            return list_population("flag", [True, False], name, numbers, text, more_forms=["share"])
        (share,) = exactly(numbers, 1, "share:SHARE", text)
        if not 0 <= share <= 1:
            raise Invalid([f"share must be in [0, 1], got {share:g}"])
        return Population([True, False], [share, 1 - share], f"{plain_percent(share)} say yes")

    def value(self, text: str) -> Any:
        return {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}.get(text.strip().lower(), text)

    def prepared(self, values: Sequence[Any]) -> Index:
        return symbol_array([self.shape.encode(value, 0).mask for value in [*values, ABSENT]])

    def masks(self, prepared: Index, cohort: int) -> ValueMasks:
        return one_bit_masks(prepared - 1, 1)

    def ones(self, by_cohort: Index, positions: npt.NDArray[Any] | None) -> list[Index]:
        return [by_cohort[0, 1:2]]

    def row_of(self, answer: Any, num_rows: int) -> Hashable:
        return "yes" if (self.shape.absent if answer is None else answer) else "no"

    def distance(self, decoding: Decoding, truth: Array, counts: Mapping[Any, int]) -> float:
        return abs(float(decoding.best_guess[0] - truth[0]))  # the one row is yes; no is what is left

    def least_variance(self, e: float) -> float:
        """Warner 1965."""
        return e / (e - 1) ** 2

    def far_values(self, cohort: int) -> tuple[bool, bool]:
        return True, False
