"""Means and sums of numbers that arrive as one bit: which end of the range.

Rounding to an end is random (alpha-point rounding, Ding, Kulkarni, Yekhanin 2017), so the share of installs that were
rounded up is the mean's place in the range. How far the numbers themselves spread cannot be seen through one bit. For a
sample of a population the bit's variance is binomial whatever the spread; for the installs that reported it is at
most that, with equality where all hold the same number. Both estimands therefore get the binomial interval, exact
for the one and on the careful side for the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hubbub.analysis.estimation.cells import Pool
from hubbub.analysis.estimation.intervals import score_interval
from hubbub.analysis.estimation.shares import shares
from hubbub.analysis.kinds.rows import Columns, assemble, require_same_shape
from hubbub.analysis.options import Options
from hubbub.analysis.result import NUMBER, Decoding, Diagnostics
from hubbub.protocol.kinds import Mean


def decode_mean(pools: Sequence[Pool], options: Options) -> Decoding:
    require_same_shape(pools)
    shape = pools[0].metric.shape
    assert isinstance(shape, Mean)
    low_end, span = float(shape.low), float(shape.high - shape.low)
    found = shares(pools, [[[0]] for _ in pools], 1, "population")
    low, high = score_interval(found.estimate, found.variance, options.confidence)
    installs = sum(pool.reports / max(len(pool.epochs), 1) for pool in pools)
    # The mean, and the sum over the installs of an average epoch.
    factor = np.array([1.0, installs])
    rows = Columns(
        values=["mean", "sum"],
        roles=[NUMBER, NUMBER],
        estimate=factor * (low_end + span * found.estimate),
        std_error=factor * span * found.std_error,
        low=factor * (low_end + span * np.maximum(low, 0)),
        high=factor * (low_end + span * np.minimum(high, 1)),
        p_value=np.full(2, np.nan),
        best_guess=factor * (low_end + span * np.clip(found.estimate, 0, 1)),
    )
    gain = min(pool.cohorts[0].wire.gain for pool in pools)
    return assemble(
        pools,
        options,
        rows,
        diagnostics=Diagnostics(
            cohort_p=np.full(len(pools), np.nan),
            odd_cohorts=(),
            indistinguishable=(),
            rank=1,
            num_columns=1,
            # A fake report moves the bit's share from one end to the other: by 1 / gain of the range.
            attack_radius=options.fake_share * span / gain,
            fake_share=options.fake_share,
            hidden_heavy_share=0.0,
        ),
        noise_floor=float("nan"),
        notes=_notes(shape, options),
    )


def _notes(shape: Mean, options: Options) -> list[str]:
    notes = [f"An install that recorded nothing counts as {float(shape.absent):g}."]
    if options.estimand == "reporting":
        notes.append("The interval is exact if all installs hold the same number, and wider than needed otherwise.")
    return notes
