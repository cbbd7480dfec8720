"""Any text, hashed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.analysis.result import Decoding
from hubbub.protocol.kinds import String
from hubbub.simulations.kinds.kind import NOWHERE, Index, Kind, Population, ValueMasks
from hubbub.simulations.kinds.lists import DEFAULT_STRINGS, list_population
from hubbub.simulations.kinds.symbols import one_bit_masks

_TEXTS = tuple(f"text {i}" for i in range(64))


class StringKind(Kind[String]):
    """The answers are the strings whose positions are given: strings go through the decoder's hashing, which is tested
    to be the client's."""

    default_population = f"zipf:1,{DEFAULT_STRINGS}"
    answers_are_called = "strings"
    shape_axes: ClassVar[Mapping[str, float]] = {"bits": 64.0, "cohorts": 128.0, "hashes": 1.0}

    @classmethod
    def example(cls, axes: Mapping[str, int]) -> String:
        return String(num_bits=axes["bits"], num_hashes=axes["hashes"], num_cohorts=axes["cohorts"])

    def population(self, name: str, numbers: list[float], text: str) -> Population:
        return list_population("string", None, name, numbers, text)

    # --- masks ----------------------------------------------------------------------------------------------------

    def prepared(self, values: Sequence[Any]) -> Index:
        return np.asarray(positions(self.shape, digests(values)), dtype=np.int64)

    def masks(self, prepared: Index, cohort: int) -> ValueMasks:
        hashes = self.shape.num_hashes
        if hashes == 1:
            where = prepared[cohort] if self.shape.num_bits > 1 else -prepared[cohort]  # 0 where a single bit is set
            return one_bit_masks(np.append(where, NOWHERE), self.shape.num_bits)
        several = np.sort(prepared[cohort * hashes : (cohort + 1) * hashes], axis=0).T
        several = np.concatenate([several, np.full((1, hashes), NOWHERE)])
        distinct, keys = np.unique(several, axis=0, return_inverse=True)
        return ValueMasks(keys.reshape(-1), distinct)

    def ones(self, by_cohort: Index, positions: npt.NDArray[Any] | None) -> list[Index]:
        assert positions is not None
        return [self._ones(cohort, row, positions) for cohort, row in enumerate(by_cohort)]

    def _ones(self, cohort: int, row: Index, positions: npt.NDArray[Any]) -> Index:
        held = row[: positions.shape[1]].astype(np.float64)
        hashes = self.shape.num_hashes
        ones = np.zeros(max(self.shape.num_bits, 2))  # a single bit is set where the position is 0
        for bit in positions[cohort * hashes : (cohort + 1) * hashes]:
            ones += np.bincount(bit, weights=held, minlength=len(ones))
        return ones[: self.shape.num_bits].astype(np.int64)

    # --- truth and theory -----------------------------------------------------------------------------------------

    def row_of(self, answer: Any, num_rows: int) -> Hashable:
        row: Hashable = answer
        return row

    def fitted_together(self, decoding: Decoding) -> int:
        cells = self.shape.num_bits * self.shape.num_cohorts
        return min(int(decoding.detected.sum()), cells - 1)

    def seen_through(self, share: float, fitted: int) -> tuple[float, float]:
        shape = self.shape
        hashes, bits = (shape.num_hashes, shape.num_bits) if shape.num_bits > 1 else (1, 2)
        background = hashes / bits
        scale = 1 / (hashes * (1 - background) ** 2 * (1 - fitted / (shape.num_bits * shape.num_cohorts)))
        return scale, share + (1 - share) * background

    def least_variance(self, e: float) -> float:
        """The limit of subset selection for answers whose number is not limited."""
        return 4 * e / (e - 1) ** 2

    # --- audit ----------------------------------------------------------------------------------------------------

    def far_values(self, cohort: int) -> tuple[str, str]:
        return max(self._pairs(), key=lambda texts: self._apart(texts, cohort))

    def _pairs(self) -> Iterator[tuple[str, str]]:
        return combinations(_TEXTS[:8] if self.shape.num_hashes == 1 else _TEXTS, 2)

    def _apart(self, texts: tuple[str, str], cohort: int) -> tuple[int, int]:
        one, other = (self.shape.encode(text, cohort).mask for text in texts)
        return (one ^ other).bit_count(), one.bit_count()  # a single bit: first the text that sets it
