"""From columns of estimates to a `Decoding`: corrections for many tests, names, units, facts about the whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from hubbub.analysis.arrays import Array, Mask
from hubbub.analysis.distribution import Distribution
from hubbub.analysis.estimation.cells import Cohort, PooledTally
from hubbub.analysis.estimation.detection import Rule
from hubbub.analysis.estimation.intervals import RatioVariance, RowVariances, Variance, critical
from hubbub.analysis.kinds.kind import Pools
from hubbub.analysis.options import Correction, Options
from hubbub.analysis.result import ANSWER, NUMBER, Decoding, Diagnostics, Role
from hubbub.protocol.asked_parts import share_in_words
from hubbub.protocol.cadence import epoch_text
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.label import PERIOD


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Rows that are being made; None stands for a column that does not apply."""

    values: Sequence[str]
    roles: Sequence[Role]
    estimate: Array
    std_error: Array
    low: Array
    high: Array
    p_value: Array
    best_guess: Array
    low_selected: Array | None = None
    high_selected: Array | None = None
    variance: Variance | RatioVariance | RowVariances | None = None

    def only(self, rows: Sequence[int]) -> Columns:
        """These rows."""
        chosen = {
            field.name: column[list(rows)]
            for field in fields(self)
            if isinstance(column := getattr(self, field.name), np.ndarray)
        }
        return replace(
            self,
            values=[self.values[i] for i in rows],
            roles=[self.roles[i] for i in rows],
            variance=None if self.variance is None else self.variance.of(np.array(rows)),
            **chosen,
        )


def assemble(
    pools: Pools,
    options: Options,
    rows: Columns,
    *,
    diagnostics: Diagnostics,
    noise_floor: float,
    notes: Sequence[str] = (),
    distribution: Distribution | None = None,
    answered_only: bool = False,
    tested_besides: int = 0,
) -> Decoding:
    """`tested_besides` answers were tested and have no row: tests are corrected for them, too."""
    metric = pools[0].metric
    epochs = sorted({epoch for pool in pools for epoch in pool.epochs})
    unknown = np.full(len(rows.values), np.nan)
    return Decoding(
        metric=metric.name,
        kind=metric.kind,
        unit=metric.shape.unit,
        natural_order=pools[0].metric.shape.natural_order,
        made_of_others=metric.shape.made_of_others,
        epochs=tuple(epoch_text(metric.every, epoch) for epoch in epochs),
        estimand=options.estimand,
        of="answered" if answered_only else "all",
        confidence=options.confidence,
        correction=options.correction,
        num_reports=int(sum(pool.reports for pool in pools)),
        installs=average_installs(pools),
        noise_floor=noise_floor,
        notes=(*notes, *_history_notes(pools), *_sample_notes(pools)),
        diagnostics=diagnostics,
        values=tuple(rows.values),
        roles=tuple(rows.roles),
        estimate=rows.estimate,
        std_error=rows.std_error,
        low=rows.low,
        high=rows.high,
        p_value=rows.p_value,
        p_adjusted=adjusted(rows.p_value, rows.roles, options.alpha, options.correction, tested_besides),
        best_guess=rows.best_guess,
        low_selected=unknown if rows.low_selected is None else rows.low_selected,
        high_selected=unknown if rows.high_selected is None else rows.high_selected,
        variance=rows.variance,
        distribution=distribution,
        tested_besides=tested_besides,
    )


def _history_notes(pools: Pools) -> Iterator[str]:
    """Who is behind the figures of a metric whose answers have a history."""
    hold = pools[0].metric.hold
    if hold is None:
        return
    period = PERIOD[pools[0].metric.every]
    yield (
        f"An install is asked in one of {hold} {period}s, which its device draws: the figures of a {period} rest "
        f"on 1/{hold} of the installs, and the intervals allow for that."
    )
    if any(pool.asked == float(pool.metric.sample) for pool in pools):
        yield (
            "All were asked once in a whole period, each at a time of its own: the figures are the average of what was "
            "true at these times."
        )


def _sample_notes(pools: Pools) -> Iterator[str]:
    """Who is behind the figures of a metric that asks some of the installs only."""
    shares = sorted({pool.metric.sample for pool in pools})
    if shares[0] < 1:
        each = " and ".join(share_in_words(share) for share in shares if share < 1)
        yield (
            f"Of {each} installs, which their devices drew once: shares and intervals are about all installs, and "
            "numbers of installs are those of the reports divided by that share."
        )


def counted(rows: Columns, row: int, pools: Pools, options: Options) -> Columns:
    """The same, with a row that is a number times the installs allowed for their not being known: n reports of a share
    s are n / s installs, with a variance of n (1 - s) / s**2."""
    unsure = sum(
        pool.reports / _epochs_of_an_install(pool) * float((1 - s) / s**2)
        for pool in pools
        for s in [pool.metric.sample]
    )
    if not unsure > 0:
        return rows
    spread = np.sqrt(unsure) * abs(rows.estimate[row]) / average_installs(pools)
    reach, columns = critical(options.confidence) * spread, {}
    columns["std_error"] = np.hypot(rows.std_error[row], spread)
    columns["low"] = rows.estimate[row] - np.hypot(rows.estimate[row] - rows.low[row], reach)
    columns["high"] = rows.estimate[row] + np.hypot(rows.high[row] - rows.estimate[row], reach)
    changed = {}
    for name, value in columns.items():
        column = getattr(rows, name).copy()
        column[row] = value
        changed[name] = column
    return replace(rows, **changed)


def adjusted(p_value: Array, roles: Sequence[Role], alpha: float, correction: Correction, besides: int = 0) -> Array:
    """Answers are many and corrected for it, so are numbers; `absent` and `other` are two questions of their own."""
    found = Rule(2, alpha).adjusted(p_value)
    for of in (ANSWER, NUMBER):
        chosen = _is(of, roles)
        if chosen.any():
            its = p_value[chosen]
            rule = Rule.of(its, alpha, correction, besides if of == ANSWER else 0)
            found[chosen] = rule.adjusted(its)
    return found


def rule_of_answers(p_value: Array, roles: Sequence[Role], options: Options) -> Rule:
    """By which answers are detected."""
    return Rule.of(p_value[_is(ANSWER, roles)], options.alpha, options.correction)


def _is(role: Role, roles: Sequence[Role]) -> Mask:
    return np.fromiter((each == role for each in roles), dtype=bool, count=len(roles))  # of a million, too


def cohorts_of(pools: Pools) -> list[Cohort]:
    """The cohorts of all definitions, one after the other."""
    return [cohort for pool in pools for cohort in pool]


def places_of(pools: Pools) -> list[int]:
    """Which cohort of its definition each of `cohorts_of` is: an install is in the same one of each."""
    return [place for pool in pools for place in range(len(pool.cohorts))]


def average_installs(pools: Pools) -> float:
    """The installs in use in an average epoch; of a metric that is asked once, all of them. Of a sample, as many as it
    speaks for."""
    return sum(pool.reports / _epochs_of_an_install(pool) / float(pool.metric.sample) for pool in pools)


def _epochs_of_an_install(pool: PooledTally) -> float:
    """In how many of the epochs pooled an install reports that is in use in all of them."""
    if pool.metric.every == "once":
        return 1
    return max(len(pool.epochs), 1) / (pool.metric.hold or 1)


def require_same_shape(pools: Pools) -> None:
    """Kinds whose answers are numbers can be stacked only where they ask the same."""
    for other in pools[1:]:
        if other.metric.shape.to_json() != pools[0].metric.shape.to_json():
            raise Invalid(
                [
                    f"definitions of a {other.metric.kind} decoded together must ask the same, "
                    f"got two shapes of {other.metric.name}"
                ]
            )
