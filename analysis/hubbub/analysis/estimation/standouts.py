"""Which of very many candidates could stand out, so that not every look needs a pass over all of them.

A pass scores all candidates on the residuals of one fit and keeps those that stand out or nearly do. A later look is at
the residuals of another fit. By how much a score may have risen in between is bounded by the residuals alone: a
candidate has a few cells in each cohort, and no cell rose by more than the one that rose most. While even the best of
those that were not kept cannot have risen above the threshold, the few that were kept are looked at instead of all,
and the look finds exactly what a pass would. That is most looks: heavy strings are taken in by the first two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.design import Block, gathered
from hubbub.analysis.estimation.shards import Best, Hashing, Survivors

MARGIN = 3.0
"""So many deviations below the threshold a candidate is still kept: of a million absent ones some thousand."""
MOST_KEPT = 1 << 17

_ROUNDING = 1e-9  # of the threshold: sums of some thousand cells are rounded far less


@dataclass(frozen=True, slots=True)
class Rest:
    """The candidates that a pass did not keep: none scored more than `most` on the cells that were `scored`."""

    scored: Array
    most: float

    def stays_below(self, threshold: float, scored: Array, blocks: Sequence[Block]) -> bool:
        """Whether none of them can score above this on these cells."""
        # Any part of what is scored now may be accounted for by what was scored then; this one leaves little.
        part = max(float(scored @ self.scored) / max(float(self.scored @ self.scored), 1e-300), 0.0)
        risen = most_gathered(scored - part * self.scored, blocks)
        return part * self.most + risen <= threshold - _ROUNDING * abs(threshold)


@dataclass(frozen=True, slots=True)
class StandOuts:
    """The candidates that a pass kept, and those that were fitted then, in list order."""

    kept: Survivors
    rest: Rest

    @classmethod
    def of_pass(cls, best: Best, fitted: Survivors, scored: Array, deviation: float) -> StandOuts:
        kept = Survivors.joined([fitted, best.found()])
        return cls(kept.only(np.argsort(kept.numbers)), Rest(scored, best.floor * deviation))

    def above(
        self, hashing: Hashing, scored: Array, deviation: float, threshold: float, fitted: Survivors
    ) -> Survivors:
        """The kept ones that score above the threshold, in deviations, and are not fitted."""
        z = gathered(hashing.where(self.kept.seeds), hashing.offset, scored) / deviation
        z[np.searchsorted(self.kept.numbers, fitted.numbers)] = -np.inf
        chosen = np.flatnonzero(z > threshold)
        new = self.kept.only(chosen)
        return Survivors(new.numbers, new.seeds, new.texts, z[chosen], z[chosen])


def most_gathered(cells: Array, blocks: Sequence[Block]) -> float:
    """No candidate's cells add up to more."""
    return sum(float(np.sort(block.rows(cells)[:, : block.drawn], axis=1)[:, -block.draws :].sum()) for block in blocks)
