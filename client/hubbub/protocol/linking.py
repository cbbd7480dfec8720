"""What helps an observer to tell that two messages come from one install: what is sent in clear, and kept noise.

None of it is about answers. Figures are for people: they describe, and decide no coin.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from math import ceil, erfc, exp, log, pi, sqrt

from hubbub.protocol.metric import Definition

CROWD = 1_000
"""Installs among which the one that sent a message is looked for again."""


def num_groups(cohorts: Iterable[int]) -> int:
    """Into how many groups installs fall that show which cohort they are in, of each number of cohorts given.

    An install is a point on a line, and n cohorts are n equal pieces of it: a group is a piece between two
    neighbouring cuts k/n. In lowest terms the cuts with denominator d are as many as Euler's phi(d), and d divides n.
    """
    return sum(_phi(d) for d in {d for n in set(cohorts) | {1} for d in _divisors(n)})


def num_samples(samples: Iterable[Fraction]) -> int:
    """As how many groups installs count that show in which of these shares of all they were drawn.

    Shares are pieces of one line from its beginning, and the groups lie between neighbouring ends. They are of unequal
    size, and whoever is in a small one is told apart better than by their number: each counts as small as the smallest.
    """
    of_some = [share for share in samples if share != 1]
    if not of_some:  # as in most registries, which an app reads when it starts
        return 1
    ends = sorted({Fraction(0), Fraction(1), *of_some})
    return ceil(1 / min(end - before for before, end in pairwise(ends)))


def at_most(bits: int, cohorts: Iterable[int], segments: int = 1) -> bool:
    """Whether these numbers of cohorts, in each of `segments`, make at most 2**bits groups."""
    numbers = set(cohorts)
    return segments * (1 + sum(n - 1 for n in numbers)) <= 1 << bits or segments * num_groups(numbers) <= 1 << bits


def found_again(metrics: Iterable[Definition], groups: int, crowd: int = CROWD) -> float:
    """How often the install behind a message is picked out of a crowd by its next one, if all hold the same answers.

    The observer adds up, over all bits, the log-likelihood ratio of one memo against two, among the installs of the
    same group; sums of many bits are normal. Every kind but one out of k is counted, in the cohort with most bits, and
    with `hold` none: no noise is shown twice. Of a crowd that answers differently more are found.
    """
    own = other = own_variance = other_variance = 0.0
    for metric in metrics:
        if not metric.one_hot and metric.noise.history is None:
            width = max(metric.shape.width(cohort) for cohort in range(metric.shape.num_cohorts))
            moments = _moments(metric)
            own, own_variance = own + width * moments[0], own_variance + width * moments[1]
            other, other_variance = other + width * moments[2], other_variance + width * moments[3]
    if other_variance == 0:
        return min(1.0, groups / crowd)
    steps, total = 400, 0.0
    for i in range(-steps, steps + 1):
        z = 8 * i / steps
        score = own + z * sqrt(own_variance)
        better = erfc((score - other) / sqrt(2 * other_variance)) / 2
        total += exp(-z * z / 2) * (1 - better / groups) ** (crowd - 1)
    return min(1.0, total * 8 / steps / sqrt(2 * pi))


def _moments(metric: Definition) -> tuple[float, float, float, float]:
    """Mean and variance of a bit's score between two reports of one memo, and of two; the bit is one not set."""
    a = float(metric.noise.permanent.probabilities[1])
    said = [float(p) for p in metric.noise.instantaneous.probabilities]
    pairs = [(u, v) for u in (0, 1) for v in (0, 1)]
    same, apart = {}, {}
    alone = [a * _one(said[0], u) + (1 - a) * _one(said[1], u) for u in (0, 1)]
    for u, v in pairs:
        same[u, v] = a * _one(said[0], u) * _one(said[0], v) + (1 - a) * _one(said[1], u) * _one(said[1], v)
        apart[u, v] = alone[u] * alone[v]
    score = {pair: log(same[pair] / apart[pair]) if same[pair] and apart[pair] else 0.0 for pair in pairs}
    moments: list[float] = []
    for law in (same, apart):
        mean = sum(law[pair] * score[pair] for pair in pairs)
        moments += [mean, sum(law[pair] * (score[pair] - mean) ** 2 for pair in pairs)]
    return moments[0], moments[1], moments[2], moments[3]


def _one(p: float, bit: int) -> float:
    return p if bit else 1 - p


def _divisors(n: int) -> set[int]:
    return {d for low in range(1, int(sqrt(n)) + 1) if n % low == 0 for d in (low, n // low)}


def _phi(n: int) -> int:
    """Euler's: how many of 1, ..., n have no factor in common with n."""
    result, rest, prime = n, n, 2
    while prime * prime <= rest:
        if rest % prime == 0:
            result -= result // prime
            while rest % prime == 0:
                rest //= prime
        prime += 1
    return result - result // rest if rest > 1 else result
