"""Do two answers go together? A test of independence, and how strong a relation it would have found.

D = J - a b' is what the table has beside the product of its margins. If the answers are independent, its covariance
follows from the margins and the channels, and D' cov^-1 D has the chi-square law with (k - 1)(l - 1) degrees of
freedom. Where both metrics are k-ary and one epoch is tested this is Pearson's statistic of the reports
themselves. The test is about the population that the installs are a sample of.

How strong a relation is, is told as Cramer's V, 0 where the answers are independent and 1 where one of them determines
the other. How likely a relation is found depends on where in the table it is; `detectable` is for one that is equally
likely anywhere, and exact for tables of 2 x 2, which have one place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # its larger parts are loaded where they are asked for
from scipy.special import chdtrc, chdtri, chndtr

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.joint_law import JointLaw

POWER = 0.9
"""With which probability `detectable` is found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Independence:
    """The test of one table."""

    statistic: float  # chi-square
    degrees: int
    p_value: float  # nan where nothing can be tested: a factor has one category only
    strength: float  # Cramer's V, estimated with what noise adds to it taken off; 0 where that is more than all
    detectable: float  # Cramer's V that is found with probability `power`
    alpha: float  # the error of the test that `detectable` is for
    power: float = POWER


def independence_of(
    law: JointLaw, estimate: Array, margins: tuple[Array, Array], excess: Array, alpha: float
) -> Independence:
    """Of the whole table, at once. `margins` are possible shares of the categories of each factor, `excess` is added to
    the variance of each cell (see `joint_intervals.Joint`)."""
    first, second = margins
    degrees = (len(first) - 1) * (len(second) - 1)
    if not degrees:
        return Independence(statistic=0.0, degrees=0, p_value=np.nan, strength=np.nan, detectable=np.nan, alpha=alpha)
    found, covariance = _beside_margins(law, estimate, margins, excess)
    root = scipy.linalg.cho_factor(covariance)
    statistic = float(found @ scipy.linalg.cho_solve(root, found))
    weight = _weight(first, second)
    most = min(len(first), len(second)) - 1
    # Of squared standardised deviations, those that noise alone has on average are taken off.
    beyond = float(found @ weight @ found - np.trace(weight @ covariance))
    needed = noncentrality(degrees, alpha, POWER)
    typical = np.trace(scipy.linalg.cho_solve(root, np.linalg.inv(weight))) / degrees
    return Independence(
        statistic=statistic,
        degrees=degrees,
        p_value=float(chdtrc(degrees, statistic)),
        strength=min(1.0, float(np.sqrt(max(beyond, 0.0) / most))),
        detectable=float(np.sqrt(needed / (typical * most))),
        alpha=alpha,
    )


def power_of(degrees: int, alpha: float, excess: float) -> float:
    """How likely the test finds a relation with this noncentrality."""
    return float(1 - chndtr(chdtri(degrees, alpha), degrees, excess))


def noncentrality(degrees: int, alpha: float, power: float) -> float:
    """The noncentrality of what is found with this probability."""

    def missing(excess: float) -> float:
        return power_of(degrees, alpha, excess) - power

    high = 10.0
    while missing(high) < 0:
        high *= 2
    return float(scipy.optimize.brentq(missing, 0.0, high, xtol=1e-6))


def _beside_margins(law: JointLaw, estimate: Array, margins: tuple[Array, Array], excess: Array) -> tuple[Array, Array]:
    """D in orthonormal contrasts of rows and columns, and its covariance if the answers are independent.

    To first order D strays by (I - a 1') dJ (I - 1 b'); noise that is alike in a whole row or column cancels.
    """
    deviation = estimate - np.outer(estimate.sum(axis=1), estimate.sum(axis=0))
    inside = np.kron(*(_contrasts(len(margin)) for margin in margins))
    both = inside.T @ np.kron(*(np.eye(len(margin)) - margin[:, None] for margin in margins))
    covariance = both @ law.if_independent(*margins) @ both.T + (inside.T * excess.ravel()) @ inside
    return inside.T @ deviation.ravel(), (covariance + covariance.T) / 2


def _weight(first: Array, second: Array) -> Array:
    """The sum of D_ij^2 / (a_i b_j), as a matrix between contrasts. A category that nobody seems to have counts as one
    of a thousandth: else any noise there would be an endless relation."""

    def one(shares: Array) -> Array:
        inside = _contrasts(len(shares))
        return np.asarray((inside.T / np.maximum(shares, 1e-3)) @ inside)

    return np.asarray(np.kron(one(first), one(second)))


def _contrasts(size: int) -> Array:
    """Orthonormal columns that add up to 0 each (Helmert's)."""
    found = np.zeros((size, size - 1))
    for k in range(1, size):
        found[:k, k - 1] = 1
        found[k, k - 1] = -k
        found[:, k - 1] /= np.sqrt(k * (k + 1))
    return found
