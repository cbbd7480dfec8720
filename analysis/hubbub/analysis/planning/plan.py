"""Planning: what will be seen with so many installs, and what must be collected to see so much. Pure numbers.

An answer held by a share of the installs is *seen* when its estimate passes the line that noise alone would pass with
probability alpha / 2, shared out over all values looked at (Bonferroni). Its standard error comes from the exact
channels that a registry with these epsilons would get, so the plan and the client cannot disagree. Every formula is of
one epoch and checked against exact tallies (tests/analysis/test_plan.py); docs/planning.md derives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import inf, sqrt

from scipy import stats

from hubbub.protocol import epsilon as eps
from hubbub.protocol.channel import Noise
from hubbub.protocol.invalid import require
from hubbub.protocol.kinds import Histogram, Mean, Range, String
from hubbub.protocol.shape import Shape

MOST_INSTALLS = 10**12
FEWEST_HOLDERS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One metric, one epoch. For a `mean`, `share` is a distance as a share of the range."""

    shape: Shape
    epsilon_one_report: Fraction
    epsilon_permanent: Fraction
    installs: float = 100_000
    share: float = 0.01
    power: float = 0.8
    consent: float = 1.0
    alpha: float = 0.05
    values: int = 1
    strings: int = 0
    noise_given: Noise | None = None

    def __post_init__(self) -> None:
        require(self._broken_rules())

    def _broken_rules(self) -> Iterator[str]:
        for name in ("epsilon_one_report", "epsilon_permanent"):
            value = getattr(self, name)
            if not eps.SMALLEST <= value <= eps.LARGEST:
                yield f"{name} must be in [{float(eps.SMALLEST):g}, {float(eps.LARGEST):g}], got {float(value):g}"
        if self.epsilon_one_report > self.epsilon_permanent:
            yield (
                f"epsilon_one_report must be at most epsilon_permanent={float(self.epsilon_permanent):g}, "
                f"got {float(self.epsilon_one_report):g}"
            )
        if not 1 <= self.installs <= MOST_INSTALLS:
            yield f"installs must be in [1, {MOST_INSTALLS:.0e}], got {self.installs:g}"
        for name in ("share", "power", "consent", "alpha"):
            value = getattr(self, name)
            if not 0 < value < 1 and not (value == 1 and name in ("share", "consent")):
                yield f"{name} must be above 0 and below 1, got {value:g}"
        if self.values < 1:
            yield f"values must be at least 1, got {self.values}"
        if self.strings < 0:
            yield f"strings must be at least 0, got {self.strings}"
        if isinstance(self.shape, String) and self.strings >= self.shape.num_bits * self.shape.num_cohorts:
            cells = self.shape.num_bits * self.shape.num_cohorts
            yield f"strings must be below num_bits x num_cohorts = {cells}, got {self.strings}"

    @property
    def noise(self) -> Noise:
        return self.noise_given or _best_noise(self.shape, self.epsilon_one_report, self.epsilon_permanent)

    @property
    def reports(self) -> float:
        return self.installs * self.consent

    def std_error(self, share: float | None = None) -> float:
        """The predicted standard error of the estimate of an answer with this share."""
        held = self.share if share is None else share
        return sqrt(unit_variance(self.shape, self.noise, held, self.strings) / self.reports)

    @property
    def line(self) -> float:
        """The estimate from which an answer counts as seen."""
        none = 0.5 if isinstance(self.shape, Mean) else 0.0
        return float(stats.norm.isf(self.alpha / (2 * self.values))) * self.std_error(none)


@lru_cache(maxsize=256)  # exact, so slow; a search asks for the same one again and again
def _best_noise(shape: Shape, epsilon_one_report: Fraction, epsilon_permanent: Fraction) -> Noise:
    return shape.best_noise(epsilon_one_report, epsilon_permanent)


# --- variances ----------------------------------------------------------------------------------------------------


def unit_variance(shape: Shape, noise: Noise, share: float, strings: int = 0) -> float:
    """n times the variance of the estimated share of an answer that this share of n installs holds."""
    match shape:
        case String():
            return _string_variance(shape, noise, share, strings)
        case Mean():
            # Of a population, where the number lies in the middle of its range: the worst place.
            q, p = float(noise.q_star), float(noise.p_star)
            ones = (p + q) / 2
            return ones * (1 - ones) / (q - p) ** 2
        case Histogram():
            asked = shape.num_buckets / shape.buckets_per_report
            return asked * bit_variance(noise, share) + (asked - 1) * share * (1 - share)
        case Range():
            levels = shape.num_levels
            own = levels * (bit_variance(noise, share) + share * (1 - share))
            return own * tree_gain(shape.branching, levels) - share * (1 - share)
        case _:
            return bit_variance(noise, share)


def bit_variance(noise: Noise, share: float) -> float:
    """n Var of the share behind one bit: p*(1 - p*)/(q* - p*)**2 + share (1 - p* - q*)/(q* - p*)."""
    q, p = float(noise.q_star), float(noise.p_star)
    return p * (1 - p) / (q - p) ** 2 + share * (1 - p - q) / (q - p)


def _string_variance(shape: String, noise: Noise, share: float, strings: int) -> float:
    """A string is seen at its h positions of k; of all other strings the share h/k falls there too, by chance.

    So a position is set for `share + (1 - share) h/k` of the installs, which is solved for the share: (1 - h/k)**-2 is
    the price of few bits. Several strings in one system of m k equations inflate by 1/(1 - strings/(m k)). A single bit
    is a position of two.
    """
    hashes, bits = (shape.num_hashes, shape.num_bits) if shape.num_bits > 1 else (1, 2)
    background = hashes / bits
    own = bit_variance(noise, share + (1 - share) * background) / (hashes * (1 - background) ** 2)
    return own / (1 - strings / (shape.num_bits * shape.num_cohorts))


def tree_gain(branching: int, levels: int) -> float:
    """The variance of a leaf by least squares over the whole tree, in units of one node's own variance.

    All levels see every contrast between siblings of a level above them, each at B times the variance of the one
    before (Hay, Rastogi, Miklau, Suciu 2010, solved level by level): contrasts of level l have precision
    1 + 1/B + ... over the levels from l down, and reach a leaf divided by B for each level between.
    """
    found = 0.0
    for level in range(1, levels + 1):
        precision = sum(float(branching) ** (level - deeper) for deeper in range(level, levels + 1))
        found += (1 - 1 / branching) / (precision * float(branching) ** (2 * (levels - level)))
    whole = sum(float(branching) ** -level for level in range(1, levels + 1))
    return found + 1 / (whole * float(branching) ** (2 * levels))


# --- the four unknowns --------------------------------------------------------------------------------------------


def power_of(plan: Plan) -> float:
    """How likely an answer with this share is seen. Fewer than ten holders are never promised to be: the normal law,
    by which all of this is reckoned, does not reach so far."""
    if plan.share * plan.reports < FEWEST_HOLDERS and not isinstance(plan.shape, Mean):
        return 0.0
    return float(stats.norm.sf((plan.line - plan.share) / plan.std_error()))


def installs_for(plan: Plan) -> float:
    """How many installs show this share with this power; infinity if more than there could be."""
    return _least(lambda installs: power_of(replace(plan, installs=installs)), plan.power, 1.0, MOST_INSTALLS)


def share_for(plan: Plan) -> float:
    """The smallest share that is seen with this power; infinity if not even everybody's is."""
    return _least(lambda share: power_of(replace(plan, share=share)), plan.power, 1e-9, 1.0)


def epsilon_for(plan: Plan) -> float:
    """The least epsilon_one_report that shows this share; the permanent one grows with it where it must."""

    def reached(epsilon: float) -> float:
        one = Fraction(round(epsilon * 10_000), 10_000)
        permanent = max(one, plan.epsilon_permanent)
        return power_of(replace(plan, epsilon_one_report=one, epsilon_permanent=permanent))

    found = _least(reached, plan.power, float(eps.SMALLEST), float(eps.LARGEST), steps=18)
    return found if found == inf else -(-found * 1000 // 1) / 1000


def _least(power: Callable[[float], float], wanted: float, low: float, high: float, steps: int = 60) -> float:
    """The least argument with the wanted power, by bisection of its logarithm: power rises with it."""
    if power(high) < wanted:
        return inf
    if power(low) >= wanted:
        return low
    for _ in range(steps):
        middle = sqrt(low * high)
        low, high = (low, middle) if power(middle) >= wanted else (middle, high)
    return high
