"""The result of decoding: one row for each value, with all that is known about it, as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal

import numpy as np

from hubbub.analysis.arrays import Array, Mask
from hubbub.analysis.distribution import Distribution
from hubbub.analysis.optional import need
from hubbub.analysis.options import Correction, Estimand, Whom

Role = Literal["answer", "absent", "other", "number"]
"""What a row is: the share of an answer, of those without one, of strings not listed; or a number in its unit."""
ANSWER: Final[Role] = "answer"
ABSENT: Final[Role] = "absent"
OTHER: Final[Role] = "other"
NUMBER: Final[Role] = "number"

COLUMNS = (
    "metric",
    "epochs",
    "value",
    "estimate",
    "std_error",
    "low",
    "high",
    "p_value",
    "p_adjusted",
    "detected",
    "best_guess",
    "low_selected",
    "high_selected",
    "num_reports",
)
_MOST_UNDETECTED = 10  # rows of long lists that are shown though they were not detected


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """What a careful reader checks before believing a table.

    `cohort_p` holds, for each cohort (a range: each level), the p-value of its residuals: a cohort that was tampered
    with or miscounted does not fit the others. `attack_radius` is how far the assumed share of fake reports could
    have moved one estimate.
    """

    cohort_p: Array
    odd_cohorts: tuple[int, ...]
    indistinguishable: tuple[tuple[str, ...], ...]
    rank: int
    num_columns: int
    attack_radius: float
    fake_share: float
    hidden_heavy_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """Estimates for every value of a metric. Shares are of all installs, or of those that answered (`of`)."""

    metric: str
    kind: str
    unit: str
    epochs: tuple[str, ...]
    estimand: Estimand
    of: Whom
    confidence: float
    correction: Correction
    num_reports: int
    installs: float
    noise_floor: float
    notes: tuple[str, ...]
    diagnostics: Diagnostics
    values: tuple[str, ...]
    roles: tuple[Role, ...]
    estimate: Array
    std_error: Array
    low: Array
    high: Array
    p_value: Array
    p_adjusted: Array
    best_guess: Array
    low_selected: Array
    high_selected: Array
    distribution: Distribution | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def detected(self) -> Mask:
        """Rows whose value is surely there; never true for rows that have no test."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.p_adjusted <= 1 - self.confidence)

    @property
    def counts(self) -> Array:
        """Estimated installs behind each share (the average over pooled epochs); numbers stay as they are."""
        share = np.array([role != NUMBER for role in self.roles], dtype=bool)
        return np.where(share, self.estimate * self.installs, np.nan)

    @property
    def has_shares(self) -> bool:
        """Whether any row is a share, and not all are numbers in their unit."""
        return any(role != NUMBER for role in self.roles)

    @property
    def is_open(self) -> bool:
        """Whether there may be values that are not listed: `other` stands for them."""
        return OTHER in self.roles

    @property
    def leading_row(self) -> int | None:
        """The row that says most: of numbers the middle one (a mean, a median), of answers the largest; None if no
        answer has an estimate."""
        numbers = [i for i, role in enumerate(self.roles) if role == NUMBER]
        if numbers:
            return numbers[(len(numbers) - 1) // 2]
        return next(iter(self.largest_answers(1)), None)

    def largest_answers(self, most: int) -> list[int]:
        """The rows of so many answers with the largest estimates, the largest first."""
        known = np.isfinite(self.estimate)
        answers = [i for i, role in enumerate(self.roles) if role == ANSWER and known[i]]
        return sorted(answers, key=lambda i: -float(self.estimate[i]))[:most]

    def top_rows(self, most: int) -> list[int]:
        """The rows to show: in their own order if they are few or numbers; of open and of long lists so many of the
        answers, the detected ones first, each the largest first, and then the rows that are no answer."""
        if NUMBER in self.roles or (not self.is_open and len(self) <= most):
            return list(range(len(self)))
        largest = np.argsort(-np.nan_to_num(self.estimate, nan=-np.inf), kind="stable")
        first = [int(i) for i in largest if self.roles[i] == ANSWER]
        detected = self.detected  # of all rows at once: asked for row by row, a million would take minutes
        found = [i for i in first if detected[i]][:most]
        rest = [i for i in first if not detected[i]][: max(0, min(most - len(found), _MOST_UNDETECTED))]
        return found + rest + [i for i, role in enumerate(self.roles) if role != ANSWER]

    def index(self, value: str, role: Role = ANSWER) -> int:
        """The row of a value."""
        for i, (found, its_role) in enumerate(zip(self.values, self.roles, strict=True)):
            if found == value and its_role == role:
                return i
        raise KeyError(f"{value!r} is no {role} row of {self.metric}")

    def columns(self) -> dict[str, list[Any]]:
        """The tidy table, column by column; what is not known or does not apply is None."""
        size = len(self)
        tested = ~np.isnan(self.p_adjusted)
        found: dict[str, list[Any]] = {
            "metric": [self.metric] * size,
            "epochs": [epoch_span(self.epochs)] * size,
            "value": list(self.values),
            "detected": [bool(d) if t else None for d, t in zip(self.detected, tested, strict=True)],
            "num_reports": [self.num_reports] * size,
        }
        for name in COLUMNS:
            if name not in found:
                column = getattr(self, name)
                found[name] = [float(x) if np.isfinite(x) else None for x in column]
        return {name: found[name] for name in COLUMNS}

    def rows(self) -> Iterator[dict[str, Any]]:
        """The tidy table, row by row."""
        columns = self.columns()
        for cells in zip(*columns.values(), strict=True):
            yield dict(zip(COLUMNS, cells, strict=True))

    def to_pandas(self) -> Any:
        """A pandas DataFrame, where pandas is installed."""
        pandas = need("pandas", "pandas")
        return pandas.DataFrame(self.columns(), columns=list(COLUMNS))

    def to_polars(self) -> Any:
        """A polars DataFrame, where polars is installed."""
        polars = need("polars", "polars")
        schema = dict.fromkeys(COLUMNS, polars.Float64) | {
            "metric": polars.String,
            "epochs": polars.String,
            "value": polars.String,
            "detected": polars.Boolean,
            "num_reports": polars.Int64,
        }
        return polars.DataFrame(self.columns(), schema=schema)

    def _repr_html_(self) -> str:
        # By name, when a notebook asks: rendering knows results, and not the other way round.
        return str(import_module("hubbub.analysis.render.text").html_table(self))


def epoch_span(epochs: tuple[str, ...]) -> str:
    """`2026-W47`, or first and last: `2026-W40..2026-W47 (8)`."""
    if not epochs:
        return ""
    return epochs[0] if len(epochs) == 1 else f"{epochs[0]}..{epochs[-1]} ({len(epochs)})"
