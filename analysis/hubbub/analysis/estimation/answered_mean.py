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
    GridMean,
    noise_of_mean,
    noise_on_counts,
    per_square,
    rounding_of,
    weights_of,
    with_ends,
)
from hubbub.analysis.estimation.intervals import critical, score_ratios
from hubbub.analysis.estimation.mean_law import MeanLaw, rests_on_few
from hubbub.analysis.options import Estimand


def answered_mean(cohorts: Sequence[Cohort], points: int, estimand: Estimand, confidence: float) -> GridMean:
    """Of the cohorts of several definitions, one each, with a category for each point and then one for silence."""
    known = [cohort for cohort in cohorts if cohort.reports]
    if not known:
        return GridMean(place=np.nan, std_error=np.inf, low=-np.inf, high=np.inf, too_wide=np.inf)
    v = np.append(np.linspace(-0.5, 0.5, points), 0.0)
    spoke = np.append(np.ones(points), 0.0)
    weight = weights_of(known, v)
    share = np.sum([w * cohort.shares for w, cohort in zip(weight, known, strict=True)], axis=0)
    top, answered = _mean(share, v), _mean(share, spoke)
    possible = float(np.clip(answered, 0, 1))
    sampling = shared_sampling([cohort.sampling for cohort in known], weight.tolist())
    square = float(np.clip(share @ v**2, 0, 0.25)) / max(possible, 1e-9)
    rounding = rounding_of(share, points) / (points - 1) ** 2 if estimand == "reporting" else 0.0

    total, own = _per_square(known, weight)
    squares, spoken = float(v @ v), float(spoke.mean())

    def parts(r: float) -> tuple[float, float]:
        """The variance of T - r A by noise, and by sampling or rounding, where r is the mean of those who answered."""
        r = min(max(r, -0.5), 0.5)
        spread = possible * (min(max(square, r**2), 0.25) - r**2)
        centre = -r * spoken  # of the scores v - r spoke, as v sums to 0
        noise = total * (squares + r**2 * points - (points + 1) * centre**2) + own * (spread + centre**2)
        if any(cohort.count_variance for cohort in known):
            scores = v - r * spoke - centre
            noise += sum(w**2 * noise_on_counts(cohort, scores) for w, cohort in zip(weight, known, strict=True))
        return noise, sampling * (spread if estimand == "population" else rounding)

    def variance(ratio: Array) -> Array:
        return np.array([sum(parts(float(r))) for r in ratio.ravel()]).reshape(ratio.shape)

    centre = float(spoke.mean())
    of_answered = noise_of_mean(known, weight, spoke - centre, possible * (1 - 2 * centre) + centre**2)
    of_answered += sampling * possible * (1 - possible) * (estimand == "population")
    noise, beside = parts(top / answered if answered else 0.0)
    is_open = not answered**2 > critical(confidence) ** 2 * of_answered  # perhaps nobody answered: anything can be
    if rests_on_few(noise, beside, 1.0 if estimand == "population" else 1 / (points - 1), known) and not is_open:
        error = float(np.sqrt(noise + beside)) / abs(answered)
        plain = GridMean(place=top / answered + 0.5, std_error=error, low=-np.inf, high=np.inf, too_wide=np.inf)
        law = MeanLaw(cohorts=known, weight=weight, value=v + spoke / 2, spoke=spoke, points=points, estimand=estimand)
        return with_ends(plain, law, share, confidence)
    found = score_ratios(np.array([top]), answered, variance, of_answered, confidence)
    return GridMean(
        place=float(found.estimate[0]) + 0.5,
        std_error=float(found.std_error[0]),
        low=float(found.low[0]) + 0.5,
        high=float(found.high[0]) + 0.5,
        too_wide=float(np.sqrt((noise + beside) / noise)) if estimand == "reporting" and noise > 0 else np.inf,
    )


def _per_square(known: Sequence[Cohort], weight: Array) -> tuple[float, float]:
    """As `per_square`, of a weighted mean over definitions."""
    each = [(w**2 * total, w**2 * own) for w, (total, own) in zip(weight, map(per_square, known), strict=True)]
    total, own = (float(sum(part)) for part in zip(*each, strict=True))
    return total, own


def _mean(share: Array, scores: Array) -> float:
    """Of scores over all categories, whose shares sum to 1: exactly so where noise on counts says otherwise, as the
    variances have it."""
    centre = float(scores.mean())
    return float(share @ (scores - centre)) + centre
