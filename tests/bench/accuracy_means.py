"""The mean of numbers in [0, 1] from one report each: points of a grid against Laplace noise, at equal epsilon.

Laplace noise is each peer's own: drawn for real some thousand times, compared with its law, and summed over everyone as
what a sum of n Laplace draws is, a difference of two gammas. The answers follow a beta law (2, 5): most small.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy import stats

from hubbub.analysis import decode
from hubbub.analysis.result import NUMBER
from hubbub.protocol.kinds import Mean
from hubbub.protocol.kinds.mean import best_points, worst_variance
from hubbub.protocol.metric import Definition
from hubbub.simulations.exact_tallies import sample_tally
from tests.bench.accuracy import EPSILONS, PEOPLE
from tests.bench.environments import Say, peer
from tests.bench.rows import US, Row, averages

FALSE_ALARM = 1e-6


def squared_errors(epsilon: str, repeats: int) -> tuple[list[float], list[float]]:
    """Of as many points as are best, and of Laplace noise; n times the squared error of the mean."""
    shape = Mean(low=Fraction(0), high=Fraction(1), absent=Fraction(0)).suited(Fraction(epsilon), ())
    metric = Definition(
        name="asked", every="once", shape=shape, noise=shape.best_noise(Fraction(epsilon), Fraction(epsilon))
    )
    ours, laplace = [], []
    for repeat in range(repeats):
        rng = np.random.default_rng([int(1000 * float(epsilon)), repeat])
        answers = rng.beta(2, 5, PEOPLE)
        truth = answers.mean()
        # Each install rounds to a point beside its number with an alpha of its own, then names one, with noise.
        rounded = np.bincount(
            np.floor(answers * (shape.points - 1) + rng.random(PEOPLE)).astype(int), minlength=shape.points
        )
        ones = rounded[1:] if shape.points == 2 else rounded
        decoded = decode(sample_tally(metric, [PEOPLE], [ones], rng))
        estimate = decoded.estimate[decoded.roles.index(NUMBER)]
        ours.append(PEOPLE * float(estimate - truth) ** 2)
        scale = 1 / float(epsilon)
        noise = (rng.gamma(PEOPLE, scale) - rng.gamma(PEOPLE, scale)) / PEOPLE
        laplace.append(PEOPLE * noise**2)
    return ours, laplace


def measure(quick: bool, say: Say) -> list[Row]:
    say("accuracy: means")
    rows = []
    for epsilon in EPSILONS:
        ours, laplace = squared_errors(epsilon, 200 if quick else 1_000)
        common = {
            "part": "accuracy",
            "table": "A mean",
            "case": f"ε = {epsilon}",
            "unit": "n times the squared error, range [0, 1]",
        }
        rows.append(Row(who=US, **common, **averages(ours)))
        for name in ("opendp", "diffprivlib"):
            drawn = peer(name, say).ask("laplace_noise", epsilon=float(epsilon), count=500 if quick else 3000)
            fits = stats.kstest(drawn, stats.laplace(scale=1 / float(epsilon)).cdf).pvalue
            assert fits > FALSE_ALARM, f"{name}: its noise at epsilon {epsilon} is not Laplace's (p = {fits:.1e})"
            rows.append(Row(who=f"{name}, Laplace", **common, **averages(laplace)))
        odds = Fraction(math.exp(float(epsilon)))
        worst = float(worst_variance(best_points(Fraction(epsilon)), odds)) / 4
        rows.append(Row(who="points, at worst", limit=True, value=worst, low=worst, high=worst, repeats=1, **common))
    return rows
