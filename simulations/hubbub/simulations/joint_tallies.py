"""Exact tallies of two answers at once: what a collector counts of a pair, from how many installs are in which cell.

Given an install's two answers its two reports are drawn independently. Where both channels are k-ary the counts of a
pair are multinomial, and a million installs cost what a thousand do; bits that are drawn each by itself take a row of
bits for each install, in blocks. Over several epochs the kept answers are drawn first, as `exact_tallies` does for
one metric. All chance comes from the `rng` argument.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hubbub.protocol.channel import Channel, KaryChannel, SubsetChannel
from hubbub.protocol.metric import Definition
from hubbub.protocol.pair import Pair, PairCounts, PairTally

Array = npt.NDArray[np.int64]
Bits = npt.NDArray[np.bool_]
_BLOCK = 1 << 16  # installs whose bits are held at once
_Tables = list[Array]
"""For each epoch the counts of one cohort pair: (1 + bits, 1 + bits), the batches first."""


def sample_pair_tally(
    pair: Pair,
    installs: npt.ArrayLike,
    masks: tuple[Sequence[npt.ArrayLike], Sequence[npt.ArrayLike]],
    rng: np.random.Generator,
    epochs: Sequence[int] = (0,),
) -> PairTally:
    """The pair tally of installs that report both metrics in each of `epochs` and never change their answers.

    `installs[i][j]` have answer i of the first metric and j of the second; `masks[side][cohort][answer]` are the bits
    that an answer sets.
    """
    cells = np.asarray(installs, dtype=np.int64)
    tables = []
    for (one, other), here in zip(pair.cohort_pairs, _by_cohorts(pair, cells, rng), strict=True):
        bits = (np.asarray(masks[0][one], dtype=bool), np.asarray(masks[1][other], dtype=bool))
        tables.append(_sample(pair.metrics, here, bits, rng, len(epochs)))
    return PairTally(pair, {epoch: _counts([table[i] for table in tables]) for i, epoch in enumerate(epochs)})


def pair_tally_of(pair: Pair, first: Bits, second: Bits, epoch: int = 0) -> PairTally:
    """The pair tally of these reports, a row for each batch, of metrics that have one cohort."""
    assert len(pair.cohort_pairs) == 1
    return PairTally(pair, {epoch: _counts([_counted(first, second)])})


def _by_cohorts(pair: Pair, cells: Array, rng: np.random.Generator) -> list[Array]:
    """Each install is somewhere on the line that both metrics cut into their cohorts."""
    m, n = (metric.shape.num_cohorts for metric in pair.metrics)
    sizes = np.array([min((i + 1) * n, (j + 1) * m) - max(i * n, j * m) for i, j in pair.cohort_pairs], dtype=float)
    if len(sizes) == 1:
        return [cells]
    drawn = rng.multinomial(cells.ravel(), sizes / sizes.sum())
    return [column.reshape(cells.shape) for column in drawn.T]


def _sample(
    metrics: tuple[Definition, Definition],
    cells: Array,
    masks: tuple[Bits, Bits],
    rng: np.random.Generator,
    epochs: int,
) -> _Tables:
    if all(isinstance(metric.noise.permanent, KaryChannel) for metric in metrics):
        return _sample_kary(metrics, cells, masks, rng, epochs)
    tables = [np.zeros((1 + masks[0].shape[1], 1 + masks[1].shape[1]), dtype=np.int64) for _ in range(epochs)]
    owners = np.repeat(np.arange(cells.size), cells.ravel())
    for start in range(0, len(owners), _BLOCK):
        first, second = np.unravel_index(owners[start : start + _BLOCK], cells.shape)
        sent = masks[0][first], masks[1][second]
        for table, reports in zip(tables, _reports(metrics, sent, rng, epochs), strict=True):
            table += _counted(*reports)
    return tables


def _counted(first: Bits, second: Bits) -> Array:
    """Batches, bits of the first, bits of the second, and both; sums of fewer than 2**53 ones are exact."""
    one, other = (np.hstack([np.ones((len(bits), 1)), bits]) for bits in (first, second))
    return np.asarray(np.rint(one.T @ other), dtype=np.int64)


def _sample_kary(
    metrics: tuple[Definition, Definition],
    cells: Array,
    masks: tuple[Bits, Bits],
    rng: np.random.Generator,
    epochs: int,
) -> _Tables:
    places = masks[0].argmax(axis=1), masks[1].argmax(axis=1)
    sent = np.zeros((masks[0].shape[1], masks[1].shape[1]), dtype=np.int64)
    np.add.at(sent, np.ix_(*places), cells)

    def carried(of: Array, channels: tuple[Channel, Channel]) -> Array:
        law = np.kron(*(_arrival(channel) for channel in channels))
        return np.asarray(rng.multinomial(of.ravel(), law / law.sum(axis=1, keepdims=True)).sum(axis=0)).reshape(
            of.shape
        )

    one, other = (metric.noise for metric in metrics)
    if epochs == 1:
        found = [carried(sent, (one.composed, other.composed))]
    else:
        memos = carried(sent, (one.permanent, other.permanent))
        found = [carried(memos, (one.instantaneous, other.instantaneous)) for _ in range(epochs)]
    return [_with_margins(table) for table in found]


def _arrival(channel: Channel) -> npt.NDArray[np.float64]:
    assert isinstance(channel, KaryChannel)
    arrives = np.full((channel.categories, channel.categories), float(channel.other))
    np.fill_diagonal(arrives, float(channel.truth))
    return arrives


def _with_margins(table: Array) -> Array:
    found = np.zeros((1 + table.shape[0], 1 + table.shape[1]), dtype=np.int64)
    found[1:, 1:], found[1:, 0], found[0, 1:], found[0, 0] = table, table.sum(axis=1), table.sum(axis=0), table.sum()
    return found


def _reports(
    metrics: tuple[Definition, Definition], sent: tuple[Bits, Bits], rng: np.random.Generator, epochs: int
) -> list[tuple[Bits, Bits]]:
    memos = [carry_rows(metric.noise.permanent, bits, rng) for metric, bits in zip(metrics, sent, strict=True)]
    found = []
    for _ in range(epochs):
        first, second = (
            carry_rows(metric.noise.instantaneous, bits, rng) for metric, bits in zip(metrics, memos, strict=True)
        )
        found.append((first, second))
    return found


def carry_rows(channel: Channel, rows: Bits, rng: np.random.Generator) -> Bits:
    """What arrives of each row of bits."""
    high, low = (float(probability) for probability in channel.probabilities)
    if isinstance(channel, SubsetChannel):
        raise AssertionError("unreachable: a pair has no metric that is sent as a subset")
    if isinstance(channel, KaryChannel):
        size = channel.categories
        kept = rng.random(len(rows)) < high
        # Any other category: a step round the circle that does not come back to where it began.
        steps = np.where(kept, 0, rng.integers(1, size, len(rows)))
        return np.asarray(np.eye(size, dtype=bool)[(rows.argmax(axis=1) + steps) % size])
    return np.asarray(rng.random(rows.shape) < np.where(rows, high, low))


def _counts(tables: Sequence[Array]) -> PairCounts:
    return PairCounts(
        tuple(int(table[0, 0]) for table in tables),
        tuple(tuple(table[1:, 0].tolist()) for table in tables),
        tuple(tuple(table[0, 1:].tolist()) for table in tables),
        tuple(tuple(map(tuple, table[1:, 1:].tolist())) for table in tables),
    )
