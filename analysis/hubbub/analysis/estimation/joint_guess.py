"""Best guesses of strings, each made in the light of all the others.

To an unbiased estimate every string that was not detected is noise. A guess may do better: what the others are likely
to hold is taken off the cells first; less noise is left, so the guesses improve, and again. This is approximate message
passing (Donoho, Maleki, Montanari 2009): a step also adds back a part of the residuals the last guesses were made
from, as large as those guesses follow their own noise. What a guess has taken from the noise would otherwise be taken
for truth in the next step.
"""

from __future__ import annotations

import numpy as np

from hubbub.analysis.estimation.design import Array, Design
from hubbub.analysis.estimation.fit import Mask, cell_variance, extra_variance
from hubbub.analysis.estimation.guesses import likely_shares
from hubbub.analysis.estimation.string_screen import Strings

_MOST = 4  # candidates a cell: with more of them there is little to learn from each other, and much to compute
_STEPS = 5
_WORSE = 1.05  # times the noise of the step before: then the steps lead astray, as they may where cells are very few
_NUDGE = 0.02  # standard errors: how far estimates are moved to see how far guesses follow


def joint_shares(design: Design, found: Strings, total: float) -> Array:
    """Shares >= 0 with sum <= `total`, nearer to the truth than guesses made one by one where cells are few."""
    guess = likely_shares(found.estimate, found.std_error**2, total)
    fit, active = found.fit, design.told & ~found.aside
    count, cells = design.num_candidates, int(active.sum())
    # Strings that were all fitted at once have been seen in each other's light already.
    if fit is None or found.aside.any() or count > _MOST * cells or len(fit.chosen) == count:
        return guess
    echo = _follows(guess, found.estimate, found.std_error, total) / cells * np.where(active, fit.residual, 0.0)
    best, noise = guess, np.inf
    for _ in range(_STEPS):
        expected = max(found.answered - float(guess.sum()), 0.0) * design.centre + design.scatter(guess)
        variance = cell_variance(design, expected)
        residual = np.where(active, design.share - expected, 0.0) + echo
        before, noise = noise, float((residual**2 / variance)[active].sum())
        if noise > _WORSE * before:
            return best
        best = guess
        estimate, std_error = _on(design, residual, variance, guess, active)
        guess = likely_shares(estimate, std_error**2, total)
        echo = _follows(guess, estimate, std_error, total) / cells * residual
    return guess


def _on(design: Design, residual: Array, variance: Array, guess: Array, active: Mask) -> tuple[Array, Array]:
    """Each string by itself on what all the others leave."""
    tau2 = extra_variance(residual[active], variance[active], 1)
    weight = np.where(active, 1 / (variance + tau2), 0.0)
    own = design.gather(weight)
    norm = own - design.gather_centre(weight, own) ** 2 / np.sum(weight * design.centre**2)
    known = norm > 1e-9 * max(float(own.max(initial=0)), 1e-300)
    norm = np.where(known, norm, 1.0)
    estimate = np.where(known, guess + design.gather(weight * residual) / norm, np.nan)
    return estimate, np.where(known, 1 / np.sqrt(norm), np.inf)


def _follows(guess: Array, estimate: Array, std_error: Array, total: float) -> float:
    """By how much guesses move with their own estimates, summed. Neighbours are nudged apart: what all of them would do
    together is not asked."""
    known = np.isfinite(estimate) & np.isfinite(std_error)
    nudge = np.where(known, _NUDGE * std_error, 0.0) * np.where(np.arange(len(guess)) % 2, 1.0, -1.0)
    moved = likely_shares(estimate + nudge, std_error**2, total) - guess
    return max(float((moved[known] / nudge[known]).sum()), 0.0)
