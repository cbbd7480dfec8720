"""How likely a string that nobody has would score as high as a candidate, on what a fit without that candidate leaves.

A fit that has a candidate in it explains the candidate's cells by the candidate, also where a string outside the list
raised them: what is left over shows the less of that string, the fewer cohorts there are, and a law read off it makes a
chance collision look like a discovery. What is left without the candidate does not depend on where its text hashes to:
the law of its score is then that of any text, whatever is outside the list, and however few cells there are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.design import Design
from hubbub.analysis.estimation.fit import Fit, cell_variance, reweigh
from hubbub.analysis.estimation.tails import Tail, at_most_so_likely, is_smooth, score_tail, standard_scores

FEW = 16
"""So many cohorts: of more, what one candidate's cells hide is too little of all to matter."""

_FEW_CELLS = 512  # of more, a candidate is left out only where something stands out
_SMALL, _SMALL_OF_MANY = 0.1, 0.002
"""p-values below: of few cells those that intervals go by, too; of more what a candidate hides is little, unless it
would be detected."""
_TINY = 1e-6  # below it a bound will do, which errs on the careful side: only lists of 50,000 and more could notice
_MOST = 4.0  # deviations that a cell counts at most
_POINTS = 250  # of the grid, for each cohort: rounding up takes less than .05 of the score's deviation


def p_values_left_out(design: Design, fit: Fit, p_value: Array, tail: Tail) -> Array:
    """The p-values of all candidates: each the larger of the one given and that on what the fit leaves without the
    candidate. Those that no test or interval would call small are left as they are, and all where cohorts are many.
    `tail` is the law on what the fit leaves."""
    if sum(block.num_cohorts for block in design.blocks) > FEW:
        return p_value
    has_few_cells = design.observed.sum() <= _FEW_CELLS
    if not has_few_cells and _nothing_stands_out(design, fit):
        return p_value
    found, small = p_value.copy(), p_value < (_SMALL if has_few_cells else _SMALL_OF_MANY)
    fitted = np.zeros(len(found), dtype=bool)
    fitted[fit.chosen] = True
    others = np.flatnonzero(small & ~fitted)
    if len(others):
        weighted = _scored(design, fit)
        found[others] = np.maximum(found[others], _chance(design, weighted, design.gather(weighted)[others], tail))
    columns = design.rows_of(fit.chosen).T
    for place, candidate in enumerate(fit.chosen):
        if small[candidate]:
            weighted = _scored(design, _without(design, fit, place, columns))
            score = weighted[design.positions[:, candidate] + design.offset].sum(keepdims=True)
            found[candidate] = max(found[candidate], _chance(design, weighted, score, tail)[0])
    return found


def _nothing_stands_out(design: Design, fit: Fit) -> bool:
    """A text outside the list that many have would show in the cohorts in which no candidate hides it."""
    none_set_aside = fit.weights.num_active == design.observed.sum()
    return bool(none_set_aside) and is_smooth(_rows(design, fit.weights.cells * fit.residual))


def _rows(design: Design, cells: Array) -> list[tuple[Array, int]]:
    return [(block.rows(cells)[:, : block.drawn], block.draws) for block in design.blocks]


def _chance(design: Design, weighted: Array, scores: Array, tail: Tail) -> Array:
    """How likely any text scores as high on these cells. Where none of them stands out, which one candidate adds does
    not change the shape of the law."""
    rows = _rows(design, weighted)
    z = standard_scores(rows, scores)
    bound = at_most_so_likely(rows, z)
    if (bound < _TINY).all():
        return bound
    if not is_smooth(rows):
        tail = score_tail(rows, points=_POINTS * max(sum(len(cells) for cells, _ in rows), 4))
    return np.asarray(np.exp(tail.log_p(z)))


def _scored(design: Design, left: Fit) -> Array:
    """Residuals by their weights, as the fit without the candidate has them: its own cells would count for little
    beside empty ones if it were thought to be there. No cell is set aside, because one that the candidate hides would
    not be; instead none counts as more than so many deviations."""
    excluded = design.observed & ~left.weights.active
    tau2 = reweigh(design, left, excluded).tau2
    deviation = np.sqrt(cell_variance(design, left.expected) + tau2)
    return np.where(design.observed, np.minimum(left.residual / deviation, _MOST) / deviation, 0.0)


def _without(design: Design, fit: Fit, place: int, columns: sparse.csc_array) -> Fit:
    """The same fit without one candidate, at the same weights. To leave out a column whose coefficient is b moves the
    others by -b C_iv / C_vv, with C the covariance of all coefficients."""
    moved = fit.shares[place] * fit.covariance[:, place + 1] / fit.covariance[place + 1, place + 1]
    shifted = moved[0] * design.background + columns @ moved[1:]
    return replace(
        fit,
        chosen=np.delete(fit.chosen, place),
        other=fit.other - float(moved[0]),
        shares=np.delete(fit.shares - moved[1:], place),
        residual=np.where(design.observed, fit.residual + shifted, 0.0),
        expected=fit.expected - shifted,
    )
