"""Sets: for each item of a list the share of installs that recorded it. An install may record several, or none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hubbub.analysis.estimation.cells import PooledTally
from hubbub.analysis.estimation.learnt_guesses import learnt_shares
from hubbub.analysis.kinds.categorical import UNNAMED, Questions, bit_attack_gain, decode_answers
from hubbub.analysis.kinds.factor import Categories, Factor, bit_of_several
from hubbub.analysis.kinds.kind import Kind, PlanOption, Pools, Sketch
from hubbub.analysis.kinds.rows import require_same_shape
from hubbub.analysis.kinds.variances import bit_variance
from hubbub.analysis.options import Options
from hubbub.analysis.result import ANSWER, Decoding
from hubbub.protocol.channel import Noise
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Set

_MOST_TRIED = 12  # items asked of one install: more are best at no epsilon that a registry may have


def decode_set(pools: Pools, candidates: Sequence[str], options: Options) -> Decoding:
    require_same_shape(pools)
    shape = max((pool.metric.shape for pool in pools), key=lambda shape: len(shape.later_names))
    assert isinstance(shape, Set)
    asked = [[shape.item(cohort, i) for i in range(shape.width(cohort))] for cohort in range(shape.num_cohorts)]
    questions = Questions(
        values=[*shape.listed, *[UNNAMED] * shape.spare],
        roles=[ANSWER] * shape.num_places,
        asked=[items for _ in pools for items in asked],
        # Shares of different items need not sum to anything: each is possible by itself.
        best_guess=lambda estimate, variance: learnt_shares(estimate, variance, total=None),
        # A fake picks its cohort: those asked about an item are a part of everyone, in which it weighs more.
        attack_gain=shape.num_places / shape.items_per_report * bit_attack_gain(pools),
        notes=["An install may record several items; one that recorded nothing counts as using none of them."],
        several=True,
        unnamed=frozenset(range(len(shape.listed), shape.num_places)),
    )
    return decode_answers(pools, questions, options)


def _factor(pool: PooledTally, candidates: Sequence[str], options: Options) -> Factor:
    """One item, used or not: items do not exclude each other. Installs that are not asked about it say nothing."""
    shape, noise = pool.metric.shape, pool.metric.noise
    assert isinstance(shape, Set)
    if len(candidates) != 1 or candidates[0] not in shape.places:
        got = ", ".join(map(repr, candidates)) or "none"
        items = ", ".join(shape.items)
        raise Invalid([f"a crosstab of {pool.metric.name} takes one item, which must be one of {items}, got {got}"])
    position = [(shape.places[candidates[0]] - cohort) % len(shape.items) for cohort in range(shape.num_cohorts)]
    asked = shape.items_per_report
    return Factor(
        categories=Categories(
            name=f"{pool.metric.name}: {candidates[0]}", values=("not used", "used"), roles=(ANSWER, ANSWER)
        ),
        responses=tuple(bit_of_several(noise, asked, place) if place < asked else None for place in position),
    )


def _unit_variance(shape: Set, noise: Noise, share: float, strings: int) -> float:
    asked = shape.num_places / shape.items_per_report
    return asked * bit_variance(noise, share) + (asked - 1) * share * (1 - share)


def _planned(given: Mapping[str, int], strings: int) -> Set:
    return Set(items=tuple(f"item {i}" for i in range(given["num_items"])), items_per_report=given.get(_ASKED, 1))


def _alternatives(shape: Set, given: Mapping[str, int]) -> list[Set]:
    if _ASKED in given:
        return [shape]
    return [shape.replace(items_per_report=asked) for asked in range(1, min(len(shape.items), _MOST_TRIED) + 1)]


def _remarks(sketch: Sketch[Set]) -> list[str]:
    shape = sketch.shape
    if not shape.asks_part:
        return [f"items_per_report = {shape.items_per_report}: an install answers for every item."]
    return [
        f"items_per_report = {shape.items_per_report}: an install is asked about {shape.items_per_report} of the "
        f"{shape.num_places} items, chosen by chance for life; the reports are those of all installs."
    ]


def _toml(shape: Set) -> str:
    more = f"\nreserve = {shape.reserve}" if shape.reserve else ""
    return f"items = {json.dumps(list(shape.items))}\n{_ASKED} = {shape.items_per_report}{more}"


_ASKED = "items_per_report"

SET: Kind[Set] = Kind(
    decode=decode_set,
    unit_variance=_unit_variance,
    planned=_planned,
    alternatives=_alternatives,
    toml=_toml,
    tested=lambda shape, candidates: len(shape.listed),
    asked=lambda shape: shape.items_per_report / shape.num_places,
    factor=_factor,
    silent_as=lambda shape: "using none of the items",
    released=lambda decoding: range(len(decoding)),
    plan_options=(
        PlanOption("num_items", 8, "set (default: 8)"),
        PlanOption(_ASKED, None, "set: of one install (default: as many as show most)"),
    ),
    plan_remarks=_remarks,
)
