"""Privacy losses of the mechanisms of a trusted curator: noisy counts, randomised response, subsampling, a kept answer.

Grids are a sixteenth of a loss's standard deviation: what splitting between grid points adds is then a thousandth.
"""

from __future__ import annotations

from math import expm1, log, log1p, sqrt

import numpy as np

from hubbub.analysis.accounting.privacy_loss import PrivacyLoss
from hubbub.analysis.arrays import Array
from hubbub.protocol.invalid import Invalid

_FINENESS = 16
_REACH = 12.0  # standard deviations; beyond is less than 1e-30


def gaussian_count(deviation: float) -> PrivacyLoss:
    """A count that one person changes by 1, with discrete Gaussian noise: P and Q are each other's mirror image."""
    if not deviation > 0:
        raise Invalid([f"the standard deviation of Gaussian noise must be above 0, got {deviation:g}"])
    reach = int(_REACH * max(deviation, 1.0)) + 2
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    weight = np.exp(-(x**2) / (2 * deviation**2))
    law = weight / weight.sum()
    # Compared where both are above nothing; the last outcome is lost, with a mass below 1e-30.
    loss = ((x[1:] - 1) ** 2 - x[1:] ** 2) / (2 * deviation**2)
    return PrivacyLoss.of(law[1:], law[1:] * np.exp(-loss), 1 / deviation / _FINENESS)


def laplace_count(scale: float) -> PrivacyLoss:
    """A count that one person changes by 1, with discrete Laplace noise of P(x) ~ exp(-|x| / scale).

    The loss is plus or minus 1 / scale and nothing between: that of randomised response.
    """
    if not scale > 0:
        raise Invalid([f"the scale of Laplace noise must be above 0, got {scale:g}"])
    return randomized_response(1 / scale)


def randomized_response(epsilon: float) -> PrivacyLoss:
    """The worst mechanism with this pure epsilon (Kairouz, Oh, Viswanath 2015)."""
    if not epsilon > 0:
        raise Invalid([f"epsilon must be above 0, got {epsilon:g}"])
    truth = 1 / (1 + np.exp(-epsilon))
    return PrivacyLoss.of(np.array([truth, 1 - truth]), np.array([1 - truth, truth]), epsilon / _FINENESS)


def subsampled(loss: PrivacyLoss, rate: float) -> tuple[PrivacyLoss, PrivacyLoss]:
    """Each person is asked with probability `rate`, and who was asked is hidden: P mixed with Q against Q, and Q
    against the mixture."""
    if not 0 < rate <= 1:
        raise Invalid([f"the rate of a sample must be above 0 and at most 1, got {rate:g}"])
    p, q = loss.atoms()
    mixed = rate * p + (1 - rate) * q
    return _fine(mixed, q), _fine(q, mixed)


def kept_answer(loss: PrivacyLoss, when_one: float, when_zero: float) -> tuple[PrivacyLoss, PrivacyLoss]:
    """P and Q are what a kept bit of 1 or 0 makes be published; the bit was drawn as 1 with probability `when_one` or
    `when_zero`, according to the true answer, and nobody knows it. Both directions."""
    p, q = loss.atoms()
    one, zero = (when * p + (1 - when) * q for when in (when_one, when_zero))
    return _fine(one, zero), _fine(zero, one)


def amplified_by_sampling(epsilon: float, rate: float) -> float:
    """ln(1 + s (e^epsilon - 1)): the closed form for a pure epsilon."""
    return log1p(rate * expm1(epsilon))


def amplified_by_shuffling(epsilon: float, others: int, delta: float) -> float:
    """Closed form of Feldman, McMillan and Talwar (2021) for so many reports with local epsilon; the local epsilon
    itself where it does not apply. `crowd` has the numerical bound, which is several times smaller."""
    if others < 1 or epsilon > log(max(others / (16 * log(2 / delta)), 1.0)):
        return epsilon
    e = np.exp(epsilon)
    spread = 8 * sqrt(float(e) * log(4 / delta) / others) + 8 * float(e) / others
    return min(epsilon, log1p(float((e - 1) / (e + 1)) * spread))


def _fine(p: Array, q: Array) -> PrivacyLoss:
    both = (p > 0) & (q > 0)
    loss = np.log(p[both] / q[both])
    mean = float(p[both] @ loss) / float(p[both].sum())
    deviation = float(np.sqrt(p[both] @ (loss - mean) ** 2))
    return PrivacyLoss.of(p, q, max(deviation, 1e-7) / _FINENESS)
