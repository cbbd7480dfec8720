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

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from hubbub.analysis.arrays import Array, Index, Mask
from hubbub.analysis.estimation.design import Design
from hubbub.analysis.estimation.fit import Fit, Weights, even_weights, outlier_cells, reweigh, settle, solve
from hubbub.analysis.estimation.tails import FAR_TILTS, NORMAL, TILTS, Tail, score_tail

_FULL_SHARE = 0.1  # of the cells: fitting so many candidates at once costs a ninth of the precision
_FULL_SMALL = 50  # but so few always, if a third of the cells: chance collisions do not average out over few strings
_FULL_MOST = 1500
_LOOKS = 0.1  # the part of the error that all looks but the last may spend together: many looks must not add up
_PASSES = 16
_ROUNDS = 2  # of excluding cells


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

    def threshold(self, p: float) -> float:
        """How many standard errors an estimate must reach to have a p-value of at most p."""
        return self.tail.quantile(self.level * p)


def screen(design: Design, alpha: float) -> StringEstimates:
    """Estimate every candidate; `alpha` is the chance that any string is taken in wrongly."""
    cells = int(design.observed.sum())
    if not cells:
        return _nothing(design)
    if design.num_candidates <= min(max(_FULL_SHARE * cells, min(_FULL_SMALL, cells / 3)), _FULL_MOST):
        found = _all_at_once(design)
        if found is not None:
            return found
    return _stepwise(design, alpha)


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
        p_value=np.exp(tail.log_p(fit.shares / std_error)),
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


def _stepwise(design: Design, alpha: float) -> StringEstimates:
    count = max(design.num_candidates, 1)
    excluded = np.zeros(len(design.share), dtype=bool)
    nobody: Index = np.zeros(0, dtype=np.int64)
    fit = settle(design, nobody, even_weights(design, excluded), excluded)
    if fit is None:
        return _nothing(design)
    shrinkage = 1.0
    for _ in range(_ROUNDS):
        fit = _grow(design, fit, excluded, _LOOKS * alpha / count, _PASSES)
        out, shrinkage = outlier_cells(design, fit)
        if (out == excluded).all():
            break
        excluded = out
        fit = settle(design, fit.chosen, reweigh(design, fit, excluded), excluded) or fit
    last = (1 - _LOOKS) * alpha / count
    fit = _grow(design, fit, excluded, last, 1)
    fit = solve(design, fit.chosen, reweigh(design, fit, excluded)) or fit
    fit, _ = _drop_weak(design, fit, excluded, last)
    return _judged(design, fit, excluded, shrinkage)


def _grow(design: Design, fit: Fit, excluded: Mask, p: float, passes: int) -> Fit:
    """Take in what no absent string would match at level p, drop what fails it once others are in; repeat."""
    most = fit.weights.num_active // 3
    threshold = _tail(design, fit, FAR_TILTS).quantile(p)
    for _ in range(passes):
        z = _scores(design, fit)
        z[fit.chosen] = -np.inf
        new = np.flatnonzero(z > threshold)
        if len(new) > most - len(fit.chosen):
            new = np.sort(np.argsort(-z, kind="stable")[: max(most - len(fit.chosen), 0)])
        if not len(new):
            break
        # Settled, not only solved: what was taken in is no longer noise, and the next look is the sharper for it.
        together = settle(design, np.sort(np.concatenate([fit.chosen, new])), fit.weights, excluded)
        if together is None:  # strings that cannot be told from each other have no joint fit
            break
        fit, threshold = _drop_weak(design, together, excluded, p)
    return fit


def _drop_weak(design: Design, fit: Fit, excluded: Mask, p: float) -> tuple[Fit, float]:
    """Drop strings that fail level p beside the others, until all pass; and the z that level stands for."""
    while True:
        threshold = _tail(design, fit, FAR_TILTS).quantile(p)
        strong = fit.shares / fit.std_errors > threshold
        if strong.all():
            return fit, threshold
        fewer = solve(design, fit.chosen[strong], reweigh(design, fit, excluded))
        if fewer is None:
            return fit, threshold
        fit = fewer


def _scores(design: Design, fit: Fit) -> Array:
    """Each candidate on the residuals, in the deviations an absent one would have on average over its positions."""
    weight = fit.weights.cells
    score = design.gather(weight * fit.residual)
    norm = sum(
        block.draws * float((block.rows(weight) * (1 - block.rows(design.background))).sum()) / block.drawn
        for block in design.blocks
    )
    return np.asarray(score / np.sqrt(max(norm, 1e-300)))


def _judged(design: Design, fit: Fit, excluded: Mask, shrinkage: float) -> StringEstimates:
    weight = fit.weights.cells
    own = design.gather(weight)
    # By the column of all others a candidate is known only as far as it differs from it.
    norm = own - design.gather_background(weight, own) ** 2 / np.sum(weight * design.background**2)
    # The fitted strings have taken their share of every direction, also of this candidate's.
    norm *= 1 - (len(fit.chosen) + 1) / fit.weights.num_active
    known = norm > 1e-9 * max(float(own.max(initial=0)), 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = np.where(known, design.gather(weight * fit.residual) / (norm * shrinkage), np.nan)
        std_error = np.where(known, 1 / (np.sqrt(norm) * shrinkage), np.inf)
    estimate[fit.chosen], std_error[fit.chosen] = fit.shares, fit.std_errors / shrinkage
    tail = _tail(design, fit)
    with np.errstate(invalid="ignore"):
        p_value = np.exp(tail.log_p(np.where(known, estimate / std_error, 0)))
    alone = np.where(known, 1 / np.where(known, norm, 1), 0)
    alone[fit.chosen] = 0
    return StringEstimates(
        estimate=estimate,
        std_error=std_error,
        p_value=np.where(known, np.minimum(p_value / (1 - _LOOKS), 1), np.nan),
        tail=tail,
        level=1 - _LOOKS,
        degrees=_degrees(fit),
        sum_variance=(float(fit.covariance[1:, 1:].sum()) + _variance_of_sum(design, fit, alone)) / shrinkage**2,
        answered=fit.other + float(fit.shares.sum()),
        answered_variance=float(fit.covariance.sum()) / shrinkage**2,
        excluded=excluded,
        fit=fit,
    )


def _variance_of_sum(design: Design, fit: Fit, alone: Array) -> float:
    """Of the sum of estimates each made alone: as one functional of the cells, less what the fitted columns take."""
    weight = fit.weights.cells
    cohorts = sum(int(np.count_nonzero(block.rows(weight).any(axis=1))) for block in design.blocks)
    if cohorts == 1:
        return np.inf  # candidates that share out the bits of a single cohort cannot be told from strings that do
    functional = design.scatter(alone)
    columns = design.rows_of(fit.chosen)
    onto = np.concatenate([[np.sum(weight * design.background * functional)], columns @ (weight * functional)])
    return float(np.sum(weight * functional**2) - onto @ fit.covariance @ onto)


def _tail(design: Design, fit: Fit, tilts: Array = TILTS) -> Tail:
    """The law of an absent string's score on the residuals of a fit."""
    scored = fit.weights.cells * fit.residual
    return score_tail([(block.rows(scored)[:, : block.drawn], block.draws) for block in design.blocks], tilts)


def _degrees(fit: Fit) -> float:
    """Student's law is for a spread that was estimated: with no extra variance it was not."""
    return max(fit.degrees, 1) if fit.weights.tau2 > 0 else np.inf


def _nothing(design: Design) -> StringEstimates:
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
