"""The mean among those who answered, where silence was asked as one more category beside the points of a grid.

It is a ratio, T / A: T the mean over all installs of v for those who answered and 0 for the others, A the share of
those who answered. Its interval holds all r for which T - r A is not surprising (Fieller 1954), with the variance that
it has where r is the truth, not at the estimate. T - r A is a mean itself, of scores that are v - r for a point and 0
for silence; with m = E[V^2] among those who answered it has, where r is true, the second moment A (m - r^2), and its
variance has the four parts that `grid` derives.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.cells import Cohort, shared_sampling
from hubbub.analysis.estimation.grid import (
    NOTHING,
    GridMean,
    GridMeans,
    noise_of_mean,
    noise_on_counts,
    per_square,
    rounding_of,
    shares_of,
    too_wide,
    weights_of,
)
from hubbub.analysis.estimation.intervals import critical, score_ratios
from hubbub.analysis.estimation.mean_law import MeanLaw, MeanVariance, rests_on_few
from hubbub.analysis.options import Estimand


def answered_mean(cohorts: Sequence[Cohort], points: int, estimand: Estimand, confidence: float) -> GridMean:
    """Of the cohorts of several definitions, one each, with a category for each point and then one for silence."""
    return answered_means(cohorts, points, estimand, confidence)[0]


def answered_means(cohorts: Sequence[Cohort], points: int, estimand: Estimand, confidence: float) -> GridMeans:
    """The same of several rows of counts."""
    known = [cohort for cohort in cohorts if cohort.reports]
    if not known:
        return NOTHING
    v = np.append(np.linspace(-0.5, 0.5, points), 0.0)
    spoke = np.append(np.ones(points), 0.0)
    weight = weights_of(known, v)
    share = shares_of(known, weight)
    top, answered = _mean(share, v), _mean(share, spoke)
    sampling = shared_sampling([cohort.sampling for cohort in known], weight.tolist())
    parts = _Parts(known, weight, points, share, sampling, estimand)
    centre = float(spoke.mean())
    possible = np.clip(answered, 0, 1)
    of_answered = noise_of_mean(known, weight, spoke - centre, possible * (1 - 2 * centre) + centre**2)
    of_answered = of_answered + sampling * possible * (1 - possible) * (estimand == "population")
    found = score_ratios(top, answered, lambda ratio: np.asarray(sum(parts.at(ratio))), of_answered, confidence)
    noise, beside = parts.at(np.nan_to_num(found.estimate))
    # Where perhaps nobody answered, anything can be.
    is_known = answered**2 > critical(confidence) ** 2 * of_answered
    few = rests_on_few(noise, beside, 1.0 if estimand == "population" else 1 / (points - 1), known) & is_known
    law = MeanLaw(cohorts=known, weight=weight, value=v + spoke / 2, spoke=spoke, points=points, estimand=estimand)
    plain = GridMeans(
        place=found.estimate + 0.5,
        std_error=found.std_error,
        low=found.low + 0.5,
        high=found.high + 0.5,
        too_wide=too_wide(noise, noise + beside, estimand),
        few=np.zeros(len(top), dtype=bool),
        variances=[MeanVariance(law, row) for row in share],
    )
    return plain.with_law(law, share, few, confidence)


class _Parts:
    """The variance of T - r A, as a function of the ratio tested."""

    def __init__(
        self,
        known: Sequence[Cohort],
        weight: Array,
        points: int,
        share: Array,
        sampling: float,
        estimand: Estimand,
    ) -> None:
        self._known, self._weight, self._points, self._sampling = known, weight, points, sampling
        self._v, self._spoke = np.append(np.linspace(-0.5, 0.5, points), 0.0), np.append(np.ones(points), 0.0)
        self._possible = np.clip(_mean(share, self._spoke), 0, 1)
        self._square = np.clip(share @ self._v**2, 0, 0.25) / np.maximum(self._possible, 1e-9)
        self._rounding = rounding_of(share, points) / (points - 1) ** 2 if estimand == "reporting" else None
        each = np.array([per_square(cohort) for cohort in known])
        self._all_points, self._own = weight**2 @ each

    def at(self, r: Array) -> tuple[Array, Array]:
        """By noise, and by sampling or rounding, where r (the last axis has a row each) is the mean of those who
        answered."""
        r = np.clip(r, -0.5, 0.5)
        spread = self._possible * (np.clip(self._square, r**2, 0.25) - r**2)
        centre = -r * float(self._spoke.mean())  # of the scores v - r spoke, as v sums to 0
        squares = float(self._v @ self._v) + r**2 * self._points - (self._points + 1) * centre**2
        noise = self._all_points * squares + self._own * (spread + centre**2)
        for w, cohort in zip(self._weight, self._known, strict=True):
            if cohort.count_variance:
                scores = self._v - r[..., np.newaxis] * self._spoke - centre[..., np.newaxis]
                noise = noise + w**2 * noise_on_counts(cohort, scores)
        return noise, self._sampling * (spread if self._rounding is None else self._rounding + 0 * r)


def _mean(share: Array, scores: Array) -> Array:
    """Of scores over all categories, whose shares sum to 1: exactly so where noise on counts says otherwise, as the
    variances have it."""
    centre = float(scores.mean())
    return np.asarray(share @ (scores - centre) + centre)
