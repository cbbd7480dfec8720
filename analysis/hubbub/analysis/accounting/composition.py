"""How epsilons and deltas add up where only they are known, and the older currencies: zero-concentrated and Renyi.

Each function is an upper bound. `privacy_loss` composes laws themselves and is never worse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, expm1, inf, log, log1p, sqrt

import numpy as np
import scipy  # its larger parts are loaded where they are asked for: half of a command's start

from hubbub.protocol.invalid import Invalid, require

ORDERS = tuple(np.concatenate([1 + np.geomspace(0.01, 10, 200), np.geomspace(11.5, 2000, 150)]).tolist())
"""Renyi orders that are tried; a curve is known by its values at these."""


def basic(guarantees: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Epsilons add, deltas add."""
    found = list(guarantees)
    return sum(epsilon for epsilon, _ in found), sum(delta for _, delta in found)


def advanced(epsilon: float, times: int, delta: float) -> float:
    """So many releases of one pure epsilon, at this delta (Dwork, Rothblum, Vadhan 2010); never more than `basic`."""
    _check(epsilon, times, delta)
    return min(times * epsilon, sqrt(2 * times * log(1 / delta)) * epsilon + times * epsilon * expm1(epsilon))


def optimal(epsilon: float, times: int, delta: float) -> float:
    """The least epsilon that so many releases of one pure epsilon have at this delta (Kairouz, Oh, Viswanath 2015).

    It is that of randomised response: k of the answers true has the binomial law, and the loss (2 k - times) epsilon.
    """
    _check(epsilon, times, delta)
    true = np.arange(times + 1)
    loss = (2 * true - times) * epsilon
    mass = scipy.stats.binom.pmf(true, times, 1 / (1 + exp(-epsilon)))

    def excess(found: float) -> float:
        above = loss > found
        return float(mass[above] @ -np.expm1(found - loss[above])) - delta

    low, high = 0.0, times * epsilon
    if excess(low) <= 0:
        return 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def group(epsilon: float, delta: float, size: int) -> tuple[float, float]:
    """What holds for several devices of one person together (Dwork and Roth 2014, Theorem 2.2)."""
    if size < 1:
        raise Invalid([f"size must be at least 1, got {size}"])
    grown = expm1(size * epsilon) / expm1(epsilon) if epsilon > 0 else float(size)
    return size * epsilon, min(1.0, delta * grown)


# --- zero-concentrated and Renyi ----------------------------------------------------------------------------------


def gaussian_rho(deviation: float, sensitivity: float = 1.0) -> float:
    """rho of Gaussian noise, discrete or not, on what one person changes by `sensitivity` (Bun, Steinke 2016)."""
    return sensitivity**2 / (2 * deviation**2)


def pure_rho(epsilon: float) -> float:
    """rho of anything with this pure epsilon."""
    return epsilon**2 / 2


def epsilon_of_rho(rho: float, delta: float) -> float:
    """rho + 2 sqrt(rho ln(1 / delta)). rhos add."""
    _check_delta(delta)
    return rho + 2 * sqrt(rho * log(1 / delta))


def gaussian_renyi(deviation: float, sensitivity: float = 1.0) -> list[float]:
    """The Renyi divergence at each of `ORDERS`. Curves add, order by order."""
    return [order * gaussian_rho(deviation, sensitivity) for order in ORDERS]


def response_renyi(epsilon: float) -> list[float]:
    """That of randomised response, and so of every count with discrete Laplace noise (Mironov 2017)."""
    truth, lie = -log1p(exp(-epsilon)), -epsilon - log1p(exp(-epsilon))
    return [float(np.logaddexp(a * truth + (1 - a) * lie, a * lie + (1 - a) * truth)) / (a - 1) for a in ORDERS]


def epsilon_of_renyi(curve: Sequence[float], delta: float) -> float:
    """The least over all orders (Canonne, Kamath, Steinke 2020, Proposition 12)."""
    _check_delta(delta)
    found = inf
    for order, divergence in zip(ORDERS, curve, strict=True):
        found = min(found, divergence + log1p(-1 / order) - (log(delta) + log(order)) / (order - 1))
    return max(0.0, found)


def _check(epsilon: float, times: int, delta: float) -> None:
    problems = []
    if not epsilon > 0:
        problems.append(f"epsilon must be above 0, got {epsilon:g}")
    if times < 1:
        problems.append(f"times must be at least 1, got {times}")
    require(problems)
    _check_delta(delta)


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise Invalid([f"delta must be above 0 and below 1, got {delta:g}"])
