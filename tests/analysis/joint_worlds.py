"""Pairs of metrics, and pair tallies of made-up installs, for tests of crosstabs."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hubbub.protocol.kinds import Choice, Flag, Histogram
from hubbub.protocol.metric import Definition
from hubbub.protocol.pair import Pair, PairTally
from hubbub.protocol.shape import Shape
from hubbub.simulations.joint_tallies import sample_pair_tally

Array = npt.NDArray[np.float64]


def metric(name: str, shape: Shape, one: float = 1.0, kept: float | None = None) -> Definition:
    noise = shape.best_noise(Fraction(one), Fraction(one if kept is None else kept))
    return Definition(name=name, every="week", shape=shape, noise=noise, accumulate=shape.accumulations[0])


def choice(categories: int) -> Shape:
    """A question with so many answers, silence being one of them."""
    if categories == 2:
        return Flag()
    return Choice(choices=tuple(f"answer {i}" for i in range(categories)), absent="answer 0")


def pair_of(first: int, second: int, epsilon: float, kept: float | None = None) -> Pair:
    return Pair("both", (metric("one", choice(first), epsilon, kept), metric("other", choice(second), epsilon, kept)))


def masks_of(shape: Shape) -> list[Array]:
    """The bits that each category sets, cohort by cohort."""
    if isinstance(shape, Flag):
        return [np.array([[0.0], [1.0]])]
    if isinstance(shape, Histogram) and shape.asks_part:
        everything = np.eye(shape.num_buckets + 1)
        return [
            everything[:, [shape.bucket(cohort, i) for i in range(shape.width(cohort))]]
            for cohort in range(shape.num_cohorts)
        ]
    if isinstance(shape, Histogram):
        return [np.eye(shape.num_buckets + 1)[:, :-1]]
    return [np.eye(shape.width(0))]


def drawn(pair: Pair, installs: npt.ArrayLike, rng: np.random.Generator, epochs: Sequence[int] = (2950,)) -> PairTally:
    masks = masks_of(pair.metrics[0].shape), masks_of(pair.metrics[1].shape)
    return sample_pair_tally(pair, installs, masks, rng, epochs)


def table(first: int, second: int, relation: float = 0.0) -> Array:
    """Shares that fall with the number of the answer; with a `relation`, so much of them on the diagonal."""
    margins = [1 / np.arange(1.0, size + 1) for size in (first, second)]
    product = np.outer(*(margin / margin.sum() for margin in margins))
    diagonal = np.eye(first, second) / min(first, second)
    return (1 - relation) * product + relation * diagonal
