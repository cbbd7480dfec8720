"""The plan's own claims, tried: exact tallies of a population that holds one answer, estimated by plain moments."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from fractions import Fraction
from functools import cache, partial

import numpy as np

from hubbub.analysis.planning.plan import Plan, share_for
from hubbub.protocol.kinds import Choice, Cross, Flag, Histogram, Mean, Range, Set, String
from hubbub.protocol.metric import Metric
from hubbub.protocol.shape import Factor
from hubbub.simulations.exact_tallies import assign_cohorts, ones_of, sample_tally

MIDDLE = 0.5


def metric_of(plan: Plan) -> Metric:
    return Metric(
        name="planned",
        every="once" if plan.once else "week",
        shape=plan.shape,
        noise=plan.noise,
        accumulate=plan.shape.accumulations[0],
        why="w",
        owner="o",
        expires=date(2090, 1, 1),
        max_values=1,
    )


def estimates(plan: Plan, share: float, tallies: int, seed: object) -> np.ndarray:
    """The estimated share in each of so many tallies; of a mean, its distance from the middle of the range."""
    metric, rng = metric_of(plan), np.random.default_rng(seed)
    return np.array([_estimate(plan, metric, share, rng) for _ in range(tallies)])


def _estimate(plan: Plan, metric: Metric, share: float, rng: np.random.Generator) -> float:
    reports = round(plan.reports)
    held = round(share * reports)
    solved = partial(_solved, metric)

    match plan.shape:
        case Flag():
            (row,) = _counts(metric, [reports], [[held]], rng)
            return float(solved(row[0], reports))
        case Mean(points=points) if points > 2:
            rounded = np.floor((MIDDLE + share) * (points - 1) + rng.random(reports)).astype(int)
            (row,) = _counts(metric, [reports], [np.bincount(rounded, minlength=points)], rng)
            return float(solved(row, reports) @ np.linspace(0, 1, points)) - MIDDLE
        case Mean():
            high = rng.binomial(reports, MIDDLE + share)
            (row,) = _counts(metric, [reports], [[high]], rng)
            return float(solved(row[0], reports)) - MIDDLE
        case Choice() | Cross():
            (row,) = _counts(metric, [reports], [_spread(held, reports, plan.shape.categories)], rng)
            return float(solved(row[0], reports))
        case String():
            return _of_text(plan.shape, metric, held, reports, rng)
        case Histogram() as shape:
            people = assign_cohorts(_spread(held, reports, shape.num_buckets), shape.num_cohorts, rng)
            counts = _counts(metric, people.sum(axis=1), ones_of(shape, people), rng)
            asked_first = range(shape.buckets_per_report)
            cells = [(c, i) for c in range(shape.num_cohorts) for i in asked_first if shape.bucket(c, i) == 0]
            asked = sum(int(people[c].sum()) for c, _ in cells)
            return float(solved(sum(int(counts[c][i]) for c, i in cells), asked))
        case Set() as shape:
            people = assign_cohorts([held, reports - held], shape.num_cohorts, rng)
            ones = [
                [people[c, 0] if shape.item(c, i) == 0 else 0 for i in range(shape.width(c))]
                for c in range(len(people))
            ]
            counts = _counts(metric, people.sum(axis=1), ones, rng)
            cells = [(c, i) for c in range(len(people)) for i in range(shape.width(c)) if shape.item(c, i) == 0]
            asked = sum(int(people[c].sum()) for c, _ in cells)
            return float(solved(sum(int(counts[c][i]) for c, i in cells), asked))
        case Range() as shape:
            people = assign_cohorts(_spread(held, reports, shape.num_leaves), shape.num_cohorts, rng)
            totals = people.sum(axis=1)
            counts = _counts(metric, totals, ones_of(shape, people), rng)
            nodes = np.concatenate([solved(row, total) for row, total in zip(counts, totals, strict=True)])
            return float(_first_leaf(shape) @ nodes)
    raise AssertionError


def _of_text(shape: String, metric: Metric, held: int, reports: int, rng: np.random.Generator) -> float:
    hashes, positions = (shape.num_hashes, shape.num_bits) if shape.num_bits > 1 else (1, 2)
    background = hashes / positions
    per_cohort = assign_cohorts([held, reports - held], shape.num_cohorts, rng)
    rows = np.zeros((shape.num_cohorts, shape.num_bits), dtype=np.int64)
    # Of all others, those fall on each of its bits whose texts happen to.
    others = rng.binomial(per_cohort[:, 1:], background, (shape.num_cohorts, hashes))
    rows[:, :hashes] = per_cohort[:, :1] + others
    for row, installs in zip(rows, per_cohort.sum(axis=1), strict=True):
        _spread_evenly(row[hashes:], hashes * installs - row[:hashes].sum())
    counts = np.array(_counts(metric, per_cohort.sum(axis=1), rows, rng))
    own = float(_solved(metric, counts[:, :hashes].sum(), reports * hashes))
    if shape.num_bits == 1:
        return (own - background) / (1 - background)
    # Least squares with the share of all others free: its cells against the rest.
    return own - float(_solved(metric, counts[:, hashes:].sum(), reports * (positions - hashes)))


def _solved(metric: Metric, ones: np.ndarray | float, of: np.ndarray | float) -> np.ndarray:
    q, p = float(metric.noise.q_star), float(metric.noise.p_star)
    return (np.asarray(ones) / np.asarray(of) - p) / (q - p)


def _counts(metric: Metric, totals, ones, rng: np.random.Generator) -> list[np.ndarray]:
    (found,) = sample_tally(metric, totals, ones, rng).epochs.values()
    return [np.array(row) for row in found.bit_counts]


def _spread(held: int, reports: int, answers: int) -> list[int]:
    """`held` installs give the first answer, the others each of the rest, evenly."""
    rest = (reports - held) // (answers - 1)
    return [held, *[rest] * (answers - 2), reports - held - rest * (answers - 2)]


def _spread_evenly(cells: np.ndarray, number: int) -> None:
    if len(cells):
        cells[:] = number // len(cells)
        cells[: number % len(cells)] += 1


@cache
def _first_leaf(shape: Range) -> np.ndarray:
    """Least squares over all nodes, as a row of weights: the estimate of the first leaf."""
    leaves = np.eye(shape.num_leaves)
    design = np.concatenate(
        [leaves.reshape(shape.width(c), -1, shape.num_leaves).sum(axis=1) for c in range(shape.num_levels)]
    )
    return np.linalg.pinv(design)[0]


SHAPES = {
    "flag": Flag(),
    "choice of 4": Choice(choices=("a", "b", "c", "d"), absent="a"),
    "choice of 40": Choice(choices=tuple(map(str, range(40))), absent="1"),
    "string": String(num_bits=64, num_hashes=1, num_cohorts=16),
    "string, two hashes": String(num_bits=32, num_hashes=2, num_cohorts=8),
    "string, one bit": String(num_bits=1, num_hashes=1, num_cohorts=64),
    "mean": Mean(low=Fraction(0), high=Fraction(1), absent=Fraction(0)),
    "histogram": Histogram(edges=tuple(map(Fraction, range(7))), buckets_per_report=2),
    "range": Range(low=Fraction(0), high=Fraction(1), num_leaves=64, branching=4),
    "set": Set(items=tuple("abcdefg"), items_per_report=2),
    "cross": Cross(
        factors=(Factor(name="a", shape=Choice(choices=("a", "b", "c"))), Factor(name="b", shape=Flag(absent=True)))
    ),
}


def random_plan(rng: np.random.Generator, shape) -> Plan:
    """Epsilons and a crowd drawn at random; the share is what is seen with a power drawn at random."""
    one = Fraction(int(rng.integers(30, 300)), 100)
    plan = Plan(
        shape=shape,
        epsilon_one_report=one,
        epsilon_permanent=one + Fraction(int(rng.integers(0, 300)), 100),
        installs=float(round(10 ** rng.uniform(5, 6.5))),
        power=float(rng.uniform(0.3, 0.95)),
        consent=float(rng.uniform(0.3, 1)),
        values=int(rng.integers(1, 100)) if shape.open_list else None,
    )
    return replace(plan, share=share_for(plan))
