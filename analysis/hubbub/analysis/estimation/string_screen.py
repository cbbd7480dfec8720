"""Which strings, and how many: estimates for every candidate, in the presence of strings nobody thought to list.

Every cell's expected share is  other x centre + the sum of f_v over the candidates v that set it.

Few candidates (up to a tenth of the cells, more where cells are few): all of them at once, by weighted least squares.

Many: only strings that stand out need to be fitted together; to everyone else they are noise that can be taken away,
while the strings too rare to see are noise that cannot. So: score all candidates on what is left unexplained, take in
those no absent string would match, fit these, drop the weak, repeat. What remains is one extra variance `tau2` per
cell, fitted from the residuals. Each candidate that was not taken in is then estimated by itself on the residuals;
because its positions are hashed, everything else falls on it evenly, and the estimate is unbiased.

A heavy string outside the list sticks out of the residuals in every cohort; those cells are set aside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hubbub.analysis.estimation.design import Array, Design, Index
from hubbub.analysis.estimation.fit import Fit, Mask, Weights, even_weights, reweigh, settle, solve, sticking_out
from hubbub.analysis.estimation.tails import FAR_TILTS, NORMAL, TILTS, Tail, score_tail

_FULL_SHARE = 0.1  # of the cells: fitting so many candidates at once costs a ninth of the precision
_FULL_SMALL = 50  # but so few always, if a third of the cells: chance collisions do not average out over few strings
_FULL_MOST = 1500
_LOOKS = 0.1  # the part of the error that all looks but the last may spend together: many looks must not add up
_PASSES = 16
_ROUNDS = 2  # of setting cells aside


@dataclass(frozen=True, slots=True, kw_only=True)
class Strings:
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
    aside: Mask
    fit: Fit | None

    def bar(self, p: float) -> float:
        """How many standard errors an estimate must reach to have a p-value of at most p."""
        return self.tail.quantile(self.level * p)


def decode_strings(design: Design, alpha: float) -> Strings:
    """Estimate every candidate; `alpha` is the chance that any string is taken in wrongly."""
    cells = int(design.told.sum())
    if not cells:
        return _nothing(design)
    if design.num_candidates <= min(max(_FULL_SHARE * cells, min(_FULL_SMALL, cells / 3)), _FULL_MOST):
        found = _all_at_once(design)
        if found is not None:
            return found
    return _stepwise(design, alpha)


# --- few candidates -----------------------------------------------------------------------------------------------


def _all_at_once(design: Design) -> Strings | None:
    everyone = np.arange(design.num_candidates)
    aside = np.zeros(len(design.share), dtype=bool)
    rough, moves = _conjugate_gradients(design, everyone, even_weights(design, aside)), 1.0
    for _ in range(_ROUNDS):
        out, moves = sticking_out(design, rough)
        if (out == aside).all():
            break
        aside = out
        rough = _conjugate_gradients(design, everyone, reweigh(design, rough, aside))
    fit = solve(design, everyone, reweigh(design, rough, aside))
    if fit is None:
        return None
    tail = replace(_tail(design, fit), least=-np.inf)  # given the list, a share is no matter of lucky positions
    std_error = fit.std_errors / moves
    return Strings(
        estimate=fit.shares,
        std_error=std_error,
        p_value=np.exp(tail.log_p(fit.shares / std_error)),
        tail=tail,
        level=1.0,
        degrees=_degrees(fit),
        sum_variance=float(fit.covariance[1:, 1:].sum()) / moves**2,
        answered=fit.other + float(fit.shares.sum()),
        answered_variance=float(fit.covariance.sum()) / moves**2,
        aside=aside,
        fit=fit,
    )


def _conjugate_gradients(design: Design, chosen: Index, weights: Weights) -> Fit:
    """The same fit without its covariance, to see the residuals before the one exact solution.

    Hashed columns are nearly orthogonal, so a few steps suffice (Hestenes, Stiefel 1952).
    """
    columns = design.rows_of(chosen)
    back = columns.T.tocsr()
    weight = weights.cells

    def forward(x: Array) -> Array:
        return np.asarray(x[0] * design.centre + back @ x[1:])

    def backward(cells: Array) -> Array:
        return np.concatenate([[np.sum(design.centre * cells)], columns @ cells])

    diagonal = np.maximum(np.concatenate([[np.sum(weight * design.centre**2)], columns @ weight]), 1e-300)
    x = np.zeros(len(chosen) + 1)
    left = backward(weight * design.share)
    towards = left / diagonal
    direction, power = towards, float(left @ towards)
    start = power
    for _ in range(60):
        if power <= 1e-14 * start:
            break
        image = backward(weight * forward(direction))
        step = power / float(direction @ image)
        x = x + step * direction
        left = left - step * image
        towards = left / diagonal
        before, power = power, float(left @ towards)
        direction = towards + power / before * direction
    expected = forward(x)
    residual = np.where(design.told, design.share - expected, 0.0)
    return Fit(
        chosen=chosen,
        other=float(x[0]),
        shares=x[1:],
        covariance=np.zeros((0, 0)),
        residual=residual,
        expected=expected,
        weights=weights,
    )


# --- many candidates ----------------------------------------------------------------------------------------------


def _stepwise(design: Design, alpha: float) -> Strings:
    count = max(design.num_candidates, 1)
    aside = np.zeros(len(design.share), dtype=bool)
    nobody: Index = np.zeros(0, dtype=np.int64)
    fit = settle(design, nobody, even_weights(design, aside), aside)
    if fit is None:
        return _nothing(design)
    moves = 1.0
    for _ in range(_ROUNDS):
        fit = _grow(design, fit, aside, _LOOKS * alpha / count, _PASSES)
        out, moves = sticking_out(design, fit)
        if (out == aside).all():
            break
        aside = out
        fit = settle(design, fit.chosen, reweigh(design, fit, aside), aside) or fit
    last = (1 - _LOOKS) * alpha / count
    fit = _grow(design, fit, aside, last, 1)
    fit = solve(design, fit.chosen, reweigh(design, fit, aside)) or fit
    fit, _ = _drop_weak(design, fit, aside, last)
    return _judged(design, fit, aside, moves)


def _grow(design: Design, fit: Fit, aside: Mask, p: float, passes: int) -> Fit:
    """Take in what no absent string would match at level p, drop what fails it once others are in; repeat."""
    most = fit.weights.num_active // 3
    bar = _tail(design, fit, FAR_TILTS).quantile(p)
    for _ in range(passes):
        z = _scores(design, fit)
        z[fit.chosen] = -np.inf
        new = np.flatnonzero(z > bar)
        if len(new) > most - len(fit.chosen):
            new = np.sort(np.argsort(-z, kind="stable")[: max(most - len(fit.chosen), 0)])
        if not len(new):
            break
        # Settled, not only solved: what was taken in is no longer noise, and the next look is the sharper for it.
        together = settle(design, np.sort(np.concatenate([fit.chosen, new])), fit.weights, aside)
        if together is None:  # strings that cannot be told from each other have no joint fit
            break
        fit, bar = _drop_weak(design, together, aside, p)
    return fit


def _drop_weak(design: Design, fit: Fit, aside: Mask, p: float) -> tuple[Fit, float]:
    """Drop strings that fail level p beside the others, until all pass; and the z that level stands for."""
    while True:
        bar = _tail(design, fit, FAR_TILTS).quantile(p)
        strong = fit.shares / fit.std_errors > bar
        if strong.all():
            return fit, bar
        fewer = solve(design, fit.chosen[strong], reweigh(design, fit, aside))
        if fewer is None:
            return fit, bar
        fit = fewer


def _scores(design: Design, fit: Fit) -> Array:
    """Each candidate on the residuals, in the deviations an absent one would have on average over its positions."""
    weight = fit.weights.cells
    score = design.gather(weight * fit.residual)
    norm = sum(
        block.draws * float((block.rows(weight) * (1 - block.rows(design.centre))).sum()) / block.drawn
        for block in design.blocks
    )
    return np.asarray(score / np.sqrt(max(norm, 1e-300)))


def _judged(design: Design, fit: Fit, aside: Mask, moves: float) -> Strings:
    weight = fit.weights.cells
    own = design.gather(weight)
    # By the column of all others a candidate is known only as far as it differs from it.
    norm = own - design.gather_centre(weight, own) ** 2 / np.sum(weight * design.centre**2)
    # The fitted strings have taken their share of every direction, also of this candidate's.
    norm *= 1 - (len(fit.chosen) + 1) / fit.weights.num_active
    known = norm > 1e-9 * max(float(own.max(initial=0)), 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = np.where(known, design.gather(weight * fit.residual) / (norm * moves), np.nan)
        std_error = np.where(known, 1 / (np.sqrt(norm) * moves), np.inf)
    estimate[fit.chosen], std_error[fit.chosen] = fit.shares, fit.std_errors / moves
    tail = _tail(design, fit)
    with np.errstate(invalid="ignore"):
        p_value = np.exp(tail.log_p(np.where(known, estimate / std_error, 0)))
    alone = np.where(known, 1 / np.where(known, norm, 1), 0)
    alone[fit.chosen] = 0
    return Strings(
        estimate=estimate,
        std_error=std_error,
        p_value=np.where(known, np.minimum(p_value / (1 - _LOOKS), 1), np.nan),
        tail=tail,
        level=1 - _LOOKS,
        degrees=_degrees(fit),
        sum_variance=(float(fit.covariance[1:, 1:].sum()) + _variance_of_sum(design, fit, alone)) / moves**2,
        answered=fit.other + float(fit.shares.sum()),
        answered_variance=float(fit.covariance.sum()) / moves**2,
        aside=aside,
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
    onto = np.concatenate([[np.sum(weight * design.centre * functional)], columns @ (weight * functional)])
    return float(np.sum(weight * functional**2) - onto @ fit.covariance @ onto)


def _tail(design: Design, fit: Fit, tilts: Array = TILTS) -> Tail:
    """The law of an absent string's score on the residuals of a fit."""
    scored = fit.weights.cells * fit.residual
    return score_tail([(block.rows(scored)[:, : block.drawn], block.draws) for block in design.blocks], tilts)


def _degrees(fit: Fit) -> float:
    """Student's law is for a spread that was estimated: with no extra variance it was not."""
    return max(fit.degrees, 1) if fit.weights.tau2 > 0 else np.inf


def _nothing(design: Design) -> Strings:
    unknown = np.full(design.num_candidates, np.nan)
    return Strings(
        estimate=unknown,
        std_error=np.full(design.num_candidates, np.inf),
        p_value=unknown,
        tail=NORMAL,
        level=1.0,
        degrees=np.inf,
        sum_variance=np.inf,
        answered=np.nan,
        answered_variance=np.inf,
        aside=np.zeros(len(design.share), dtype=bool),
        fit=None,
    )
