"""The design of a string metric: which cells a candidate sets, and what strings outside the list do on average.

All cells of all cohorts form one long vector. Row l of `positions` says where in the cohort that starts at `offset[l]`
each candidate sets a bit. A string that is not a candidate sets every bit of a cohort with the same probability, the
cell's `background` (num_hashes / num_bits), because its positions are hashed too: so all mass outside the list is one
column, and a list with strings missing stays unbiased. A bit that a candidate does not set (a parity bit that is 0, a
repeated position in a google/rappor map) points to a cell that counts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import comb, log2

import numpy as np
from scipy import sparse

from hubbub.analysis.arrays import Array, Index, Mask
from hubbub.analysis.estimation.cells import Cohort
from hubbub.analysis.estimation.hashing import Positions

_CHUNK = 16_384
_MATRIX = 8_000_000  # bits of all candidates up to which a sparse matrix is kept


@dataclass(frozen=True, slots=True)
class Block:
    """Cohorts of definitions that hash alike: `width` cells each from `start`; a candidate takes `draws` of the first
    `drawn`. `definitions` are their numbers."""

    start: int
    num_cohorts: int
    width: int
    draws: int
    drawn: int
    definitions: tuple[int, ...] = (0,)

    def rows(self, cells: Array) -> Array:
        return cells[self.start : self.start + self.num_cohorts * self.width].reshape(self.num_cohorts, self.width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The cells, in order, and where each candidate has its bits."""

    share: Array
    floor: Array
    slope: Array
    sampling: Array
    background: Array
    blocks: tuple[Block, ...]
    offset: Index
    positions: Positions
    constant_weight: bool
    """Whether every mask that is not empty has the same number of bits: then the ones in all count the answers."""
    matrix: sparse.csr_array | None = field(init=False)

    def __post_init__(self) -> None:
        small = self.positions.size <= _MATRIX
        matrix = _rows(self.positions, self.offset, len(self.share)) if small else None
        object.__setattr__(self, "matrix", matrix)

    @property
    def observed(self) -> Mask:
        """Cells that counted anything."""
        return np.isfinite(self.floor)

    @property
    def num_candidates(self) -> int:
        return int(self.positions.shape[1])

    def gather(self, cells: Array) -> Array:
        """For each candidate, the sum over the cells it sets."""
        if self.matrix is not None:
            return np.asarray(self.matrix @ cells)
        return gathered(self.positions, self.offset, cells)

    def gather_background(self, cells: Array, gathered: Array) -> Array:
        """`gather(cells * background)`, from `gather(cells)` where all counted cells have the same background."""
        values = np.unique(self.background[self.observed])
        return gathered * values[0] if len(values) == 1 else self.gather(cells * self.background)

    def scatter(self, weights: Array) -> Array:
        """For each cell, the sum of the weights of the candidates that set it."""
        return scattered(self.positions, self.offset, len(self.share), weights)

    def rows_of(self, chosen: Index) -> sparse.csr_array:
        """The design's columns of a few candidates, as sparse rows."""
        if self.matrix is not None:
            return self.matrix[chosen] if len(chosen) < self.num_candidates else self.matrix
        return _rows(self.positions[:, chosen], self.offset, len(self.share))

    def duplicate_of(self, *, hashed: bool = False) -> Index:
        """For each candidate the first one that sets the same counted cells: itself, for all but the unlucky.

        Where different texts are `hashed` to 96 bits or more, a million hold no unlucky pair, but for one chance in
        2**56. Else cells get random 64-bit numbers, and equal sums mean equal cells, but for one chance in 2**64.
        """
        if hashed and self.tells_texts_apart:
            return np.arange(self.num_candidates)
        keys = np.random.default_rng(0).integers(0, 2**64, len(self.share), dtype=np.uint64)
        keys[~self.observed] = 0
        sums = np.zeros(self.num_candidates, dtype=np.uint64)
        for start in range(0, self.num_candidates, _CHUNK):
            some = self.positions[:, start : start + _CHUNK]
            for row, offset in zip(some, self.offset.tolist(), strict=True):
                sums[start : start + _CHUNK] += keys[offset : offset + self._widest][row]
        if (np.diff(np.sort(sums)) > 0).all():
            return np.arange(self.num_candidates)
        _, first, group = np.unique(sums, return_index=True, return_inverse=True)
        return np.asarray(first[group], dtype=np.int64)

    @property
    def cohorts_seen(self) -> int:
        """How many cohorts reported; those of several definitions hash alike, and count once."""
        counted = self.observed.astype(np.float64)
        return max((int(block.rows(counted).any(axis=1).sum()) for block in self.blocks), default=0)

    @property
    def tells_texts_apart(self) -> bool:
        """Whether the positions of a text hold so many bits that no two texts of any list have the same."""
        return self.signature_bits >= 96

    @property
    def signature_bits(self) -> float:
        """How many bits the positions of a text hold, over all cohorts that counted anything."""
        counted = self.observed.astype(np.float64)
        return sum(
            float(np.count_nonzero(block.rows(counted).any(axis=1))) * log2(comb(block.drawn, block.draws))
            for block in self.blocks
        )

    def only(self, chosen: Index) -> Design:
        """The design of some of the candidates."""
        return replace(self, positions=np.ascontiguousarray(self.positions[:, chosen]))

    @property
    def _widest(self) -> int:
        return max(block.width for block in self.blocks)


def gathered(where: Positions, offset: Index, cells: Array) -> Array:
    """`Design.gather` by a table look-up for each bit: for a million candidates no matrix would fit."""
    found = np.empty(where.shape[1])
    for start in range(0, len(found), _CHUNK):
        some = where[:, start : start + _CHUNK]
        total = np.zeros(some.shape[1])
        for row, first in zip(some, offset.tolist(), strict=True):
            total += cells[first:].take(row, mode="clip")  # no position is out of range; "clip" only spares the check
        found[start : start + _CHUNK] = total
    return found


def scattered(where: Positions, offset: Index, num_cells: int, weights: Array) -> Array:
    """`Design.scatter`."""
    total = np.zeros(num_cells)
    for row, first in zip(where, offset.tolist(), strict=True):
        counted = np.bincount(row, weights)
        total[first : first + len(counted)] += counted
    return total


def cohort_design(
    cohorts: Sequence[Cohort], where: Positions, *, draws: int, background: float, idle: int, constant_weight: bool
) -> Design:
    """Cohorts of equal width, each followed by `idle` cells that count nothing."""
    width = len(cohorts[0].ones) + idle
    counts = np.arange(width) < width - idle

    def cells(values: Sequence[float], nothing: float) -> Array:
        return np.where(counts, np.array(values, dtype=np.float64)[:, np.newaxis], nothing).ravel()

    share = np.zeros((len(cohorts), width))
    for row, cohort in zip(share, cohorts, strict=True):
        row[: width - idle] = np.nan_to_num(cohort.shares)
    evened = constant_weight and any(cohort.count_variance for cohort in cohorts)
    if evened:
        _even_out(cohorts, share[:, : width - idle])
    return Design(
        share=share.ravel(),
        floor=cells([_own(cohort)[0] if evened else cohort.floor for cohort in cohorts], np.inf),
        slope=cells([_own(cohort)[1] if evened else cohort.slope for cohort in cohorts], 0.0),
        sampling=cells([cohort.sampling if cohort.reports else 0.0 for cohort in cohorts], 0.0),
        background=cells([background] * len(cohorts), 0.0),
        # With a single bit, its being 0 is the other outcome of the draw; an idle cell after many bits is none.
        blocks=(Block(0, len(cohorts), width, draws, width if width - idle == 1 else width - idle),),
        offset=np.repeat(np.arange(len(cohorts)) * width, draws),
        positions=where,
        constant_weight=constant_weight,
    )


def _even_out(cohorts: Sequence[Cohort], share: Array) -> None:
    """Noise on a number of reports moves all cells of its cohort alike. A string sets as many of them in each cohort as
    any other, so that nothing is lost if all cohorts are moved to one mean: that part of the noise is gone."""
    has = np.array([cohort.reports > 0 for cohort in cohorts])
    mean = share.mean(axis=1, keepdims=True)
    share += np.where(has[:, np.newaxis], float(mean[has].mean()) - mean, 0.0) if has.any() else 0.0


def _own(cohort: Cohort) -> tuple[float, float]:
    """Floor and slope of a cell's variance beside the mean of its cohort: of noise on reports only that part is left by
    which a cell with a share g is set more often, gain g, and g^2 is at most g."""
    return cohort.own_floor + cohort.per_count, cohort.own_slope + cohort.per_count * cohort.noise.gain**2


def together(parts: Sequence[Design], kinds: Sequence[object]) -> Design:
    """Several definitions of one metric, each with its own noise; counts are never added. `kinds` says which of them
    hash alike: an install sets the same bits in those, and their cells become one. The others' stand side by side."""
    groups: dict[object, list[int]] = {}
    for number, kind in enumerate(kinds):
        groups.setdefault(kind, []).append(number)
    return _stack([_overlay([parts[number] for number in group], group) for group in groups.values()])


def _overlay(parts: Sequence[Design], definitions: Sequence[int]) -> Design:
    """Definitions that hash alike, answered by the same installs: of each cell the average share, by precision.

    Noise is drawn anew for each. What is not, the sample of installs and the strings outside the list that fall on the
    cell, is in all of them: two definitions covary by the smaller 1 / installs, as two epochs do.
    """
    blocks = tuple(replace(block, definitions=tuple(definitions)) for block in parts[0].blocks)
    if len(parts) == 1:
        return replace(parts[0], blocks=blocks)
    floor, slope, sampling, share = (
        np.array([getattr(part, name) for part in parts]) for name in ("floor", "slope", "sampling", "share")
    )
    observed = np.isfinite(floor)
    # As in `shares`: weights must not depend on the shares, and without noise cells weigh by their installs.
    weight = np.where(observed, 1 / np.where(floor > 0, floor, np.where(observed, sampling, 1)), 0)
    weight /= np.maximum(weight.sum(axis=0), 1e-300)
    pairs = np.minimum(sampling[:, np.newaxis], sampling[np.newaxis])
    return replace(
        parts[0],
        share=np.sum(weight * share, axis=0),
        floor=np.where(observed.any(axis=0), np.sum(weight**2 * np.where(observed, floor, 0), axis=0), np.inf),
        slope=np.sum(weight**2 * slope, axis=0),
        sampling=np.einsum("ic,jc,ijc->c", weight, weight, pairs),
        blocks=blocks,
    )


def _stack(parts: Sequence[Design]) -> Design:
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part.share) for part in parts)])
    widest = np.result_type(*(part.positions for part in parts))
    return Design(
        **{
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("share", "floor", "slope", "sampling", "background")
        },
        blocks=tuple(
            replace(block, start=int(start) + block.start)
            for start, part in zip(starts, parts, strict=False)
            for block in part.blocks
        ),
        offset=np.concatenate([part.offset + start for start, part in zip(starts, parts, strict=False)]),
        positions=np.concatenate([part.positions.astype(widest) for part in parts]),
        constant_weight=all(part.constant_weight for part in parts),
    )


def _rows(where: Positions, offset: Index, num_cells: int) -> sparse.csr_array:
    """One sparse row for each candidate."""
    per_row = len(offset)
    indices = np.empty((where.shape[1], per_row), dtype=np.int32)
    np.add(where.T, offset.astype(np.int32), out=indices)
    starts = np.arange(0, indices.size + 1, per_row, dtype=np.int32)
    return sparse.csr_array((np.ones(indices.size), indices.ravel(), starts), shape=(len(indices), num_cells))
