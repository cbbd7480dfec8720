"""When a value counts as detected: the one rule that `decode` applies and `plan` promises.

Every row that is an answer is tested, against nobody holding it. The test has one side, because a share below nothing
is no discovery; and the error is shared out over all rows that are tested (Bonferroni), so that with probability
1 - alpha no detection is false. An analyst may have it be the share of detections that are false instead (Benjamini,
Hochberg 1995); a plan does not know what will be detected, and promises by Bonferroni. A number has no such test: a
difference from a given number is seen when that number is outside the interval, which has two sides.

`decode` counts the rows that have a p-value, and `plan` asks a kind beforehand how many these will be (`Kind.tested`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
import scipy  # its larger parts are loaded where they are asked for: half of a command's start
from scipy.special import betainc

from hubbub.analysis.arrays import Array, Mask
from hubbub.analysis.estimation.intervals import exceeded_with
from hubbub.analysis.options import Correction

_HALVINGS = 70  # of all reports, to the last digit; a search of scipy's would be loaded at the first decoding


@dataclass(frozen=True, slots=True)
class Rule:
    """So many rows are tested, each on so many sides, with probability alpha that any detection is false; or, by
    `benjamini-hochberg`, with alpha as the expected share of detections that are, of which so many were `found`."""

    tests: int
    alpha: float
    sides: int = 1
    correction: Correction = "bonferroni"
    found: int = 1

    @classmethod
    def of(cls, p_values: Array, alpha: float, correction: Correction = "bonferroni", others: int = 0) -> Rule:
        """For all that have a p-value (NaN is none), and others that were tested and are not here."""
        rule = cls(int(np.count_nonzero(~np.isnan(p_values))) + others, alpha, correction=correction)
        if correction == "bonferroni":
            return rule
        return cls(rule.tests, alpha, correction=correction, found=int(np.count_nonzero(rule.detected(p_values))))

    @property
    def level(self) -> float:
        """The p-value from which down a row is detected."""
        return self.alpha * max(self.found, 1) / (self.sides * max(self.tests, 1))

    @property
    def deviations(self) -> float:
        """How many standard errors, taken where nobody holds it, a normal estimate must reach."""
        return exceeded_with(self.level)

    def adjusted(self, p_values: Array) -> Array:
        """p-values of many tests as if there were one; of rows without a test they are NaN. Of rows that are not here
        only Bonferroni needs no more than their number."""
        if self.correction == "bonferroni":
            return np.minimum(1, p_values * (self.sides * self.tests))
        tested = ~np.isnan(p_values)
        found = np.full_like(p_values, np.nan)
        found[tested] = scipy.stats.false_discovery_control(p_values[tested])
        return found

    def detected(self, p_values: Array) -> Mask:
        """Which rows pass."""
        return passes(self.adjusted(p_values), self.alpha)

    def ones(self, reports: float, p_star: float) -> float:
        """How many ones of so many reports are needed where each is a one with p* if nobody holds the answer.

        P(Binomial >= c) = I_p(c, n - c + 1), solved for c as a real number: a count must reach it.
        """
        if not 0 < p_star < 1:
            return reports * p_star + self.deviations * sqrt(reports * p_star * (1 - p_star))
        low, high = 0.0, reports + 1 - 1e-12
        if betainc(high, reports - high + 1, p_star) > self.level:
            return reports + 1
        for _ in range(_HALVINGS):
            count = (low + high) / 2
            is_rare = betainc(count, reports - count + 1, p_star) <= self.level
            low, high = (low, count) if is_rare else (count, high)
        return high

    def line(self, reports: float, p_star: float, gain: float) -> float:
        """The estimate from which on an answer is detected, where its test is of that count of ones."""
        return (self.ones(reports, p_star) / reports - p_star) / gain if reports > 0 else inf


def passes(p_adjusted: Array, alpha: float) -> Mask:
    """Which rows are detected, by p-values that are corrected already."""
    with np.errstate(invalid="ignore"):
        return np.asarray(p_adjusted <= alpha)
