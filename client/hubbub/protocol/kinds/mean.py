"""A number whose average is wanted: one of a few points of the range, to which it was rounded by chance.

With two points that is Microsoft's 1-bit mean. More are better from an epsilon of about 1.3 on: what is said wrongly
is then mostly said about the points, and what rounding blurs is less.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any

from hubbub.protocol.channel import Flips, Noise
from hubbub.protocol.encoding import ABSENT, DITHER_BITS, Encoded, number_within
from hubbub.protocol.epsilon import exp_below
from hubbub.protocol.history import History, history_of_categories
from hubbub.protocol.invalid import say
from hubbub.protocol.noise import kary_noise
from hubbub.protocol.shape import ONE_BIT, ONE_OF_MANY, NumberShape, broken_limits

MOST_POINTS = 64


class Mean(NumberShape, kw_only=True):
    """A number from `low` to `high`, rounded to one of `points` evenly spaced ones; `absent` stands for an epoch in
    which nothing was recorded."""

    kind = "mean"
    one_of_what = "point of the range"
    low: Fraction
    high: Fraction
    absent: Fraction
    unit: str = ""
    points: int = 2

    def _broken_rules(self) -> Iterator[str]:
        yield from broken_limits(self.low, self.high)
        if not self.low <= self.absent <= self.high:
            yield f"absent must be in [low={say(self.low)}, high={say(self.high)}], got {say(self.absent)}"
        if not 2 <= self.points <= MOST_POINTS:
            yield f"points must be in [2, {MOST_POINTS}], got {self.points}"

    @cached_property
    def limits(self) -> tuple[Fraction, Fraction]:
        return self.low, self.high

    @cached_property
    def asks_part(self) -> bool:
        return True

    @cached_property
    def num_masks(self) -> int:
        return self.points

    @cached_property
    def categories(self) -> int | None:
        return self.points if self.points > 2 else None

    @cached_property
    def only_categories(self) -> bool:
        return self.points > 2

    @cached_property
    def flips(self) -> Flips:
        return ONE_BIT if self.points == 2 else ONE_OF_MANY

    def width(self, cohort: int) -> int:
        return 1 if self.points == 2 else self.points

    def encode(self, value: Any, cohort: int, dither: int = 0) -> Encoded:
        number, clamped = number_within(self.absent if value is ABSENT else value, self.low, self.high)
        point = _rounded(number, self.low, self.high, self.points - 1, dither)
        return Encoded(point if self.points == 2 else 1 << point, clamped)

    def question(self) -> str:
        return f"{self.limits_in_words()}, for its average"

    def suited(self, epsilon_one_report: Fraction, given: Collection[str], max_answers: int | None = None) -> Mean:
        """No more points than answers: a number that moves over more of them would have to repeat an older answer, and
        the average would lag behind. With one answer it lags behind whatever the points."""
        if "points" in given:
            return self
        most = MOST_POINTS if max_answers is None or max_answers < 2 else max_answers
        return self.replace(points=min(best_points(epsilon_one_report), most))

    def best_noise(self, epsilon_one_report: Fraction, epsilon_permanent: Fraction, once: bool = False) -> Noise:
        if self.categories is None:
            return super().best_noise(epsilon_one_report, epsilon_permanent)
        return kary_noise(epsilon_one_report, epsilon_permanent, self.categories)

    def suited_to_history(self, epsilon: Fraction, answers: int, given: Collection[str]) -> Mean:
        return self if "points" in given else self.replace(points=best_points_of_history(epsilon, answers))

    def best_history(self, epsilon: Fraction, hold: int, answers: int) -> History:
        return history_of_categories(epsilon, hold, answers, self.points)

    def to_json(self) -> dict[str, Any]:
        """Of two points, nothing is said: such a definition is what it was before there were more."""
        found = super().to_json()
        if self.points == 2:
            del found["points"]
        return found


def _rounded(number: Fraction, low: Fraction, high: Fraction, steps: int, dither: int) -> int:
    """Alpha-point rounding (Ding, Kulkarni, Yekhanin 2017) to one of the two points beside the number: with t its place
    in the range, in steps, floor(t + alpha).

    alpha = dither / 2**64 is uniform over installs, so the average over them is the number itself; it is fixed for one
    install, so small changes of the number seldom change the mask. In whole numbers, t = x / of.
    """
    (n, n_of), (a, a_of), (b, b_of) = (exact.as_integer_ratio() for exact in (number, low, high))
    x, of = (n * a_of - a * n_of) * b_of * steps, n_of * (b * a_of - a * b_of)
    return ((x << DITHER_BITS) + dither * of) // (of << DITHER_BITS)


def best_points(epsilon: Fraction) -> int:
    """How many points have the least error at this epsilon for one report, where the number is the worst for them."""
    odds = exp_below(epsilon)
    best = 2
    while best < MOST_POINTS and worst_variance(best + 1, odds) < worst_variance(best, odds):
        best += 1
    return best


def best_points_of_history(epsilon: Fraction, answers: int) -> int:
    """The same for one epoch of a history of so many answers."""

    def cost(points: int) -> Fraction:
        return worst_variance(points, history_of_categories(epsilon, 1, answers, points).odds_after(1))

    best = 2
    while best < MOST_POINTS and cost(best + 1) < cost(best):
        best += 1
    return best


def worst_variance(points: int, odds: Fraction) -> Fraction:
    """n Var of the mean on [-1, 1] of numbers that are all t, at the worst t, by one category out of so many with these
    odds: (b sum v**2 + (a - b) E[v**2 | t]) / (a - b)**2 - t**2. Between two points E[v**2 | t] is a line."""
    a, b = odds / (odds + points - 1), 1 / (odds + points - 1)
    v = [Fraction(2 * j, points - 1) - 1 for j in range(points)]
    noise = b * sum(x * x for x in v)
    worst = Fraction(0)
    for left in range((points - 1) // 2, points - 1):  # the other half is its mirror image
        middle = (v[left] + v[left + 1]) / 2
        t = min(max(middle / (a - b), v[left]), v[left + 1])
        square = v[left] ** 2 + 2 * middle * (t - v[left])
        worst = max(worst, (noise + (a - b) * square) / (a - b) ** 2 - t * t)
    return worst
