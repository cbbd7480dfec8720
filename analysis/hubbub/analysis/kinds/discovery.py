"""Strings nobody listed: a search down the levels, and a test of what it ends with on installs that had no part in it.

Of every level the texts that stand out survive, and are continued at the next. The search tests nothing and may be as
greedy as it likes: installs of the last level were never looked at, so the p-values and intervals there are as those of
a list that somebody brought.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hubbub.analysis.arrays import Array, Index
from hubbub.analysis.estimation.design import Design, cohort_design, stack
from hubbub.analysis.estimation.hashing import Positions
from hubbub.analysis.estimation.intervals import normal_interval
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
from hubbub.analysis.kinds.kind import Kind, PlanOption, Pools, Sketch
from hubbub.analysis.kinds.rows import average_installs
from hubbub.analysis.kinds.string_rows import judge
from hubbub.analysis.kinds.variances import bit_variance
from hubbub.analysis.options import Options
from hubbub.analysis.progress import NamedProgress
from hubbub.analysis.result import ANSWER, OTHER, Beginning, Decoding
from hubbub.protocol.channel import Noise
from hubbub.protocol.encoding import WrongValue
from hubbub.protocol.invalid import Invalid, brief
from hubbub.protocol.kinds import Discovery

_SURELY = 4.5  # standard errors at which a text is hardly chance, however many were searched
_NO_CHANCE = 5.0  # at which it makes no difference by how much more it stands out
_OF_PARENT = 0.5  # of its score: tried were 0 (a tenth fewer are found), 0.3, 0.5 and 0.7
_HALF_AS_MANY = 1.5
_SPARE = 5
_AS_HARD_AS = 5_000
"""To outlast every level is about as hard as one test among so many values: on 10,000 names with Zipf's law, at one
million installs and epsilon 2 and 4, a text that a plan sees with power 80 % by this was found in about 8 of 10."""
MOST_TEXTS = 20_000_000
"""Texts at one level: each takes some 60 bytes while they are scored."""


def decode_discovery(
    pools: Pools, candidates: Sequence[str], options: Options, progress: NamedProgress = lambda share, what: None
) -> Decoding:
    """Search, then test. `candidates` are texts that somebody knows, which go along: they are tested besides what the
    search finds, and all have rows; of what it finds, only what was detected."""
    shape = _one_shape(pools)
    listed = _known(shape, candidates)
    levels = [_Level.of(pools, level) for level in range(shape.num_levels)]
    found = _search(shape, levels[:-1], listed, options, progress)
    texts = list(dict.fromkeys([*listed, *found.candidates()]))
    progress(1.0, f"testing {len(texts):,} texts")
    states = Beginnings.asked(shape, texts, shape.num_levels - 1)
    ordered = [states.raw(row) for row in range(len(states))]
    last = levels[-1]
    design = last.design(last.positions(states))
    tested = judge(
        last.pools, design, [text.decode() for text in ordered], design.duplicate_of(hashed=True), options, found.notes
    )
    shown = _without_guesses(tested, {text.decode() for text in listed})
    return replace(
        shown,
        num_reports=int(sum(pool.reports for pool in pools)),
        installs=average_installs(pools),
        diagnostics=replace(
            shown.diagnostics,
            odd_cohorts=tuple(last.number * shape.num_groups + cohort for cohort in shown.diagnostics.odd_cohorts),
            # Whoever makes reports up can have them all in the level that tests.
            attack_radius=shown.diagnostics.attack_radius * shape.num_levels,
        ),
        beginnings=found.beginnings,
    )


def _one_shape(pools: Pools) -> Discovery:
    shapes = [pool.metric.shape for pool in pools]
    first = shapes[0]
    assert isinstance(first, Discovery)
    for other in shapes[1:]:
        asks = [
            (shape.alphabet, shape.lowercase, shape.max_length, shape.step, shape.num_groups)
            for shape in (first, other)
            if isinstance(shape, Discovery)
        ]
        if asks[0] != asks[-1] or len(asks) == 1:
            raise Invalid(
                [
                    f"definitions of {pools[0].metric.name} decoded together must have one alphabet, lowercase, "
                    f"max_length, step and num_groups, got {first} and {other}"
                ]
            )
    return first


def _known(shape: Discovery, candidates: Sequence[str]) -> list[bytes]:
    """Texts that somebody lists, as they are hashed, each once; those too long to be told whole are left out."""
    found: dict[bytes, None] = {}
    problems = []
    for text in candidates:
        try:
            symbols = shape.symbols(text)
        except WrongValue as error:
            problems.append(f"a candidate {error} of {brief(text)}")
            continue
        if len(symbols) <= shape.max_length:
            found[symbols] = None
    if problems:
        raise Invalid(problems[:20])
    return list(found)


@dataclass(frozen=True, slots=True)
class _Level:
    """The cohorts of one level, of one or more definitions."""

    number: int
    pools: Pools

    @classmethod
    def of(cls, pools: Pools, number: int) -> _Level:
        # `sampling` stays that of all installs: those of a level are a sample of them.
        groups = [pool.metric.shape.num_cohorts // _shape(pool.metric.shape).num_levels for pool in pools]
        return cls(
            number,
            [
                replace(pool, cohorts=pool.cohorts[number * size : (number + 1) * size])
                for pool, size in zip(pools, groups, strict=True)
            ],
        )

    def positions(self, texts: Beginnings | Continuations) -> Positions:
        found = [positions(_shape(pool.metric.shape), texts.states, self.number) for pool in self.pools]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def design(self, where: Positions) -> Design:
        parts, start = [], 0
        for pool in self.pools:
            size = len(pool.cohorts)
            parts.append(
                cohort_design(
                    pool.cohorts,
                    where[start : start + size],
                    draws=1,
                    background=1 / _shape(pool.metric.shape).num_bits,
                    idle=0,
                    constant_weight=True,
                )
            )
            start += size
        return stack(parts)


def _shape(shape: object) -> Discovery:
    assert isinstance(shape, Discovery)
    return shape


# --- the search ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    """What survived the last search level, how far it stands out, and what was significant on the way."""

    texts: Beginnings
    scores: Array
    beginnings: tuple[Beginning, ...]
    notes: tuple[str, ...]

    def candidates(self) -> Iterator[bytes]:
        """Whole texts: those that surely stand out, half as many again, and some more. Each that is tested makes the
        test stricter for all."""
        whole = np.flatnonzero(self.texts.ended)
        most = int(_HALF_AS_MANY * np.count_nonzero(self.scores[whole] > _SURELY)) + _SPARE
        return (self.texts.raw(row) for row in whole[best(self.scores[whole], most)].tolist())


def _search(
    shape: Discovery, levels: Sequence[_Level], listed: Sequence[bytes], options: Options, progress: NamedProgress
) -> _Found:
    texts, evidence = Beginnings.nothing(shape.max_length), _Evidence(np.zeros(1), np.zeros(1))
    significant: list[Beginning] = []
    looked_at = 0
    for level in levels:
        _require_room(shape, texts, options)
        grown = continuations(shape, texts, level.number)
        looked_at += len(grown)
        progress(level.number / len(levels), f"level {level.number + 1} of {len(levels)}: {len(grown):,} texts")
        where = level.positions(grown)
        found = score_level(level.design, where, options.alpha)
        if found is None:
            return _Found(texts.only(np.zeros(0, dtype=np.int64)), np.zeros(0), (), ("A level has no reports.",))
        before, evidence = evidence, evidence.of_continuations(grown, found.scores)
        chosen = best(evidence.scores + before.promise()[grown.parent], options.beam)
        significant += _significant(shape, level, grown, where, found, chosen, options, len(levels))
        texts, evidence = grown.only(chosen), evidence.only(chosen)
        texts, evidence = _with_listed(shape, level, texts, evidence, listed, found)
    note = (
        f"{looked_at:,} texts were looked at in {len(levels)} levels, {options.beam} kept at each; what is listed was "
        "tested on the installs of a level of their own, and what was not detected has no row."
    )
    return _Found(texts, evidence.scores, tuple(significant), (note,))


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
    level: _Level,
    texts: Beginnings,
    evidence: _Evidence,
    listed: Sequence[bytes],
    found: LevelScores,
) -> tuple[Beginnings, _Evidence]:
    """Beginnings of listed texts that did not survive come back if they stand out as far as the least that did."""
    if not listed or not len(texts):
        return texts, evidence
    asked = Beginnings.asked(shape, listed, level.number)
    _, first = np.unique(asked.states, return_index=True)
    asked = asked.only(np.sort(first))
    asked = asked.only(~np.isin(asked.states, texts.states))
    _, _, scores = found.estimates_alone(level.positions(asked))
    back = np.flatnonzero(scores >= float(evidence.scores.min()))
    both = Beginnings.joined(texts, asked.only(back))
    total = np.concatenate([evidence.total, scores[back]])
    return both, _Evidence(total, np.concatenate([evidence.levels, np.ones(len(back))]))


def _significant(
    shape: Discovery,
    level: _Level,
    grown: Continuations,
    where: Positions,
    found: LevelScores,
    chosen: Index,
    options: Options,
    levels: int,
) -> Iterator[Beginning]:
    """Beginnings that are surely there: tested at their level, corrected for all that were looked at, at all levels."""
    going = chosen[~grown.ended[chosen]]
    estimate, std_error, p_value = found.estimates(going, where)
    p_adjusted = np.minimum(1, p_value * len(grown) * levels)
    shown = np.flatnonzero(p_adjusted <= options.alpha)
    texts = grown.only(going[shown])
    z = found.threshold(options.alpha / (len(grown) * levels))
    low, high = interval_given_selection(estimate[shown], std_error[shown], z * std_error[shown], options.confidence)
    for row, place in enumerate(shown.tolist()):
        yield Beginning(
            text=texts.text(row),
            length=shape.reach(level.number),
            estimate=float(estimate[place]),
            std_error=float(std_error[place]),
            low=float(low[row]),
            high=float(high[row]),
            p_adjusted=float(p_adjusted[place]),
        )


# --- the verdict --------------------------------------------------------------------------------------------------


def _without_guesses(tested: Decoding, listed: set[str]) -> Decoding:
    """Rows of what was detected or listed: the rest are texts that the search made up. Their shares count as `other`,
    with the variance of those that are shown."""
    detected = tested.detected
    hidden = np.array(
        [
            role == ANSWER and not seen and value not in listed
            for value, role, seen in zip(tested.values, tested.roles, detected, strict=True)
        ],
        dtype=bool,
    )
    other = tested.roles.index(OTHER)
    estimate, std_error, guess = tested.estimate.copy(), tested.std_error.copy(), tested.best_guess.copy()
    low, high = tested.low.copy(), tested.high.copy()
    hidden_variance = float(np.sum(std_error[hidden & np.isfinite(std_error)] ** 2))
    estimate[other] += float(np.nansum(estimate[hidden]))
    guess[other] += float(np.nansum(guess[hidden]))
    # Hashed columns are all but orthogonal: a sum loses the variances of those that are taken out of it.
    std_error[other] = np.sqrt(max(std_error[other] ** 2 - hidden_variance, 0.1 * std_error[other] ** 2))
    low[[other]], high[[other]] = normal_interval(estimate[[other]], std_error[[other]], tested.confidence)
    rows = np.flatnonzero(~hidden)

    def kept(column: Array) -> Array:
        return column[rows]

    return replace(
        tested,
        values=tuple(tested.values[i] for i in rows.tolist()),
        roles=tuple(tested.roles[i] for i in rows.tolist()),
        estimate=kept(estimate),
        std_error=kept(std_error),
        low=kept(low),
        high=kept(high),
        p_value=kept(tested.p_value),
        p_adjusted=kept(tested.p_adjusted),
        best_guess=kept(guess),
        low_selected=kept(tested.low_selected),
        high_selected=kept(tested.high_selected),
        tested_besides=tested.tested_besides + int(hidden.sum()),
    )


# --- planning -----------------------------------------------------------------------------------------------------


def _unit_variance(shape: Discovery, noise: Noise, share: float, strings: int) -> float:
    """A level has one in `num_levels` of the installs; a text is seen at one of its positions."""
    background = 1 / shape.num_bits
    own = bit_variance(noise, share + (1 - share) * background) / (1 - background) ** 2
    return shape.num_levels * own


def _planned(given: Mapping[str, int], strings: int) -> Discovery:
    return Discovery(
        discover=True,
        alphabet="host",
        max_length=given["max_length"],
        step=given["step"],
        num_bits=given.get("num_bits") or 128,
        num_groups=given["num_groups"],
    )


def _toml(shape: Discovery) -> str:
    lines = ["discover = true", f'alphabet = "{shape.alphabet}"', f"max_length = {shape.max_length}"]
    return "\n".join(lines + [f"{key} = {getattr(shape, key)}" for key in ("step", "num_bits", "num_groups")])


def _plan_remarks(sketch: Sketch[Discovery]) -> list[str]:
    shape = sketch.shape
    return [
        f"Discovery: {shape.num_levels - 1} levels of a search and one that tests, each with one in "
        f"{shape.num_levels} of all installs. A list of all texts would see shares {shape.num_levels**0.5:.1f} times "
        "smaller.",
    ]


DISCOVERY: Kind[Discovery] = Kind(
    decode=decode_discovery,
    search=decode_discovery,
    unit_variance=_unit_variance,
    planned=_planned,
    toml=_toml,
    tested=lambda shape, candidates: max(candidates, _AS_HARD_AS),
    plan_options=(
        PlanOption("max_length", 18, "discovery (default: 18 bytes)"),
        PlanOption("step", 2, "discovery (default: 2 bytes a level)"),
        PlanOption("num_groups", 16, "discovery (default: 16 groups a level)"),
    ),
    plan_remarks=_plan_remarks,
    released=lambda decoding: [i for i in decoding.detected.nonzero()[0].tolist() if decoding.roles[i] == ANSWER],
)
