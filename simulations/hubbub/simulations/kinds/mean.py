"""A number whose average is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.cells import TwoStageNoise
from hubbub.analysis.result import Decoding
from hubbub.protocol.channel import Noise
from hubbub.protocol.kinds import Mean
from hubbub.simulations.kinds.kind import NOWHERE, Index, Kind, Population, Rounding
from hubbub.simulations.kinds.numbers import GRID, number_population


class MeanKind(Kind[Mean]):
    """The answers, where they are counted, are the points that numbers were rounded to. Errors are parts of the
    range."""

    counts_answers = False
    headline = "{reading}"

    @classmethod
    def example(cls, axes: Mapping[str, int]) -> Mean:
        return Mean(low=Fraction(0), high=Fraction(1), absent=Fraction(0))

    @property
    def _span(self) -> float:
        return float(self.shape.high - self.shape.low)

    def population(self, name: str, numbers: list[float], text: str) -> Population:
        edges = np.linspace(float(self.shape.low), float(self.shape.high), GRID + 1)
        return number_population("mean", edges, self.shape.unit, name, numbers, text)

    def rounding(self, values: Sequence[Any]) -> Rounding:
        """Alpha-point rounding: a number is rounded up iff the install's alpha reaches 1 - its place between two
        points."""
        points = self.shape.points
        where = np.array([[NOWHERE], [0]]) if points == 2 else np.arange(points)[:, np.newaxis]
        return Rounding(*self._beside([*values, self.shape.absent]), where)

    def _beside(self, values: Sequence[Any]) -> tuple[Index, Array]:
        """Of each number the point below it, and from which dither on it is the next one."""
        low, high, points = float(self.shape.low), float(self.shape.high), self.shape.points
        numbers = np.clip(np.array([float(value) for value in values], dtype=np.float64), low, high)
        place = (numbers - low) / (high - low) * (points - 1)
        below = np.minimum(np.floor(place), points - 2).astype(np.int64)
        return below, 1 - (place - below)

    def ones(self, by_cohort: Index, positions: npt.NDArray[Any] | None) -> list[Index]:
        return [by_cohort[0, 1:2] if self.shape.points == 2 else by_cohort[0]]

    def true_number(self, name: str, counts: Mapping[Any, int], epochs: int) -> float:
        """Numbers beyond the range count as its ends, in the truth as well: that is what is asked."""
        low, high = float(self.shape.low), float(self.shape.high)
        total = sum(
            min(max(float(self.shape.absent if answer is None else answer), low), high) * number
            for answer, number in counts.items()
        )
        known = {"mean": total / max(sum(counts.values()), 1), "sum": total / epochs}
        return known.get(name, float("nan"))

    def errors(self, decoding: Decoding, truth: Array, counts: Mapping[Any, int]) -> tuple[Array, Array]:
        return (decoding.estimate[:1] - truth[:1]) / self._span, np.array([0.5])

    def distance(self, decoding: Decoding, truth: Array, counts: Mapping[Any, int]) -> float:
        return abs(float(decoding.best_guess[0] - truth[0])) / self._span

    def seen_through(self, share: float, fitted: int) -> tuple[float, float]:
        return 1.0, 0.5

    def repeated_variance(self, noise: Noise, share: float, fitted: int) -> float:
        """As `estimation.grid` has it, where numbers are at the worst place: rounded to the ends."""
        if self.shape.points == 2:
            return super().repeated_variance(noise, share, fitted)
        stages, v = TwoStageNoise.of(noise), np.linspace(-0.5, 0.5, self.shape.points)
        total, kept, shown = float((v**2).sum()), stages.a1 - stages.a0, stages.q - stages.p
        memo = stages.a0 * total + kept / 4
        return (stages.p * total + (shown - shown**2) * memo) / stages.gain**2

    def least_variance(self, e: float) -> float:
        """As a share of the range: of numbers that are all at one of its two ends every mechanism is at best Warner's
        (1965), so that none is better at its worst."""
        return e / (e - 1) ** 2

    def far_values(self, cohort: int) -> tuple[Fraction, Fraction]:
        return self.shape.high, self.shape.low
