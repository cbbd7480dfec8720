"""Means and sums of numbers that arrive as one bit: which end of the range.

Rounding to an end is random (alpha-point rounding, Ding, Kulkarni, Yekhanin 2017), so the share of installs that were
rounded up is the mean's place in the range. How far the numbers themselves spread cannot be seen through one bit. For a
sample of a population the bit's variance is binomial whatever the spread; for the installs that reported it is at
most that, with equality where all hold the same number. Both estimands therefore get the binomial interval, exact
for the one and on the careful side for the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from hubbub.analysis.estimation.shares import shares
from hubbub.analysis.kinds.kind import Goal, Kind, Pools
from hubbub.analysis.kinds.rows import Columns, assemble, average_installs, cohorts_of, places_of, require_same_shape
from hubbub.analysis.options import Options
from hubbub.analysis.result import NUMBER, Decoding, Diagnostics
from hubbub.protocol.channel import Noise
from hubbub.protocol.kinds import Mean


def decode_mean(pools: Pools, candidates: Sequence[str], options: Options) -> Decoding:
    require_same_shape(pools)
    shape = pools[0].metric.shape
    assert isinstance(shape, Mean)
    low_end, span = float(shape.low), float(shape.high - shape.low)
    found = shares(cohorts_of(pools), [[0] for _ in pools], 1, finite=0.0, places=places_of(pools))
    low, high = found.interval(options.confidence)
    # The mean, and the sum over the installs of an average epoch.
    factor = np.array([1.0, average_installs(pools)])
    rows = Columns(
        values=["mean", "sum"],
        roles=[NUMBER, NUMBER],
        estimate=factor * (low_end + span * found.estimate),
        std_error=factor * span * found.std_error,
        low=factor * (low_end + span * np.clip(low, 0, 1)),
        high=factor * (low_end + span * np.clip(high, 0, 1)),
        p_value=np.full(2, np.nan),
        best_guess=factor * (low_end + span * np.clip(found.estimate, 0, 1)),
    )
    gain = min(pool.cohorts[0].noise.gain for pool in pools)
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


def _unit_variance(shape: Mean, noise: Noise, share: float, strings: int) -> float:
    """Of a population, where the number lies in the middle of its range: the worst place."""
    q, p = float(noise.q_star), float(noise.p_star)
    ones = (p + q) / 2
    return ones * (1 - ones) / (q - p) ** 2


def _planned(given: Mapping[str, int], strings: int) -> Mean:
    return Mean(low=Fraction(0), high=Fraction(1), absent=Fraction(0))


MEAN: Kind[Mean] = Kind(
    decode=decode_mean,
    unit_variance=_unit_variance,
    planned=_planned,
    has_shares=False,
    toml=lambda shape: "low = 0\nhigh = 1\nabsent = 0",
    released=lambda decoding: [0],  # not the sum: it rests on the number of installs, too
    goal=Goal(
        what="a difference",
        of="of the range",
        by="a difference as a share of the range",
        none=0.5,
        counts_holders=False,
        sides=2,
    ),
)
