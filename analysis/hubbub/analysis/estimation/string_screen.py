"""Which strings, and how many: estimates for every candidate, in the presence of strings nobody thought to list.

Every cell's expected share is  other x background + the sum of f_v over the candidates v that set it.

Few candidates (up to a tenth of the cells, more where cells are few): all of them at once, by weighted least squares.

Many: only strings that stand out need to be fitted together; to everyone else they are noise that can be taken away,
while the strings too rare to see are noise that cannot. So: score all candidates on what is left unexplained, take in
those no absent string would match, fit these, drop the weak, repeat. What remains is one extra variance `tau2` per
cell, fitted from the residuals. Each candidate that was not taken in is then estimated by itself on the residuals;
because its positions are hashed, everything else falls on it evenly, and the estimate is unbiased.

A heavy string outside the list sticks out of the residuals in every cohort; those cells are excluded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from hubbub.analysis.arrays import Array, Index, Mask
from hubbub.analysis.estimation.design import Design
from hubbub.analysis.estimation.fit import Fit, Weights, even_weights, outlier_cells, reweigh, settle, solve
from hubbub.analysis.estimation.left_out import p_values_left_out
from hubbub.analysis.estimation.tails import NORMAL, Tail, score_tail

_FULL_SHARE = 0.1  # of the cells: fitting so many candidates at once costs a ninth of the precision
_FULL_SMALL = 50  # but so few always, if a third of the cells: chance collisions do not average out over few strings
_FULL_MOST = 1500
_LOOKS = 0.1  # the part of the error that all looks but the last may spend together: many looks must not add up
_PASSES = 16
_ROUNDS = 2  # of excluding cells


HISTOGRAM_EDGES = np.linspace(-8.0, 8.0, 401)
"""Of estimates in standard errors, where only their number in each bin is kept; what is beyond counts in the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Candidates that were estimated and have no row of their own: how many, how much they hold in all, and how their
    estimates are spread, in standard errors (`HISTOGRAM_EDGES`). `unknown` more could not be estimated."""

    known: int
    unknown: int
    total: float
    typical_error: float
    histogram: Index


@dataclass(frozen=True, slots=True, kw_only=True)
class StringEstimates:
    """What was found. `tail` is the law of an absent string's score, in standard errors; of a test at level p the
    last look gets `level` x p."""

    estimate: Array
    std_error: Array
    p_value: Array
    tail: Tail
    level: float
    degrees: float
    sum_variance: float
    answered: float
    answered_variance: float
    excluded: Mask
    fit: Fit | None
    crowd: Crowd | None = None
    """Those that have no row, where a list is too long to give each candidate one."""

    def threshold(self, p: float) -> float:
        """How many standard errors an estimate must reach to have a p-value of at most p."""
        return self.tail.quantile(self.level * p)


def screen(design: Design, alpha: float) -> StringEstimates:
    """Estimate every candidate; `alpha` is the chance that any string is taken in wrongly."""
    cells = int(design.observed.sum())
    if not cells:
        return nothing(design)
    if fits_all(design.num_candidates, cells):
        found = _all_at_once(design)
        if found is not None:
            return found
    return _stepwise(design, alpha)


def fits_all(candidates: int, cells: int) -> bool:
    """Whether so many are few enough to be fitted all at once; `plan` asks, too."""
    return candidates <= min(max(_FULL_SHARE * cells, min(_FULL_SMALL, cells / 3)), _FULL_MOST)


def last_level(candidates: int, cells: int, p: float) -> float:
    """The probability of an absent string's score at which its p-value is p: many looks are paid for."""
    return p if fits_all(candidates, cells) else (1 - _LOOKS) * p


# --- few candidates -----------------------------------------------------------------------------------------------


def _all_at_once(design: Design) -> StringEstimates | None:
    everyone = np.arange(design.num_candidates)
    excluded = np.zeros(len(design.share), dtype=bool)
    rough, shrinkage = _rough_fit(design, everyone, even_weights(design, excluded)), 1.0
    for _ in range(_ROUNDS):
        out, shrinkage = outlier_cells(design, rough)
        if (out == excluded).all():
            break
        excluded = out
        rough = _rough_fit(design, everyone, reweigh(design, rough, excluded))
    fit = solve(design, everyone, reweigh(design, rough, excluded))
    if fit is None:
        return None
    tail = replace(_tail(design, fit), least=-np.inf)  # given the list, a share is no matter of lucky positions
    std_error = fit.std_errors / shrinkage
    return StringEstimates(
        estimate=fit.shares,
        std_error=std_error,
        p_value=p_values_left_out(design, fit, np.exp(tail.log_p(fit.shares / std_error)), tail),
        tail=tail,
        level=1.0,
        degrees=_degrees(fit),
        sum_variance=float(fit.covariance[1:, 1:].sum()) / shrinkage**2,
        answered=fit.other + float(fit.shares.sum()),
        answered_variance=float(fit.covariance.sum()) / shrinkage**2,
        excluded=excluded,
        fit=fit,
    )


def _rough_fit(design: Design, chosen: Index, weights: Weights) -> Fit:
    """The same fit without its covariance, to see the residuals before the one exact solution.

    Hashed columns are nearly orthogonal, so a few steps of conjugate gradients suffice.
    """
    columns = design.rows_of(chosen)
    back = columns.T.tocsr()
    weight = weights.cells
    size = len(chosen) + 1

    def expected_of(x: Array) -> Array:
        return np.asarray(x[0] * design.background + back @ x[1:])

    def gathered(cells: Array) -> Array:
        return np.concatenate([[np.sum(design.background * cells)], columns @ cells])

    diagonal = np.maximum(np.concatenate([[np.sum(weight * design.background**2)], columns @ weight]), 1e-300)
    scale = 1 / np.sqrt(diagonal)
    # Scaled to a diagonal of ones, so that what is left is measured in standard errors.
    normal = LinearOperator(
        (size, size), matvec=lambda y: scale * gathered(weight * expected_of(scale * y)), dtype=np.float64
    )
    y, _ = cg(normal, scale * gathered(weight * design.share), rtol=1e-7, maxiter=60)
    x = scale * y
    expected = expected_of(x)
    return Fit(
        chosen=chosen,
        other=float(x[0]),
        shares=x[1:],
        covariance=np.zeros((0, 0)),
        residual=np.where(design.observed, design.share - expected, 0.0),
        expected=expected,
        weights=weights,
    )


# --- many candidates ----------------------------------------------------------------------------------------------


Look = Callable[[Design, Fit, float, int], tuple[Design, Fit, Index]]
"""Which candidates outside a fit score above a threshold: at most so many, the best ones. Comes back with the design
that holds the fitted and the new, the fit in its numbering, and the new ones."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The strings that stand out, fitted together; cells set aside, and by how much that shrinks estimates."""

    design: Design
    fit: Fit
    excluded: Mask
    shrinkage: float


def _stepwise(design: Design, alpha: float) -> StringEstimates:
    taken = take_in(design, alpha, max(design.num_candidates, 1), _look_at_all)
    return _judged(design, taken) if taken else nothing(design)


def take_in(design: Design, alpha: float, count: int, look: Look) -> Taken | None:
    """Find and fit the strings that stand out among so many; None where nothing can be fitted at all."""
    excluded = np.zeros(len(design.share), dtype=bool)
    nobody: Index = np.zeros(0, dtype=np.int64)
    fit = settle(design, nobody, even_weights(design, excluded), excluded)
    if fit is None:
        return None
    shrinkage = 1.0
    for _ in range(_ROUNDS):
        design, fit = _grow(design, fit, excluded, _LOOKS * alpha / count, _PASSES, look)
        out, shrinkage = outlier_cells(design, fit)
        if (out == excluded).all():
            break
        excluded = out
        fit = settle(design, fit.chosen, reweigh(design, fit, excluded), excluded) or fit
    last = (1 - _LOOKS) * alpha / count
    design, fit = _grow(design, fit, excluded, last, 1, look)
    fit = solve(design, fit.chosen, reweigh(design, fit, excluded)) or fit
    fit, _ = _drop_weak(design, fit, excluded, last)
    return Taken(design, fit, excluded, shrinkage)


def _grow(design: Design, fit: Fit, excluded: Mask, p: float, passes: int, look: Look) -> tuple[Design, Fit]:
    """Take in what no absent string would match at level p, drop what fails it once others are in; repeat."""
    most = fit.weights.num_active // 3
    threshold = _tail(design, fit, rough=True).quantile(p)
    for _ in range(passes):
        design, fit, new = look(design, fit, threshold, max(most - len(fit.chosen), 0))
        if not len(new):
            break
        # Settled, not only solved: what was taken in is no longer noise, and the next look is the sharper for it.
        together = settle(design, np.sort(np.concatenate([fit.chosen, new])), fit.weights, excluded)
        if together is None:  # strings that look alike have no joint fit
            break
        # The looks passed keep the error small. Where others are no longer noise the law is steeper, and its threshold
        # can be higher: to fail that is no reason to go, or true strings would be taken in and dropped in turn.
        fit, threshold = _drop_weak(design, together, excluded, p, at_most=threshold)
    return design, fit


def _look_at_all(design: Design, fit: Fit, threshold: float, most: int) -> tuple[Design, Fit, Index]:
    z = design.gather(fit.weights.cells * fit.residual) / absent_deviation(design, fit)
    z[fit.chosen] = -np.inf
    new = np.flatnonzero(z > threshold)
    if len(new) > most:
        new = np.sort(np.argsort(-z, kind="stable")[:most])
    return design, fit, new


def _drop_weak(design: Design, fit: Fit, excluded: Mask, p: float, at_most: float = np.inf) -> tuple[Fit, float]:
    """Drop strings that fail level p beside the others, until all pass; and the z that level stands for. Those of so
    many standard errors pass in any case."""
    while True:
        threshold = _tail(design, fit, rough=True).quantile(p)
        strong = fit.shares / fit.std_errors > min(threshold, at_most)
        if strong.all():
            return fit, threshold
        fewer = solve(design, fit.chosen[strong], reweigh(design, fit, excluded))
        if fewer is None:
            return fit, threshold
        fit = fewer


def absent_deviation(design: Design, fit: Fit) -> float:
    """The deviation of an absent string's score on the residuals, on average over its positions."""
    weight = fit.weights.cells
    norm = sum(
        block.draws * float((block.rows(weight) * (1 - block.rows(design.background))).sum()) / block.drawn
        for block in design.blocks
    )
    return float(np.sqrt(max(norm, 1e-300)))


@dataclass(frozen=True, slots=True)
class Alone:
    """How a candidate that was not taken in is estimated by itself, on the residuals of a fit."""

    weight: Array
    scored: Array
    background: Array
    one_background: float | None
    """Where all counted cells have the same: then a sum less must be gathered."""
    spread: float
    left: float
    shrinkage: float

    @classmethod
    def from_fit(cls, taken: Taken) -> Alone:
        design, fit = taken.design, taken.fit
        weight = fit.weights.cells
        values = np.unique(design.background[design.observed])
        return cls(
            weight=weight,
            scored=weight * fit.residual,
            background=design.background,
            one_background=float(values[0]) if len(values) == 1 else None,
            spread=float(np.sum(weight * design.background**2)),
            # The fitted strings have taken their share of every direction, also of a candidate's.
            left=1 - (len(fit.chosen) + 1) / fit.weights.num_active,
            shrinkage=taken.shrinkage,
        )

    def norms(self, gather: Callable[[Array], Array]) -> tuple[Array, Array]:
        """For each candidate the weight of its cells, and what of it is its own."""
        own = gather(self.weight)
        shared = gather(self.weight * self.background) if self.one_background is None else own * self.one_background
        # By the column of all others a candidate is known only as far as it differs from it.
        norm = (own - shared**2 / self.spread) * self.left
        return own, norm

    def estimates(self, gather: Callable[[Array], Array], norm: Array, known: Mask) -> tuple[Array, Array]:
        """Estimates and standard errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            estimate = np.where(known, gather(self.scored) / (norm * self.shrinkage), np.nan)
            std_error = np.where(known, 1 / (np.sqrt(norm) * self.shrinkage), np.inf)
        return estimate, std_error


def is_known(norm: Array, largest_own: float) -> Mask:
    return norm > 1e-9 * max(largest_own, 1e-300)


def _judged(design: Design, taken: Taken) -> StringEstimates:
    fit, alone = taken.fit, Alone.from_fit(taken)
    own, norm = alone.norms(design.gather)
    known = is_known(norm, float(own.max(initial=0)))
    estimate, std_error = alone.estimates(design.gather, norm, known)
    estimate[fit.chosen], std_error[fit.chosen] = fit.shares, fit.std_errors / taken.shrinkage
    variance = np.where(known, 1 / np.where(known, norm, 1), 0)
    variance[fit.chosen] = 0
    return told_from_unlisted(design, judged_with(taken, estimate, std_error, known, design.scatter(variance)))


def told_from_unlisted(design: Design, found: StringEstimates) -> StringEstimates:
    """The same, with p-values that hold in few cohorts too; `design` is of the candidates that were judged."""
    assert found.fit is not None
    p_value = p_values_left_out(design, found.fit, found.p_value * found.level, found.tail) / found.level
    return replace(found, p_value=np.minimum(p_value, 1))


def judged_with(taken: Taken, estimate: Array, std_error: Array, known: Mask, functional: Array) -> StringEstimates:
    """The verdict on estimates; `functional` says how much each cell counts in the sum of those made alone."""
    design, fit, shrinkage = taken.design, taken.fit, taken.shrinkage
    tail = _tail(design, fit)
    with np.errstate(invalid="ignore"):
        p_value = np.exp(tail.log_p(np.where(known, estimate / std_error, 0)))
    return StringEstimates(
        estimate=estimate,
        std_error=std_error,
        p_value=np.where(known, np.minimum(p_value / (1 - _LOOKS), 1), np.nan),
        tail=tail,
        level=1 - _LOOKS,
        degrees=_degrees(fit),
        sum_variance=(float(fit.covariance[1:, 1:].sum()) + _variance_of_sum(design, fit, functional)) / shrinkage**2,
        answered=fit.other + float(fit.shares.sum()),
        answered_variance=float(fit.covariance.sum()) / shrinkage**2,
        excluded=taken.excluded,
        fit=fit,
    )


def _variance_of_sum(design: Design, fit: Fit, functional: Array) -> float:
    """Of the sum of estimates each made alone: as one functional of the cells, less what the fitted columns take."""
    weight = fit.weights.cells
    cohorts = sum(int(np.count_nonzero(block.rows(weight).any(axis=1))) for block in design.blocks)
    if cohorts == 1:
        return np.inf  # candidates that share out the bits of a single cohort look like strings that do
    columns = design.rows_of(fit.chosen)
    onto = np.concatenate([[np.sum(weight * design.background * functional)], columns @ (weight * functional)])
    return float(np.sum(weight * functional**2) - onto @ fit.covariance @ onto)


def _tail(design: Design, fit: Fit, *, rough: bool = False) -> Tail:
    """The law of an absent string's score on the residuals of a fit."""
    scored = fit.weights.cells * fit.residual
    return score_tail([(block.rows(scored)[:, : block.drawn], block.draws) for block in design.blocks], rough=rough)


def _degrees(fit: Fit) -> float:
    """Student's law is for a spread that was estimated: with no extra variance it was not."""
    return max(fit.degrees, 1) if fit.weights.tau2 > 0 else np.inf


def nothing(design: Design) -> StringEstimates:
    unknown = np.full(design.num_candidates, np.nan)
    return StringEstimates(
        estimate=unknown,
        std_error=np.full(design.num_candidates, np.inf),
        p_value=unknown,
        tail=NORMAL,
        level=1.0,
        degrees=np.inf,
        sum_variance=np.inf,
        answered=np.nan,
        answered_variance=np.inf,
        excluded=np.zeros(len(design.share), dtype=bool),
        fit=None,
    )
