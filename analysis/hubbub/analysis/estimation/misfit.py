"""Does a cohort fit the others? One that was tampered with or miscounted does not: p-values of residuals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import chdtrc

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.cells import Cohort
from hubbub.analysis.estimation.design import Design
from hubbub.analysis.estimation.shares import Shares
from hubbub.analysis.estimation.string_screen import StringEstimates
from hubbub.analysis.estimation.tree import Levels

_FALSE_ALARM = 0.001  # of one decoding that is as it should be


def misfitting_cohorts(cohort_p: Array) -> tuple[int, ...]:
    """Cohorts that do not fit the others, at one false alarm in a thousand decodings."""
    known = ~np.isnan(cohort_p)
    with np.errstate(invalid="ignore"):
        odd = known & (cohort_p < _FALSE_ALARM / max(1, int(known.sum())))
    return tuple(int(i) for i in np.flatnonzero(odd))


def of_shares(cohorts: Sequence[Cohort], found: Shares, several: bool = False) -> Array:
    """Chi-square of each cohort's cells against the joint estimates; NaN where a cohort is all there is.

    A cohort's cell and the estimate it takes part in, with coefficient c, differ with variance (1 - c) times its own.
    Where an install may hold `several` answers, cells depend on each other: the worst of them counts, times their
    number (Bonferroni), which holds however they do.
    """
    floor, slope, sampling = (
        np.array([getattr(cohort, name) for cohort in cohorts])[found.cohort] for name in ("floor", "slope", "sampling")
    )
    fitted = found.estimate[found.answer]
    truth = np.clip(fitted, 0, 1)
    shared = np.isfinite(floor) & (found.coefficient < 1 - 1e-9)
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = (floor + slope * truth + sampling * truth * (1 - truth)) * (1 - found.coefficient)
        squares = (np.concatenate([cohort.shares for cohort in cohorts]) - fitted) ** 2 / variance
    degrees = np.bincount(found.cohort[shared], minlength=len(cohorts))
    if several:
        worst = np.zeros(len(cohorts))
        np.maximum.at(worst, found.cohort[shared], squares[shared])
        return np.where(degrees > 0, np.minimum(degrees * np.asarray(chdtrc(1, worst)), 1), np.nan)
    total = np.bincount(found.cohort[shared], squares[shared], len(cohorts))
    return np.where(degrees > 0, np.asarray(chdtrc(np.maximum(degrees, 1), total)), np.nan)


def of_levels(levels: Levels, leaves: Array, guess: Array) -> Array:
    """Chi-square of each level's counts against the joint fit, with the moments its residuals really have
    (Satterthwaite 1946): the fit follows a level's own counts in some directions and not in others. `guess` are
    possible shares of the leaves, at which variances are taken."""
    p_values = np.full(len(levels.levels), np.nan)
    if not levels.identified or sum(level.reports > 0 for level in levels.levels) < 2:
        return p_values
    for place, level in enumerate(levels.levels):
        if not level.reports:
            continue
        width = len(level.shares)
        fitted, share = (cells.reshape(width, -1).sum(axis=1) for cells in (leaves, guess))
        variance = level.floor + level.slope * share + level.sampling * share * (1 - share)
        left, count = levels.residual_parts(place)
        mean, spread = float(np.sum(count * left)), float(np.sum(count * left**2))
        if mean > 1e-6:
            squares = float(np.sum((level.shares - fitted) ** 2 / variance))
            p_values[place] = float(chdtrc(mean**2 / spread, squares * mean / spread))
    return p_values


def of_strings(design: Design, found: StringEstimates) -> Array:
    """Chi-square of each cohort's residuals, with what the fit took from every cell given back."""
    cohorts = sum(block.num_cohorts for block in design.blocks)
    if found.fit is None or found.fit.degrees < 1:
        return np.full(cohorts, np.nan)
    weights = found.fit.weights
    squares = weights.cells * found.fit.residual**2 * weights.num_active / found.fit.degrees
    p_values = []
    for block in design.blocks:
        counted = np.count_nonzero(block.rows(weights.cells), axis=1)
        tail = np.asarray(chdtrc(np.maximum(counted, 1), block.rows(squares).sum(axis=1)))
        p_values.append(np.where(counted > 0, tail, np.nan))
    return np.concatenate(p_values)
