"""A number whose average among those who answered is wanted: silence is a category of its own, behind the points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.analysis.estimation.cells import TwoStageNoise
from hubbub.protocol.channel import Noise
from hubbub.protocol.kinds import Mean
from hubbub.simulations.kinds.kind import Index, Rounding
from hubbub.simulations.kinds.mean import MeanKind


class MeanApartKind(MeanKind):
    """As a mean, but for silence: it is no number, and its share has a row of its own."""

    @classmethod
    def example(cls, axes: Mapping[str, int]) -> Mean:
        return Mean(low=Fraction(0), high=Fraction(1), absent="apart")

    def rounding(self, values: Sequence[Any]) -> Rounding:
        """Silence has the last category, and nothing rounds it."""
        points = self.shape.points
        below, threshold = self._beside(values)
        return Rounding(
            np.append(below, points), np.append(threshold, 1.0), np.arange(self.shape.num_masks)[:, np.newaxis]
        )

    def ones(self, by_cohort: Index, positions: npt.NDArray[Any] | None) -> list[Index]:
        return [by_cohort[0]]

    def true_number(self, name: str, counts: Mapping[Any, int], epochs: int) -> float:
        low, high = float(self.shape.low), float(self.shape.high)
        spoken = {answer: number for answer, number in counts.items() if answer is not None}
        total = sum(min(max(float(answer), low), high) * number for answer, number in spoken.items())
        answered = sum(spoken.values())
        known = {"mean": total / answered if answered else float("nan"), "sum": total / epochs}
        return known.get(name, float("nan"))

    def repeated_variance(self, noise: Noise, share: float, fitted: int) -> float:
        """Where all answer, with the number at an end of the range: scores are v less that number, and 0 for
        silence."""
        stages, points = TwoStageNoise.of(noise), self.shape.points
        scores = np.append(np.linspace(0, 1, points), 0.0)
        scores = scores - scores.mean()
        total, kept, shown = float((scores**2).sum()), stages.a1 - stages.a0, stages.q - stages.p
        memo = stages.a0 * total + kept * float(scores[0] ** 2)
        return (stages.p * total + (shown - shown**2) * memo) / stages.gain**2
