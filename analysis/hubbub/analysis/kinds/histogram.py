"""Histograms: a share for each bucket, of which an install is asked about a few, and for those in none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np

from hubbub.analysis.estimation.cells import PooledTally
from hubbub.analysis.estimation.factor_scores import asked_in_parts, bit_scores, response, with_none
from hubbub.analysis.estimation.learnt_guesses import learnt_shares
from hubbub.analysis.kinds.categorical import Questions, bit_attack_gain, decode_answers
from hubbub.analysis.kinds.factor import Factor, categories_of, one_of, reports_of, some_or_none
from hubbub.analysis.kinds.kind import Kind, PlanOption, Pools
from hubbub.analysis.kinds.rows import require_same_shape
from hubbub.analysis.kinds.variances import bit_variance
from hubbub.analysis.options import Options
from hubbub.analysis.result import ANSWER, Decoding
from hubbub.protocol.channel import Noise
from hubbub.protocol.kinds import Histogram


def decode_histogram(pools: Pools, candidates: Sequence[str], options: Options) -> Decoding:
    require_same_shape(pools)
    shape = pools[0].metric.shape
    assert isinstance(shape, Histogram)
    buckets = [[shape.bucket(c, i) for i in range(shape.buckets_per_report)] for c in range(shape.num_cohorts)]
    names = [f"[{a:g}, {b:g})" for a, b in pairwise(float(edge) for edge in shape.edges)]
    names[-1] = names[-1][:-1] + "]"
    always = all(pool.metric.accumulate == "sum" for pool in pools)  # nothing added is 0, which is in a bucket
    questions = Questions(
        values=names,
        roles=[ANSWER] * len(names),
        asked=[bits for _ in pools for bits in buckets],
        best_guess=partial(learnt_shares, exactly=True) if always else learnt_shares,
        # A fake picks its cohort: those asked about a bucket are a part of everyone, in which it weighs more.
        attack_gain=shape.num_buckets / shape.buckets_per_report * bit_attack_gain(pools),
        rest_is_absent=not always,
    )
    return decode_answers(pools, questions, options)


def _unit_variance(shape: Histogram, noise: Noise, share: float, strings: int) -> float:
    asked = shape.num_buckets / shape.buckets_per_report
    return asked * bit_variance(noise, share) + (asked - 1) * share * (1 - share)


def _factor(pool: PooledTally, candidates: Sequence[str], options: Options) -> Factor:
    """Its buckets, and none of them. Of an install that is asked about a few, the others stand in for the rest."""
    shape, noise = pool.metric.shape, pool.metric.noise
    assert isinstance(shape, Histogram)
    if not shape.asks_part:
        categories = categories_of(pool.metric)
        always = len(categories) == shape.num_buckets  # every install is in a bucket
        responses = (one_of(noise, len(categories)) if always else some_or_none(noise, shape.num_buckets),)
        return Factor(categories=categories, responses=responses)
    buckets = [[shape.bucket(c, i) for i in range(shape.buckets_per_report)] for c in range(shape.num_cohorts)]
    masks = [np.eye(shape.num_buckets + 1)[:, asked] for asked in buckets]
    plain = [mask[:-1, :] @ bit_scores(noise, mask.shape[1]) for mask in masks]
    scores = [with_none(each) for each in asked_in_parts(plain, reports_of(pool))]
    return Factor(
        categories=categories_of(pool.metric, silence_is_apart=True),
        responses=tuple(response(noise, mask, score) for mask, score in zip(masks, scores, strict=True)),
        notes=(
            f"Of {pool.metric.name}, an install is asked for {shape.buckets_per_report} of {shape.num_buckets} parts.",
        ),
    )


def _planned(given: Mapping[str, int], strings: int) -> Histogram:
    edges = tuple(Fraction(i) for i in range(given["num_buckets"] + 1))
    return Histogram(edges=edges, buckets_per_report=given["buckets_per_report"])


def _toml(shape: Histogram) -> str:
    edges = [int(edge) for edge in shape.edges]
    return f"edges = {edges}\nbuckets_per_report = {shape.buckets_per_report}"


HISTOGRAM: Kind[Histogram] = Kind(
    decode=decode_histogram,
    unit_variance=_unit_variance,
    planned=_planned,
    toml=_toml,
    tested=lambda shape, candidates: shape.num_buckets,
    factor=_factor,
    asked=lambda shape: shape.buckets_per_report / shape.num_buckets,
    released=lambda decoding: range(len(decoding.values)),
    plan_options=(
        PlanOption("num_buckets", 8, "histogram (default: 8)"),
        PlanOption("buckets_per_report", 2, "histogram (default: 2)"),
    ),
)
