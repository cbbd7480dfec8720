"""How far each of very many texts stands out at one level of a search. Heavy ones are fitted together first: else what
collides with them fills all places.

The steps are those of `string_screen`; only the texts that are fitted are ever in its design.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hubbub.analysis.arrays import Array, Index
from hubbub.analysis.estimation.design import Design, gathered
from hubbub.analysis.estimation.fit import Fit
from hubbub.analysis.estimation.hashing import Positions
from hubbub.analysis.estimation.prefix_search import best
from hubbub.analysis.estimation.standouts import MARGIN, Rest
from hubbub.analysis.estimation.string_screen import (
    Alone,
    StringEstimates,
    Taken,
    absent_deviation,
    judged_with,
    take_in,
)

DesignOf = Callable[[Positions], Design]
"""The design of a level's cells with these texts."""


@dataclass(frozen=True, slots=True)
class LevelScores:
    """`scores` are estimates in standard errors, of texts that stand out beside each other, of all others each by
    itself on what those leave; `fitted` are the former."""

    scores: Array
    taken: Taken
    fitted: Index

    def estimates(self, rows: Index, where: Positions) -> tuple[Array, Array, Array]:
        """Of some texts: shares, standard errors, p-values of the test that nobody's text begins so."""
        estimate, std_error, _ = self.estimates_alone(np.ascontiguousarray(where[:, rows]))
        place, fit = {int(row): i for i, row in enumerate(self.fitted)}, self.taken.fit
        for i, row in enumerate(rows.tolist()):
            if row in place:
                estimate[i] = fit.shares[place[row]]
                std_error[i] = fit.std_errors[place[row]] / self.taken.shrinkage
        return estimate, std_error, self._judged(estimate, std_error).p_value

    def estimates_alone(self, where: Positions) -> tuple[Array, Array, Array]:
        """Of texts that are not fitted: shares, standard errors, scores."""
        alone, offset = Alone.from_fit(self.taken), self.taken.design.offset

        def gather(cells: Array) -> Array:
            return gathered(where, offset, cells)

        _, norm = alone.norms(gather)
        estimate, std_error = alone.estimates(gather, norm, norm > 0)
        return estimate, std_error, np.nan_to_num(estimate / std_error)

    def threshold(self, p: float) -> float:
        """How many standard errors an estimate must reach to have a p-value of at most p."""
        nobody = np.zeros(0)
        return self._judged(nobody, nobody).threshold(p)

    def _judged(self, estimate: Array, std_error: Array) -> StringEstimates:
        cells = np.zeros(len(self.taken.fit.residual))
        return judged_with(self.taken, estimate, std_error, np.isfinite(std_error), cells)


def score_level(design_of: DesignOf, where: Positions, alpha: float) -> LevelScores | None:
    """None where the level has no reports."""
    nobody = design_of(where[:, :0])
    if not nobody.observed.any():
        return None
    looks = _Looks(design_of, where)
    taken = take_in(nobody, alpha, where.shape[1], looks)
    if taken is None:
        return None
    fit = taken.fit
    scores = looks.scores(taken.design, fit)
    fitted = looks.held[fit.chosen]
    scores[fitted] = fit.shares / fit.std_errors
    return LevelScores(scores, taken, fitted)


@dataclass(frozen=True, slots=True)
class _Near:
    """The texts that stood out or nearly did when all were scored, and those that were fitted then."""

    rows: Index
    where: Positions
    rest: Rest


class _Looks:
    """A `Look` over all texts of a level, or over those that can stand out; the design holds those that are fitted or
    just came."""

    def __init__(self, design_of: DesignOf, where: Positions) -> None:
        self.held: Index = np.zeros(0, dtype=np.int64)
        self._design_of, self._where = design_of, where
        self._near: _Near | None = None

    def scores(self, design: Design, fit: Fit) -> Array:
        return gathered(self._where, design.offset, fit.weights.cells * fit.residual) / absent_deviation(design, fit)

    def __call__(self, design: Design, fit: Fit, threshold: float, most: int) -> tuple[Design, Fit, Index]:
        kept = self.held[fit.chosen]
        new = self._above(design, fit, threshold, most, kept)
        self.held = np.union1d(kept, new)
        held = self._design_of(np.ascontiguousarray(self._where[:, self.held]))
        return held, replace(fit, chosen=np.searchsorted(self.held, kept)), np.searchsorted(self.held, new)

    def _above(self, design: Design, fit: Fit, threshold: float, most: int, kept: Index) -> Index:
        scored, deviation = fit.weights.cells * fit.residual, absent_deviation(design, fit)
        near = self._near
        if near is not None and near.rest.stays_below(threshold * deviation, scored, design.blocks):
            z = gathered(near.where, design.offset, scored) / deviation
            z[np.searchsorted(near.rows, kept)] = -np.inf
            new = np.flatnonzero(z > threshold)
            return near.rows[best(z, most) if len(new) > most else new]
        z = self.scores(design, fit)
        rows = np.union1d(kept, np.flatnonzero(z > threshold - MARGIN))
        rest = Rest(scored, (threshold - MARGIN) * deviation)
        self._near = _Near(rows, np.ascontiguousarray(self._where[:, rows]), rest)
        z[kept] = -np.inf
        new = np.flatnonzero(z > threshold)
        return best(z, most) if len(new) > most else new
