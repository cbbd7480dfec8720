"""Flags, choices and histograms: a share for each declared answer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy import stats

from hubbub.analysis.estimation.cells import Pool
from hubbub.analysis.estimation.guesses import likely_shares, nearest_shares
from hubbub.analysis.estimation.intervals import exceeded_with, normal_interval, ratios, score_interval
from hubbub.analysis.estimation.shares import Shares, covariance_with, normal_p_value, shares
from hubbub.analysis.kinds.rows import Columns, assemble, attack_radius, require_same_shape
from hubbub.analysis.options import Options
from hubbub.analysis.result import ABSENT, ANSWER, Array, Decoding, Diagnostics
from hubbub.protocol.kinds import Choice, Flag, Histogram

Asked = list[list[list[int]]]


def decode_answers(pools: Sequence[Pool], options: Options) -> Decoding:
    """Design, weigh, estimate, judge."""
    values, roles, asked = _questions(pools)
    found = shares(pools, asked, len(values), options.estimand)
    low, high = score_interval(found.estimate, found.variance, options.confidence)
    rows = Columns(
        values=values,
        roles=roles,
        estimate=found.estimate,
        std_error=found.std_error,
        low=low,
        high=high,
        p_value=found.p_value,
        best_guess=_best_guess(pools, found),
    )
    if isinstance(pools[0].metric.shape, Histogram):
        rows = _with_absent(rows, found, pools, options)
    tests = max(1, sum(role == ANSWER for role in roles))
    floor = float(np.max(np.sqrt(found.variance.floor))) * exceeded_with(options.alpha / tests)
    answered_only = options.exclude_absent and ABSENT in rows.roles
    if answered_only:
        rows = _among_answered(rows, found, pools, options)
    return assemble(
        pools,
        options,
        rows,
        diagnostics=_diagnostics(pools, found, options),
        noise_floor=floor,
        notes=_notes(pools, found),
        answered_only=answered_only,
    )


def _questions(pools: Sequence[Pool]) -> tuple[list[str], list[str], Asked]:
    """The answers, what each is, and for each pool, cohort and bit which answer it asks about."""
    match pools[0].metric.shape:
        case Flag():
            return ["yes"], [ANSWER], [[[0]] for _ in pools]
        case Choice():
            return _choices(pools)
        case Histogram() as shape:
            require_same_shape(pools)
            buckets = [[shape.bucket(c, i) for i in range(shape.buckets_per_report)] for c in range(shape.num_cohorts)]
            edges = [float(edge) for edge in shape.edges]
            names = [f"[{a:g}, {b:g})" for a, b in pairwise(edges)]
            names[-1] = names[-1][:-1] + "]"
            return names, [ANSWER] * len(names), [buckets for _ in pools]
    raise AssertionError("unreachable: other kinds are decoded elsewhere")


def _choices(pools: Sequence[Pool]) -> tuple[list[str], list[str], Asked]:
    """Definitions may list different choices: the answers are all of them, in the order first met, then `absent`."""
    order: dict[tuple[str, str], int] = {}
    listed = []
    for pool in pools:
        shape = pool.metric.shape
        assert isinstance(shape, Choice)
        keys = [(ANSWER, choice) for choice in shape.choices]
        listed.append(keys + [(ABSENT, "absent")] * (shape.absent is None))
    for keys in sorted(listed, key=lambda keys: keys[-1][0] == ABSENT):
        for key in keys:
            order.setdefault(key, len(order))
    asked = [[[order[key] for key in keys]] for keys in listed]
    return [value for _, value in order], [role for role, _ in order], asked


def _best_guess(pools: Sequence[Pool], found: Shares) -> Array:
    variance = found.std_error**2
    if isinstance(pools[0].metric.shape, Flag):
        return np.clip(found.estimate, 0, 1)
    if isinstance(pools[0].metric.shape, Choice):
        return likely_shares(found.estimate, variance, exactly=True)
    return nearest_shares(found.estimate, variance)


def _with_absent(rows: Columns, found: Shares, pools: Sequence[Pool], options: Options) -> Columns:
    """Whoever is in no bucket did not answer."""
    buckets = np.arange(len(found.estimate))
    absent = np.array([1 - found.estimate.sum()])
    std_error = np.sqrt(np.array([covariance_with(found, pools, buckets, options.estimand).sum()]))
    low, high = normal_interval(absent, std_error, options.confidence)
    return Columns(
        values=[*rows.values, "absent"],
        roles=[*rows.roles, ABSENT],
        estimate=np.append(rows.estimate, absent),
        std_error=np.append(rows.std_error, std_error),
        low=np.append(rows.low, low),
        high=np.append(rows.high, high),
        p_value=np.append(rows.p_value, normal_p_value(absent, std_error)),
        best_guess=np.append(rows.best_guess, max(0.0, 1 - rows.best_guess.sum())),
    )


def _among_answered(rows: Columns, found: Shares, pools: Sequence[Pool], options: Options) -> Columns:
    """Shares of those who answered: ratios, with the covariance of top and bottom."""
    is_absent = np.array([role == ABSENT for role in rows.roles])
    count = len(found.estimate)
    if count == len(rows.values):  # `absent` is a category that was asked: the bottom is 1 - absent
        covariance = -covariance_with(found, pools, np.flatnonzero(is_absent), options.estimand)
        answered = 1 - float(found.estimate[is_absent][0])
        variance_of_answered = -float(covariance[is_absent][0])
    else:
        covariance = covariance_with(found, pools, np.arange(count), options.estimand)
        answered = float(found.estimate.sum())
        variance_of_answered = float(covariance.sum())
    kept = [i for i, role in enumerate(rows.roles) if role != ABSENT]
    top, variance, covariance = found.estimate[kept], found.std_error[kept] ** 2, covariance[kept]
    best = rows.best_guess[kept] / max(float(rows.best_guess[kept].sum()), 1e-300)
    among = ratios(top, answered, variance, covariance, variance_of_answered, options.confidence)
    return Columns(
        values=[rows.values[i] for i in kept],
        roles=[rows.roles[i] for i in kept],
        estimate=among.estimate,
        std_error=among.std_error,
        low=among.low,
        high=among.high,
        p_value=rows.p_value[kept],
        best_guess=best,
    )


def _diagnostics(pools: Sequence[Pool], found: Shares, options: Options) -> Diagnostics:
    cohort_p = _cohort_p_values(pools, found)
    return Diagnostics(
        cohort_p=cohort_p,
        odd_cohorts=odd_ones(cohort_p),
        indistinguishable=(),
        rank=int(np.isfinite(found.estimate).sum()),
        num_columns=len(found.estimate),
        attack_radius=attack_radius(pools, options.fake_share),
        fake_share=options.fake_share,
        hidden_heavy_share=0.0,
    )


def odd_ones(cohort_p: Array) -> tuple[int, ...]:
    """Cohorts that do not fit the others, at one false alarm in a thousand decodes."""
    known = ~np.isnan(cohort_p)
    with np.errstate(invalid="ignore"):
        odd = known & (cohort_p < 0.001 / max(1, int(known.sum())))
    return tuple(int(i) for i in np.flatnonzero(odd))


def _cohort_p_values(pools: Sequence[Pool], found: Shares) -> Array:
    """Chi-square of each cohort's cells against the joint estimates; NaN where a cohort is all there is.

    A cohort's cell and the estimate it takes part in, with coefficient c, differ with variance (1 - c) times its own.
    """
    cohorts = [cohort for pool in pools for cohort in pool]
    floor, slope, sampling = (
        np.array([getattr(cohort, name) for cohort in cohorts])[found.cohort] for name in ("floor", "slope", "sampling")
    )
    fitted = found.estimate[found.answer]
    truth = np.clip(fitted, 0, 1)
    shared = np.isfinite(floor) & (found.coefficient < 1 - 1e-9)
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = (floor + slope * truth + sampling * truth * (1 - truth)) * (1 - found.coefficient)
        squares = (np.concatenate([cohort.shares for cohort in cohorts]) - fitted) ** 2 / variance
    total = np.bincount(found.cohort[shared], squares[shared], len(cohorts))
    degrees = np.bincount(found.cohort[shared], minlength=len(cohorts))
    return np.where(degrees > 0, np.asarray(stats.chi2.sf(total, np.maximum(degrees, 1))), np.nan)


def _notes(pools: Sequence[Pool], found: Shares) -> list[str]:
    notes = []
    for shape in {pool.metric.metric_hash: pool.metric.shape for pool in pools}.values():
        if isinstance(shape, Flag):
            notes.append(f"An install that recorded nothing counts as {'yes' if shape.absent else 'no'}.")
        if isinstance(shape, Choice) and shape.absent is not None:
            notes.append(f"An install that recorded nothing counts as {shape.absent}.")
    missing = int(np.isnan(found.estimate).sum())
    if missing:
        notes.append(f"{missing} of {len(found.estimate)} answers were asked of nobody who reported.")
    return notes
