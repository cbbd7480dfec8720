"""Every report of every install, drawn bit by bit, 64 installs to a word.

What `hubbub.client.respond` does to one install's bits at once, this does to one bit of 64 installs: a position is
set where a random 24-bit number is below a threshold, and the numbers are compared digit by digit, by AND and OR on
random words. A memo is drawn for every slot that an install uses, a report for every epoch; reports are counted by
the bits set in a word, so nothing is ever unpacked. Installs come in blocks: memory does not grow with the crowd; and
in portions of some blocks, which an engine's workers can draw side by side. No law of counts is used: this is the slow
way that the fast one (`hubbub.simulations.simulate.exact`) is held against.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import comb
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hubbub.analysis.engines.engine import Engine
from hubbub.analysis.progress import Progress
from hubbub.protocol.channel import PRECISION, UNITS, KaryChannel, SubsetChannel, Units
from hubbub.protocol.metric import Metric
from hubbub.simulations.kinds.kind import NOWHERE, Index
from hubbub.simulations.people.histories import Histories
from hubbub.simulations.people.masks import CohortMasks, masks_by_cohort, parts_kept
from hubbub.simulations.simulate.exact import Sampled, tally_from
from hubbub.simulations.simulate.history_tallies import history_counts
from hubbub.simulations.simulate.slots import Answered, answer_from_slots

Words = npt.NDArray[np.uint64]
"""Rows of words; bit i of word w is about install 64 w + i."""

WORD = 64
CELLS = 1 << 22
"""Bits of all installs of a block: what is worked on then fits the processor's cache."""

_BLOCKS_AT_ONCE = 16  # in a portion: some tenths of a second of work


def report_tally(
    metric: Metric,
    histories: Histories,
    epochs: Sequence[int],
    rng: np.random.Generator,
    progress: Progress = lambda share: None,
    engine: Engine | None = None,
) -> Sampled:
    """The tally of installs with these histories, from their single reports.

    Installs are drawn in portions, each with a seed of its own: whoever draws them, the numbers are the same.
    """
    seeds = np.random.SeedSequence(int(rng.integers(0, 2**63)))
    portions = [
        portion for masks in masks_by_cohort(metric, histories, rng) for portion in _portions(metric, masks, epochs)
    ]
    items = list(zip(portions, seeds.spawn(len(portions)), strict=True))
    widths = [metric.shape.width(cohort) for cohort in range(metric.shape.num_cohorts)]
    reports = [np.zeros(len(epochs), dtype=np.int64) for _ in widths]
    rows = [np.zeros((len(epochs), width), dtype=np.int64) for width in widths]
    stale = 0
    drawn = map(draw_portion, items) if engine is None else engine.map(draw_portion, items)
    for number, ((portion, _), (totals, counts, late)) in enumerate(zip(items, drawn, strict=True), 1):
        if portion.first_bit == 0:  # every install has each part of a report
            reports[portion.masks.cohort] += totals
        rows[portion.masks.cohort][:, portion.first_bit : portion.first_bit + portion.width] += counts
        stale += late
        progress(number / len(items))
    return Sampled(tally_from(metric, epochs, reports, rows), stale)


class Portion(NamedTuple):
    """Installs of one cohort that are drawn together, and which bits of their reports."""

    metric: Metric
    epochs: Sequence[int]
    masks: CohortMasks
    first_bit: int
    width: int


def draw_portion(item: tuple[Portion, np.random.SeedSequence]) -> tuple[Index, Index, int]:
    """Reports of each epoch, how many of them have each bit, and how many are of an old answer."""
    (metric, epochs, masks, _, width), seed = item
    rng, words = np.random.default_rng(seed), np.random.Generator(np.random.SFC64(seed.spawn(1)[0]))
    totals = np.zeros(len(epochs), dtype=np.int64)
    counts = np.zeros((len(epochs), width), dtype=np.int64)
    stale = 0
    if metric.noise.history is not None:
        return *history_counts(metric, _one_by_one(masks), epochs, rng), 0
    for block in _blocks(masks, _block_installs(width, epochs)):
        answered = answer_from_slots(metric, block.keys, block.installs, rng)
        stale += answered.stale
        totals += (answered.slot != NOWHERE).sum(axis=0)
        counts += _way(metric)(metric, block, width, answered, words)  # SFC64: the fastest source of words numpy has
    return totals, counts, stale


def _one_by_one(masks: CohortMasks) -> CohortMasks:
    """Every install as one of its own history."""
    return masks._replace(
        keys=np.repeat(masks.keys, masks.installs, axis=0), installs=np.ones(int(masks.installs.sum()), dtype=np.int64)
    )


def _portions(metric: Metric, masks: CohortMasks, epochs: Sequence[int]) -> Iterator[Portion]:
    """So many blocks each; a portion has only the histories of its own installs."""
    parts = parts_kept(metric, masks)
    width = metric.shape.width(masks.cohort) // len(parts)
    size = _BLOCKS_AT_ONCE * _block_installs(width, epochs)
    for number, part in enumerate(parts):
        ends = np.cumsum(part.installs)
        for start in range(0, int(ends[-1]) if len(ends) else 0, size):
            stop = min(start + size, int(ends[-1]))
            first, last = np.searchsorted(ends, [start, stop - 1], side="right")
            installs = part.installs[first : last + 1].copy()
            installs[-1] -= ends[last] - stop
            installs[0] -= start - (ends[first] - part.installs[first])
            some = CohortMasks(part.cohort, part.keys[first : last + 1], installs, part.where)
            yield Portion(metric, epochs, some, number * width, width)


def _block_installs(width: int, epochs: Sequence[int]) -> int:
    return max(WORD, CELLS // (width * len(epochs)))


def _way(metric: Metric) -> Callable[[Metric, CohortMasks, int, Answered, np.random.Generator], Index]:
    match metric.noise.permanent:
        case KaryChannel():
            return _categories
        case SubsetChannel():
            return _subsets
    return _bits


def _blocks(masks: CohortMasks, size: int) -> Iterator[CohortMasks]:
    """Every install as a row of its own, so many at a time."""
    ends = np.cumsum(masks.installs)
    for start in range(0, int(ends[-1]) if len(ends) else 0, size):
        numbers = np.arange(start, min(start + size, int(ends[-1])))
        rows = np.searchsorted(ends, numbers, side="right")
        yield CohortMasks(masks.cohort, masks.keys[rows], np.ones(len(rows), dtype=np.int64), masks.where)


# --- bits ---------------------------------------------------------------------------------------------------------


def _bits(metric: Metric, block: CohortMasks, width: int, answered: Answered, rng: np.random.Generator) -> Index:
    """How many reports of each epoch have each bit."""
    memos = [
        carry_words(_planes(block.where, held, width), metric.noise.permanent_units, rng)
        for held in answered.held.T
        if (held != NOWHERE).any()
    ]
    counts = []
    for slot in answered.slot.T:
        shown = np.zeros_like(memos[0])
        for number, memo in enumerate(memos):
            shown |= memo & _packed(slot == number)
        bits = carry_words(shown, metric.noise.instantaneous_units, rng) & _packed(slot != NOWHERE)
        counts.append(np.bitwise_count(bits).sum(axis=1, dtype=np.int64))
    return np.stack(counts)


def _planes(where: Index, held: Index, width: int) -> Words:
    """The masks of all installs, one row for each bit."""
    drawn = np.flatnonzero(held != NOWHERE)
    flat = np.zeros(width * -(-len(held) // WORD), dtype=np.uint64)
    for position in where[held[drawn]].T:
        there = position != NOWHERE
        install = drawn[there]
        word = position[there] * (len(flat) // width) + install // WORD
        np.bitwise_or.at(flat, word, np.uint64(1) << (install % WORD).astype(np.uint64))
    return flat.reshape(width, -1)


def _packed(chosen: npt.NDArray[np.bool_]) -> Words:
    packed = np.zeros(8 * -(-len(chosen) // WORD), dtype=np.uint8)
    some = np.packbits(chosen, bitorder="little")
    packed[: len(some)] = some
    return packed.view("<u8").astype(np.uint64, copy=False)


def carry_words(sent: Words, units: Units, rng: np.random.Generator) -> Words:
    """Every bit through a bit channel with these probabilities, in units of 2**-24."""
    when_one, when_zero = units
    if when_one + when_zero == UNITS:  # symmetric: to arrive wrong is to be flipped, whatever was sent
        return sent ^ _set_with((when_zero,), sent, rng)[0]
    ones, zeros = _set_with((when_one, when_zero), sent, rng)
    return zeros ^ (sent & (ones ^ zeros))


def _set_with(numerators: tuple[int, ...], like: Words, rng: np.random.Generator) -> list[Words]:
    """For each numerator, bits set independently with probability numerator / 2**24. One random number serves all of
    them, because a position looks at one only. `hubbub.client.respond` explains the digits."""
    below = [np.full_like(like, ~np.uint64(0) if numerator == UNITS else 0) for numerator in numerators]
    drawn = [numerator for numerator in numerators if 0 < numerator < UNITS]
    lowest = min(((numerator & -numerator).bit_length() - 1 for numerator in drawn), default=PRECISION)
    for digit in range(lowest, PRECISION):
        word = rng.bit_generator.random_raw(like.shape)  # as rng.integers gives them, which takes long over a few words
        for numerator, found in zip(numerators, below, strict=True):
            if 0 < numerator < UNITS:
                (np.bitwise_or if numerator >> digit & 1 else np.bitwise_and)(found, word, out=found)
    return below


# --- categories ---------------------------------------------------------------------------------------------------


def _categories(metric: Metric, block: CohortMasks, width: int, answered: Answered, rng: np.random.Generator) -> Index:
    """How many reports of each epoch name each category."""
    drawn = answered.held != NOWHERE
    memos = np.full(answered.held.shape, NOWHERE)
    memos[drawn] = _carry_categories(block.where[answered.held[drawn], 0], width, metric.noise.permanent_units, rng)
    counts = []
    for slot in answered.slot.T:
        there = np.flatnonzero(slot != NOWHERE)
        named = _carry_categories(memos[there, slot[there]], width, metric.noise.instantaneous_units, rng)
        counts.append(np.bincount(named, minlength=width))
    return np.stack(counts)


def _carry_categories(sent: Index, width: int, units: Units, rng: np.random.Generator) -> Index:
    """As the client's `carry_category`: the numbers below (width - 1) x other name another category, evenly."""
    other = units[1]
    number = rng.integers(0, UNITS, size=len(sent))
    category = number // max(other, 1)
    return np.where(number >= other * (width - 1), sent, category + (category >= sent))


# --- subsets ------------------------------------------------------------------------------------------------------


def _subsets(metric: Metric, block: CohortMasks, width: int, answered: Answered, rng: np.random.Generator) -> Index:
    """How many reports of each epoch hold each category; a subset is reported as it was drawn."""
    channel = metric.noise.permanent
    assert isinstance(channel, SubsetChannel)
    drawn = answered.held != NOWHERE
    memos = np.zeros((*answered.held.shape, channel.categories), dtype=bool)
    memos[drawn] = _carry_subsets(block.where[answered.held[drawn], 0], channel, rng)
    counts = []
    for slot in answered.slot.T:
        there = np.flatnonzero(slot != NOWHERE)
        counts.append(memos[there, slot[there]].sum(axis=0, dtype=np.int64))
    return np.stack(counts)


def _carry_subsets(sent: Index, channel: SubsetChannel, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """As the client's `carry_subset`, for many: rows of categories."""
    others = channel.categories - 1
    number = rng.integers(0, channel.units, size=len(sent))
    beyond = number - channel.with_sent * channel.held
    left = np.where(beyond < 0, channel.size - 1, channel.size)
    rank = np.where(beyond < 0, number // channel.held, beyond // channel.other)
    below = np.array([[comb(n, k) for k in range(channel.size + 1)] for n in range(others)], dtype=np.int64)
    rest = np.zeros((len(sent), others), dtype=bool)
    for position in range(others - 1, -1, -1):
        takes = (left > 0) & (rank >= below[position, left])
        rest[:, position] = takes
        rank -= np.where(takes, below[position, left], 0)
        left -= takes
    column = np.arange(channel.categories)
    away = column - (column > sent[:, np.newaxis])
    bits = np.take_along_axis(rest, np.minimum(away, others - 1), axis=1)
    bits[np.arange(len(sent)), sent] = beyond < 0
    return np.asarray(bits)
