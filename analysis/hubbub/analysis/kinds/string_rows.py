"""The rows of a `string` metric: every candidate, the strings not listed, and no string at all.

What is here holds for any design of cells, also one whose hash is not ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hubbub.analysis.arrays import Array, Index
from hubbub.analysis.estimation.cells import PooledTally, finite_population, shared_sampling
from hubbub.analysis.estimation.design import Design
from hubbub.analysis.estimation.detection import Rule
from hubbub.analysis.estimation.guesses import guesses_beside, joint_shares
from hubbub.analysis.estimation.intervals import RatioVariance, Variance, normal_interval, ratios, score_interval
from hubbub.analysis.estimation.left_out import FEW
from hubbub.analysis.estimation.selection import interval_given_selection, normal_p_value
from hubbub.analysis.estimation.string_screen import StringEstimates, screen
from hubbub.analysis.kinds.kind import Pools
from hubbub.analysis.kinds.rows import Columns, assemble
from hubbub.analysis.kinds.string_notes import diagnostics_of, groups_of, notes_of
from hubbub.analysis.options import Options
from hubbub.analysis.result import ABSENT, ANSWER, OTHER, Decoding

_LEAST = 0.04  # of a variance: what is left of it wherever the truth is


def judge(
    pools: Pools, design: Design, listed: Sequence[str], duplicate_of: Index, options: Options, notes: Sequence[str]
) -> Decoding:
    """Weigh and estimate the candidates of a design, judge each. `duplicate_of` says for each which one is the first
    that sets the same cells: those are estimated once."""
    first = np.flatnonzero(duplicate_of == np.arange(len(duplicate_of)))
    apart = design if len(first) == len(listed) else design.only(first)
    found = screen(apart, options.alpha)
    return table_of(pools, apart, listed, first, groups_of(listed, duplicate_of), found, options, notes)


def table_of(
    pools: Pools,
    design: Design,
    listed: Sequence[str],
    first: Index,
    groups: tuple[tuple[str, ...], ...],
    found: StringEstimates,
    options: Options,
    notes: Sequence[str],
) -> Decoding:
    """The result, from estimates of those listed that are the `first` of their group."""
    answered = Answered.of(pools, design, found, options)
    sampled = Sampled.of(pools, design, found, options).spread_out(first, len(listed))
    rows, thresholds, growth, crowd_guess = _rows(listed, first, found, answered, design, sampled, options)
    variance = _variance(rows, growth, sampled, answered, _step(pools, design, found))
    floor = float(np.median(thresholds[first], overwrite_input=True)) if len(first) else np.nan
    if found.crowd is not None:  # rows are the exceptions: what an average candidate would have needed
        rule = Rule.of(rows.p_value[first], options.alpha, options.correction, found.crowd.known)
        floor = found.threshold(rule.level) * found.crowd.typical_error
    if options.exclude_absent:
        rows = _among_answered(rows, answered, thresholds, sampled, growth, options, crowd_guess, variance)
        floor = floor / answered.share if answered.share > 0 else np.nan
    else:
        rows = replace(rows, variance=variance)
    return assemble(
        pools,
        options,
        rows,
        diagnostics=diagnostics_of(pools, design, found, groups, options),
        noise_floor=floor,
        notes=[*notes, *notes_of(design, found, groups, options.alpha)],
        answered_only=options.exclude_absent,
        tested_besides=found.crowd.known if found.crowd else 0,
    )


@dataclass(frozen=True, slots=True)
class Answered:
    """The share of installs that answered at all, whatever they answered."""

    share: float
    variance: Variance
    low: float
    high: float

    @classmethod
    def of(cls, pools: Pools, design: Design, found: StringEstimates, options: Options) -> Answered:
        """Where every answer sets the same number of bits, the ones in all count the answers, whatever the hash."""
        finite = finite_population(pools, options.estimand)
        if design.constant_weight:
            share, variance = _answered_by_weight(pools, design, finite)
        elif found.fit is not None and found.fit.degrees > 0:
            share = found.answered
            variance = Variance(np.array([found.answered_variance]), np.zeros(1), np.zeros(1))
        else:  # as many cells as unknowns: nothing says how evenly the strings fell on them
            share, variance = np.nan, Variance(np.array([np.inf]), np.zeros(1), np.zeros(1))
        low, high = score_interval(np.array([share]), variance, options.confidence)
        return cls(share, variance, float(low[0]), float(high[0]))

    @property
    def std_error(self) -> float:
        return float(np.sqrt(self.variance.at(np.array([self.share])))[0])

    @property
    def error_if_all_did(self) -> float:
        return float(np.sqrt(self.variance.at(np.ones(1)))[0])


@dataclass(frozen=True, slots=True)
class Sampled:
    """Variance factors of each candidate, to be multiplied by f (1 - f): of the installs as a sample of a population,
    `whole`; what of it the `cells` of a design have, in which every bit of a string and every sort of hash samples its
    holders anew; and what is taken off where the installs that reported are meant, `finite`."""

    whole: Array
    cells: Array
    finite: float

    @classmethod
    def of(cls, pools: Pools, design: Design, found: StringEstimates, options: Options) -> Sampled:
        """All definitions are answered by the same installs, the smaller crowd being part of the larger: they are
        sampled once, however many there are. A sort of hash counts by the weight its cells have."""
        sampling = np.array([_crowd(pool) for pool in pools])
        within = np.zeros((len(design.blocks), len(pools)))
        for row, block in zip(within, design.blocks, strict=True):
            for number in block.definitions:
                row[number] = sum(1 / (cohort.floor or cohort.sampling) for cohort in pools[number] if cohort.reports)
            row /= max(float(row.sum()), 1e-300)
        shared = within @ np.minimum.outer(sampling, sampling) @ within.T
        weight = np.ones((1, design.num_candidates))
        if len(design.blocks) > 1 and found.fit is not None:
            cells = found.fit.weights.cells * (1 - design.background)
            places = np.arange(len(cells))
            inside = [(places >= b.start) & (places < b.start + b.num_cohorts * b.width) for b in design.blocks]
            weight = np.array([design.gather(np.where(here, cells, 0.0)) for here in inside])
            weight = weight / np.maximum(weight.sum(axis=0), 1e-300)
        else:
            shared = shared[:1, :1]
        draws = np.array([block.draws for block in design.blocks[: len(weight)]])
        return cls(
            whole=np.einsum("gv,gh,hv->v", weight, shared, weight),
            cells=(np.diag(shared) / draws) @ weight**2,
            finite=finite_population(pools, options.estimand),
        )

    def spread_out(self, first: Index, count: int) -> Sampled:
        """For so many rows, of which these are of the candidates, in their order."""
        whole, cells = np.zeros(count), np.zeros(count)
        whole[first], cells[first] = self.whole, self.cells
        return Sampled(whole, cells, self.finite)


def _crowd(pool: PooledTally) -> float:
    """1 / (installs of these cohorts)."""
    installs = sum(1 / cohort.sampling for cohort in pool if cohort.reports)
    return 1 / installs if installs else 0.0


def _answered_by_weight(pools: Pools, design: Design, finite: float) -> tuple[float, Variance]:
    """A cohort's shares add up to num_hashes times those who answered; cohorts weigh by their precision."""
    cohorts = [
        (number, cohort, block.draws)
        for block in design.blocks
        for number in block.definitions
        for cohort in pools[number]
    ]
    observed = [(cohort, draws) for _, cohort, draws in cohorts if cohort.reports]
    definition = np.array([number for number, cohort, _ in cohorts if cohort.reports])
    if not observed:
        return np.nan, Variance(np.array([np.inf]), np.zeros(1), np.zeros(1))
    share = np.array([cohort.shares.sum() / draws for cohort, draws in observed])
    floor = np.array([len(cohort.ones) * cohort.floor / draws**2 for cohort, draws in observed])
    slope = np.array([cohort.slope / draws for cohort, draws in observed])
    sampling = np.array([cohort.sampling for cohort, _ in observed])
    weight = 1 / np.where(floor > 0, floor, sampling)
    weight /= weight.sum()
    variance = Variance(
        np.array([np.sum(weight**2 * floor)]),
        np.array([np.sum(weight**2 * slope)]),
        np.array([max(_sampled_once(definition, weight, sampling) - finite, 0.0)]),
    )
    return float(np.sum(weight * share)), variance


def _sampled_once(definition: Index, weight: Array, sampling: Array) -> float:
    """Variance factor of a sum over cohorts of which each definition has the same installs: two definitions covary by
    the smaller 1 / installs, wherever these are."""
    own, crowds, weights = 0.0, [], []
    for number in np.unique(definition):
        mine = definition == number
        crowds.append(1 / float(np.sum(1 / sampling[mine])))
        weights.append(float(weight[mine].sum()))
        own += float(np.sum((weight[mine]) ** 2 * sampling[mine])) - weights[-1] ** 2 * crowds[-1]
    return own + shared_sampling(crowds, weights)


def _rows(
    listed: Sequence[str],
    first: Index,
    found: StringEstimates,
    answered: Answered,
    design: Design,
    sampled: Sampled,
    options: Options,
) -> tuple[Columns, Array, Array, float]:
    """The rows, for each the estimate at which it would have been detected, by how much the variance of each listed one
    grows with its share, and the best guess of what those hold that have no row."""
    count, crowd = len(listed), found.crowd

    def spread_out(values: Array, nothing: float) -> Array:
        column = np.full(count, nothing)
        column[first] = values
        return column

    estimate, fit_error = spread_out(found.estimate, np.nan), spread_out(found.std_error, np.inf)
    share = np.clip(np.nan_to_num(estimate), 0, 1)
    # Cells hold the sampling of a string's holders as if each bit sampled them anew. They are sampled once, and of the
    # installs that reported not at all.
    beyond_cells = sampled.whole - sampled.finite - sampled.cells
    std_error = np.sqrt(np.maximum(fit_error**2 + share * (1 - share) * beyond_cells, _LEAST * fit_error**2))
    growth = spread_out(_growth(design, found), 0.0) + (1 - 2 * share) * beyond_cells
    del share, beyond_cells  # eight megabytes each where a million are listed
    p_value = spread_out(found.p_value, np.nan)
    low, high = normal_interval(estimate, std_error, options.confidence, found.degrees, growth)
    if design.cohorts_seen <= FEW:
        low = _as_tested(low, p_value, options)
    # In a single cohort a string outside the list may set just the bits of a candidate: nothing tells the two apart.
    if design.cohorts_seen == 1:
        p_value = np.full(count, np.nan)
    rule = Rule.of(p_value, options.alpha, options.correction, crowd.known if crowd else 0)
    chosen, threshold = np.flatnonzero(rule.detected(p_value)), found.threshold(rule.level)
    low_selected, high_selected = np.full(count, np.nan), np.full(count, np.nan)
    low_selected[chosen], high_selected[chosen] = interval_given_selection(
        estimate[chosen], std_error[chosen], threshold * fit_error[chosen], options.confidence
    )
    guesses, crowd_guess = _guesses(design, found, answered)
    total = float(np.nansum(estimate)) + (crowd.total if crowd else 0.0)
    best = spread_out(guesses, 0.0)
    other_guess = max(0.0, min(1.0, answered.share) - float(best.sum()) - crowd_guess)
    errors = np.array([answered.std_error, float(np.sqrt(found.sum_variance + answered.std_error**2))])
    last = np.array([1 - answered.share, answered.share - total])  # absent, other
    low_other, high_other = normal_interval(last[1:], errors[1:], options.confidence, found.degrees)
    rows = Columns(
        values=[*listed, "absent", "other"],
        roles=[*[ANSWER] * count, ABSENT, OTHER],
        estimate=np.concatenate([estimate, last]),
        std_error=np.concatenate([std_error, errors]),
        low=np.concatenate([low, [1 - answered.high], low_other]),
        high=np.concatenate([high, [1 - answered.low], high_other]),
        # That nobody failed to answer is tested as if it were so: with the noise of that, not of what was estimated.
        p_value=np.concatenate([p_value, normal_p_value(last, np.array([answered.error_if_all_did, errors[1]]))]),
        best_guess=np.concatenate([best, np.clip(last[:1], 0, 1), [other_guess]]),
        low_selected=np.concatenate([low_selected, [np.nan] * 2]),
        high_selected=np.concatenate([high_selected, [np.nan] * 2]),
    )
    return rows, np.concatenate([threshold * fit_error, [np.nan] * 2]), growth, crowd_guess


def _guesses(design: Design, found: StringEstimates, answered: Answered) -> tuple[Array, float]:
    """Best guesses of the candidates, and of what those hold that have no row."""
    most = min(1.0, max(0.0, answered.high)) if found.fit else 0.0
    if found.crowd is None:
        return joint_shares(design, found, most), 0.0
    return guesses_beside(found.crowd, found.estimate, found.std_error, most)


def _as_tested(low: Array, p_value: Array, options: Options) -> Array:
    """Where strings outside the list may have raised the same cells by chance, it may be that nobody holds this one."""
    return np.where(p_value > (1 - options.confidence) / 2, np.minimum(low, 0), low)


def _growth(design: Design, found: StringEstimates) -> Array:
    """By how much the variance of each estimate grows with the share itself. A holder more raises all cells of a
    string, and a cell counts in its estimate by weight x error^2."""
    if found.fit is None:
        return np.zeros(design.num_candidates)
    share = np.clip(found.fit.expected, 0, 1)
    cells = found.fit.weights.cells
    of_cells = np.where(cells > 0, design.slope + design.sampling * (1 - 2 * share), 0.0)
    error = np.where(np.isfinite(found.std_error), found.std_error, 0.0)
    return np.asarray(design.gather(cells**2 * of_cells) * error**4)


def _variance(rows: Columns, growth: Array, sampled: Sampled, answered: Answered, step: float) -> Variance:
    """Of each row, wherever its true share is. What is known of a string's is its value at the estimate, how it grows
    there, and that it bends as the sampling of installs does."""
    listed, of_absent = len(growth), answered.variance
    bend = np.maximum(sampled.whole - sampled.finite, 0)
    share, known = np.clip(np.nan_to_num(rows.estimate[:listed]), 0, 1), rows.std_error[:listed] ** 2
    slope = growth - bend * (1 - 2 * share)
    # Beyond where the slope was taken it may be less steep: some noise is left at either end.
    floor = np.maximum(known - share * (slope + bend * (1 - share)), _LEAST * known)
    with np.errstate(invalid="ignore"):
        slope = np.where(np.isfinite(known), np.maximum(slope, (_LEAST - 1) * floor), 0.0)
    return Variance(
        floor=np.concatenate([floor, of_absent.floor + of_absent.slope, rows.std_error[-1:] ** 2]),
        slope=np.concatenate([slope, -of_absent.slope, [0.0]]),
        sampling=np.concatenate([bend, of_absent.sampling, [0.0]]),
        step=np.append(np.full(listed + 1, step), 0.0),
    )


def _step(pools: Pools, design: Design, found: StringEstimates) -> float:
    """How far one install that holds a string moves its estimate: it sets the string's bits in one cohort, which have
    their part of the weight. Of cohorts of different sizes it is the average, by weight."""
    fit = found.fit
    if fit is None or not fit.weights.cells.any():
        return 0.0
    counted = np.flatnonzero(fit.weights.cells)
    weight, gain = fit.weights.cells[counted], min(pool.cohorts[0].noise.gain for pool in pools)
    moved = np.mean(weight**2 * design.sampling[counted]) / np.mean(weight) ** 2
    return float(moved / (gain * design.cohorts_seen))


def _among_answered(
    rows: Columns,
    answered: Answered,
    thresholds: Array,
    sampled: Sampled,
    growth: Array,
    options: Options,
    crowd_guess: float,
    of_rows: Variance,
) -> Columns:
    """Shares of those who answered. A string's bits are part of all ones, so top and bottom covary; both this and the
    variance of the string are taken at the ratio tested."""
    kept = [i for i, role in enumerate(rows.roles) if role != ABSENT]
    top, variance = rows.estimate[kept], rows.std_error[kept] ** 2
    share = np.clip(np.nan_to_num(top), 0, 1)
    var_answered = answered.std_error**2
    left = np.append(np.maximum(sampled.whole - sampled.finite, 0), 0)
    together = float(answered.variance.slope[0]) + left * (1 - min(max(answered.share, 0), 1))
    covariance = together * share
    # `other` is those who answered less all candidates, which are independent of it.
    covariance[-1], together[-1] = var_answered, 0.0
    slopes = np.append(growth, 0.0), together
    best = rows.best_guess[kept] / max(float(np.sum(rows.best_guess[kept])) + crowd_guess, 1e-300)
    among = ratios(top, answered.share, variance, covariance, var_answered, options.confidence, slopes)
    of_kept = of_rows.of(np.array(kept))

    def tested(ratio: Array) -> Array:
        own = ratio * answered.share
        with_answered = np.append(together[:-1] * own[:-1], var_answered)
        return np.asarray(of_kept.at(own) - 2 * ratio * with_answered + ratio**2 * var_answered)

    assert rows.low_selected is not None
    assert rows.high_selected is not None
    low_selected, high_selected = rows.low_selected[kept], rows.high_selected[kept]
    chosen = np.flatnonzero(~np.isnan(high_selected))
    low_selected[chosen], high_selected[chosen] = interval_given_selection(
        among.estimate[chosen], among.std_error[chosen], thresholds[kept][chosen] / answered.share, options.confidence
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
        variance=RatioVariance.of_ratios(tested, answered.share, of_kept.step),
    )
