"""Choices: a share for each of a list of answers, and for none of them where that is not an answer itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hubbub.analysis.estimation.cells import PooledTally
from hubbub.analysis.estimation.learnt_guesses import learnt_shares
from hubbub.analysis.kinds.categorical import UNNAMED, Questions, bit_attack_gain, decode_answers
from hubbub.analysis.kinds.factor import Factor, categories_of, one_of
from hubbub.analysis.kinds.kind import Kind, PlanOption, Pools
from hubbub.analysis.kinds.variances import bit_variance
from hubbub.analysis.options import Options
from hubbub.analysis.result import ABSENT, ANSWER, Decoding, Role
from hubbub.protocol.kinds import Choice


def decode_choice(pools: Pools, candidates: Sequence[str], options: Options) -> Decoding:
    values, roles, asked = _answers(pools)
    shapes = {pool.metric.metric_hash: pool.metric.shape for pool in pools}.values()
    questions = Questions(
        values=values,
        roles=roles,
        asked=asked,
        best_guess=lambda estimate, variance: learnt_shares(estimate, variance, exactly=True),
        attack_gain=bit_attack_gain(pools),
        unnamed=frozenset(i for i, value in enumerate(values) if value is UNNAMED),
        notes=[
            f"An install that recorded nothing counts as {shape.absent}."
            for shape in shapes
            if isinstance(shape, Choice) and shape.absent is not None
        ],
    )
    return decode_answers(pools, questions, options)


def _answers(pools: Pools) -> tuple[list[str], list[Role], list[list[int]]]:
    """The answers, what each is, and for each definition which answer each bit asks about.

    Definitions may list different choices: the answers are all of them, in the order first met, then `absent`. Places
    without a name are answers of their own in each definition.
    """
    order: dict[tuple[Role, str, int], int] = {}
    listed = []
    for number, pool in enumerate(pools):
        shape = pool.metric.shape
        assert isinstance(shape, Choice)
        keys: list[tuple[Role, str, int]] = [(ANSWER, choice, 0) for choice in shape.listed]
        keys += [(ANSWER, UNNAMED, 1 + number * shape.num_places + place) for place in range(shape.spare)]
        if shape.absent is None:
            keys.append((ABSENT, "absent", 0))
        listed.append(keys)
    for key in sorted((key for keys in listed for key in keys), key=lambda key: key[0] == ABSENT):
        order.setdefault(key, len(order))
    asked = [[order[key] for key in keys] for keys in listed]
    return [value for _, value, _ in order], [role for role, _, _ in order], asked


def _factor(pool: PooledTally, candidates: Sequence[str], options: Options) -> Factor:
    categories = categories_of(pool.metric)
    return Factor(categories=categories, responses=(one_of(pool.metric.noise, len(categories)),))


def _planned(given: Mapping[str, int], strings: int) -> Choice:
    choices = tuple(f"choice {i}" for i in range(given["num_choices"]))
    return Choice(choices=choices, absent="choice 0")


def _toml(shape: Choice) -> str:
    absent = "" if shape.absent is None else f"\nabsent = {json.dumps(shape.absent)}"
    more = f"\nreserve = {shape.reserve}" if shape.reserve else ""
    return f"choices = {json.dumps(list(shape.choices))}{absent}{more}"


CHOICE: Kind[Choice] = Kind(
    decode=decode_choice,
    unit_variance=lambda shape, noise, share, strings: bit_variance(noise, share),
    planned=_planned,
    toml=_toml,
    tested=lambda shape, candidates: len(shape.listed),
    asked=lambda shape: 1.0,
    silent_as=lambda shape: shape.absent or "",
    factor=_factor,
    released=lambda decoding: range(len(decoding)),
    plan_options=(PlanOption("num_choices", 8, "choice (default: 8)"),),
)
