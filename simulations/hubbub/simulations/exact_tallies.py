"""Exact tallies of any number of installs, at the price of the cells alone.

Given the true masks, the bits of a report are independent: in each cohort and bit the count is Binomial(N1, q*) +
Binomial(N0, p*), with N1 and N0 the installs whose mask has and lacks the bit. A billion installs cost what a thousand
do. Over several epochs the memo is drawn first and kept; each epoch then draws its own reports from it. A k-ary wire
moves whole categories, so its counts are multinomial; subsets are filled category by category. All chance comes from
the `rng` argument.

Installs that change their answers, come and go are `hubbub.simulations.simulate.exact`'s; joint behaviour of several
metrics takes real clients.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hubbub.analysis.estimation.hashing import Positions
from hubbub.protocol.channel import Channel, KaryChannel, SubsetChannel
from hubbub.protocol.metric import Definition
from hubbub.protocol.shape import Shape
from hubbub.protocol.tally import Counts, Tally
from hubbub.simulations.kinds import kind_of

Array = npt.NDArray[np.int64]
"""Whole numbers, such as counts."""


def assign_cohorts(installs: npt.ArrayLike, num_cohorts: int, rng: np.random.Generator) -> Array:
    """Each of the installs that hold a value joins a cohort by itself: row c says how many of each value are in c."""
    totals = np.asarray(installs, dtype=np.int64)
    if num_cohorts == 1:
        return totals[np.newaxis].copy()
    return rng.multinomial(totals, np.full(num_cohorts, 1 / num_cohorts)).T.astype(np.int64)


def sample_tally(
    metric: Definition,
    num_installs: Sequence[int] | Array,
    ones: Sequence[npt.ArrayLike],
    rng: np.random.Generator,
    epochs: Sequence[int] = (0,),
) -> Tally:
    """The tally of installs that report in each of `epochs` and never change their answer.

    `num_installs[c]` are in cohort c; `ones[c][j]` of them have bit j set in their mask.
    """
    totals = np.asarray(num_installs, dtype=np.int64)
    rows = [np.asarray(row, dtype=np.int64) for row in ones]
    if len({len(row) for row in rows}) == 1:
        of_epochs = _sample(metric, totals[:, np.newaxis], np.stack(rows), rng, len(epochs))
        counts: list[list[Array]] = [list(table) for table in of_epochs]
    else:  # the levels of a range
        by_cohort = [_sample(metric, total, row, rng, len(epochs)) for total, row in zip(totals, rows, strict=True)]
        counts = [list(of_epoch) for of_epoch in zip(*by_cohort, strict=True)]
    reports = tuple(totals.tolist())
    return Tally(
        metric,
        {
            epoch: Counts(reports, tuple(tuple(row.tolist()) for row in rows))
            for epoch, rows in zip(epochs, counts, strict=True)
        },
    )


def ones_of(shape: Shape, by_cohort: Array, positions: Positions | None = None) -> list[Array]:
    """How many installs of each cohort have each bit set in their mask, from how many hold each answer.

    The columns of `by_cohort` are the answers: a flag's no and yes (a mean's low and high end), a choice's categories,
    a histogram's buckets, a range's leaves, the strings whose `positions` are given. Further columns are `absent`. Of a
    set they are its items, of which an install may hold several.
    """
    return kind_of(shape).ones(by_cohort, positions)


def _sample(
    metric: Definition, total: Array | np.int64, ones: Array, rng: np.random.Generator, epochs: int
) -> list[Array]:
    if epochs == 1:
        return [carry(metric.noise.composed, total, ones, rng)]
    memo = carry(metric.noise.permanent, total, ones, rng)
    return [carry(metric.noise.instantaneous, total, memo, rng) for _ in range(epochs)]


def carry(channel: Channel, total: Array | np.int64, ones: Array, rng: np.random.Generator) -> Array:
    """How many arrive at each position when `ones` of `total` were sent."""
    high, low = (float(probability) for probability in channel.probabilities)
    if isinstance(channel, SubsetChannel):
        return _carry_subsets(channel, ones, rng)
    if isinstance(channel, KaryChannel):
        arrives = np.full((channel.categories, channel.categories), low)
        np.fill_diagonal(arrives, high)
        return np.asarray(rng.multinomial(ones, arrives / arrives.sum(axis=1, keepdims=True)).sum(axis=-2))
    return np.asarray(rng.binomial(ones, high) + rng.binomial(total - ones, low))


def _carry_subsets(channel: SubsetChannel, ones: Array, rng: np.random.Generator) -> Array:
    """How many subsets hold each category. All with the same category sent go through the others in order: those that
    have k more to take from those left take the next with probability k / left, whatever else they hold. So it is
    enough to know how many have how many to take."""
    size, others = channel.size, channel.categories - 1
    counts = rng.binomial(ones, float(channel.probabilities[0]))
    waiting = np.zeros((*ones.shape, size + 1), dtype=np.int64)
    waiting[..., size - 1], waiting[..., size] = counts, ones - counts
    for place in range(others):
        takes = rng.binomial(waiting, np.minimum(np.arange(size + 1) / (others - place), 1.0))
        waiting -= takes
        waiting[..., :-1] += takes[..., 1:]
        # The others close the gap that the one sent leaves: the next one after a gap is a place higher.
        taken = takes.sum(axis=-1)
        counts[..., place] += taken[..., place + 1 :].sum(axis=-1)
        counts[..., place + 1] += taken[..., : place + 1].sum(axis=-1)
    return np.asarray(counts)
