"""Decoding a `string` metric: a row for every candidate, for the strings not listed, and for no string at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from hubbub.analysis.estimation.cells import Pool
from hubbub.analysis.estimation.design import Design, string_design
from hubbub.analysis.estimation.hashing import canonical, digests
from hubbub.analysis.estimation.intervals import (
    Variance,
    adjust,
    interval_given_selection,
    normal_interval,
    ratios,
    score_interval,
)
from hubbub.analysis.estimation.joint_guess import joint_shares
from hubbub.analysis.estimation.shares import finite_population, normal_p_value
from hubbub.analysis.estimation.string_screen import Strings, decode_strings
from hubbub.analysis.kinds.categorical import odd_ones
from hubbub.analysis.kinds.rows import Columns, assemble, attack_radius
from hubbub.analysis.options import Options
from hubbub.analysis.result import ABSENT, ANSWER, OTHER, Array, Decoding, Diagnostics

MOST_CANDIDATES = 1_000_000


def decode_candidates(pools: Sequence[Pool], candidates: Sequence[str], options: Options) -> Decoding:
    """Design, weigh, estimate, judge; for candidates as an analyst lists them, repeats and all."""
    listed = distinct(candidates)
    design = string_design(pools, digests(listed))
    notes = []
    if len(listed) < len(candidates):
        notes.append(f"{len(candidates) - len(listed)} repeated candidates were left out.")
    if not listed:
        notes.append("No candidates were given (--candidates FILE): only `absent` and `other` can be estimated.")
    return decode_design(pools, design, listed, options, notes, hashed=True)


def distinct(candidates: Sequence[str]) -> list[str]:
    """Each candidate once: texts that differ only in how their accents are composed are one string to the client."""
    if all(map(str.isascii, candidates)):
        return list(dict.fromkeys(candidates))
    found: dict[bytes, str] = {}
    for text in candidates:
        found.setdefault(canonical(text), text)
    return list(found.values())


def decode_design(
    pools: Sequence[Pool],
    design: Design,
    listed: Sequence[str],
    options: Options,
    notes: Sequence[str] = (),
    *,
    hashed: bool = False,
) -> Decoding:
    """The same for any design, also one whose hash is not ours; `hashed` says that it is."""
    twins = design.twins(hashed=hashed)
    first = np.flatnonzero(twins == np.arange(len(twins)))
    told_apart = design if len(first) == len(listed) else design.only(first)
    found = decode_strings(told_apart, options.alpha)
    everyone = _Everyone.of(pools, design, found, options)
    rows, bars = _rows(listed, first, found, everyone, told_apart, options)
    floor = float(np.median(bars[first])) if len(first) else np.nan
    answered_only = options.exclude_absent
    if answered_only:
        rows = _among_answered(rows, everyone, bars, options)
    groups = _groups(listed, twins)
    return assemble(
        pools,
        options,
        rows,
        diagnostics=_diagnostics(pools, told_apart, found, groups, options),
        noise_floor=floor,
        notes=[*notes, *_notes(design, found, groups)],
        answered_only=answered_only,
    )


@dataclass(frozen=True, slots=True)
class _Everyone:
    """The installs that answered at all, whatever they answered."""

    answered: float
    variance: Variance
    reports_sampling: float
    low: float
    high: float

    @classmethod
    def of(cls, pools: Sequence[Pool], design: Design, found: Strings, options: Options) -> _Everyone:
        """Where every answer sets the same number of bits, the ones in all count the answers, whatever the hash."""
        finite = finite_population(pools, options.estimand)
        whole = finite_population(pools, "reporting")
        if design.constant_weight:
            answered, variance = _answered_by_weight(pools, design, finite)
        elif found.fit is not None and found.fit.degrees > 0:
            answered = found.answered
            variance = Variance(np.array([found.answered_variance]), np.zeros(1), np.zeros(1))
        else:  # as many cells as unknowns: nothing says how evenly the strings fell on them
            answered, variance = np.nan, Variance(np.array([np.inf]), np.zeros(1), np.zeros(1))
        low, high = score_interval(np.array([answered]), variance, options.confidence)
        return cls(answered, variance, whole, float(low[0]), float(high[0]))

    @property
    def std_error(self) -> float:
        return float(np.sqrt(self.variance.at(np.array([self.answered])))[0])


def _answered_by_weight(pools: Sequence[Pool], design: Design, finite: float) -> tuple[float, Variance]:
    """A cohort's shares add up to num_hashes times those who answered; cohorts weigh by their precision."""
    cohorts = [(cohort, block.draws) for pool, block in zip(pools, design.blocks, strict=True) for cohort in pool]
    told = [(cohort, draws) for cohort, draws in cohorts if cohort.reports]
    if not told:
        return np.nan, Variance(np.array([np.inf]), np.zeros(1), np.zeros(1))
    share = np.array([cohort.shares.sum() / draws for cohort, draws in told])
    floor = np.array([len(cohort.ones) * cohort.floor / draws**2 for cohort, draws in told])
    slope = np.array([cohort.slope / draws for cohort, draws in told])
    sampling = np.array([cohort.sampling for cohort, _ in told])
    weight = 1 / np.where(floor > 0, floor, sampling)
    weight /= weight.sum()
    variance = Variance(
        np.array([np.sum(weight**2 * floor)]),
        np.array([np.sum(weight**2 * slope)]),
        np.array([max(float(np.sum(weight**2 * sampling)) - finite, 0.0)]),
    )
    return float(np.sum(weight * share)), variance


def _rows(
    listed: Sequence[str],
    first: npt.NDArray[np.int64],
    found: Strings,
    everyone: _Everyone,
    design: Design,
    options: Options,
) -> tuple[Columns, Array]:
    """The rows, and for each the estimate at which it would have been detected."""
    count = len(listed)

    def spread_out(values: Array, nothing: float) -> Array:
        column = np.full(count, nothing)
        column[first] = values
        return column

    draws = design.blocks[0].draws
    estimate, fit_error = spread_out(found.estimate, np.nan), spread_out(found.std_error, np.inf)
    share = np.clip(np.nan_to_num(estimate), 0, 1)
    # A cell's variance holds the sampling of a string's holders once for each of its bits, as if each bit sampled them
    # anew: share (1 - share) / (draws n). They are sampled once, and of the installs that reported not at all.
    sampled = share * (1 - share) * everyone.reports_sampling
    own = (sampled if options.estimand == "population" else 0.0) - sampled / draws
    std_error = np.sqrt(np.maximum(fit_error**2 + own, 0.04 * fit_error**2))
    low, high = normal_interval(estimate, std_error, options.confidence, found.degrees)
    p_value = spread_out(found.p_value, np.nan)
    chosen, level = _chosen(p_value, options)
    bar = found.bar(level)
    low_selected, high_selected = np.full(count, np.nan), np.full(count, np.nan)
    low_selected[chosen], high_selected[chosen] = interval_given_selection(
        estimate[chosen], std_error[chosen], bar * fit_error[chosen], options.confidence
    )
    most = min(1.0, max(0.0, everyone.high)) if found.fit else 0.0
    best = spread_out(joint_shares(design, found, most), 0.0)
    absent, other = 1 - everyone.answered, everyone.answered - float(np.nansum(estimate))
    errors = np.array([everyone.std_error, float(np.sqrt(found.sum_variance + everyone.std_error**2))])
    last = np.array([absent, other])
    low_other, high_other = normal_interval(last[1:], errors[1:], options.confidence, found.degrees)
    rows = Columns(
        values=[*listed, "absent", "other"],
        roles=[*[ANSWER] * count, ABSENT, OTHER],
        estimate=np.concatenate([estimate, last]),
        std_error=np.concatenate([std_error, errors]),
        low=np.concatenate([low, [1 - everyone.high], low_other]),
        high=np.concatenate([high, [1 - everyone.low], high_other]),
        p_value=np.concatenate([p_value, normal_p_value(last, errors)]),
        best_guess=np.concatenate(
            [best, np.clip(last[:1], 0, 1), [max(0.0, min(1.0, everyone.answered) - best.sum())]]
        ),
        low_selected=np.concatenate([low_selected, [np.nan] * 2]),
        high_selected=np.concatenate([high_selected, [np.nan] * 2]),
    )
    return rows, np.concatenate([bar * fit_error, [np.nan] * 2])


def _chosen(p_value: Array, options: Options) -> tuple[npt.NDArray[np.int64], float]:
    """The rows detected, and the p-value at which detection began."""
    tests = max(1, int(np.count_nonzero(~np.isnan(p_value))))
    with np.errstate(invalid="ignore"):
        chosen = np.flatnonzero(adjust(p_value, options.correction) <= options.alpha)
    if options.correction == "bonferroni":
        return chosen, options.alpha / tests
    return chosen, options.alpha * max(1, len(chosen)) / tests


def _among_answered(rows: Columns, everyone: _Everyone, bars: Array, options: Options) -> Columns:
    """Shares of those who answered. A string's bits are part of all ones, so top and bottom covary."""
    kept = [i for i, role in enumerate(rows.roles) if role != ABSENT]
    top, variance = rows.estimate[kept], rows.std_error[kept] ** 2
    share = np.clip(np.nan_to_num(top), 0, 1)
    answered, var_answered = everyone.answered, everyone.std_error**2
    covariance = float(everyone.variance.slope[0]) * share
    if options.estimand == "population":
        covariance = covariance + everyone.reports_sampling * share * (1 - min(max(answered, 0), 1))
    covariance[-1] = var_answered  # `other` is those who answered less all candidates, which are independent of it
    best = rows.best_guess[kept] / max(float(np.sum(rows.best_guess[kept])), 1e-300)
    among = ratios(top, answered, variance, covariance, var_answered, options.confidence)
    assert rows.low_selected is not None
    assert rows.high_selected is not None
    low_selected, high_selected = rows.low_selected[kept], rows.high_selected[kept]
    chosen = np.flatnonzero(~np.isnan(high_selected))
    low_selected[chosen], high_selected[chosen] = interval_given_selection(
        among.estimate[chosen], among.std_error[chosen], bars[kept][chosen] / answered, options.confidence
    )
    return Columns(
        values=[rows.values[i] for i in kept],
        roles=[rows.roles[i] for i in kept],
        estimate=among.estimate,
        std_error=among.std_error,
        low=among.low,
        high=among.high,
        p_value=rows.p_value[kept],
        best_guess=best,
        low_selected=low_selected,
        high_selected=high_selected,
    )


def _groups(listed: Sequence[str], twins: npt.NDArray[np.int64]) -> tuple[tuple[str, ...], ...]:
    """Candidates that set the same bits in every cohort that reported."""
    members: dict[int, list[str]] = {}
    for i in np.flatnonzero(twins != np.arange(len(twins))):
        members.setdefault(int(twins[i]), [listed[int(twins[i])]]).append(listed[int(i)])
    return tuple(tuple(group) for group in members.values())


def _diagnostics(
    pools: Sequence[Pool], design: Design, found: Strings, groups: tuple[tuple[str, ...], ...], options: Options
) -> Diagnostics:
    cohort_p = _cohort_p_values(design, found)
    fit = found.fit
    cells = int(design.told.sum())
    hidden = float(np.mean(fit.residual[found.aside])) if fit is not None and found.aside.any() else 0.0
    return Diagnostics(
        cohort_p=cohort_p,
        odd_cohorts=odd_ones(cohort_p),
        indistinguishable=groups,
        rank=min(int(np.isfinite(found.estimate).sum()), max(cells - 1, 0)),
        num_columns=design.num_candidates + sum(len(group) - 1 for group in groups),
        attack_radius=attack_radius(pools, options.fake_share),
        fake_share=options.fake_share,
        hidden_heavy_share=hidden,
    )


def _cohort_p_values(design: Design, found: Strings) -> Array:
    """Chi-square of each cohort's residuals, with what the fit took from every cell given back."""
    cohorts = sum(block.num_cohorts for block in design.blocks)
    if found.fit is None or found.fit.degrees < 1:
        return np.full(cohorts, np.nan)
    weights = found.fit.weights
    squares = weights.cells * found.fit.residual**2 * weights.num_active / found.fit.degrees
    p_values = []
    for block in design.blocks:
        counted = np.count_nonzero(block.rows(weights.cells), axis=1)
        tail = np.asarray(stats.chi2.sf(block.rows(squares).sum(axis=1), np.maximum(counted, 1)))
        p_values.append(np.where(counted > 0, tail, np.nan))
    return np.concatenate(p_values)


def _notes(design: Design, found: Strings, groups: tuple[tuple[str, ...], ...]) -> list[str]:
    notes = []
    cells = int(design.told.sum())
    if not cells:
        notes.append("No reports: nothing can be estimated.")
    elif design.num_candidates > cells:
        notes.append(
            f"More candidates ({design.num_candidates}) than cells ({cells}): each was estimated by itself, "
            "beside those detected."
        )
    if groups:
        notes.append(
            f"{sum(len(group) - 1 for group in groups)} candidates set the same bits as an earlier one and are "
            "counted there: this hash cannot tell them apart."
        )
    unknown = int(np.isnan(found.estimate).sum())
    if cells and unknown:
        notes.append(f"{unknown} candidates cannot be told from strings outside the list.")
    if found.aside.any():
        notes.append(
            f"{int(found.aside.sum())} cells stick out that no candidate explains: a string outside the list is "
            "likely held by many. They were set aside."
        )
    return notes
