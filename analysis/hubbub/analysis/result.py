"""The result of decoding: one row for each value, with all that is known about it, as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal

import numpy as np

from hubbub.analysis.arrays import Array, Mask
from hubbub.analysis.distribution import Distribution
from hubbub.analysis.estimation.detection import passes
from hubbub.analysis.estimation.intervals import RatioVariance, RowVariances, Variance
from hubbub.analysis.optional import need
from hubbub.analysis.options import Correction, Estimand, Whom
from hubbub.protocol.cadence import DAY, epoch_start, epoch_text, parse_epoch
from hubbub.protocol.segments import Segment, in_words
from hubbub.protocol.vocabulary import Cadence

Role = Literal["answer", "absent", "other", "number"]
"""What a row is: the share of an answer, of those without one, of strings not listed; or a number in its unit."""
ANSWER: Final[Role] = "answer"
ABSENT: Final[Role] = "absent"
OTHER: Final[Role] = "other"
NUMBER: Final[Role] = "number"
QUANTILE: Final = "quantile "
"""Before the share, in the value of a number that is a quantile."""

COLUMNS = (
    "metric",
    "segment",
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
    "from",
    "to",
)
_MOST_UNDETECTED = 10  # rows of long lists that are shown though they were not detected


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """How many texts begin so, found without a list: tested at its level, and corrected for all that were tried."""

    text: str  # the beginning; a character that is cut within is left out
    hex: str  # its bytes in hexadecimal, also those of a character that is cut within
    length: int  # bytes that its level asks for
    too_long: bool  # whether the texts that begin so are longer than any that can be found whole
    estimate: float  # the share of installs whose text begins so
    std_error: float  # its standard error
    low: float  # interval given that it was detected
    high: float  # its upper end
    p_adjusted: float  # of the test that no text begins so


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """What a careful reader checks before believing a table. A cohort that was tampered with or miscounted does not
    fit the others."""

    cohort_p: Array  # for each cohort (a range: each level), the p-value of its residuals
    odd_cohorts: tuple[int, ...]  # those that do not fit the others
    indistinguishable: tuple[tuple[str, ...], ...]  # groups of strings that share all their bits
    rank: int  # how many columns of the design can be told apart
    num_columns: int  # how many it has
    attack_radius: float  # how far the assumed share of fake reports could have moved one estimate
    fake_share: float  # that assumed share
    hidden_heavy_share: float  # the share of bits left out of the fit because a heavy unknown string explains them


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """Estimates for every value of a metric. Shares are of all installs, or of those that answered (`of`)."""

    metric: str  # its name
    kind: str  # flag, choice, string, ...
    unit: str  # of its numbers; empty where there is none
    natural_order: bool  # whether its answers have an order of their own, as buckets have
    made_of_others: bool = False  # whether a value is an answer of each of two metrics, `linux · yes`
    segment: Segment = ()  # the installs it is about, such as those of one release; empty: all
    epochs: tuple[str, ...]  # the days, weeks or months pooled, in order
    estimand: Estimand  # which installs the intervals describe: those that reported, or those they are a sample of
    of: Whom  # what shares are parts of: everyone, or those who answered
    confidence: float  # of all intervals, such as 0.95
    correction: Correction  # how p_adjusted allows for many tests
    num_reports: int  # reports counted
    installs: float  # installs behind an estimate of 1: reports a pooled epoch has on average
    noise_floor: float  # the estimate from which on a value would be detected
    notes: tuple[str, ...]  # what a reader must know, in sentences
    diagnostics: Diagnostics  # what a careful reader checks
    values: tuple[str, ...]  # the value of each row
    roles: tuple[Role, ...]  # what each row is: answer, absent, other or number
    estimate: Array  # unbiased; a share may come out below 0 or above 1
    std_error: Array  # its standard error; of a quantile that of a normal law with so wide an interval
    low: Array  # lower end of the interval
    high: Array  # upper end of the interval
    p_value: Array  # of the test that nobody has the value; nan where there is no test
    p_adjusted: Array  # the same, corrected for all rows that were tested
    best_guess: Array
    """Possible shares with the least expected squared error, summed over rows: the average true share given the
    estimates, or the nearest possible population where answers are few. Biased: for reading, not for sums or tests."""
    low_selected: Array  # interval given that the value was detected; nan where it was not
    high_selected: Array  # its upper end
    variance: Variance | RatioVariance | RowVariances | None = None
    """Of estimates, as a function of what is true; None: not known. Quantiles have none: see `quantile_changes`."""
    distribution: Distribution | None = None  # of a range: any share, the distribution function, quantiles
    tested_besides: int = 0  # candidates of a long list, or of a search, that were tested, too, and have no row
    beginnings: tuple[Beginning, ...] = ()  # of texts that nobody listed, the shortest first

    def __len__(self) -> int:
        return len(self.values)

    @property
    def title(self) -> str:
        """The metric and, if it is about some installs only, which: `startup, platform linux`."""
        return ", ".join(filter(None, (self.metric, in_words(self.segment))))

    @property
    def detected(self) -> Mask:
        """Rows whose value is surely there; never true for rows that have no test."""
        return passes(self.p_adjusted, 1 - self.confidence)

    @property
    def counts(self) -> Array:
        """Estimated installs behind each share (the average over pooled epochs); nan for rows that are numbers, such as
        a mean or a quantile: nobody is counted by them."""
        share = np.array([role != NUMBER for role in self.roles], dtype=bool)
        return np.where(share, self.estimate * self.installs, np.nan)

    @property
    def has_shares(self) -> bool:
        """Whether any row is the share of an answer, and not all are numbers in their unit. (Beside numbers, that of
        those who gave none does not count.)"""
        return ANSWER in self.roles if NUMBER in self.roles else bool(self.roles)

    @property
    def has_one_answer(self) -> bool:
        """Whether there is a single answer, and no other could have been given."""
        return not self.is_open and self.roles.count(ANSWER) == 1

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
        row = self.find(value, role)
        if row is None:
            raise KeyError(f"{value!r} is no {role} row of {self.metric}")
        return row

    def find(self, value: str, role: Role = ANSWER) -> int | None:
        """The same; None if there is none."""
        pairs = enumerate(zip(self.values, self.roles, strict=True))
        return next((row for row, found in pairs if found == (value, role)), None)

    def columns(self) -> dict[str, list[Any]]:
        """The tidy table, column by column; what is not known or does not apply is None."""
        size = len(self)
        tested = ~np.isnan(self.p_adjusted)
        found: dict[str, list[Any]] = {
            "metric": [self.metric] * size,
            "segment": [in_words(self.segment)] * size,
            "epochs": [epoch_span(self.epochs)] * size,
            "value": list(self.values),
            "detected": [bool(d) if t else None for d, t in zip(self.detected, tested, strict=True)],
            "num_reports": [self.num_reports] * size,
            **{name: [day] * size for name, day in zip(("from", "to"), first_and_last_day(self.epochs), strict=True)},
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
            "segment": polars.String,
            "epochs": polars.String,
            "value": polars.String,
            "detected": polars.Boolean,
            "num_reports": polars.Int64,
            "from": polars.String,
            "to": polars.String,
        }
        return polars.DataFrame(self.columns(), schema=schema)

    def _repr_html_(self) -> str:
        # By name, when a notebook asks: rendering knows results, and not the other way round.
        return str(import_module("hubbub.analysis.render.text").decoding_html(self))


def first_and_last_day(epochs: tuple[str, ...]) -> tuple[str, str] | tuple[None, None]:
    """The days on which the first of these epochs begins and the last one ends, such as `2026-11-16`."""
    if not epochs:
        return None, None
    every: Cadence = "week" if "W" in epochs[0] else "day" if len(epochs[0]) == len("2026-11-16") else "month"
    first, last = parse_epoch(every, min(epochs)), parse_epoch(every, max(epochs))
    end = epoch_start(every, last + 1) // DAY - 1
    return epoch_text("day", epoch_start(every, first) // DAY), epoch_text("day", end)


def epoch_span(epochs: tuple[str, ...]) -> str:
    """`2026-W47`, or first and last: `2026-W40..2026-W47 (8)`."""
    if not epochs:
        return ""
    return epochs[0] if len(epochs) == 1 else f"{epochs[0]}..{epochs[-1]} ({len(epochs)})"
