"""From columns of estimates to a `Decoding`: corrections for many tests, names, units, facts about the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hubbub.analysis.estimation.cells import Pool
from hubbub.analysis.estimation.intervals import adjust
from hubbub.analysis.estimation.tree import Tree
from hubbub.analysis.options import Options
from hubbub.analysis.result import ANSWER, Array, Decoding, Diagnostics
from hubbub.protocol.cadence import epoch_text
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Histogram, String


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Rows in the making; None stands for a column that does not apply."""

    values: Sequence[str]
    roles: Sequence[str]
    estimate: Array
    std_error: Array
    low: Array
    high: Array
    p_value: Array
    best_guess: Array
    low_selected: Array | None = None
    high_selected: Array | None = None


def assemble(
    pools: Sequence[Pool],
    options: Options,
    rows: Columns,
    *,
    diagnostics: Diagnostics,
    noise_floor: float,
    notes: Sequence[str] = (),
    tree: Tree | None = None,
    answered_only: bool = False,
) -> Decoding:
    metric = pools[0].metric
    epochs = sorted({epoch for pool in pools for epoch in pool.epochs})
    reports = sum(pool.reports for pool in pools)
    unknown = np.full(len(rows.values), np.nan)
    unit = getattr(metric.shape, "unit", "")
    return Decoding(
        metric=metric.name,
        kind=metric.kind,
        unit=unit,
        epochs=tuple(epoch_text(metric.every, epoch) for epoch in epochs),
        estimand=options.estimand,
        of="answered" if answered_only else "all",
        confidence=options.confidence,
        correction=options.correction,
        num_reports=int(reports),
        installs=sum(pool.reports / max(len(pool.epochs), 1) for pool in pools),
        noise_floor=noise_floor,
        notes=tuple(notes),
        diagnostics=diagnostics,
        values=tuple(rows.values),
        roles=tuple(rows.roles),
        estimate=rows.estimate,
        std_error=rows.std_error,
        low=rows.low,
        high=rows.high,
        p_value=rows.p_value,
        p_adjusted=adjusted(rows.p_value, rows.roles, options.correction),
        best_guess=rows.best_guess,
        low_selected=unknown if rows.low_selected is None else rows.low_selected,
        high_selected=unknown if rows.high_selected is None else rows.high_selected,
        tree=tree,
    )


def adjusted(p_value: Array, roles: Sequence[str], correction: str) -> Array:
    """Answers are many and corrected for it; `absent` and `other` are two questions of their own."""
    is_answer = np.array([role == ANSWER for role in roles], dtype=bool)
    apart = np.minimum(2 * p_value, 1)
    return np.where(is_answer, adjust(np.where(is_answer, p_value, np.nan), correction), apart)


def attack_radius(pools: Sequence[Pool], fake_share: float) -> float:
    """How far fake reports can move a share: each says 1 where honest ones that lack the answer say it with p*.

    For many-bit noise at its best this is fake_share x 2E/(E - 1) (Cao, Jia, Gong 2021). Of strings the mass outside
    the list is estimated, too: a fake with the target's bits alone pulls that down and so the target up, by
    1/(q* - p*). A fake picks its cohort: those asked about a bucket are a part of everyone, in which it weighs more.
    """
    return fake_share * max(_pull(pool) for pool in pools)


def _pull(pool: Pool) -> float:
    wire = pool.cohorts[0].wire
    match pool.metric.shape:
        case String():
            return 1 / wire.gain
        case Histogram(buckets_per_report=asked) as shape:
            return shape.num_buckets / asked * (1 - wire.p_star) / wire.gain
    return (1 - wire.p_star) / wire.gain


def require_same_shape(pools: Sequence[Pool]) -> None:
    """Kinds whose answers are numbers can be stacked only where they ask the same."""
    for other in pools[1:]:
        if other.metric.shape != pools[0].metric.shape:
            raise Invalid(
                [
                    f"definitions of a {other.metric.kind} decoded together must ask the same, "
                    f"got two shapes of {other.metric.name}"
                ]
            )
