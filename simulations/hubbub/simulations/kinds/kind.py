"""What a kind of metric brings to simulations, beyond the facts of its shape.

People: which values they hold and how common each is. Masks: what installs encode, for whole crowds at once. Truth:
what a decoding should have found. Theory: what error to expect, and the least there can be. Audit: two values far
apart. Where a method has a body here, it suits kinds whose answers are a list; a kind replaces what differs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.cells import TwoStageNoise
from hubbub.analysis.result import ANSWER, NUMBER, Decoding
from hubbub.protocol.channel import Noise
from hubbub.protocol.encoding import ABSENT
from hubbub.protocol.shape import Shape

S = TypeVar("S", bound=Shape)
Index = npt.NDArray[np.int64]

NOWHERE = -1
"""In place of a position: the mask has no bit there. In place of a key: nothing is asked."""


class Population(NamedTuple):
    """Values that people hold, the weight of each on any scale, and words for it."""

    values: Sequence[Any]
    weights: npt.ArrayLike
    words: str


class ValueMasks(NamedTuple):
    """The masks of some values in one cohort: the key of each, that of silence last, and where each key has bits."""

    keys: Index
    where: Index


class Rounding(NamedTuple):
    """How numbers are rounded up or down, for each value and last for silence: the key of the mask below, and from
    which dither on, as a part of 1, it is the next one; and where each key has its bit."""

    below: Index
    threshold: Array
    where: Index


class Kind(Generic[S]):
    """One shape, as simulations see it."""

    default_population: ClassVar[str] = "normal"
    """What an app might see, where nobody has said: a population in its short form."""

    counts_answers: ClassVar[bool] = True
    """Whether found, missed and false answers are counted: there are several."""

    answers_are_called: ClassVar[str] = "answers"

    headline: ClassVar[str] = ""
    """What is said of the row that is read out, where one is: `{reading}` is it, `{distance}` the scorecard's."""

    shape_axes: ClassVar[Mapping[str, float]] = {}
    """Parameters of the shape that a sweep may vary, by the name of their axis, each with its default."""

    def __init__(self, shape: S) -> None:
        self.shape = shape

    @classmethod
    def example(cls, axes: Mapping[str, int]) -> Shape:
        """The shape that a sweep tries, `axes` being its own parameters."""
        raise NotImplementedError

    # --- people ---------------------------------------------------------------------------------------------------

    def population(self, name: str, numbers: list[float], text: str) -> Population:
        """The population that `name:numbers` stands for, `text` being what was written. Raises `Invalid`."""
        raise NotImplementedError

    def value(self, text: str) -> Any:
        """The value that a file of answers means. Raises ValueError where a number is wanted and this is none."""
        return float(text) if self.shape.is_number else text

    # --- masks ----------------------------------------------------------------------------------------------------

    def prepared(self, values: Sequence[Any]) -> Any:
        """What `masks` needs to know of these values, whatever the cohort."""
        return values

    def masks(self, prepared: Any, cohort: int) -> ValueMasks:
        """The masks that the client encodes. This asks its own `encode` about each value."""
        encoded = [self.shape.encode(value, cohort).mask for value in [*prepared, ABSENT]]
        keys = {mask: key for key, mask in enumerate(dict.fromkeys(encoded))}
        most = max(mask.bit_count() for mask in keys)
        where = np.full((len(keys), max(most, 1)), NOWHERE, dtype=np.int64)
        for mask, key in keys.items():
            bits = [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
            where[key, : len(bits)] = bits
        return ValueMasks(np.array([keys[mask] for mask in encoded], dtype=np.int64), where)

    def rounding(self, values: Sequence[Any]) -> Rounding | None:
        """Of a kind that rounds by the install's dither. None where masks depend on the value and the cohort alone."""
        return None

    def ones(self, by_cohort: Index, positions: npt.NDArray[np.integer[Any]] | None) -> list[Index]:
        """How many installs of each cohort have each bit set, from how many hold each answer. See `ones_of`."""
        raise NotImplementedError

    # --- truth ----------------------------------------------------------------------------------------------------

    def row_of(self, answer: Any, num_rows: int) -> Hashable:
        """Which row an answer belongs to: its value, or its number among `num_rows`; None for silence."""
        return None if answer is None else str(answer)

    def shares(self, counts: Mapping[Any, int], num_rows: int) -> dict[Hashable, float]:
        """The share of each row, from how often each answer was recorded."""
        found: dict[Hashable, float] = {}
        everyone = max(sum(counts.values()), 1)
        for answer, number in counts.items():
            row = self.row_of(answer, num_rows)
            found[row] = found.get(row, 0.0) + number / everyone
        return found

    def true_number(self, name: str, counts: Mapping[Any, int], epochs: int) -> float:
        """The truth of a row that is a number and not a share; NaN where there is none of this name."""
        return float("nan")

    def present(self, rows: int, counts: Mapping[Any, int]) -> int:
        """How many answers somebody holds, of which so many have a row: a result has a row for each that was listed."""
        return rows

    # --- verdict --------------------------------------------------------------------------------------------------

    def headline_row(self, decoding: Decoding) -> int | None:
        """The row that is read out by itself; None where answers are counted instead."""
        return 0 if self.headline else None

    def errors(self, decoding: Decoding, truth: Array, counts: Mapping[Any, int]) -> tuple[Array, Array]:
        """What every unbiased estimate is off by, and the true share that theory is asked about for each."""
        rows = [i for i, role in enumerate(decoding.roles) if role == ANSWER]
        return decoding.estimate[rows] - truth[rows], truth[rows]

    def distance(self, decoding: Decoding, truth: Array, counts: Mapping[Any, int]) -> float:
        """How far the best guess is from the truth: total variation, the share of people on the wrong answer."""
        shares = np.array([role != NUMBER for role in decoding.roles], dtype=bool)
        return float(np.nansum(np.abs(decoding.best_guess[shares] - truth[shares])) / 2)

    # --- theory ---------------------------------------------------------------------------------------------------

    def fitted_together(self, decoding: Decoding) -> int:
        """How many answers share the same cells, so that each costs the others some precision."""
        return 0

    def seen_through(self, share: float, fitted: int) -> tuple[float, float]:
        """How much of one bit's variance an answer has, and the share of installs whose mask has that bit."""
        return 1.0, share

    def repeated_variance(self, noise: Noise, share: float, fitted: int) -> float:
        """n times the part of an estimate's variance that is drawn anew with every report."""
        floor, slope = TwoStageNoise.of(noise).instantaneous
        scale, behind = self.seen_through(share, fitted)
        return scale * (floor + slope * behind)

    def least_variance(self, e: float) -> float:
        """n times the least variance of an estimate that any mechanism with epsilon = ln(e) can have."""
        raise NotImplementedError

    # --- audit ----------------------------------------------------------------------------------------------------

    def far_values(self, cohort: int) -> tuple[Any, Any]:
        """Two values whose masks differ as far as any two do in this cohort (hashed strings: of some tried)."""
        raise NotImplementedError
