"""The screen of `string_screen` for lists that no memory holds: files are scored by an engine's workers, and what
stands out is fitted here.

The steps and formulas are those of a list in memory, so that what is estimated of a string has the same digits. Two
things are said of all candidates together and need no more than sums: how much they hold in all, and how their
estimates are spread, from which best guesses are learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import frexp, ldexp
from typing import TypeVar

import numpy as np

from hubbub.analysis.arrays import Index, Mask
from hubbub.analysis.engines.engine import Engine
from hubbub.analysis.estimation.design import Design
from hubbub.analysis.estimation.fit import Fit
from hubbub.analysis.estimation.hashing import Words
from hubbub.analysis.estimation.selection import detected
from hubbub.analysis.estimation.shards import (
    MOST_OTHERS,
    Hashing,
    Judge,
    LookAt,
    Part,
    Shard,
    Survivors,
    Verdict,
    count,
    histogram,
    in_units,
    judge,
    keys,
    look,
    no_verdict,
)
from hubbub.analysis.estimation.string_screen import (
    HISTOGRAM_EDGES,
    Alone,
    Crowd,
    StringEstimates,
    Taken,
    absent_deviation,
    judged_with,
    take_in,
)
from hubbub.analysis.progress import NamedProgress
from hubbub.protocol.invalid import Invalid

T = TypeVar("T")
R = TypeVar("R")
DesignOf = Callable[[Words], Design]
"""The design of candidates with these digests."""

_PART = 1 << 23  # digests compared at a time, in search of repeats: 64 MB
_MOST_REPEATS = 10_000_000
_MAYBE = 10.0  # times the level of detection: where workers begin to send candidates back, to be judged here
_UNITS = 1 << 30  # in a standard error: sums of estimates are rounded so little


@dataclass(frozen=True, slots=True)
class Lists:
    """All files of a long list, counted; `repeats` candidates stand in it more than once."""

    shards: tuple[Shard, ...]
    num_candidates: int
    repeats: int


@dataclass(frozen=True, slots=True)
class Spread:
    """What was found: the strings that get a row, and all others as a crowd."""

    design: Design
    texts: tuple[str, ...]
    found: StringEstimates


class Spreading:
    """An engine, and somebody who is told how far each pass over the files has come."""

    def __init__(self, engine: Engine, progress: NamedProgress) -> None:
        self._engine = engine
        self._progress = progress
        self._passes = 0

    def map(self, function: Callable[[T], R], items: Sequence[T], what: str) -> Iterator[R]:
        self._passes += 1
        for done, found in enumerate(self._engine.map(function, items), 1):
            self._progress(done / len(items), f"pass {self._passes}: {what}")
            yield found


def counted(paths: Sequence[str], spreading: Spreading) -> Lists:
    """How long each file is, and which of its candidates stand further up in the list: each counts once.

    Candidates are compared by 64 bits of their digests: among 10^8 different ones two are taken for one with a chance
    of 1 in 3000, and then one of them is not looked for.
    """
    sizes = list(spreading.map(count, paths, "counting"))
    firsts = np.cumsum([0, *sizes]).tolist()
    parts = max(1, -(-firsts[-1] // _PART))
    repeated: list[list[Index]] = [[] for _ in paths]
    repeats = 0
    for part in range(parts):
        found = list(spreading.map(keys, [Part(path, part, parts) for path in paths], "finding repeats"))
        again = _seen_before(np.concatenate([words for words, _ in found]))
        repeats += int(again.sum())
        if repeats > _MOST_REPEATS:
            raise Invalid([f"candidates: at most {_MOST_REPEATS:,} repeats, got more; sort -u leaves each but once"])
        start = 0
        for place, (words, rows) in enumerate(found):
            repeated[place].append(rows[again[start : start + len(words)]])
            start += len(words)
    shards = tuple(
        Shard(path, first, np.sort(np.concatenate(rows)))
        for path, first, rows in zip(paths, firsts, repeated, strict=False)
    )
    return Lists(shards, firsts[-1] - repeats, repeats)


def _seen_before(words: Words) -> Mask:
    again = np.zeros(len(words), dtype=bool)
    order = np.argsort(words, kind="stable")
    same = words[order[1:]] == words[order[:-1]]
    again[order[1:][same]] = True
    return again


def screen_lists(lists: Lists, design_of: DesignOf, hashing: Hashing, alpha: float, spreading: Spreading) -> Spread:
    """Estimate every candidate of all files, where there are reports."""
    looks = _Looks(lists, design_of, hashing, spreading)
    taken = take_in(looks.design, alpha, lists.num_candidates, looks)
    assert taken is not None, "the column of all other strings can be fitted wherever a cell counts anything"
    chosen = looks.held.only(taken.fit.chosen)
    judged = _Judging(lists, taken, chosen, hashing, alpha)
    verdict = no_verdict(hashing.num_cells, HISTOGRAM_EDGES)
    for part in spreading.map(judge, judged.items(), "estimating"):
        verdict += part
    return judged.result(verdict, design_of)


class _Looks:
    """Each look is a pass over the files. The design holds those that are fitted or just came, in list order."""

    def __init__(self, lists: Lists, design_of: DesignOf, hashing: Hashing, spreading: Spreading) -> None:
        self.held = Survivors.joined([])
        self.design = design_of(self.held.seeds)
        self._lists, self._design_of, self._hashing, self._spreading = lists, design_of, hashing, spreading

    def __call__(self, design: Design, fit: Fit, threshold: float, most: int) -> tuple[Design, Fit, Index]:
        kept = self.held.only(fit.chosen)
        scored, deviation = fit.weights.cells * fit.residual, absent_deviation(design, fit)
        items = [
            LookAt(shard, self._hashing, scored, deviation, threshold, most, kept.numbers)
            for shard in self._lists.shards
        ]
        new = Survivors.joined([])
        for part in self._spreading.map(look, items, "looking for strings that stand out"):
            new = Survivors.joined([new, part]).best(most)
        both = Survivors.joined([kept, new])
        self.held = both.only(np.argsort(both.numbers))
        self.design = self._design_of(self.held.seeds)
        place_of_kept, place_of_new = (np.searchsorted(self.held.numbers, some.numbers) for some in (kept, new))
        return self.design, replace(fit, chosen=place_of_kept), place_of_new


class _Judging:
    """The last pass: each candidate by itself on what the fitted strings leave."""

    def __init__(self, lists: Lists, taken: Taken, chosen: Survivors, hashing: Hashing, alpha: float) -> None:
        self._lists, self._taken, self._chosen, self._hashing, self._alpha = lists, taken, chosen, hashing, alpha
        self._alone = Alone.beside(taken)
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

    def result(self, verdict: Verdict, design_of: DesignOf) -> Spread:
        """Rows for the fitted, the detected and the largest others, in list order; all else is the crowd."""
        fit = self._taken.fit
        fitted = replace(self._chosen, values=fit.shares, errors=fit.std_errors / self._taken.shrinkage)
        alone = self._with_rows(verdict)
        rows = Survivors.joined([fitted, alone])
        rows = rows.only(np.argsort(rows.numbers))
        design = design_of(rows.seeds)
        taken = replace(
            self._taken,
            design=design,
            fit=replace(fit, chosen=np.searchsorted(rows.numbers, fitted.numbers)),
        )
        functional = verdict.variances * self._variance_unit
        found = judged_with(taken, rows.values, rows.errors, np.ones(len(rows), dtype=bool), functional)
        crowd = Crowd(
            known=verdict.known - len(alone),
            unknown=verdict.unknown,
            total=(verdict.estimates - in_units(alone.values, self._estimate_unit)) * self._estimate_unit,
            typical_error=self._typical,
            histogram=verdict.histogram - histogram(alone.values / alone.errors, HISTOGRAM_EDGES),
        )
        return Spread(design, rows.texts, replace(found, crowd=crowd))

    def _with_rows(self, verdict: Verdict) -> Survivors:
        """Of those sent back the detected ones, and the largest of the others."""
        high = verdict.high
        law = judged_with(
            self._taken, high.values, high.errors, np.ones(len(high), dtype=bool), np.zeros(self._hashing.num_cells)
        )
        others = verdict.known + len(self._chosen) - len(high)
        passed, _ = detected(law.p_value, self._alpha, "bonferroni", others)
        missed = np.setdiff1d(np.arange(len(high)), passed)
        large = Survivors.joined([verdict.large, high.only(missed)])
        large = large.only(np.argsort(large.numbers)).best(MOST_OTHERS)
        return Survivors.joined([high.only(passed), large])


def power_of_two(at_most: float) -> float:
    """The largest power of two that is not above this number."""
    mantissa, exponent = frexp(at_most)
    return ldexp(0.5, exponent) if mantissa else at_most
