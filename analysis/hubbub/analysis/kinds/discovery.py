"""Strings nobody listed: a search down the levels, and a test of what it ends with on installs that had no part in it.

Of every level the texts that stand out survive, and are continued at the next. The search tests nothing and may be as
greedy as it likes: installs of the last level were never looked at, so the p-values and intervals there are as those of
a list that somebody brought.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.intervals import normal_interval
from hubbub.analysis.estimation.prefix_search import Beginnings
from hubbub.analysis.kinds.discovery_search import Found, Level, search
from hubbub.analysis.kinds.kind import Kind, PlanOption, Pools, Sketch
from hubbub.analysis.kinds.level_agreement import disagreeing_tests, in_short
from hubbub.analysis.kinds.rows import average_installs
from hubbub.analysis.kinds.string_rows import judge
from hubbub.analysis.kinds.variances import bit_variance
from hubbub.analysis.options import Options
from hubbub.analysis.progress import NamedProgress
from hubbub.analysis.result import ANSWER, OTHER, Decoding
from hubbub.protocol.channel import Noise
from hubbub.protocol.encoding import WrongValue
from hubbub.protocol.invalid import Invalid, brief
from hubbub.protocol.kinds import Discovery

_AS_HARD_AS = 5_000
"""To outlast every level is about as hard as one test among so many values: on 10,000 names with Zipf's law, at one
million installs and epsilon 2 and 4, a text that a plan sees with power 80 % by this was found in about 8 of 10."""


_PLANNED_BITS = 256
"""Twice as many as where nothing is said: fewer texts share a bit with a heavy one, and a tenth more are found (10,000
names, a million installs, epsilon 4), for reports that are 16 bytes longer."""
_MANY_LEVELS = 17


def decode_discovery(
    pools: Pools, candidates: Sequence[str], options: Options, progress: NamedProgress = lambda share, what: None
) -> Decoding:
    """Search, then test. `candidates` are texts that somebody knows, which go along: they are tested besides what the
    search finds, and all have rows; of what it finds, only what was detected."""
    shape = _one_shape(pools)
    listed, too_long = _known(shape, candidates)
    levels = [Level.of(pools, level) for level in range(shape.num_levels)]
    found = search(shape, levels[:-1], listed, options, progress)
    texts = list(dict.fromkeys([*listed, *found.candidates()]))
    progress(1.0, f"testing {len(texts):,} texts")
    last = levels[-1]
    tested = _tested(last, texts, found, options)
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
        notes=(*shown.notes, *_too_long(shape, too_long)),
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


def _known(shape: Discovery, candidates: Sequence[str]) -> tuple[list[bytes], int]:
    """Texts that somebody lists, as they are hashed, each once; and how many are too long to be told whole."""
    found: dict[bytes, None] = {}
    problems = []
    for text in candidates:
        try:
            symbols = shape.symbols(text)
        except WrongValue as error:
            problems.append(f"a candidate {error} of {brief(text)}")
            continue
        found[symbols] = None
    if problems:
        raise Invalid(problems[:20])
    listed = [symbols for symbols in found if len(symbols) <= shape.max_length]
    return listed, len(found) - len(listed)


def _too_long(shape: Discovery, count: int) -> list[str]:
    if not count:
        return []
    are = "candidate is" if count == 1 else "candidates are"
    return [
        f"{count:,} {are} longer than the {shape.max_length} bytes that are asked for, and can become known by their "
        "beginnings only."
    ]


# --- the verdict --------------------------------------------------------------------------------------------------


def _tested(last: Level, texts: Sequence[bytes], found: Found, options: Options) -> Decoding:
    """The texts on the installs of the last level, and whether these agree with those on which they were found."""
    shape = last.shape
    states = Beginnings.asked(shape, texts, last.number)
    words = [states.raw(row).decode() for row in range(len(states))]
    design = last.design(last.positions(states))
    same = design.duplicate_of(hashed=True)
    tested = judge(last.pools, design, words, same, options, found.notes)
    of_all = (
        judge(last.pools, design, words, same, replace(options, exclude_absent=False), ())
        if options.exclude_absent
        else tested
    )
    disagreements = list(disagreeing_tests(found.texts, found.shares, of_all))
    return replace(tested, notes=(*tested.notes, *in_short(disagreements)))


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
        num_bits=given.get("num_bits") or _PLANNED_BITS,
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
        *_shorter(shape),
    ]


def _shorter(shape: Discovery) -> list[str]:
    if shape.num_levels < _MANY_LEVELS:
        return []
    fewer = shape.replace(max_length=9 * shape.step)
    gain = (shape.num_levels / fewer.num_levels) ** 0.5
    return [
        f"{shape.max_length} bytes make many levels: with a max_length of {fewer.max_length} shares {gain:.1f} times "
        "smaller would be seen; of longer texts their beginnings become known."
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
