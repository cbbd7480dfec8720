"""The screen of `string_screen` for lists that no memory holds: files are scored by an engine's workers, and what
stands out is fitted here.

The steps and formulas are those of a list in memory, so that what is estimated of a string has the same digits. Two
things are said of all candidates together and need no more than sums: how much they hold in all, and how their
estimates are spread, from which best guesses are learnt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import frexp, ldexp

import numpy as np

from hubbub.analysis.arrays import Array, Index
from hubbub.analysis.estimation.design import Design
from hubbub.analysis.estimation.detection import Rule
from hubbub.analysis.estimation.fit import Fit
from hubbub.analysis.estimation.hashing import Words
from hubbub.analysis.estimation.repeats import Lists, Spreading
from hubbub.analysis.estimation.shards import (
    MOST_OTHERS,
    Best,
    Hashing,
    Judge,
    LookAt,
    Survivors,
    Unfitted,
    histogram,
    in_units,
    judge,
    look,
    no_unfitted,
)
from hubbub.analysis.estimation.standouts import MARGIN, MOST_KEPT, StandOuts
from hubbub.analysis.estimation.string_screen import (
    HISTOGRAM_EDGES,
    Alone,
    Crowd,
    StringEstimates,
    Taken,
    absent_deviation,
    judged_with,
    take_in,
    told_from_unlisted,
)

DesignOf = Callable[[Words], Design]
"""The design of candidates with these digests."""

_MAYBE = 10.0  # times the level of detection: where workers begin to send candidates back, to be judged here
_UNITS = 1 << 30  # in a standard error: sums of estimates are rounded so little


@dataclass(frozen=True, slots=True)
class Spread:
    """What was found: the strings that get a row, and all others as a crowd."""

    design: Design
    texts: tuple[str, ...]
    found: StringEstimates


def screen_lists(lists: Lists, design_of: DesignOf, hashing: Hashing, alpha: float, spreading: Spreading) -> Spread:
    """Estimate every candidate of all files, where there are reports."""
    looks = _Looks(lists, design_of, hashing, spreading)
    taken = take_in(looks.design, alpha, lists.num_candidates, looks)
    assert taken is not None, "the column of all other strings can be fitted wherever a cell counts anything"
    chosen = looks.held.only(taken.fit.chosen)
    judged = _Judging(lists, taken, chosen, hashing, alpha)
    unfitted = no_unfitted(hashing.num_cells, HISTOGRAM_EDGES)
    for part in spreading.map(judge, judged.items(), "estimating"):
        unfitted += part
    return judged.result(unfitted, design_of)


class _Looks:
    """Each look is a pass over the files, or at those that the last pass kept, where no other can stand out. The design
    holds those that are fitted or just came, in list order."""

    def __init__(self, lists: Lists, design_of: DesignOf, hashing: Hashing, spreading: Spreading) -> None:
        self.held = Survivors.joined([])
        self.design = design_of(self.held.seeds)
        self._lists, self._design_of, self._hashing, self._spreading = lists, design_of, hashing, spreading
        self._stand_outs: StandOuts | None = None

    def __call__(self, design: Design, fit: Fit, threshold: float, most: int) -> tuple[Design, Fit, Index]:
        fitted = self.held.only(fit.chosen)
        scored, deviation = fit.weights.cells * fit.residual, absent_deviation(design, fit)
        kept = self._stand_outs
        if kept is None or not kept.rest.stays_below(threshold * deviation, scored, design.blocks):
            kept = self._stand_outs = self._passed(scored, deviation, threshold, most, fitted)
        new = kept.above(self._hashing, scored, deviation, threshold, fitted).best(most)
        both = Survivors.joined([fitted, new])
        self.held = both.only(np.argsort(both.numbers))
        self.design = self._design_of(self.held.seeds)
        place_of_kept, place_of_new = (np.searchsorted(self.held.numbers, some.numbers) for some in (fitted, new))
        return self.design, replace(fit, chosen=place_of_kept), place_of_new

    def _passed(self, scored: Array, deviation: float, threshold: float, most: int, fitted: Survivors) -> StandOuts:
        least, most = threshold - MARGIN, max(most, MOST_KEPT)
        items = [
            LookAt(shard, self._hashing, scored, deviation, least, most, fitted.numbers) for shard in self._lists.shards
        ]
        best = Best(least, most)
        for part in self._spreading.map(look, items, "looking for strings that stand out"):
            best.add(part.found(), part.floor)
        return StandOuts.of_pass(best, fitted, scored, deviation)


class _Judging:
    """The last pass: each candidate by itself on what the fitted strings leave."""

    def __init__(self, lists: Lists, taken: Taken, chosen: Survivors, hashing: Hashing, alpha: float) -> None:
        self._lists, self._taken, self._chosen, self._hashing, self._alpha = lists, taken, chosen, hashing, alpha
        self._alone = Alone.from_fit(taken)
        self._typical = 1 / (absent_deviation(taken.design, taken.fit) * np.sqrt(self._alone.left) * taken.shrinkage)
        self._estimate_unit = power_of_two(self._typical / _UNITS)
        # A cell's sum of variances, in units, stays below 2**53 and so exact, with some room.
        self._variance_unit = power_of_two(self._typical**2 * lists.num_candidates / 2**50)

    def items(self) -> list[Judge]:
        # No candidate has more weight than the heaviest cell of each cohort, for each of its bits.
        blocks = [(block.rows(self._alone.weight), block.draws) for block in self._taken.design.blocks]
        largest_own = float(sum(draws * rows.max(axis=1).sum() for rows, draws in blocks))
        nobody = np.zeros(0)
        known = np.zeros(0, dtype=bool)
        law = judged_with(self._taken, nobody, nobody, known, np.zeros(self._hashing.num_cells))
        least_z = law.threshold(min(_MAYBE * self._alpha / self._lists.num_candidates, 0.5))
        return [
            Judge(
                shard,
                self._hashing,
                self._alone,
                largest_own,
                self._chosen.numbers,
                least_z,
                self._estimate_unit,
                self._variance_unit,
                HISTOGRAM_EDGES,
            )
            for shard in self._lists.shards
        ]

    def result(self, unfitted: Unfitted, design_of: DesignOf) -> Spread:
        """Rows for the fitted, the detected and the largest others, in list order; all else is the crowd."""
        fit = self._taken.fit
        fitted = replace(self._chosen, values=fit.shares, errors=fit.std_errors / self._taken.shrinkage)
        alone = self._with_rows(unfitted)
        rows = Survivors.joined([fitted, alone])
        rows = rows.only(np.argsort(rows.numbers))
        design = design_of(rows.seeds)
        taken = replace(
            self._taken,
            design=design,
            fit=replace(fit, chosen=np.searchsorted(rows.numbers, fitted.numbers)),
        )
        functional = unfitted.variances * self._variance_unit
        found = judged_with(taken, rows.values, rows.errors, np.ones(len(rows), dtype=bool), functional)
        crowd = Crowd(
            known=unfitted.known - len(alone),
            unknown=unfitted.unknown,
            total=(unfitted.estimates - in_units(alone.values, self._estimate_unit)) * self._estimate_unit,
            typical_error=self._typical,
            histogram=unfitted.histogram - histogram(alone.values / alone.errors, HISTOGRAM_EDGES),
        )
        return Spread(design, rows.texts, replace(told_from_unlisted(design, found), crowd=crowd))

    def _with_rows(self, unfitted: Unfitted) -> Survivors:
        """Of those sent back the detected ones, and the largest of the others."""
        high = unfitted.high
        law = judged_with(
            self._taken, high.values, high.errors, np.ones(len(high), dtype=bool), np.zeros(self._hashing.num_cells)
        )
        others = unfitted.known + len(self._chosen) - len(high)
        passed = np.flatnonzero(Rule.of(law.p_value, self._alpha, others=others).detected(law.p_value))
        missed = np.setdiff1d(np.arange(len(high)), passed)
        large = Survivors.joined([unfitted.large, high.only(missed)])
        large = large.only(np.argsort(large.numbers)).best(MOST_OTHERS)
        return Survivors.joined([high.only(passed), large])


def power_of_two(at_most: float) -> float:
    """The largest power of two that is not above this number."""
    mantissa, exponent = frexp(at_most)
    return ldexp(0.5, exponent) if mantissa else at_most
