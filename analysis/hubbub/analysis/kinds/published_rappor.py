"""RAPPOR as it was published, tuned to given epsilons: what a plan of strings is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import exp, log

from hubbub.analysis.kinds.variances import bit_variance
from hubbub.protocol.channel import Noise
from hubbub.protocol.noise import rappor_noise

RAPPOR_HASHES = 2
RAPPOR_P = 0.5


@dataclass(frozen=True, slots=True)
class Rappor:
    """RAPPOR's mechanism, two hashes and p = 1/2 as published, tuned to given epsilons."""

    prob_f: float
    prob_p: float
    prob_q: float
    unit_variance: float


def rappor_at(epsilon_one_report: float, epsilon_permanent: float) -> Rappor:
    """f spends the permanent epsilon; q is then as large as one report allows. n Var is of a string near share 0."""
    f = 2 / (1 + exp(epsilon_permanent / (2 * RAPPOR_HASHES)))
    low, high = RAPPOR_P, 1.0
    for _ in range(50):
        q = (low + high) / 2
        noise = _rappor(f, q)
        over = RAPPOR_HASHES * _log_odds(noise) > epsilon_one_report
        low, high = (low, q) if over else (q, high)
    noise = _rappor(f, low)
    return Rappor(f, RAPPOR_P, low, bit_variance(noise, 0.0) / RAPPOR_HASHES)


def _rappor(f: float, q: float) -> Noise:
    return rappor_noise(Fraction(f), Fraction(RAPPOR_P), Fraction(max(q, RAPPOR_P + 1e-6)))


def _log_odds(noise: Noise) -> float:
    q, p = float(noise.q_star), float(noise.p_star)
    return log(q * (1 - p) / (p * (1 - q)))
