"""How many digits a number deserves: as many as its interval can tell, and no more.

The half width of an interval is rounded to one digit, or two if it begins with 1, and the estimate gets as many
decimals: 62.3 % ± 0.9, 1.94 s. A column has one number of decimals, that of its narrowest interval. A share is never
written below 0 or above 100 %: what lies beyond is noise, and stands in the downloads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

from hubbub.protocol.invalid import plural

SPACE = "\N{NO-BREAK SPACE}"
MOST_DECIMALS = 6


def decimals_of(half_width: float) -> int | None:
    """The decimals of a number that is known to so much; below 0: whole tens, hundreds. None where that is unknown."""
    if not isfinite(half_width) or half_width <= 0:
        return None
    mantissa, _, exponent = f"{half_width:.6e}".partition("e")
    return min(-int(exponent) + mantissa.startswith("1"), MOST_DECIMALS)


@dataclass(frozen=True, slots=True)
class Digits:
    """How the numbers of one column are written."""

    decimals: int | None
    unit: str = ""
    is_share: bool = False

    @classmethod
    def of(cls, intervals: Iterable[tuple[float, float]], *, unit: str = "", is_share: bool = False) -> Digits:
        """For numbers with these intervals: the narrowest decides."""
        found = [decimals_of((high - low) / 2 * (100 if is_share else 1)) for low, high in intervals]
        return cls(max((each for each in found if each is not None), default=None), unit, is_share)

    def figure(self, x: float) -> str:
        """The number alone: `62.3`."""
        if not isfinite(x):
            return "unknown"
        return self._written(100 * min(max(x, 0.0), 1.0) if self.is_share else x)

    def value(self, x: float) -> str:
        """With its unit: `62.3 %`."""
        return self.with_unit(self.figure(x)) if isfinite(x) else "unknown"

    def difference(self, x: float) -> str:
        """How far apart two of them are, without a sign: `6 points`, `0.20 s`."""
        if not isfinite(x):
            return "unknown"
        written = self._written(abs(100 * x) if self.is_share else abs(x))
        if self.is_share:
            return plural(written, "point").replace(" ", SPACE)
        return self.with_unit(written)

    def signed(self, low: float, high: float) -> str:
        """The interval of a difference: `−1.2 to +0.4 points`."""
        if not (isfinite(low) and isfinite(high)):
            return "unknown"
        ends = [self._with_sign(100 * x if self.is_share else x) for x in (low, high)]
        words = ends[0] if low == high else " to ".join(ends)
        return f"{words}{SPACE}points" if self.is_share else self.with_unit(words)

    def interval(self, low: float, high: float) -> str:
        """`61.4 to 63.2 %`."""
        return self.with_unit(f"{self.figure(low)} to {self.figure(high)}")

    def spread(self, estimate: float, low: float, high: float) -> str:
        """For narrow rows: `± 0.9` if it is symmetric to that digit, else `(61.4 to 63.2)`."""
        scale = 100 if self.is_share else 1
        ends = [scale * min(max(x, 0.0), 1.0) if self.is_share else x for x in (estimate, low, high)]
        down, up = ends[0] - ends[1], ends[2] - ends[0]
        if self._written(down) == self._written(up) or abs(up - down) < self._last_place / 2:
            return f"± {self._written((down + up) / 2)}"
        return f"({self.figure(low)} to {self.figure(high)})"

    def exact(self, numbers: Iterable[float]) -> Digits:
        """For round numbers, as those of an axis: as few decimals as write each of them as it is."""
        written = [100 * x if self.is_share else x for x in numbers]
        most = max((abs(x) for x in written), default=0.0)
        places = (d for d in range(MOST_DECIMALS) if all(abs(x - round(x, d)) <= 1e-6 * most for x in written))
        return Digits(next(places, MOST_DECIMALS), self.unit, self.is_share)

    @property
    def _last_place(self) -> float:
        return 0.0 if self.decimals is None else 10.0**-self.decimals

    def _with_sign(self, x: float) -> str:
        """Zero has none."""
        text = self._written(abs(x))
        return text if not text.strip("0.,") else f"{'−' if x < 0 else '+'}{text}"

    def with_unit(self, words: str) -> str:
        unit = "%" if self.is_share else self.unit
        return f"{words}{SPACE}{unit}" if unit else words

    def _written(self, x: float) -> str:
        places = self.decimals
        text = f"{x:,.3g}" if places is None else f"{round(x, places):,.{max(places, 0)}f}"
        return text.removeprefix("-") if not text.strip("-0.,") else text
