"""How far the estimated shares of a table of two answers stray: second moments of one report, given its install's cell.

The estimate of cell (i, j) is the average of Z_ij over all batches. Of a pair, Z_ij = s_i t_j is a product of two
scores whose noise is independent given the true cell (x, w), so that

    E[Z_ij Z_kl | x, w] = E[s_i s_k | x] E[t_j t_l | w],

and all of it follows from the channels: variances are sums of that over the true table. Of a cross, Z is the score of
one report about the cell itself. With so many pooled epochs the noise that is drawn afresh is divided by the batches,
the noise that is kept by the installs (n Var = Vp Vp' + (Vp Vi' + Vi Vp' + Vi Vi') / T). Cohorts are of fixed sizes, so
that what differs between them on average is no error. The installs that reported are no sample of themselves: for them
the sampling variance of the whole table is taken off.

Linear functionals of a table are given as products u_i v_j; `Functionals` holds several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.factor_scores import Response


@dataclass(frozen=True, slots=True)
class Functionals:
    """n of them: the sums of u_i v_j times the share of cell (i, j)."""

    rows: Array  # (n, first categories)
    columns: Array  # (n, second categories)

    @property
    def cells(self) -> Array:
        """Their coefficients, (n, cells)."""
        return np.asarray(self.rows[:, :, None] * self.columns[:, None, :]).reshape(len(self.rows), -1)

    def times(self, repeats: int) -> Functionals:
        return Functionals(np.tile(self.rows, (repeats, 1)), np.tile(self.columns, (repeats, 1)))


class JointLaw(Protocol):
    """What is known of the reports behind a table. Tables are flat here: cell = i x (second categories) + j."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def installs(self) -> float:
        """1 / (the factor of sampling variance): how many installs the batches are from."""

    def products(self, one: Functionals, other: Functionals) -> Array:
        """(n, true cells): what the true cell adds to E[estimate x estimate'] of each pair, divided by the reports."""

    def expectations(self, of: Functionals) -> Array:
        """(groups, n, true cells): what is expected in each group of installs whose size is fixed, times the root of
        its weight, so that the sum over groups of the product of two is what a covariance has too much."""

    def if_independent(self, first: Array, second: Array) -> Array:
        """(cells, cells): the covariance of all estimates where the true table is the product of these margins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairGroup:
    """All batches of one pair of cohorts, over the pooled epochs."""

    counts: Array  # (1 + bits, 1 + bits): batches, bits of the first, bits of the second, both
    sampling: float  # 1 / installs, see `estimation.cells`
    first: Response
    second: Response

    @property
    def batches(self) -> float:
        return float(self.counts[0, 0])


@dataclass(frozen=True, slots=True)
class PairLaw:
    """Of two metrics whose reports were counted together."""

    groups: Sequence[PairGroup]
    sampling: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.groups[0].first.num_categories, self.groups[0].second.num_categories

    @property
    def installs(self) -> float:
        return 1 / self.sampling

    @property
    def batches(self) -> float:
        return sum(group.batches for group in self.groups)

    def estimate(self) -> Array:
        """The unbiased table, (first, second)."""
        found = sum(group.first.scores @ group.counts @ group.second.scores.T for group in self.groups)
        return np.asarray(found) / self.batches

    def products(self, one: Functionals, other: Functionals) -> Array:
        found = np.zeros((len(one.rows), np.prod(self.shape)))
        for group in self.groups:
            for weight, kept in self._layers(group):
                first = group.first.products(one.rows, other.rows, kept=kept)
                second = group.second.products(one.columns, other.columns, kept=kept)
                found += weight * (first[:, :, None] * second[:, None, :]).reshape(found.shape)
        return found

    def expectations(self, of: Functionals) -> Array:
        found = []
        for group in self.groups:
            first, second = group.first.means(of.rows), group.second.means(of.columns)
            root = group.batches / self.batches * np.sqrt(group.sampling)
            found.append(root * (first[:, :, None] * second[:, None, :]).reshape(len(of.rows), -1))
        return np.array(found)

    def if_independent(self, first: Array, second: Array) -> Array:
        found = np.zeros((np.prod(self.shape),) * 2)
        for group in self.groups:
            for weight, kept in self._layers(group):
                found += weight * np.kron(group.first.moment(first, kept=kept), group.second.moment(second, kept=kept))
            means = np.kron(
                group.first.means(np.eye(len(first))) @ first, group.second.means(np.eye(len(second))) @ second
            )
            found -= (group.batches / self.batches) ** 2 * group.sampling * np.outer(means, means)
        return found

    def _layers(self, group: PairGroup) -> list[tuple[float, bool]]:
        """The weights of a report's second moment and of that of its kept part."""
        share = group.batches / self.batches
        fresh = 1 / group.batches
        return [(share**2 * fresh, False), (share**2 * max(group.sampling - fresh, 0.0), True)]


@dataclass(frozen=True, slots=True)
class CrossGroup:
    """The reports of one definition of a cross: one cohort, whose categories are the cells."""

    counts: Array  # (1 + bits)
    sampling: float
    cell: Response

    @property
    def batches(self) -> float:
        return float(self.counts[0])


@dataclass(frozen=True, slots=True)
class CrossLaw:
    """Of a metric that asks for the cell itself."""

    group: CrossGroup
    shape: tuple[int, int]

    @property
    def installs(self) -> float:
        return 1 / self.group.sampling

    @property
    def batches(self) -> float:
        return self.group.batches

    def estimate(self) -> Array:
        return (self.group.cell.scores @ self.group.counts / self.group.batches).reshape(self.shape)

    def products(self, one: Functionals, other: Functionals) -> Array:
        first, second = one.cells, other.cells
        return np.asarray(
            sum(weight * self.group.cell.products(first, second, kept=kept) for weight, kept in self._layers())
        )

    def expectations(self, of: Functionals) -> Array:
        return np.asarray(np.sqrt(self.group.sampling) * self.group.cell.means(of.cells)[None])

    def if_independent(self, first: Array, second: Array) -> Array:
        table: Array = np.outer(first, second).ravel()
        found = -self.group.sampling * np.outer(table, table)
        for weight, kept in self._layers():
            found += weight * self.group.cell.moment(table, kept=kept)
        return found

    def _layers(self) -> list[tuple[float, bool]]:
        fresh = 1 / self.group.batches
        return [(fresh, False), (max(self.group.sampling - fresh, 0.0), True)]
