"""The result of decoding two answers at once: a table, its margins, shares of one answer given the other, and a test.

Arrays have a row for each category of the first factor and a column for each of the second, as do the shares given
either of them. Shares are of all installs, or of those that answered both (`of`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np

from hubbub.analysis.arrays import Array, Mask
from hubbub.analysis.estimation.independence import Independence
from hubbub.analysis.estimation.intervals import Ratios
from hubbub.analysis.estimation.joint_intervals import Contrast
from hubbub.analysis.kinds.factor import Categories
from hubbub.analysis.optional import need
from hubbub.analysis.options import Correction, Estimand, Whom
from hubbub.analysis.result import epoch_span
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.segments import Segment, in_words

Way = Literal["pair", "cross"]
"""How two answers came together: counted by the collector, or asked as one question."""

COLUMNS = (
    "table",
    "segment",
    "epochs",
    "share_of",
    "given",
    "first",
    "second",
    "estimate",
    "std_error",
    "low",
    "high",
    "p_value",
    "p_adjusted",
    "detected",
    "limit",
    "best_guess",
    "num_reports",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointShares:
    """Shares with their intervals. `limit` is the estimate from which on one would be detected; `detected` is nowhere
    true where nothing was tested. What is not known is nan."""

    estimate: Array  # unbiased; may come out below 0 or above 1
    std_error: Array
    low: Array
    high: Array
    p_value: Array  # of the test that nobody is there
    p_adjusted: Array  # corrected for all cells that were tested
    detected: Mask
    limit: Array
    best_guess: Array  # possible: no negative share, and all add up to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearestDifference:
    """The clearest difference of a table: one category of the outcome, given two categories of the other factor."""

    outcome: int  # which category of the factor that is explained
    complement: bool  # whether those are meant who have any other category of it
    more: int  # given this category of the other factor it is more common
    less: int  # than given this one
    contrast: Contrast  # of the two shares; its interval allows for all differences it was chosen from
    chosen_from: int  # so many
    detectable: float  # the difference between these two that is found nine times in ten


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Shares of the categories of one factor among the installs in each category of the other, which is `given`: those
    in each of its categories add up to 1."""

    given: int  # 0: the first factor, row by row; 1: the second, column by column
    shares: JointShares
    clearest: ClearestDifference | None  # None where there are no two categories to compare
    means: Ratios | None  # average of the other factor in each category of the given one, if that is a number


@dataclass(frozen=True, slots=True, kw_only=True)
class Crosstab:
    """Two answers at once."""

    name: str  # of the pair or of the cross
    way: Way  # a pair that was counted together, or a cross that was asked as one
    factors: tuple[Categories, Categories]  # the two answers: their names and categories
    segment: Segment = ()  # the installs it is about; empty: all
    epochs: tuple[str, ...]  # the days, weeks or months pooled, in order
    estimand: Estimand  # which installs the intervals describe
    of: Whom  # what shares are parts of: everyone, or those who answered both
    confidence: float  # of all intervals, such as 0.95
    correction: Correction  # how p_adjusted allows for many cells
    num_reports: int  # batches with one report of both, or reports of the cross
    installs: float  # installs behind a share of 1
    cells: JointShares  # of all installs
    margins: tuple[JointShares, JointShares]  # of each factor
    given: tuple[Given, Given]  # given the first factor, given the second
    independence: Independence  # the test of whether the answers go together, and its power
    absent: float  # the share of installs that gave no answer to one of the two; 0 where silence is an answer
    notes: tuple[str, ...]  # what a reader must know, in sentences
    fake_share: float  # the assumed share of fake reports
    attack_radius: float  # how far that share of fake reports could have moved a cell

    @property
    def title(self) -> str:
        """Its name and, if it is about some installs only, which."""
        return ", ".join(filter(None, (self.name, in_words(self.segment))))

    @property
    def shape(self) -> tuple[int, int]:
        """How many categories the two answers have."""
        return len(self.factors[0]), len(self.factors[1])

    @property
    def related(self) -> bool:
        """Whether the answers are surely not independent."""
        return bool(self.independence.p_value <= 1 - self.confidence)

    def factor(self, name: str) -> int:
        """Which of the two factors has this name. Raises `Invalid` for any other."""
        names = [factor.name for factor in self.factors]
        if name not in names:
            raise Invalid([f"a factor of {self.name} must be one of {', '.join(names)}, got {name!r}"])
        return names.index(name)

    def columns(self) -> dict[str, list[Any]]:
        """The tidy table: all cells as shares of all installs, then given the first factor, given the second, then both
        margins, in which the other factor is empty."""
        found: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        first, second = self.factors
        everywhere = [(one, other) for one in first.values for other in second.values]
        parts = [
            ("all", "", everywhere, self.cells),
            ("given", first.name, everywhere, self.given[0].shares),
            ("given", second.name, everywhere, self.given[1].shares),
            ("margin", "", [(one, "") for one in first.values], self.margins[0]),
            ("margin", "", [("", other) for other in second.values], self.margins[1]),
        ]
        for share_of, given, places, shares in parts:
            size = len(places)
            tested = ~np.isnan(shares.p_adjusted.ravel())
            found["table"] += [self.name] * size
            found["segment"] += [in_words(self.segment)] * size
            found["epochs"] += [epoch_span(self.epochs)] * size
            found["share_of"] += [share_of] * size
            found["given"] += [given] * size
            found["first"] += [one for one, _ in places]
            found["second"] += [other for _, other in places]
            found["num_reports"] += [self.num_reports] * size
            found["detected"] += [bool(d) if t else None for d, t in zip(shares.detected.ravel(), tested, strict=True)]
            for name in COLUMNS:
                if name not in _NOT_NUMBERS:
                    column = getattr(shares, name).ravel()
                    found[name] += [float(x) if np.isfinite(x) else None for x in column]
        return found

    def rows(self) -> Iterator[dict[str, Any]]:
        """The tidy table, row by row."""
        for cells in zip(*self.columns().values(), strict=True):
            yield dict(zip(COLUMNS, cells, strict=True))

    def to_pandas(self) -> Any:
        """A pandas DataFrame, where pandas is installed."""
        return need("pandas", "pandas").DataFrame(self.columns(), columns=list(COLUMNS))

    def to_polars(self) -> Any:
        """A polars DataFrame, where polars is installed."""
        polars = need("polars", "polars")
        texts = ("table", "segment", "epochs", "share_of", "given", "first", "second")
        schema = dict.fromkeys(COLUMNS, polars.Float64) | dict.fromkeys(texts, polars.String)
        return polars.DataFrame(
            self.columns(), schema=schema | {"detected": polars.Boolean, "num_reports": polars.Int64}
        )

    def _repr_html_(self) -> str:
        # By name, when a notebook asks: rendering knows results, and not the other way round.
        return str(import_module("hubbub.analysis.render.crosstab_text").crosstab_html(self))


_NOT_NUMBERS = frozenset(
    ("table", "segment", "epochs", "share_of", "given", "first", "second", "detected", "num_reports")
)
