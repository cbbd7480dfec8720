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

from hubbub.analysis.arrays import Array, Mask
from hubbub.analysis.estimation.cells import Cohort, shared_sampling
from hubbub.analysis.estimation.intervals import PlaceVariance, Variance, critical, score_interval
from hubbub.analysis.estimation.mean_candidates import divided
from hubbub.analysis.estimation.mean_law import MeanLaw, MeanVariance, rests_on_few
from hubbub.analysis.options import Estimand

_TURNS = 200
_TYPICAL_SQUARE = (
    1 / 12
)  # E[V^2] of numbers that are anywhere in the range: for weights, which must not follow the data


@dataclass(frozen=True, slots=True, kw_only=True)
class GridMean:
    """Where in its range a mean is, from 0 to 1, and how sure that is. `too_wide` is how many times at most the
    interval is wider than it would be if the part of rounding were known; infinite where nothing is. `variance` is that
    of the place. `few`: the interval is that of the law of few counts."""

    place: float
    std_error: float
    low: float
    high: float
    too_wide: float
    variance: PlaceVariance
    few: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GridMeans:
    """Several, each from counts of its own: cohorts have a row of ones for each."""

    place: Array
    std_error: Array
    low: Array
    high: Array
    too_wide: Array
    few: Mask
    variances: Sequence[PlaceVariance]

    def __getitem__(self, row: int) -> GridMean:
        return GridMean(
            place=float(self.place[row]),
            std_error=float(self.std_error[row]),
            low=float(self.low[row]),
            high=float(self.high[row]),
            too_wide=float(self.too_wide[row]),
            few=bool(self.few[row]),
            variance=self.variances[row],
        )

    def with_law(self, law: MeanLaw, share: Array, few: Mask, confidence: float) -> GridMeans:
        """The same, where counts are `few` with the interval of their law. Nothing may have varied among them by
        chance: the standard error is at least what the interval has it."""
        rows = np.flatnonzero(few)
        if not len(rows):
            return self
        low, high = self.low.copy(), self.high.copy()
        own_low, own_high = law.interval(share[rows], confidence)
        low[rows] = np.maximum(own_low, np.minimum(low[rows], 0))
        high[rows] = np.minimum(own_high, np.maximum(high[rows], 1))
        error = (np.clip(high, 0, 1) - np.clip(low, 0, 1)) / (2 * critical(confidence))
        return replace(
            self,
            low=low,
            high=high,
            std_error=np.where(few, np.maximum(self.std_error, error), self.std_error),
            too_wide=np.where(few, np.inf, self.too_wide),
            few=few,
        )


NOTHING = GridMeans(
    place=np.full(1, np.nan),
    std_error=np.full(1, np.inf),
    low=np.full(1, -np.inf),
    high=np.full(1, np.inf),
    too_wide=np.full(1, np.inf),
    few=np.zeros(1, dtype=bool),
    variances=(Variance(np.full(1, np.inf), np.zeros(1), np.zeros(1)),),
)
"""Of nobody."""


def grid_mean(cohorts: Sequence[Cohort], points: int, estimand: Estimand, confidence: float) -> GridMean:
    """Of the cohorts of several definitions, one each, which the same installs answered."""
    return mean_of_places(cohorts, np.linspace(0, 1, points), points, estimand, confidence)


def mean_of_places(
    cohorts: Sequence[Cohort], places: Array, points: int, estimand: Estimand, confidence: float
) -> GridMean:
    """The same where the categories stand at these places, from 0 to 1: first the evenly spaced points to which numbers
    were rounded, then those that were not, such as that of silence."""
    return means_of_places(cohorts, places, points, estimand, confidence)[0]


def means_of_places(
    cohorts: Sequence[Cohort], places: Array, points: int, estimand: Estimand, confidence: float
) -> GridMeans:
    """The same of several rows of counts.

    A report names one category, so that shares sum to 1 and a place that is added to all of them adds as much to the
    mean: the variances above are those of places less their average, which sum to 0 as v does.
    """
    known = [cohort for cohort in cohorts if cohort.reports]
    if not known:
        return NOTHING
    v = places - 0.5
    centre = float(v.mean())
    weight = weights_of(known, v - centre)
    share = shares_of(known, weight)
    mean = share @ (v - centre) + centre
    square = np.clip(share @ v**2, mean**2, 0.25)
    noise = noise_of_mean(known, weight, v - centre, square - 2 * centre * mean + centre**2)
    sampling = shared_sampling([cohort.sampling for cohort in known], weight.tolist())
    nothing = np.zeros_like(mean)
    if estimand == "population":
        # As a function of the true place s: Var(V) = E[V^2] - (s - 1/2)^2 = E[V^2] - 1/4 + s (1 - s).
        variance = Variance(floor=noise + sampling * (square - 0.25), slope=nothing, sampling=nothing + sampling)
    else:
        rounding = rounding_of(share, points) * float(places[1] - places[0]) ** 2
        variance = Variance(floor=noise + sampling * rounding, slope=nothing, sampling=nothing)
    place = mean + 0.5
    low, high = score_interval(place, variance, confidence)
    total = variance.at(np.clip(place, 0, 1))
    law = MeanLaw(
        cohorts=known, weight=weight, value=places, spoke=np.ones(len(places)), points=points, estimand=estimand
    )
    found = GridMeans(
        place=place,
        std_error=np.sqrt(total),
        low=low,
        high=high,
        too_wide=too_wide(noise, total, estimand),
        few=np.zeros(len(place), dtype=bool),
        variances=[MeanVariance(law, row) for row in share],
    )
    few = rests_on_few(noise, total - noise, 1.0 if estimand == "population" else 1 / (points - 1), known)
    return found.with_law(law, share, few, confidence)


def shares_of(known: Sequence[Cohort], weight: Array) -> Array:
    """The weighted shares of the categories, a row for each row of counts."""
    each = [w * np.atleast_2d(cohort.shares) for w, cohort in zip(weight, known, strict=True)]
    return np.asarray(np.sum(each, axis=0))


def too_wide(noise: Array, total: Array, estimand: Estimand) -> Array:
    if estimand == "population":
        return np.full_like(total, np.inf)
    return np.sqrt(np.divide(total, noise, out=np.full_like(total, np.inf), where=noise > 0))


def weights_of(known: Sequence[Cohort], scores: Array) -> Array:
    """How much each definition counts: by its precision, for numbers that are anywhere in the range."""
    total = float((scores**2).sum())
    precision = []
    for cohort in known:
        all_points, own = per_square(cohort)
        counts = cohort.count_variance / (cohort.reports * cohort.noise.gain) ** 2
        precision.append(1 / ((all_points + counts) * total + own * _TYPICAL_SQUARE))
    return np.array(precision) / sum(precision)


def noise_of_mean(known: Sequence[Cohort], weight: Array, scores: Array, square: Array) -> Array:
    """The variance by noise of a weighted mean of these scores, which sum to 0; `square` is E[score^2] of the truth."""
    each = [w**2 * _noise(cohort, scores, square) for w, cohort in zip(weight, known, strict=True)]
    return np.asarray(np.sum(each, axis=0))


def per_square(cohort: Cohort) -> tuple[float, float]:
    """The variance by both stages is a sum S of squared scores times the first, and E[score^2] times the second."""
    noise = cohort.noise
    kept, shown = noise.a1 - noise.a0, noise.q - noise.p
    again = (shown - shown**2) / (noise.gain**2 * cohort.reports)  # of E[score^2] in the memo, a0 S + kept E[score^2]
    all_points = cohort.sampling * noise.a0 / kept**2 + noise.p / (noise.gain**2 * cohort.reports) + again * noise.a0
    return all_points, cohort.sampling * (1 / kept - 1) + again * kept


def noise_on_counts(cohort: Cohort, scores: Array) -> Array | float:
    """The variance that noise on counts adds, if they were published, to a mean of scores (the last axis)."""
    if not cohort.count_variance:
        return 0.0
    observed = (cohort.ones * scores).sum(axis=-1) / cohort.reports
    squares = (scores**2).sum(axis=-1) + observed**2
    return np.asarray(cohort.count_variance * squares / (cohort.reports * cohort.noise.gain) ** 2)


def rounding_of(share: Array, points: int) -> Array:
    """The most that rounding to the first so many categories can have added, in units of a squared step."""
    rounded = np.clip(1 - share[:, points:].sum(axis=1), 0, 1)
    return np.asarray(rounded * most_rounding(share[:, :points]))


def _noise(cohort: Cohort, v: Array, square: Array) -> Array:
    """The variance of the mean that both stages make, and noise on the counts, if they were published."""
    all_points, own = per_square(cohort)
    return np.asarray(all_points * float((v**2).sum()) + own * square + noise_on_counts(cohort, v))


def most_rounding(share: Array) -> Array:
    """The most that E[Var(V | number)] can be, in units of a squared step, where V meets the points so often: of each
    row."""
    met = np.clip(np.nan_to_num(share), 0, None)
    total = met.sum(axis=1, keepdims=True)
    met = np.divide(met, total, out=np.full_like(met, 1 / met.shape[1]), where=total > 0)
    down, up = divided(met, _TURNS)
    both = down + up
    return np.asarray(np.divide(down * up, both, out=np.zeros_like(both), where=both > 0).sum(axis=1))
