"""Flags: the share that says yes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hubbub.analysis.estimation.cells import PooledTally
from hubbub.analysis.kinds.categorical import Questions, bit_attack_gain, decode_answers
from hubbub.analysis.kinds.factor import Factor, categories_of, one_bit
from hubbub.analysis.kinds.kind import Kind, Pools
from hubbub.analysis.kinds.variances import bit_variance
from hubbub.analysis.options import Options
from hubbub.analysis.result import ANSWER, Decoding
from hubbub.protocol.kinds import Flag


def decode_flag(pools: Pools, candidates: Sequence[str], options: Options) -> Decoding:
    shapes = {pool.metric.metric_hash: pool.metric.shape for pool in pools}.values()
    questions = Questions(
        values=["yes"],
        roles=[ANSWER],
        asked=[[0] for _ in pools],
        best_guess=lambda estimate, variance: np.clip(estimate, 0, 1),
        attack_gain=bit_attack_gain(pools),
        notes=[
            f"An install that recorded nothing counts as {'yes' if shape.absent else 'no'}."
            for shape in shapes
            if isinstance(shape, Flag)
        ],
    )
    return decode_answers(pools, questions, options)


def _factor(pool: PooledTally, candidates: Sequence[str], options: Options) -> Factor:
    metric = pool.metric
    return Factor(categories=categories_of(metric), responses=(one_bit(metric.noise),))


def _planned(given: Mapping[str, int], strings: int) -> Flag:
    return Flag()


FLAG: Kind[Flag] = Kind(
    decode=decode_flag,
    unit_variance=lambda shape, noise, share, strings: bit_variance(noise, share),
    planned=_planned,
    toml=lambda shape: "absent = false",
    asked=lambda shape: 1.0,
    silent_as=lambda shape: "yes" if shape.absent else "no",
    factor=_factor,
    released=lambda decoding: range(len(decoding)),
)
