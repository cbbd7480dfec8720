"""The mean of numbers that were rounded to one of some evenly spaced points and sent as one category out of so many.

In units of the range, with points v from -1/2 to 1/2, truth a and any other b in each stage, and V the point that a
number was rounded to, n times the variance of the mean has four parts:

    permanent       (a0 S + d E[V^2]) / d^2 - E[V^2]                   S = sum v^2, d = a1 - a0
    instantaneous   (p S + (k - k^2)(a0 S + d E[V^2])) / (d k)^2       k = q - p
    rounding        E[Var(V | number)]
    sampling        Var(number)

The first, the third and the fourth are divided by the installs, the second by the reports. Counts show E[V^2] and so
the sum of the last two, Var(V); not how it divides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.cells import Cohort, shared_sampling
from hubbub.analysis.estimation.intervals import Variance, critical, score_interval
from hubbub.analysis.estimation.mean_candidates import divided
from hubbub.analysis.estimation.mean_law import MeanLaw, rests_on_few
from hubbub.analysis.options import Estimand

_TURNS = 200
_TYPICAL_SQUARE = (
    1 / 12
)  # E[V^2] of numbers that are anywhere in the range: for weights, which must not follow the data


@dataclass(frozen=True, slots=True, kw_only=True)
class GridMean:
    """Where in its range a mean is, from 0 to 1, and how sure that is. `too_wide` is how many times at most the
    interval is wider than it would be if the part of rounding were known; infinite where nothing is. `few`: the
    interval is that of the law of few counts."""

    place: float
    std_error: float
    low: float
    high: float
    too_wide: float
    few: bool = False


def grid_mean(cohorts: Sequence[Cohort], points: int, estimand: Estimand, confidence: float) -> GridMean:
    """Of the cohorts of several definitions, one each, which the same installs answered."""
    return mean_of_places(cohorts, np.linspace(0, 1, points), points, estimand, confidence)


def mean_of_places(
    cohorts: Sequence[Cohort], places: Array, points: int, estimand: Estimand, confidence: float
) -> GridMean:
    """The same where the categories stand at these places, from 0 to 1: first the evenly spaced points to which numbers
    were rounded, then those that were not, such as that of silence.

    A report names one category, so that shares sum to 1 and a place that is added to all of them adds as much to the
    mean: the variances above are those of places less their average, which sum to 0 as v does.
    """
    known = [cohort for cohort in cohorts if cohort.reports]
    if not known:
        return GridMean(place=np.nan, std_error=np.inf, low=-np.inf, high=np.inf, too_wide=np.inf)
    v = places - 0.5
    centre = float(v.mean())
    weight = weights_of(known, v - centre)
    share = np.sum([w * cohort.shares for w, cohort in zip(weight, known, strict=True)], axis=0)
    mean = float(share @ (v - centre)) + centre
    square = float(np.clip(share @ v**2, mean**2, 0.25))
    noise = noise_of_mean(known, weight, v - centre, square - 2 * centre * mean + centre**2)
    sampling = shared_sampling([cohort.sampling for cohort in known], weight.tolist())
    if estimand == "population":
        # As a function of the true place s: Var(V) = E[V^2] - (s - 1/2)^2 = E[V^2] - 1/4 + s (1 - s).
        variance = Variance(
            floor=np.array([noise + sampling * (square - 0.25)]), slope=np.zeros(1), sampling=np.array([sampling])
        )
    else:
        rounding = rounding_of(share, points) * float(places[1] - places[0]) ** 2
        variance = Variance(floor=np.array([noise + sampling * rounding]), slope=np.zeros(1), sampling=np.zeros(1))
    place = np.array([mean + 0.5])
    low, high = score_interval(place, variance, confidence)
    total = float(variance.at(np.clip(place, 0, 1))[0])
    found = GridMean(
        place=float(place[0]),
        std_error=float(np.sqrt(total)),
        low=float(low[0]),
        high=float(high[0]),
        too_wide=float(np.sqrt(total / noise)) if estimand == "reporting" and noise > 0 else np.inf,
    )
    if not rests_on_few(noise, total - noise, 1.0 if estimand == "population" else 1 / (points - 1), known):
        return found
    law = MeanLaw(
        cohorts=known, weight=weight, value=places, spoke=np.ones(len(places)), points=points, estimand=estimand
    )
    return with_ends(found, law, share, confidence)


def with_ends(found: GridMean, law: MeanLaw, share: Array, confidence: float) -> GridMean:
    """The same with the interval of its law, for few counts. Nothing may have varied among them by chance: the
    standard error is at least what the interval has it."""
    low, high = (float(end[0]) for end in law.interval(share[np.newaxis], confidence))
    low, high = max(low, min(found.low, 0.0)), min(high, max(found.high, 1.0))
    error = (min(high, 1.0) - max(low, 0.0)) / (2 * critical(confidence))
    return replace(found, low=low, high=high, std_error=max(found.std_error, error), too_wide=np.inf, few=True)


def weights_of(known: Sequence[Cohort], scores: Array) -> Array:
    """How much each definition counts: by its precision, for numbers that are anywhere in the range."""
    precision = np.array([1 / _noise(cohort, scores, _TYPICAL_SQUARE) for cohort in known])
    return np.asarray(precision / precision.sum())


def noise_of_mean(known: Sequence[Cohort], weight: Array, scores: Array, square: float) -> float:
    """The variance by noise of a weighted mean of these scores, which sum to 0; `square` is E[score^2] of the truth."""
    return float(sum(w**2 * _noise(cohort, scores, square) for w, cohort in zip(weight, known, strict=True)))


def per_square(cohort: Cohort) -> tuple[float, float]:
    """The variance by both stages is a sum S of squared scores times the first, and E[score^2] times the second."""
    noise = cohort.noise
    kept, shown = noise.a1 - noise.a0, noise.q - noise.p
    again = (shown - shown**2) / (noise.gain**2 * cohort.reports)  # of E[score^2] in the memo, a0 S + kept E[score^2]
    all_points = cohort.sampling * noise.a0 / kept**2 + noise.p / (noise.gain**2 * cohort.reports) + again * noise.a0
    return all_points, cohort.sampling * (1 / kept - 1) + again * kept


def noise_on_counts(cohort: Cohort, scores: Array) -> float:
    """The variance that noise on counts adds, if they were published."""
    if not cohort.count_variance:
        return 0.0
    observed = float(cohort.ones @ scores) / cohort.reports
    squares = float((scores**2).sum()) + observed**2
    return cohort.count_variance * squares / (cohort.reports * cohort.noise.gain) ** 2


def rounding_of(share: Array, points: int) -> float:
    """The most that rounding to the first so many categories can have added, in units of a squared step."""
    rounded = float(np.clip(1 - share[points:].sum(), 0, 1))
    return rounded * most_rounding(share[:points])


def _noise(cohort: Cohort, v: Array, square: float) -> float:
    """The variance of the mean that both stages make, and noise on the counts, if they were published."""
    all_points, own = per_square(cohort)
    return all_points * float((v**2).sum()) + own * square + noise_on_counts(cohort, v)


def most_rounding(share: Array) -> float:
    """The most that E[Var(V | number)] can be, in units of a squared step, where V meets the points so often."""
    met = np.clip(np.nan_to_num(share), 0, None)
    met = met / met.sum() if met.sum() > 0 else np.full(len(met), 1 / len(met))
    down, up = divided(met[np.newaxis], _TURNS)
    both = down + up
    return float(np.divide(down * up, both, out=np.zeros_like(both), where=both > 0).sum())
