"""Least squares where every cell asks about one answer: flags, choices, ends of a mean, buckets.

The design is then a selection, the normal equations are diagonal, and the estimate of an answer is the average of its
cells weighted by their precision. What differs between kinds is which cells ask what, and how counts covary: bits
are independent given the masks; the categories of a k-ary channel are multinomial, and add up to everyone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from hubbub.analysis.arrays import Array, Index, Mask
from hubbub.analysis.estimation.cells import Cohort
from hubbub.analysis.estimation.intervals import Variance
from hubbub.analysis.estimation.selection import normal_p_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Estimated shares of all installs, one for each answer.

    Cell i asked about `answer[i]`, in `cohort[i]`, and enters that answer's estimate with `coefficient[i]`.
    """

    estimate: Array
    variance: Variance
    p_value: Array
    coefficient: Array
    answer: Index
    cohort: Index

    @property
    def std_error(self) -> Array:
        return np.sqrt(self.variance.at(self.estimate))


def shares(cohorts: Sequence[Cohort], asked: Sequence[Sequence[int]], num_answers: int, finite: float) -> Shares:
    """The share of each answer. `asked[c][j]` is the answer that bit j of cohort c asks about; `finite` is what the
    sampling of everyone takes off (see `cells.finite_population`)."""
    rows = [np.asarray(row, dtype=np.int64) for row in asked]
    answer = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
    widths = [len(row) for row in rows]
    where = np.repeat(np.arange(len(cohorts)), widths)
    floor, slope, sampling = (_each(cohorts, widths, name) for name in ("floor", "slope", "sampling"))
    share = np.concatenate([cohort.shares for cohort in cohorts])
    observed = np.isfinite(floor)
    # The weights must not depend on the shares, or estimates would lean to where the noise happened to be small.
    # A channel that never turns a 0 into a 1 has no floor; its cells then weigh by the installs behind them.
    weight = np.where(observed, 1 / np.where(floor > 0, floor, np.where(observed, sampling, 1)), 0)
    total = _sums(answer, weight, num_answers)
    with np.errstate(invalid="ignore", divide="ignore"):
        coefficient = np.where(observed, weight / total[answer], 0)
    never = total == 0

    def combine(cell_values: Array) -> Array:
        return _sums(answer, coefficient**2 * np.where(observed, cell_values, 0), num_answers)

    estimate = np.where(never, np.nan, _sums(answer, coefficient * np.where(observed, share, 0), num_answers))
    variance = Variance(
        floor=np.where(never, np.inf, combine(floor)),
        slope=combine(slope),
        sampling=np.maximum(combine(sampling) - finite, 0),
    )
    return Shares(
        estimate=estimate,
        variance=variance,
        p_value=_p_values(cohorts, rows, num_answers, estimate, variance),
        coefficient=coefficient,
        answer=answer,
        cohort=where,
    )


def covariance_with(of: Shares, cohorts: Sequence[Cohort], answers: Index, finite: float) -> Array:
    """Cov(estimate of each answer, sum of the estimates of `answers`)."""
    truth = possible(of.estimate)
    chosen = np.zeros(len(truth), dtype=bool)
    chosen[answers] = True
    return covariance_with_others(of, cohorts, chosen, finite, truth, truth) + np.where(chosen, of.std_error**2, 0)


def covariance_with_others(
    of: Shares, cohorts: Sequence[Cohort], chosen: Mask, finite: float, own: Array, truth: Array
) -> Array:
    """Cov(estimate of each answer, sum of the estimates of all *other* chosen answers), where the share of the answer
    itself is `own` and the others' are `truth`."""
    # Of two answers of one cohort: those who hold the one do not hold the other.
    held = of.coefficient * truth[of.answer] * chosen[of.answer]
    per_cohort = _sums(of.cohort, held, len(cohorts))
    sampling = np.array([cohort.sampling if cohort.reports else 0.0 for cohort in cohorts])
    others = per_cohort[of.cohort] - held
    covariance = -_sums(of.answer, of.coefficient * own[of.answer] * sampling[of.cohort] * others, len(truth))
    covariance += finite * own * (truth[chosen].sum() - truth * chosen)
    for index, cohort in enumerate(cohorts):
        if cohort.one_hot and cohort.reports:
            covariance += _kary_noise_covariance(of, cohort, index, own, truth, chosen)
    return covariance


def possible(shares: Array) -> Array:
    """The nearest shares that a population can have."""
    return np.clip(np.nan_to_num(shares), 0, 1)


def _kary_noise_covariance(of: Shares, cohort: Cohort, index: int, own: Array, truth: Array, chosen: Mask) -> Array:
    """A report in one category is no report in another: both stages of a k-ary channel are multinomial draws."""
    noise = cohort.noise
    here = of.cohort == index
    coefficient = np.zeros(len(truth))
    coefficient[of.answer[here]] = of.coefficient[here]
    kept = noise.a1 - noise.a0

    def products(offset: float) -> Array:
        """The share of the answer, and this offset, times the sum of the other chosen ones."""
        weighted = coefficient * (truth + offset) * chosen
        return np.asarray(coefficient * (own + offset) * (weighted.sum() - weighted))

    held, memo, report = products(0.0), products(noise.a0 / kept), products(noise.p_star / noise.gain)
    return np.asarray((held - memo) * cohort.sampling + (memo - report) / cohort.reports)


def _p_values(
    cohorts: Sequence[Cohort], rows: Sequence[Index], num_answers: int, estimate: Array, variance: Variance
) -> Array:
    """P(so many ones or more | nobody holds the answer): binomial, exactly, for one epoch through one channel."""
    observed = [(cohort, row) for cohort, row in zip(cohorts, rows, strict=True) if cohort.reports]
    if not observed:
        return np.full(num_answers, np.nan)
    if len({cohort.noise for cohort, _ in observed}) > 1 or not all(cohort.single_epoch for cohort, _ in observed):
        return normal_p_value(estimate, np.sqrt(variance.floor))
    answer = np.concatenate([row for _, row in observed])
    ones = _sums(answer, np.concatenate([cohort.ones for cohort, _ in observed]), num_answers)
    reports = _sums(answer, np.repeat([c.reports for c, _ in observed], [len(row) for _, row in observed]), num_answers)
    p_value = np.asarray(stats.binom.sf(ones - 1, reports, observed[0][0].noise.p_star))
    return np.asarray(np.where(reports > 0, p_value, np.nan))


def _sums(group: Index, values: Array, size: int) -> Array:
    """For each group, the sum of its values."""
    return np.asarray(np.bincount(group, weights=values, minlength=size), dtype=np.float64)


def _each(cohorts: Sequence[Cohort], widths: Sequence[int], name: str) -> Array:
    return np.repeat(np.array([getattr(cohort, name) for cohort in cohorts], dtype=np.float64), widths)
