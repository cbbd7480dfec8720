"""A number whose average is wanted: one of a few points of the range, to which it was rounded by chance.

With two points that is Microsoft's 1-bit mean. More are better from an epsilon of about 1.3 on: what is said wrongly
is then mostly said about the points, and what rounding blurs is less.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from fractions import Fraction

from hubbub.protocol.channel import Flips, Noise
from hubbub.protocol.encoding import ABSENT, DITHER_BITS, Encoded, number_within
from hubbub.protocol.epsilon import exp_below
from hubbub.protocol.invalid import say
from hubbub.protocol.noise import kary_noise
from hubbub.protocol.shape import ONE_BIT, ONE_OF_MANY, NumberShape, broken_limits
from hubbub.protocol.value import cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hubbub.protocol.history import History
    from hubbub.protocol.vocabulary import Apart

MOST_POINTS = 64


class Mean(NumberShape, kw_only=True):
    """A number from `low` to `high`, rounded to one of `points` evenly spaced ones; `absent` stands for an epoch in
    which nothing was recorded, or is "apart", a category of its own behind the points."""

    kind = "mean"
    one_figure = True
    low: Fraction
    high: Fraction
    absent: Fraction | Apart
    unit: str = ""
    points: int = 2

    def _broken_rules(self) -> Iterator[str]:
        yield from broken_limits(self.low, self.high)
        if self.absent != "apart" and not self.low <= self.absent <= self.high:
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
    def form(self) -> str:
        return "mean_apart" if self.asks_absence else "mean"

    @cached_property
    def asks_absence(self) -> bool:
        return self.absent == "apart"

    @cached_property
    def num_masks(self) -> int:
        return self.points + self.asks_absence

    @cached_property
    def categories(self) -> int | None:
        return self.num_masks if self.num_masks > 2 else None

    @cached_property
    def only_categories(self) -> bool:
        return self.categories is not None

    @cached_property
    def one_of_what(self) -> str:
        return f"point of the range{', or that nothing was recorded,' if self.asks_absence else ''}"

    @cached_property
    def slots_in_words(self) -> str:
        return f"points {self.points}{' with absence apart' if self.asks_absence else ''}"

    @cached_property
    def flips(self) -> Flips:
        return ONE_BIT if self.categories is None else ONE_OF_MANY

    def width(self, cohort: int) -> int:
        return self.categories or 1

    def encode(self, value: Any, cohort: int, dither: int = 0) -> Encoded:
        if value is ABSENT and self.asks_absence:
            return Encoded(1 << self.points)
        point, clamped = self._point_of(value, dither)
        return Encoded(point if self.categories is None else 1 << point, clamped)

    def port_facts(self) -> dict[str, Any] | None:
        return None if self.asks_absence else self.plain_fields()

    def _point_of(self, value: Any, dither: int) -> tuple[int, bool]:
        """The point to which a value is rounded, and whether it had to be moved into the limits."""
        number, clamped = number_within(self.absent if value is ABSENT else value, self.low, self.high)
        return _rounded(number, self.low, self.high, self.points - 1, dither), clamped

    @cached_property
    def told_apart(self) -> tuple[str, ...]:
        step = (self.high - self.low) / (self.points - 1)
        return tuple(say(self.low + i * step) for i in range(self.points))

    def told_as(self, value: Any, dither: int) -> int:
        return self.points if value is ABSENT and self.asks_absence else self._point_of(value, dither)[0]

    @cached_property
    def silence_is_an_answer(self) -> bool:
        return self.asks_absence

    def question(self) -> str:
        return f"{self.limits_in_words()}{' or none' if self.asks_absence else ''}, for its average"

    def suited(self, epsilon_one_report: Fraction, given: Collection[str], max_answers: int | None = None) -> Mean:
        """No more points than answers: a number that moves over more of them would have to repeat an older answer, and
        the average would lag behind. With one answer it lags behind whatever the points. Absence takes an answer, too,
        where it is asked apart."""
        if "points" in given:
            return self
        most = MOST_POINTS if max_answers is None or max_answers < 2 else max(max_answers - self.asks_absence, 2)
        return self.replace(points=min(best_points(epsilon_one_report, self.asks_absence), most))

    def with_more_slots(self, epsilon_one_report: Fraction) -> tuple[int, float] | None:
        best, odds = self.suited(epsilon_one_report, ()), exp_below(epsilon_one_report)
        if best.points <= self.points:
            return None
        then, now = (worst_variance(shape.points, odds, self.asks_absence) for shape in (best, self))
        return best.num_masks, float(then / now) ** 0.5

    def best_noise(self, epsilon_one_report: Fraction, epsilon_permanent: Fraction, once: bool = False) -> Noise:
        if self.categories is None:
            return super().best_noise(epsilon_one_report, epsilon_permanent)
        return kary_noise(epsilon_one_report, epsilon_permanent, self.categories)

    def suited_to_history(self, epsilon: Fraction, answers: int, given: Collection[str]) -> Mean:
        if "points" in given:
            return self
        return self.replace(points=best_points_of_history(epsilon, answers, self.asks_absence))

    def best_history(self, epsilon: Fraction, hold: int, answers: int) -> History:
        from hubbub.protocol.history import history_of_categories  # here and below, because few registries have one

        return history_of_categories(epsilon, hold, answers, self.num_masks)

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


def best_points(epsilon: Fraction, apart: bool = False) -> int:
    """How many points have the least error at this epsilon for one report, where the number is the worst for them.
    `apart`: beside one more category, that nothing was recorded."""
    odds = exp_below(epsilon)
    return _fewest_errors(lambda points: worst_variance(points, odds, apart))


def best_points_of_history(epsilon: Fraction, answers: int, apart: bool = False) -> int:
    """The same for one epoch of a history of this many answers."""
    from hubbub.protocol.history import history_of_categories

    def cost(points: int) -> Fraction:
        history = history_of_categories(epsilon, 1, answers, points + apart)
        return worst_variance(points, history.odds_after(1), apart)

    return _fewest_errors(cost)


def _fewest_errors(cost: Callable[[int], Fraction]) -> int:
    best = 2
    while best < MOST_POINTS and cost(best + 1) < cost(best):
        best += 1
    return best


def worst_variance(points: int, odds: Fraction, apart: bool = False) -> Fraction:
    """n Var of the mean on [-1, 1] of numbers that are all t, at the worst t, by one of this many categories with these
    odds: (b sum v**2 + (a - b) E[v**2 | t]) / (a - b)**2 - t**2. Between two points E[v**2 | t] is a line.

    Apart, where all have answered: a ratio, the sum over those who answered by their number. Of report j it is off by
    v_j - t, of a report of absence by nothing: (b sum (v - t)**2 + (a - b) E[(v - t)**2 | t]) / (a - b)**2.
    """
    n, d = odds.as_integer_ratio()  # in whole numbers as far as they go: an app that starts waits for this
    steps, gain, total = points - 1, n - d, n + (points - 1 + apart) * d  # a - b = gain / total, b = d / total
    scale = Fraction(total, gain**2)
    quadratic = (d * points - gain) * scale if apart else Fraction(-1)  # of t**2
    squares = sum((2 * j - steps) ** 2 for j in range(points))
    worst = Fraction(0)
    for left in range(-(steps % 2), steps, 2):  # v in units of 1 / steps; the other half is its mirror image
        middle, ends = left + 1, (Fraction(left), Fraction(left + 2))
        if quadratic < 0:  # then it is concave between two points, and highest where its derivative is 0
            ends = (min(max(-gain * middle * scale / quadratic, ends[0]), ends[1]),) * 2
        for t in set(ends):
            square = left**2 + 2 * middle * (t - left)
            worst = max(worst, (d * squares + gain * square) * scale + quadratic * t * t)
    return worst / steps**2
