"""Weighted least squares of cells on a few candidates and the column of all other strings.

A cell weighs 1 / (variance + tau2): its own noise at the fitted share, and one variance for all cells that stands for
the strings not fitted. Cells excluded weigh nothing. Every sum runs in a fixed order, so the same input gives the
same digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from hubbub.analysis.arrays import Array, Index, Mask
from hubbub.analysis.estimation.design import Design

_TRIM = 4.0
_SUSPICIOUS = 8
"""So many cells beyond _TRIM deviations start the trimming; of 100,000 honest ones three are expected there."""
_LEAST_SHRINKAGE = 0.97


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    cells: Array
    tau2: float

    @property
    def active(self) -> Mask:
        return self.cells > 0

    @property
    def num_active(self) -> int:
        return int(np.count_nonzero(self.cells))

    @property
    def unfitted(self) -> float:
        """The part of the cells' variance that stands for the strings not fitted."""
        return self.tau2 * float(self.cells[self.active].mean()) if self.num_active else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """`covariance` is of (other, the shares of the chosen); residuals are of all cells, also those excluded."""

    chosen: Index
    other: float
    shares: Array
    covariance: Array
    residual: Array
    expected: Array
    weights: Weights

    @property
    def degrees(self) -> int:
        return self.weights.num_active - len(self.chosen) - 1

    @property
    def std_errors(self) -> Array:
        return np.sqrt(np.diag(self.covariance)[1:])


def even_weights(design: Design, excluded: Mask) -> Weights:
    """To begin with: every cell as noisy as one whose bit is set as often as the average."""
    share = np.full(len(design.share), max(float(np.mean(design.share[design.observed])), 0.0))
    return Weights(cells=np.where(design.observed & ~excluded, 1 / cell_variance(design, share), 0.0), tau2=0.0)


def reweigh(design: Design, fit: Fit, excluded: Mask) -> Weights:
    """The weights that a fit implies."""
    variance = cell_variance(design, fit.expected)
    active = design.observed & ~excluded
    tau2 = extra_variance(fit.residual[active], variance[active], len(fit.chosen) + 1)
    return Weights(cells=np.where(active, 1 / (variance + tau2), 0.0), tau2=tau2)


def settle(design: Design, chosen: Index, weights: Weights, excluded: Mask) -> Fit | None:
    """The fit at its own weights: solved, weighed by the result, solved again."""
    fit = solve(design, chosen, weights)
    return fit and solve(design, chosen, reweigh(design, fit, excluded))


def solve(design: Design, chosen: Index, weights: Weights) -> Fit | None:
    """Solve the normal equations; None where they have no single solution."""
    weight = weights.cells
    columns = design.rows_of(chosen)
    weighted = sparse.csr_array((weight[columns.indices], columns.indices, columns.indptr), shape=columns.shape)
    size = len(chosen) + 1
    normal = np.empty((size, size))
    products: Any = weighted @ columns.T
    normal[1:, 1:] = products.toarray()
    normal[0, 1:] = normal[1:, 0] = np.asarray(weighted @ design.background)
    normal[0, 0] = np.sum(weight * design.background**2)
    right = np.concatenate([[np.sum(weight * design.background * design.share)], weighted @ design.share])
    covariance = _inverse(normal)
    if covariance is None:
        return None
    solution = covariance @ right
    expected = solution[0] * design.background + columns.T @ solution[1:]
    return Fit(
        chosen=chosen,
        other=float(solution[0]),
        shares=solution[1:],
        covariance=covariance,
        residual=np.where(design.observed, design.share - expected, 0.0),
        expected=expected,
        weights=weights,
    )


def _inverse(normal: Array) -> Array | None:
    scale = np.sqrt(np.diag(normal))
    if not scale.all():
        return None
    factor, failed = lapack.dpotrf(normal / np.outer(scale, scale), lower=1)
    if failed or np.diag(factor).min() < 1e-4:
        return None
    inverse, _ = lapack.dpotri(factor, lower=1)
    both: Array = (np.tril(inverse) + np.tril(inverse, -1).T) / np.outer(scale, scale)
    return both


def cell_variance(design: Design, share: Array) -> Array:
    """Of each observed cell at these shares: the channels' noise, and that its cohort is a sample."""
    # At least half an install: a channel without noise would otherwise give cells no variance at all.
    g = np.clip(share, np.minimum(design.sampling / 2, 1), 1)
    with np.errstate(invalid="ignore"):
        return np.where(design.observed, design.floor + design.slope * g + design.sampling * g * (1 - g), 1.0)


def extra_variance(residual: Array, variance: Array, fitted: int) -> float:
    """The tau2 with sum r^2 / (variance + tau2) = cells - fitted, or 0: what the cells' own noise does not explain.

    The sum falls and is convex in tau2, so Newton's steps from 0 approach the solution from below.
    """
    degrees = len(residual) - fitted
    if degrees <= 0:
        return 0.0
    squares, tau2 = residual**2, 0.0
    for _ in range(50):
        ratio = squares / (variance + tau2)
        excess = float(ratio.sum()) - degrees
        step = excess / float((ratio / (variance + tau2)).sum()) if excess > 0 else 0.0
        tau2 += step
        if step <= 1e-9 * tau2:
            break
    return tau2


def outlier_cells(design: Design, fit: Fit) -> tuple[Mask, float]:
    """Cells that some heavy string outside the list must have raised, and how much excluding them shrinks a fit.

    A cell sticks out if it is more than four robust deviations up. Rejecting at a cut c also hits cells that an honest
    share has pushed over it: a fitted share then moves by only A = 1 - c p(c) / P(kept) of what it should, p being
    the density of residuals at the cut (the influence of a hard-rejection estimate, Hampel et al. 1986). Where A is
    not close to 1 the cells beyond are no exceptions but a tail: nothing is excluded, and `tau2` stands for them.
    """
    observed = design.observed
    standard = fit.residual[observed] / np.sqrt(cell_variance(design, fit.expected)[observed])
    spread = 1.4826 * float(np.median(np.abs(standard - np.median(standard))))
    cut = _TRIM * max(spread, 1.0)
    beyond = standard > cut
    near = np.count_nonzero((standard > 0.75 * cut) & (standard < 1.25 * cut)) / len(standard)
    shrinkage = 1 - (near / 0.5) / max(1 - float(beyond.mean()), 0.5)
    out = np.zeros(len(observed), dtype=bool)
    if beyond.sum() < _SUSPICIOUS or shrinkage < _LEAST_SHRINKAGE:
        return out, 1.0
    out[observed] = beyond
    return out, shrinkage
