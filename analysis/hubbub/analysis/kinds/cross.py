"""Crosses: a share for each combination of two answers, by name `linux · yes`. They add up to everyone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product

from hubbub.analysis.estimation.learnt_guesses import learnt_shares
from hubbub.analysis.kinds.categorical import Questions, bit_attack_gain, decode_answers
from hubbub.analysis.kinds.kind import Kind, PlanOption, Pools
from hubbub.analysis.kinds.variances import bit_variance
from hubbub.analysis.options import Options
from hubbub.analysis.result import ANSWER, Decoding
from hubbub.protocol.kinds import Choice, Cross, Flag, Mean
from hubbub.protocol.shape import Factor

Cell = frozenset[tuple[str, str]]
"""The categories of a cell, each with the name of its factor: whichever stands first, it is the same cell."""


def decode_cross(pools: Pools, candidates: Sequence[str], options: Options) -> Decoding:
    names, asked = _cells(pools)
    shapes = {pool.metric.metric_hash: pool.metric.shape for pool in pools}.values()
    notes = dict.fromkeys(note for shape in shapes for factor in shape.factors for note in _notes(factor))
    questions = Questions(
        values=names,
        roles=[ANSWER] * len(names),
        asked=asked,
        best_guess=lambda estimate, variance: learnt_shares(estimate, variance, exactly=True),
        attack_gain=bit_attack_gain(pools),
        notes=list(notes),
    )
    return decode_answers(pools, questions, options)


def _cells(pools: Pools) -> tuple[list[str], list[list[int]]]:
    """The cells by name, and for each definition which of them each bit asks about. Definitions may tell other
    categories apart, or name the factors in another order: the cells are all of them, in the order first met."""
    order: dict[Cell, int] = {}
    names: list[str] = []
    asked = []
    for pool in pools:
        shape = pool.metric.shape
        first, second = shape.factors
        pairs = product(first.categories, second.categories)
        cells = [frozenset({(first.name, one), (second.name, other)}) for one, other in pairs]
        for cell, name in zip(cells, shape.answers, strict=True):
            if order.setdefault(cell, len(order)) == len(names):
                names.append(name)
        asked.append([order[cell] for cell in cells])
    return names, asked


def _notes(factor: Factor) -> list[str]:
    """What silence counts as, where it is no category of its own, and what a number was rounded to."""
    notes = []
    match factor.shape:
        case Flag(absent=absent):
            notes.append(f"Of {factor.name}, an install that recorded nothing counts as {'yes' if absent else 'no'}.")
        case Choice(absent=absent) if absent is not None:
            notes.append(f"Of {factor.name}, an install that recorded nothing counts as {absent}.")
        case Mean(absent=absent):
            if factor.accumulate != "sum":
                notes.append(f"Of {factor.name}, an install that recorded nothing counts as {float(absent):g}.")
            notes.append(f"{factor.name} is rounded by chance to one of {len(factor.categories)} points.")
    return notes


def _planned(given: Mapping[str, int], strings: int) -> Cross:
    return Cross(factors=(_listed("rows", given["num_rows"]), _listed("columns", given["num_columns"])))


def _listed(name: str, categories: int) -> Factor:
    choices = tuple(f"choice {i}" for i in range(categories))
    return Factor(name=name, shape=Choice(choices=choices, absent="choice 0"))


CROSS: Kind[Cross] = Kind(
    decode=decode_cross,
    unit_variance=lambda shape, noise, share, strings: bit_variance(noise, share),
    planned=_planned,
    toml=lambda shape: f"of = {json.dumps([factor.name for factor in shape.factors])}",
    tested=lambda shape, candidates: shape.categories,
    asked=lambda shape: 1.0,
    released=lambda decoding: range(len(decoding)),
    plan_options=(
        PlanOption("num_rows", 4, "cross: categories of the one metric (default: 4)"),
        PlanOption("num_columns", 2, "cross: categories of the other (default: 2)"),
    ),
)
