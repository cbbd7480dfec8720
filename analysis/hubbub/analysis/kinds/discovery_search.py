"""The search for strings nobody listed: down the levels, keeping what stands out. What goes on from one level to the
next is not tested; beginnings that are surely there are noted on the way, and levels that cannot both be true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hubbub.analysis.arrays import Array, Index
from hubbub.analysis.estimation.design import Design, cohort_design, together
from hubbub.analysis.estimation.hashing import Positions
from hubbub.analysis.estimation.level_screen import LevelScores, score_level
from hubbub.analysis.estimation.prefix_search import (
    Beginnings,
    Continuations,
    best,
    continuations,
    most_continuations,
    positions,
)
from hubbub.analysis.estimation.selection import interval_given_selection
from hubbub.analysis.kinds.kind import Pools
from hubbub.analysis.kinds.level_agreement import LevelShares, disagreeing_levels, in_short
from hubbub.analysis.options import Options
from hubbub.analysis.progress import NamedProgress
from hubbub.analysis.result import Beginning
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Discovery

_SURELY = 4.5  # standard errors at which a text is hardly chance, however many were searched
_NO_CHANCE = 5.0  # at which it makes no difference by how much more it stands out
_OF_PARENT = 0.5  # of its score: tried were 0 (a tenth fewer are found), 0.3, 0.5 and 0.7
_HALF_AS_MANY = 1.5
_SPARE = 5
MOST_TEXTS = 20_000_000
"""Texts at one level: each takes some 60 bytes while they are scored."""


@dataclass(frozen=True, slots=True)
class Level:
    """The cohorts of one level, of one or more definitions."""

    number: int
    pools: Pools

    @classmethod
    def of(cls, pools: Pools, number: int) -> Level:
        # `sampling` stays that of all installs: those of a level are a sample of them.
        groups = [pool.metric.shape.num_cohorts // _shape(pool.metric.shape).num_levels for pool in pools]
        return cls(
            number,
            [
                replace(pool, cohorts=pool.cohorts[number * size : (number + 1) * size])
                for pool, size in zip(pools, groups, strict=True)
            ],
        )

    @property
    def shape(self) -> Discovery:
        return _shape(self.pools[0].metric.shape)

    def positions(self, texts: Beginnings | Continuations) -> Positions:
        """Where texts set their bits: the same in all definitions, which ask the same."""
        return positions(self.shape, texts.states, self.number)

    def design(self, where: Positions) -> Design:
        parts = [
            cohort_design(
                pool.cohorts,
                where,
                draws=1,
                background=1 / self.shape.num_bits,
                idle=0,
                constant_weight=True,
            )
            for pool in self.pools
        ]
        return together(parts, [self.shape] * len(parts))


def _shape(shape: object) -> Discovery:
    assert isinstance(shape, Discovery)
    return shape


@dataclass(frozen=True, slots=True)
class Found:
    """What survived the last search level, how far it stands out, its share there, what was significant on the way, and
    what is to be said of it."""

    texts: Beginnings
    scores: Array
    shares: LevelShares
    beginnings: tuple[Beginning, ...]
    notes: tuple[str, ...]

    def candidates(self) -> Iterator[bytes]:
        """Whole texts: those that surely stand out, half as many again, and some more. Each that is tested makes the
        test stricter for all."""
        whole = np.flatnonzero(self.texts.ended)
        most = int(_HALF_AS_MANY * np.count_nonzero(self.scores[whole] > _SURELY)) + _SPARE
        return (self.texts.raw(row) for row in whole[best(self.scores[whole], most)].tolist())


def search(
    shape: Discovery, levels: Sequence[Level], listed: Sequence[bytes], options: Options, progress: NamedProgress
) -> Found:
    texts, evidence = Beginnings.nothing(shape.max_length), _Evidence(np.zeros(1), np.zeros(1))
    shares = LevelShares.of_everybody()
    significant: list[Beginning] = []
    disagreements: list[str] = []
    looked_at = 0
    for level in levels:
        _require_room(shape, texts, options)
        grown = continuations(shape, texts, level.number)
        looked_at += len(grown)
        progress(level.number / len(levels), f"level {level.number + 1} of {len(levels)}: {len(grown):,} texts")
        where = level.positions(grown)
        found = score_level(level.design, where, options.alpha)
        if found is None:
            return _ended_early(shape, texts, level, len(levels), significant, disagreements)
        before, evidence = evidence, evidence.of_continuations(grown, found.scores)
        chosen = best(evidence.scores + before.promise()[grown.parent], options.beam)
        estimate, std_error, p_value = found.estimates(chosen, where)
        tests = len(grown) * len(levels)
        here = LevelShares(estimate, std_error, np.minimum(1, p_value * tests))
        significant += _significant(shape, level, grown.only(chosen), here, found, options, tests)
        survivors, evidence = grown.only(chosen), evidence.only(chosen)
        disagreements += disagreeing_levels(texts, shares, survivors, here, grown.parent[chosen])
        texts, evidence, shares = _with_listed(shape, level, survivors, evidence, here, listed, found)
    note = (
        f"{looked_at:,} texts were looked at in {len(levels)} levels, {options.beam} kept at each; what is listed was "
        "tested on the installs of a level of their own, and what was not detected has no row."
    )
    return Found(texts, evidence.scores, shares, tuple(significant), (note, *in_short(disagreements)))


def _ended_early(
    shape: Discovery,
    texts: Beginnings,
    level: Level,
    levels: int,
    significant: Sequence[Beginning],
    disagreements: Sequence[str],
) -> Found:
    """A level without reports: what goes on from there cannot be known, what was found up to there is."""
    known = shape.reach(level.number - 1) if level.number else 0
    note = (
        f"No reports are of level {level.number + 1} of {levels}: the search ended there, and no text can be found; "
        f"beginnings of up to {known} bytes can."
        if level.number
        else f"No reports are of level 1 of {levels}: the search could not begin, and no text can be found."
    )
    nothing = np.zeros(0)
    none = texts.only(np.zeros(0, dtype=np.int64))
    return Found(
        none, nothing, LevelShares(nothing, nothing, nothing), tuple(significant), (note, *in_short(disagreements))
    )


@dataclass(frozen=True, slots=True)
class _Evidence:
    """The sum of a text's scores, and of how many levels: once a text has ended, every level asks the same about it, so
    that its scores add up; of one that goes on, only the last level asks for all that is known of it."""

    total: Array
    levels: Array

    @property
    def scores(self) -> Array:
        return self.total / np.sqrt(np.maximum(self.levels, 1))

    def promise(self) -> Array:
        """What a continuation gains by that which it continues: of one that is hardly chance, more go on."""
        return _OF_PARENT * np.clip(self.scores, 0, _NO_CHANCE)

    def of_continuations(self, grown: Continuations, scores: Array) -> _Evidence:
        before = grown.of.ended[grown.parent]
        return _Evidence(
            np.where(before, self.total[grown.parent], 0) + scores, np.where(before, self.levels[grown.parent], 0) + 1
        )

    def only(self, chosen: Index) -> _Evidence:
        return _Evidence(self.total[chosen], self.levels[chosen])


def _require_room(shape: Discovery, texts: Beginnings, options: Options) -> None:
    each = most_continuations(shape)
    if int(np.count_nonzero(~texts.ended)) * each > MOST_TEXTS:
        raise Invalid([f"beam must be at most {MOST_TEXTS // each} for this alphabet and step, got {options.beam}"])


def _with_listed(
    shape: Discovery,
    level: Level,
    texts: Beginnings,
    evidence: _Evidence,
    shares: LevelShares,
    listed: Sequence[bytes],
    found: LevelScores,
) -> tuple[Beginnings, _Evidence, LevelShares]:
    """Beginnings of listed texts that did not survive come back if they stand out as far as the least that did."""
    if not listed or not len(texts):
        return texts, evidence, shares
    asked = Beginnings.asked(shape, listed, level.number)
    _, first = np.unique(asked.states, return_index=True)
    asked = asked.only(np.sort(first))
    asked = asked.only(~np.isin(asked.states, texts.states))
    estimate, std_error, scores = found.estimates_alone(level.positions(asked))
    back = np.flatnonzero(scores >= float(evidence.scores.min()))
    total = np.concatenate([evidence.total, scores[back]])
    return (
        Beginnings.joined(texts, asked.only(back)),
        _Evidence(total, np.concatenate([evidence.levels, np.ones(len(back))])),
        shares.joined(LevelShares(estimate, std_error, np.ones(len(asked))).of(back)),
    )


def _significant(
    shape: Discovery,
    level: Level,
    texts: Beginnings,
    shares: LevelShares,
    found: LevelScores,
    options: Options,
    tests: int,
) -> Iterator[Beginning]:
    """Beginnings that are surely there: tested at their level, corrected for all that were looked at, at all levels.

    Given the levels above, the continuations of a level are a list, whose installs had no part in making it; a text
    that nobody has falls on their counts by its hash alone. So a level shows a false one with probability
    alpha / levels at most, and all levels together with alpha.
    """
    shown = np.flatnonzero((shares.p_adjusted <= options.alpha) & ~texts.ended)
    texts, shares = texts.only(shown), shares.of(shown)
    threshold = found.threshold(options.alpha / tests) * shares.std_error
    low, high = interval_given_selection(shares.estimate, shares.std_error, threshold, options.confidence)
    reach = shape.reach(level.number)
    for row in range(len(texts)):
        yield Beginning(
            text=texts.text(row),
            hex=texts.raw(row).hex(),
            length=reach,
            too_long=reach == shape.max_length,
            estimate=float(shares.estimate[row]),
            std_error=float(shares.std_error[row]),
            low=float(low[row]),
            high=float(high[row]),
            p_adjusted=float(shares.p_adjusted[row]),
        )
