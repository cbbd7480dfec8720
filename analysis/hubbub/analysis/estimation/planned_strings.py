"""What `decode` will say of a string in cells that are only planned: how sure its share is, and from where on it is
detected. Nothing is drawn here.

The planned string is held by a share f of the installs, all other strings by the rest, evenly. By chance more or fewer
of these fall on one of its cells, and the fit gives more weight to cells with fewer: so precision is averaged, not the
variance. Where it is not said how many others there are, they are many, and all cells alike.

`decode` divides the estimate by the standard error of its fit, which grows with the estimate itself, and asks how
likely an absent string scores as high on the residuals. Of few reports the counts of a cell are skewed, and so is that
law: the same function gives it (`tails.score_tail`), of residuals as they are expected to be.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp, floor, inf, log, log1p

import numpy as np
import scipy  # its larger parts are loaded where they are asked for: half of a command's start
from scipy.special import betainc, gammaln

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.detection import Rule
from hubbub.analysis.estimation.string_screen import last_level
from hubbub.analysis.estimation.tails import score_tail
from hubbub.protocol.channel import Noise

_MANY = 400  # strings on a cell, times how many are not: their number strays by a twentieth, and precision by 1/400
_CELLS = 4096  # of which residuals are expected; of more cohorts each of these stands for several
_COUNTS = 200  # of a cell, from its least to its largest
_FAR = 6.0  # standard deviations of a count: one in a billion is beyond
_FEWEST_ONES = 7.0
"""Of a cohort. With fewer the weights of a fit follow single ones, and no law that is known here holds: at 2.3 of them
decode detected in 68 to 70 % what 80 % were reckoned for, at 3.9 in 72 %, at 7.7 and 7.8 in 80 and 83 %."""
_NEAR = 0.01  # by so much reports may differ, and the law is taken for the same


@dataclass(frozen=True, slots=True)
class PlannedStrings:
    """Strings of `hashes` of `bits` in so many cohorts, of which so many are expected; 0: it is not said."""

    bits: int
    hashes: int
    cohorts: int
    noise: Noise
    strings: int

    @property
    def background(self) -> float:
        """How likely another string falls on a cell. A single bit is one of two cells, of which one is counted."""
        return 0.5 if self.bits == 1 else self.hashes / self.bits

    def unit_variance(self, share: float) -> float:
        """n times the variance of the estimate, among the installs that reported: how many of the others are in a
        cohort is chance, its own holders are not, of all cohorts together."""
        chance, others = self._others(share)
        weight = chance / self._tested(share, others)
        variance = self._true(share, others)
        return self._inflation * float((weight**2 / chance * variance).sum() / weight.sum() ** 2)

    def shortfall(self, share: float, reports: float) -> float:
        """By how much the estimate is too small on average, because weights follow the data: a cell with fewer ones by
        chance has others that seem fewer, and weighs more. Each of them takes the part 1 / cells of its error, and
        d log w = -(D' / D) times that, with D the variance by which it is weighed. What counts is how that goes with
        the residual, of which the others take back as much as if all cells had the variance that theirs have."""
        chance, others = self._others(share)
        if len(chance) == 1:
            return 0.0  # others that nobody listed are fitted together, by one share for all cells
        tested = self._tested(share, others)
        gain = float(self.noise.q_star - self.noise.p_star)
        grows = (1 - float(self.noise.q_star + self.noise.p_star)) / gain + 1 - 2 * (share + others)
        number = others * (self.strings - 1) / (1 - share) if share < 1 else 0 * others
        more = np.maximum(self._true(share, others) - float(chance @ self._true(0.0, others)), 0.0)
        moved = chance / tested * number * grows * more / tested
        return float(moved.sum() / (chance / tested).sum()) / (self._cells * reports)

    def detected_from(self, share: float, reports: float, rule: Rule) -> float:
        """The estimate from which `decode` detects a string that this share holds, if estimates were unbiased; infinite
        where it never would, and where that cannot be said."""
        deviations = self._deviations(share, reports, rule)
        q, p = float(self.noise.q_star), float(self.noise.p_star)
        ones = self.hashes * q + (self.bits - self.hashes) * p
        if deviations == inf or ones * reports / self.cohorts < _FEWEST_ONES:
            return inf

        def missing(estimate: float) -> float:
            return estimate - deviations * self._tested_error(estimate, share, reports)

        most = 1.0
        while missing(most) < 0:
            most *= 2
        estimate = float(scipy.optimize.brentq(missing, 0.0, most, xtol=1e-12, rtol=1e-9))
        return estimate + self.shortfall(share, reports)

    def _deviations(self, share: float, reports: float, rule: Rule) -> float:
        level = last_level(rule.tests, self.bits * self.cohorts, rule.level)
        # A search asks for many crowds: those that differ by a hundredth have one law, that of the smaller crowd.
        about = exp(_NEAR * floor(log(reports) / _NEAR))
        return _deviations(self, floor(share / _NEAR) * _NEAR, about, level)

    def _tested_error(self, estimate: float, share: float, reports: float) -> float:
        """The standard error of a fit that has this estimate."""
        chance, others = self._others(share)
        half = 0.5 * self.cohorts / reports  # an install: `fit.cell_variance` has at least so many in a cell
        return float(np.sqrt(self._inflation / (chance / self._tested(estimate, others, half)).sum() / reports))

    @property
    def _inflation(self) -> float:
        """Of one cell's variance over n: a string has so many cells, of whose precision the column of all others takes
        its part, and so do other strings in one system of equations."""
        return 1 / (self._cells * (1 - self.background) * (1 - self.strings / (self.bits * self.cohorts)))

    @property
    def _cells(self) -> float:
        """How many of a cohort a string has that count."""
        return 0.5 if self.bits == 1 else float(self.hashes)

    def _others(self, share: float) -> tuple[Array, Array]:
        """What share of the installs holds others that fall on a cell, and how likely that is."""
        others = self.strings - 1
        if others < 1 or others * self.background * (1 - self.background) > _MANY:
            return np.ones(1), np.array([(1 - share) * self.background])
        chance, number = _on_one_cell(others, self.background)
        return chance, (1 - share) * number / others

    def _true(self, share: float, others: Array) -> Array:
        """The variance of a cell, times the installs of its cohort."""
        return self._noise_of(share + others) + (1 - 1 / self.cohorts) * others * (1 - others)

    def _noise_of(self, share: Array) -> Array:
        q, p = float(self.noise.q_star), float(self.noise.p_star)
        return np.asarray((p * (1 - p) + share * (1 - p - q) * (q - p)) / (q - p) ** 2)

    def _tested(self, share: float, others: Array, least: float = 0.0) -> Array:
        """The variance that `decode` gives to a cell, times the installs of its cohort: all holders are sampled."""
        held = np.clip(share + others, min(least, 1.0), 1.0)
        return self._noise_of(held) + held * (1 - held)

    def residuals(self, share: float, reports: float) -> Array:
        """Weighted, as they are expected in cells without the planned string: a row for each cohort, or for some of
        them where they are many."""
        chance, others = self._others(share)
        installs = reports / self.cohorts
        p, gain = float(self.noise.p_star), float(self.noise.q_star - self.noise.p_star)
        ones = (p + gain * others)[:, np.newaxis]
        spread = _FAR * np.sqrt(installs * ones * (1 - ones)) + _FAR
        at = np.linspace(0, 1, _COUNTS)
        low, high = np.maximum(installs * ones - spread, 0), np.minimum(installs * ones + spread, installs)
        counts = np.floor(low + at * (high - low))
        below = betainc(np.maximum(installs - counts, 1e-9), counts + 1, 1 - ones)  # P(no more ones than that)
        likely = np.diff(below, axis=1, prepend=0.0) * chance[:, np.newaxis]
        weight = 1 / self._tested(0.0, others, 0.5 / installs)[:, np.newaxis]
        found = weight * ((counts / installs - p) / gain - others[:, np.newaxis])
        order = np.argsort(found, axis=None)
        total = np.cumsum(likely.ravel()[order])
        rows = min(self.cohorts, max(_CELLS // self.bits, 16))
        # As many of each size as there should be, and shuffled once for all: a cohort has its part of them by chance.
        wanted = (np.arange(rows * self.bits) + 0.5) / (rows * self.bits) * total[-1]
        cells = np.random.default_rng(0).permutation(found.ravel()[order][np.searchsorted(total, wanted)])
        shuffled = cells.reshape(rows, self.bits)
        return np.pad(shuffled, ((0, 0), (0, 1))) if self.bits == 1 else shuffled


@lru_cache(maxsize=64)
def _on_one_cell(strings: int, background: float) -> tuple[Array, Array]:
    """How likely it is that so many of the strings fall on a cell, for all numbers of them that are not too rare."""
    number = np.arange(strings + 1.0)
    ways = gammaln(strings + 1) - gammaln(number + 1) - gammaln(strings - number + 1)
    chance = np.exp(ways + number * log(background) + (strings - number) * log1p(-background))
    return chance[chance > 1e-9], number[chance > 1e-9]


@lru_cache(maxsize=1024)
def _deviations(planned: PlannedStrings, share: float, reports: float, level: float) -> float:
    """How many standard errors an absent string's score reaches with this probability."""
    rows = planned.residuals(share, reports)
    return score_tail([(rows, planned.hashes)], times=planned.cohorts / len(rows)).quantile(level)
