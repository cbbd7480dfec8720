"""When a value counts as detected: the one rule that `decode` applies and `plan` promises.

Every row that is an answer is tested, against nobody holding it. The test has one side, because a share below nothing
is no discovery; and the error is shared out over all rows that are tested (Bonferroni), so that with probability
1 - alpha no detection is false. A number has no such test: a difference from a given number is seen when that number is
outside the interval, which has two sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import scipy  # its larger parts are loaded where they are asked for: half of a command's start
from scipy.special import betainc

from hubbub.analysis.estimation.intervals import exceeded_with


@dataclass(frozen=True, slots=True)
class Rule:
    """So many rows are tested, each on so many sides, with probability alpha that any detection is false."""

    tests: int
    alpha: float
    sides: int = 1

    @property
    def level(self) -> float:
        """The p-value from which down a row is detected."""
        return self.alpha / (self.sides * max(self.tests, 1))

    @property
    def deviations(self) -> float:
        """How many standard errors, taken where nobody holds it, a normal estimate must reach."""
        return exceeded_with(self.level)

    def ones(self, reports: float, p_star: float) -> float:
        """How many ones of so many reports are needed where each is a one with p* if nobody holds the answer.

        P(Binomial >= c) = I_p(c, n - c + 1), solved for c as a real number: a count must reach it.
        """
        if not 0 < p_star < 1:
            return reports * p_star + self.deviations * sqrt(reports * p_star * (1 - p_star))

        def excess(count: float) -> float:
            return float(betainc(count, reports - count + 1, p_star)) - self.level

        most = reports + 1 - 1e-12
        return float(scipy.optimize.brentq(excess, 1e-12, most)) if excess(most) < 0 else reports + 1
