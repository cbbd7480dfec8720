"""Planning: what will be seen with so many installs, and what must be collected to see so much. Pure numbers.

An answer held by a share of the installs is *seen* when `decode` detects it: by the rule of
`hubbub.analysis.estimation.detection`, over all rows that `decode` tests. Its standard error comes from the exact
channels that a registry with these epsilons would get, so the plan and the client cannot disagree. Every formula is of
one epoch and checked against exact tallies (tests/analysis/planning/test_plan.py); docs/planning.md derives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, inf, sqrt

from scipy.special import ndtr

from hubbub.analysis.estimation.detection import Rule
from hubbub.analysis.kinds import kind_of
from hubbub.analysis.kinds.kind import Goal
from hubbub.protocol import epsilon as eps
from hubbub.protocol.channel import Noise
from hubbub.protocol.invalid import require
from hubbub.protocol.shape import Shape

MOST_INSTALLS = 10**12
FEWEST_HOLDERS = 10
_MANY_ONES = 50  # standard deviation of a count, of which a half then moves the power by 0.4 points at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One metric, one epoch. For a `mean`, `share` is a distance as a share of the range.

    `values` are the candidates of a string metric, all of which are tested; unless said, as many as the `strings`
    expected. `once`: it is asked once in the life of an install, which may need less noise. Where
    `noise_given` is that of a history, an install is asked in one epoch out of `hold`, for one epsilon in all.
    `sample` is the share of installs that are asked at all. `worst` plans the answers that are told worst, where a kind
    tells some better than others.
    """

    shape: Shape
    epsilon_one_report: Fraction
    epsilon_permanent: Fraction
    installs: float = 100_000
    share: float = 0.01
    power: float = 0.8
    consent: float = 1.0
    alpha: float = 0.05
    values: int | None = None
    strings: int = 0
    once: bool = False
    noise_given: Noise | None = None
    sample: float = 1.0
    worst: bool = False

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
        if self.values is not None and self.values < 1:
            yield f"values must be at least 1, got {self.values}"
        if self.values is not None and not self.shape.open_list:
            yield f"values are the candidates of a string metric: of a {self.shape.kind} every row is tested"
        if self.strings < 0:
            yield f"strings must be at least 0, got {self.strings}"
        yield from kind_of(self.shape.form).plan_problems(self.shape, self.strings)

    @property
    def noise(self) -> Noise:
        return self.noise_given or _best_noise(self.shape, self.epsilon_one_report, self.epsilon_permanent, self.once)

    @property
    def has_history(self) -> bool:
        """Whether answers are asked again, with one epsilon for all of them."""
        return self.noise.history is not None and not self.once

    @property
    def hold(self) -> int:
        """In one out of how many epochs an install is asked."""
        return 1 if self.noise.history is None else self.noise.history.hold

    @property
    def reports(self) -> float:
        """Those of one epoch."""
        return self.installs * self.consent * self.sample / self.hold

    def std_error(self, share: float | None = None) -> float:
        """The predicted standard error of the estimate of an answer with this share. Where some of the installs are
        asked, they are a sample of all."""
        held = self.share if share is None else share
        kind = kind_of(self.shape.form)
        if self.worst and kind.worst_variance is not None:
            return sqrt(kind.worst_variance(self.shape, self.noise) / self.reports)
        of_row = kind.row_variance or kind.unit_variance
        sampled = held * (1 - held) * (1 - self.sample / self.hold) if self.goal.counts_holders else 0.0
        return sqrt((of_row(self.shape, self.noise, held, self.strings) + sampled) / self.reports)

    @property
    def rule(self) -> Rule:
        """By which `decode` will detect it."""
        candidates = max(1, self.strings) if self.values is None else self.values
        return Rule(kind_of(self.shape.form).tested(self.shape, candidates), self.alpha, self.goal.sides)

    @property
    def line(self) -> float:
        """The estimate from which an answer counts as seen."""
        kind = kind_of(self.shape.form)
        if self.worst and kind.worst_variance is not None:
            return self.rule.deviations * self.std_error()
        if kind.line is not None:
            return kind.line(self.shape, self.noise, self.share, self.strings, self.reports, self.rule)
        if kind.asked is None:
            return self.rule.deviations * self.std_error(0.0)
        return self.rule.line(*self._counted)

    @property
    def line_of_counts(self) -> float:
        """The same for a normal estimate: a count is whole, and the normal law has a count from half below it. Where
        the number asked is chance, it blurs these steps, if the line moves by half a one or more with it."""
        kind = kind_of(self.shape.form)
        if kind.line is not None or kind.asked is None:
            return self.line
        reports, p_star, gain = self._counted
        blurred = kind.asked(self.shape) < 1 and p_star * sqrt(reports) >= 0.5
        if blurred or sqrt(reports * p_star) >= _MANY_ONES:
            return self.line
        ones = ceil(self.rule.ones(reports, p_star) - 1e-9) - 0.5
        return (ones / reports - p_star) / gain

    @property
    def _counted(self) -> tuple[float, float, float]:
        """Of an answer that is counted by itself: the installs asked, p*, and q* - p*."""
        asked = kind_of(self.shape.form).asked
        p_star = float(self.noise.p_star)
        return self.reports * (asked(self.shape) if asked else 1.0), p_star, float(self.noise.q_star) - p_star

    @property
    def goal(self) -> Goal:
        """What is looked for."""
        return kind_of(self.shape.form).goal


@lru_cache(maxsize=256)  # exact, so slow; a search asks for the same one again and again
def _best_noise(shape: Shape, epsilon_one_report: Fraction, epsilon_permanent: Fraction, once: bool) -> Noise:
    return shape.best_noise(epsilon_one_report, epsilon_permanent, once)


def unit_variance(shape: Shape, noise: Noise, share: float, strings: int = 0) -> float:
    """n times the variance of the estimated share of an answer that this share of n installs holds."""
    return kind_of(shape.form).unit_variance(shape, noise, share, strings)


# --- the four unknowns --------------------------------------------------------------------------------------------


def power_of(plan: Plan) -> float:
    """How likely an answer with this share is seen. Fewer than ten holders that are asked are never promised to be: the
    normal law, by which all of this is reckoned, does not reach so far."""
    asked = kind_of(plan.shape.form).asked
    holders = plan.share * plan.reports * (1.0 if asked is None else asked(plan.shape))
    if holders < FEWEST_HOLDERS and plan.goal.counts_holders:
        return 0.0
    return float(ndtr((plan.share - plan.line_of_counts) / plan.std_error()))


def installs_for(plan: Plan) -> float:
    """How many installs show this share with this power; infinity if more than there could be."""
    return _least(lambda installs: power_of(replace(plan, installs=installs)), plan.power, 1.0, MOST_INSTALLS)


def share_for(plan: Plan) -> float:
    """The smallest share that is seen with this power; infinity if not even everybody's is."""
    return _least(lambda share: power_of(replace(plan, share=share)), plan.power, 1e-9, plan.goal.most)


def epsilon_for(plan: Plan) -> float:
    """The least epsilon_one_report that shows this share; the permanent one grows with it where it must."""

    def reached(epsilon: float) -> float:
        one = Fraction(round(epsilon * 10_000), 10_000)
        permanent = max(one, plan.epsilon_permanent)
        return power_of(replace(plan, epsilon_one_report=one, epsilon_permanent=permanent))

    found = _least(reached, plan.power, float(eps.SMALLEST), float(eps.LARGEST), steps=18)
    if found == inf:
        return found
    thousandths = -(-found * 1000 // 1)
    while reached(thousandths / 1000) < plan.power:  # where a line is at the next whole count, power falls a little
        thousandths += 1
    return float(thousandths / 1000)


def _least(power: Callable[[float], float], wanted: float, low: float, high: float, steps: int = 60) -> float:
    """The least argument with the wanted power, by bisection of its logarithm: power rises with it."""
    if power(high) < wanted:
        return inf
    if power(low) >= wanted:
        return low
    for _ in range(steps):
        middle = sqrt(low * high)
        low, high = (low, middle) if power(middle) >= wanted else (middle, high)
        if high < low * (1 + 1e-10):
            break
    return high
