"""Least squares where every cell asks about one answer: flags, choices, ends of a mean, buckets.

The design is then a selection, the normal equations are diagonal, and the estimate of an answer is the average of its
cells weighted by their precision. What differs between kinds is which cells ask what, and how counts covary: bits
are independent given the masks; the categories of a k-ary wire are multinomial, and add up to everyone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import ndtr

from hubbub.analysis.estimation.cells import Cohort, Pool
from hubbub.analysis.estimation.intervals import Variance

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]


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


def shares(pools: Sequence[Pool], asked: Sequence[Sequence[Sequence[int]]], num_answers: int, estimand: str) -> Shares:
    """The share of each answer. `asked[i][c][j]` is the answer that bit j of cohort c of pool i asks about."""
    cohorts = [cohort for pool in pools for cohort in pool]
    rows = [np.asarray(row, dtype=np.int64) for of_pool in asked for row in of_pool]
    answer = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
    widths = [len(row) for row in rows]
    where = np.repeat(np.arange(len(cohorts)), widths)
    floor, slope, sampling = (_each(cohorts, widths, name) for name in ("floor", "slope", "sampling"))
    share = np.concatenate([cohort.shares for cohort in cohorts])
    told = np.isfinite(floor)
    # The weights must not depend on the shares, or estimates would lean to where the noise happened to be small.
    # A wire that never turns a 0 into a 1 has no floor; its cells then weigh by the installs behind them.
    weight = np.where(told, 1 / np.where(floor > 0, floor, np.where(told, sampling, 1)), 0)
    total = _sums(answer, weight, num_answers)
    with np.errstate(invalid="ignore", divide="ignore"):
        coefficient = np.where(told, weight / total[answer], 0)
    never = total == 0

    def combine(cell_values: Array) -> Array:
        return _sums(answer, coefficient**2 * np.where(told, cell_values, 0), num_answers)

    estimate = np.where(never, np.nan, _sums(answer, coefficient * np.where(told, share, 0), num_answers))
    variance = Variance(
        floor=np.where(never, np.inf, combine(floor)),
        slope=combine(slope),
        sampling=np.maximum(combine(sampling) - finite_population(pools, estimand), 0),
    )
    return Shares(
        estimate=estimate,
        variance=variance,
        p_value=_p_values(cohorts, rows, num_answers, estimate, variance),
        coefficient=coefficient,
        answer=answer,
        cohort=where,
    )


def finite_population(pools: Sequence[Pool], estimand: str) -> float:
    """What the sampling of everyone takes off: the installs that reported are not a sample of themselves.

    With cohorts drawn at random from n installs, covariances are those of independent samples minus 1/n of the
    multinomial one; that difference is all there is between the two estimands.
    """
    if estimand == "population":
        return 0.0
    return 1 / sum(1 / pool.sampling for pool in pools) if any(np.isfinite(pool.sampling) for pool in pools) else 0.0


def covariance_with(of: Shares, pools: Sequence[Pool], answers: Index, estimand: str) -> Array:
    """Cov(estimate of each answer, sum of the estimates of `answers`)."""
    cohorts = [cohort for pool in pools for cohort in pool]
    truth = np.clip(np.nan_to_num(of.estimate), 0, 1)
    chosen = np.zeros(len(truth), dtype=bool)
    chosen[answers] = True
    # Of two answers of one cohort: those who hold the one do not hold the other.
    held = of.coefficient * truth[of.answer]
    per_cohort = _sums(of.cohort, held * chosen[of.answer], len(cohorts))
    sampling = np.array([cohort.sampling if cohort.reports else 0.0 for cohort in cohorts])
    others = per_cohort[of.cohort] - held * chosen[of.answer]
    covariance = -_sums(of.answer, held * sampling[of.cohort] * others, len(truth))
    covariance += finite_population(pools, estimand) * truth * (truth[chosen].sum() - truth * chosen)
    for first, pool in zip(np.cumsum([0, *(len(pool.cohorts) for pool in pools)]), pools, strict=False):
        if pool.metric.one_hot and pool.reports:
            covariance += _kary_noise_covariance(of, pool.cohorts[0], int(first), truth, chosen)
    return covariance + np.where(chosen, of.std_error**2, 0)


def _kary_noise_covariance(
    of: Shares, cohort: Cohort, index: int, truth: Array, chosen: npt.NDArray[np.bool_]
) -> Array:
    """A report in one category is no report in another: both stages of a k-ary wire are multinomial draws."""
    wire = cohort.wire
    here = of.cohort == index
    coefficient = np.zeros(len(truth))
    coefficient[of.answer[here]] = of.coefficient[here]
    kept = wire.a1 - wire.a0
    memo = (wire.a0 + kept * truth) / kept
    report = (wire.p_star + wire.gain * truth) / wire.gain

    def products(values: Array) -> Array:
        """value_i times the sum of the other chosen values."""
        weighted = coefficient * values
        return np.asarray(weighted * ((weighted * chosen).sum() - weighted * chosen))

    of_memos: Array = (products(truth) - products(memo)) * cohort.sampling
    of_reports: Array = (products(memo) - products(report)) / cohort.reports
    return of_memos + of_reports


def _p_values(
    cohorts: Sequence[Cohort], rows: Sequence[Index], num_answers: int, estimate: Array, variance: Variance
) -> Array:
    """P(so many ones or more | nobody holds the answer): binomial, exactly, for one epoch through one wire."""
    told = [(cohort, row) for cohort, row in zip(cohorts, rows, strict=True) if cohort.reports]
    if not told:
        return np.full(num_answers, np.nan)
    if len({cohort.wire for cohort, _ in told}) > 1 or not all(cohort.single_epoch for cohort, _ in told):
        return normal_p_value(estimate, np.sqrt(variance.floor))
    answer = np.concatenate([row for _, row in told])
    ones = _sums(answer, np.concatenate([cohort.ones for cohort, _ in told]), num_answers)
    reports = _sums(answer, np.repeat([c.reports for c, _ in told], [len(row) for _, row in told]), num_answers)
    p_value = np.asarray(stats.binom.sf(ones - 1, reports, told[0][0].wire.p_star))
    return np.asarray(np.where(reports > 0, p_value, np.nan))


def normal_p_value(estimate: Array, std_error: Array) -> Array:
    """One-sided: is there more than nothing? A wire without noise makes any excess certain."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(std_error > 0, estimate / std_error, np.where(estimate > 0, np.inf, -np.inf))
    return np.where(np.isnan(estimate), np.nan, np.asarray(ndtr(-z)))


def _sums(group: Index, values: Array, size: int) -> Array:
    """For each group, the sum of its values."""
    return np.asarray(np.bincount(group, weights=values, minlength=size), dtype=np.float64)


def _each(cohorts: Sequence[Cohort], widths: Sequence[int], name: str) -> Array:
    return np.repeat(np.array([getattr(cohort, name) for cohort in cohorts], dtype=np.float64), widths)
