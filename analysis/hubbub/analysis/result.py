"""The result of decoding: one row for each value, with all that is known about it, as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.analysis.columns import ABSENT as ABSENT
from hubbub.analysis.columns import ANSWER as ANSWER
from hubbub.analysis.columns import COLUMNS as COLUMNS
from hubbub.analysis.columns import NUMBER as NUMBER
from hubbub.analysis.columns import OTHER as OTHER
from hubbub.analysis.columns import epoch_span as epoch_span
from hubbub.analysis.estimation.tree import Tree
from hubbub.analysis.optional import need

Array = npt.NDArray[np.float64]


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
    estimand: str
    of: str
    confidence: float
    correction: str
    num_reports: int
    installs: float
    noise_floor: float
    notes: tuple[str, ...]
    diagnostics: Diagnostics
    values: tuple[str, ...]
    roles: tuple[str, ...]
    estimate: Array
    std_error: Array
    low: Array
    high: Array
    p_value: Array
    p_adjusted: Array
    best_guess: Array
    low_selected: Array
    high_selected: Array
    tree: Tree | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def detected(self) -> npt.NDArray[np.bool_]:
        """Rows whose value is surely there; never true for rows that have no test."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.p_adjusted <= 1 - self.confidence)

    @property
    def counts(self) -> Array:
        """Estimated installs behind each share (the average over pooled epochs); numbers stay as they are."""
        share = np.array([role != NUMBER for role in self.roles], dtype=bool)
        return np.where(share, self.estimate * self.installs, np.nan)

    def index(self, value: str, role: str = ANSWER) -> int:
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
