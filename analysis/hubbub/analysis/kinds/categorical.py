"""What flags, choices, histograms and sets share: a share for each declared answer, and for none of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hubbub.analysis.arrays import Array, Index, Mask
from hubbub.analysis.estimation import misfit
from hubbub.analysis.estimation.cells import Cohort, finite_population
from hubbub.analysis.estimation.intervals import RatioVariance, Variance, score_ratios
from hubbub.analysis.estimation.law import Law, interval
from hubbub.analysis.estimation.shares import Shares, covariance_with_others, law_of_sum, possible, shares
from hubbub.analysis.kinds.kind import Pools
from hubbub.analysis.kinds.rows import Columns, assemble, cohorts_of, places_of, rule_of_answers
from hubbub.analysis.options import Options
from hubbub.analysis.result import ABSENT, ANSWER, Decoding, Diagnostics, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """The answers, what each is, and for each cohort of all definitions which answer each bit asks about.

    `best_guess` makes possible shares of estimates and their variances. `rest_is_absent`: whoever is in no answer's
    share did not answer. `attack_gain` is how far one fake report of n moves a share, times n. `several`: an install
    may be in the shares of several answers, which then depend on each other in ways that nobody knows. `unnamed` are
    spare places, which nobody can have answered with yet: they are estimated like the others, and have no row.
    """

    values: Sequence[str]
    roles: Sequence[Role]
    asked: Sequence[Sequence[int]]
    best_guess: Callable[[Array, Array], Array]
    attack_gain: float
    notes: Sequence[str] = ()
    rest_is_absent: bool = False
    several: bool = False
    unnamed: frozenset[int] = frozenset()


def decode_answers(pools: Pools, questions: Questions, options: Options) -> Decoding:
    """Design, weigh, estimate, judge."""
    cohorts, finite = cohorts_of(pools), finite_population(pools, options.estimand)
    found = shares(cohorts, questions.asked, len(questions.values), finite, places_of(pools))
    low, high = found.interval(options.confidence)
    rows = Columns(
        values=questions.values,
        roles=questions.roles,
        estimate=found.estimate,
        std_error=found.std_error,
        low=low,
        high=high,
        p_value=found.p_value,
        best_guess=_best_guess(questions, found),
        variance=found.variance,
    )
    if questions.rest_is_absent:
        rows = _with_absent(rows, found, pools, finite, options)
    answered_only = options.exclude_absent and ABSENT in rows.roles
    whole = _answered(rows, found) if answered_only else 1.0
    if answered_only:
        rows = _among_answered(rows, found, cohorts, finite, options)
    notes = [*questions.notes, *_notes(found), *_found_unnamed(questions, found, options)]
    if questions.unnamed:
        rows = rows.only([i for i, value in enumerate(rows.values) if value is not UNNAMED])
    named = [i for i, role in enumerate(questions.roles) if role == ANSWER and i not in questions.unnamed]
    line = found.line(rule_of_answers(rows.p_value, rows.roles, options), np.array(named))
    return assemble(
        pools,
        options,
        rows,
        diagnostics=_diagnostics(cohorts, found, questions, options),
        noise_floor=line / whole if whole > 0 else np.nan,
        notes=notes,
        answered_only=answered_only,
    )


UNNAMED = "(a spare place)"
"""In place of the value of an answer that has no name yet."""


def _best_guess(questions: Questions, found: Shares) -> Array:
    """Of spare places nothing: nobody can have answered with them."""
    named = np.array([i not in questions.unnamed for i in range(len(found.estimate))])
    guess = np.zeros(len(named))
    guess[named] = questions.best_guess(found.estimate[named], found.std_error[named] ** 2)
    return guess


def _found_unnamed(questions: Questions, found: Shares, options: Options) -> list[str]:
    """A spare place that somebody seems to have answered with was named by a newer registry than these tallies know."""
    level = options.alpha / max(len(questions.unnamed), 1)
    seen = sum(bool(found.p_value[i] <= level) for i in questions.unnamed)
    if not seen:
        return []
    places = "a spare place" if seen == 1 else f"{seen} spare places"
    return [f"Installs answer with {places}: read these tallies with the metrics.toml that names them."]


def bit_attack_gain(pools: Pools) -> float:
    """A fake report says 1 where honest ones that lack the answer say it with p*. For many-bit noise at its best this
    is 2E/(E - 1) (Cao, Jia, Gong 2021)."""
    return max((1 - pool.cohorts[0].noise.p_star) / pool.cohorts[0].noise.gain for pool in pools)


def _with_absent(rows: Columns, found: Shares, pools: Pools, finite: float, options: Options) -> Columns:
    """Whoever is in no bucket did not answer."""
    answered = np.array([found.estimate.sum()])
    absent, unknown = 1 - answered, Variance(np.array([np.inf]), np.zeros(1), np.zeros(1))

    def law() -> Law:
        return law_of_sum(found, cohorts_of(pools), places_of(pools), finite)

    variance = law().variance() if np.isfinite(answered[0]) else unknown
    low, high = interval(answered, variance, lambda _: law(), options.confidence)
    std_error = np.sqrt(variance.at(answered))
    return Columns(
        values=[*rows.values, "absent"],
        roles=[*rows.roles, ABSENT],
        estimate=np.append(rows.estimate, absent),
        std_error=np.append(rows.std_error, std_error),
        low=np.append(rows.low, 1 - high),
        high=np.append(rows.high, 1 - low),
        p_value=np.append(rows.p_value, law().p_values_of_rest(answered) if np.isfinite(answered[0]) else np.nan),
        best_guess=np.append(rows.best_guess, max(0.0, 1 - rows.best_guess.sum())),
        # As a function of the share that is absent: one less those who answered.
        variance=Variance(
            floor=np.append(found.variance.floor, variance.floor + variance.slope),
            slope=np.append(found.variance.slope, -variance.slope),
            sampling=np.append(found.variance.sampling, variance.sampling),
            step=np.append(found.variance.step, variance.step),
        ),
    )


def _among_answered(
    rows: Columns, found: Shares, cohorts: Sequence[Cohort], finite: float, options: Options
) -> Columns:
    """Shares of those who answered: ratios, with the covariance of top and bottom."""
    is_absent = np.array([role == ABSENT for role in rows.roles])
    kept = np.flatnonzero(~is_absent)
    best = rows.best_guess[kept] / max(float(rows.best_guess[kept].sum()), 1e-300)
    answered = _answered(rows, found)
    if _is_asked(rows, found):
        variance, of_answered = _variance_beside_absent(found, cohorts, is_absent, kept, finite)
    else:
        variance, of_answered = _variance_beside_others(found, cohorts, finite)
    among = score_ratios(found.estimate[kept], answered, variance, of_answered, options.confidence)
    few = found.variance.rests_on_few(found.estimate)[kept]
    low, high = among.reaching(rows.low[kept], rows.high[kept], answered, few)
    return Columns(
        values=[rows.values[i] for i in kept.tolist()],
        roles=[rows.roles[i] for i in kept.tolist()],
        estimate=among.estimate,
        std_error=among.std_error,
        low=low,
        high=high,
        p_value=rows.p_value[kept],
        best_guess=best,
        variance=RatioVariance.of_ratios(variance, answered, found.variance.of(kept).step),
    )


def _is_asked(rows: Columns, found: Shares) -> bool:
    """Whether `absent` is a category that was asked, and not who is in no other."""
    return len(found.estimate) == len(rows.values)


def _answered(rows: Columns, found: Shares) -> float:
    """The estimated share of installs that did."""
    if _is_asked(rows, found):
        return 1 - float(found.estimate[rows.roles.index(ABSENT)])
    return float(found.estimate.sum())


def _variance_beside_absent(
    found: Shares, cohorts: Sequence[Cohort], is_absent: Mask, kept: Index, finite: float
) -> tuple[Callable[[Array], Array], float]:
    """Of the answers kept Var(share - r (1 - absent)) where the ratio is r and as many answered as estimated; and
    Var(absent)."""
    of_absent = float(found.std_error[is_absent][0] ** 2)
    absent = float(possible(found.estimate)[is_absent][0])
    covariance = _covariance(found, cohorts, is_absent, finite, np.where(is_absent, absent, 0), kept)
    of_kept = found.variance.of(kept)

    def variance(ratio: Array) -> Array:
        own = np.clip(ratio, 0, 1) * (1 - absent)
        return np.asarray(of_kept.at(own) + 2 * ratio * covariance(own) + ratio**2 * of_absent)

    return variance, of_absent


def _variance_beside_others(
    found: Shares, cohorts: Sequence[Cohort], finite: float
) -> tuple[Callable[[Array], Array], float]:
    """Var(share - r (sum of shares)) where the ratio is r and as many answered as estimated; and that of the sum."""
    truth, everyone = possible(found.estimate), np.ones(len(found.estimate), dtype=bool)
    answered = min(1.0, float(truth.sum()))
    with_others = covariance_with_others(found, cohorts, everyone, finite, truth, truth)
    of_all = float((found.std_error**2 + with_others).sum())
    of_others = np.maximum(of_all - found.std_error**2 - 2 * with_others, 0)
    covariance = _covariance(found, cohorts, everyone, finite, truth, np.flatnonzero(everyone))

    def variance(ratio: Array) -> Array:
        own = np.clip(ratio, 0, 1) * answered
        left = 1 - ratio
        return np.asarray(left**2 * found.variance.at(own) - 2 * ratio * left * covariance(own) + ratio**2 * of_others)

    return variance, of_all


def _covariance(
    found: Shares, cohorts: Sequence[Cohort], chosen: Mask, finite: float, truth: Array, kept: Index
) -> Callable[[Array], Array]:
    """Of each share kept with the chosen others, as a function of the share itself: a line, which two points give."""
    nothing = np.zeros(len(truth))
    none, all_ = (
        covariance_with_others(found, cohorts, chosen, finite, nothing + own, truth)[kept] for own in (0.0, 1.0)
    )
    rise = all_ - none
    return lambda own: none + own * rise


def _diagnostics(cohorts: Sequence[Cohort], found: Shares, questions: Questions, options: Options) -> Diagnostics:
    cohort_p = misfit.of_shares(cohorts, found, questions.several)
    return Diagnostics(
        cohort_p=cohort_p,
        odd_cohorts=misfit.misfitting_cohorts(cohort_p),
        indistinguishable=(),
        rank=int(np.isfinite(found.estimate).sum()),
        num_columns=len(found.estimate),
        attack_radius=options.fake_share * questions.attack_gain,
        fake_share=options.fake_share,
        hidden_heavy_share=0.0,
    )


def _notes(found: Shares) -> list[str]:
    missing = int(np.isnan(found.estimate).sum())
    return [f"{missing} of {len(found.estimate)} answers were asked of nobody who reported."] if missing else []
