"""Any text, by its beginnings."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hubbub.analysis.estimation.prefix_search import Beginnings, positions
from hubbub.analysis.result import Decoding
from hubbub.protocol.kinds import Discovery
from hubbub.simulations.kinds.kind import NOWHERE, Index, Kind, Population, ValueMasks
from hubbub.simulations.kinds.lists import list_population
from hubbub.simulations.kinds.symbols import one_bit_masks

_CONSONANTS, _VOWELS = "bcdfghjklmnpqrstvwxz", "aeiou"
_SYLLABLES = tuple(consonant + vowel for consonant in _CONSONANTS for vowel in _VOWELS)


def made_up_name(number: int) -> str:
    """Three syllables, another for each number below a million; neighbours begin differently, as names do."""
    place = number * 618_033 % 1_000_000
    return _SYLLABLES[place // 10_000] + _SYLLABLES[place // 100 % 100] + _SYLLABLES[place % 100]


class DiscoveryKind(Kind[Discovery]):
    """The answers are the texts whose positions are given: they go through the decoder's hashing, which is tested to be
    the client's."""

    default_population = "zipf:1,1000"
    answers_are_called = "texts"
    shape_axes: ClassVar[Mapping[str, float]] = {"bits": 128.0, "cohorts": 16.0}

    @classmethod
    def example(cls, axes: Mapping[str, int]) -> Discovery:
        """As long as made-up names are. The cohorts are those of each level."""
        return Discovery(
            discover=True, alphabet="host", max_length=6, num_bits=axes["bits"], num_groups=axes["cohorts"]
        )

    def population(self, name: str, numbers: list[float], text: str) -> Population:
        found = list_population("string", None, name, numbers, text)
        return found._replace(values=[made_up_name(rank) for rank in range(len(found.values))])

    # --- masks ----------------------------------------------------------------------------------------------------

    def prepared(self, values: Sequence[Any]) -> Index:
        """Row c holds where each value sets its bit in cohort c."""
        shape = self.shape
        texts = [shape.symbols(value) for value in values]
        levels = (
            positions(shape, Beginnings.asked(shape, texts, level).states, level) for level in range(shape.num_levels)
        )
        return np.concatenate([level.astype(np.int64) for level in levels])

    def masks(self, prepared: Index, cohort: int) -> ValueMasks:
        return one_bit_masks(np.append(prepared[cohort], NOWHERE), self.shape.num_bits)

    def ones(self, by_cohort: Index, positions: npt.NDArray[Any] | None) -> list[Index]:
        assert positions is not None
        held = by_cohort[:, : positions.shape[1]].astype(np.float64)
        return [
            np.bincount(where, weights=row, minlength=self.shape.num_bits).astype(np.int64)
            for where, row in zip(positions, held, strict=True)
        ]

    # --- truth and theory -----------------------------------------------------------------------------------------

    def row_of(self, answer: Any, num_rows: int) -> Hashable:
        row: Hashable = answer
        return row

    def present(self, rows: int, counts: Mapping[Any, int]) -> int:
        """Only what was found has a row."""
        return sum(1 for answer, number in counts.items() if answer is not None and number)

    def fitted_together(self, decoding: Decoding) -> int:
        return int(decoding.detected.sum())

    def seen_through(self, share: float, fitted: int) -> tuple[float, float]:
        shape = self.shape
        background = 1 / shape.num_bits
        cells = shape.num_bits * shape.num_groups
        scale = shape.num_levels / ((1 - background) ** 2 * (1 - min(fitted, cells - 1) / cells))
        return scale, share + (1 - share) * background

    def least_variance(self, e: float) -> float:
        """That of strings somebody listed: what finding them costs is no law of nature."""
        return 4 * e / (e - 1) ** 2

    # --- audit ----------------------------------------------------------------------------------------------------

    def far_values(self, cohort: int) -> tuple[str, str]:
        names = [made_up_name(number) for number in range(8)]
        return max(combinations(names, 2), key=lambda pair: self._apart(pair, cohort))

    def _apart(self, texts: tuple[str, str], cohort: int) -> int:
        one, other = (self.shape.encode(text, cohort).mask for text in texts)
        return (one ^ other).bit_count()
