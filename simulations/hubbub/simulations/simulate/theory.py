"""What the formulas predict: the error of a metric's estimates before anything is drawn, and the bound nobody beats.

The planner's variances are of one epoch. Pooling T epochs of the same installs divides the instantaneous noise by T and
leaves the permanent noise and the sampling of cohorts as they are (docs/estimation.md). With `hold` an install is asked
in one epoch of each period: periods take the place of epochs, and those who are asked in some of their epochs are a
sample of all.
"""

from __future__ import annotations

from math import exp, sqrt

from hubbub.analysis.planning.plan import unit_variance
from hubbub.protocol.metric import Definition
from hubbub.simulations.kinds import kind_of


def predicted_error(metric: Definition, share: float, installs: float, epochs: int = 1, strings: int = 0) -> float:
    """The standard error of an answer that this share of the installs holds; of a mean, as a share of its range.

    `strings` are fitted together. For a `range` the answer is a leaf.
    """
    one = unit_variance(metric.shape, metric.noise, share, strings)
    repeated = kind_of(metric.shape).repeated_variance(metric.noise, share, strings)
    periods = epochs if metric.hold is None else -(-epochs // metric.hold)
    asked = 1.0 if metric.hold is None else epochs / (periods * metric.hold)
    sampled = share * (1 - share) * (1 / asked - 1)
    drawn = installs * float(metric.sample)  # who is drawn is so for ever: that does not shrink with epochs
    of_drawn = ((one / asked + sampled) / periods + (1 - 1 / periods) * (one - repeated)) / drawn
    return sqrt(of_drawn + share * (1 - share) * (1 / drawn - 1 / installs))


def bound(metric: Definition, installs: float, epochs: int = 1) -> float:
    """The least standard error of any mechanism that tells as much of each install: the epsilon of so many reports.

    Each kind cites its own: subset selection for d answers, Warner's for yes or no and for the two ends of a mean.
    """
    e = exp(float(metric.epsilon_after(epochs)))
    return sqrt(kind_of(metric.shape).least_variance(e) / installs)
