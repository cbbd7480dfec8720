"""From counts to cells: for each cohort and bit, the share of installs whose mask has the bit, and how sure that is.

A cell's share is (ones / reports - p*) / (q* - p*), unbiased whatever was sent. Given the true masks its variance is
linear in the true share g:

    noise(g) = floor + slope g      from both channels, each divided by the draws it really had

and the masks of a cohort are themselves a sample of all installs; `sampling` is 1 / (installs in the cohort), the
factor of a multinomial covariance. Pooling epochs averages the instantaneous noise only: the memos of an install
are the same in each, so the permanent noise and the sampling count an install once. That the smaller crowd is part of
the larger is assumed, because it is the careful side (`nested`): fewer shared installs make the truth closer.
Where a metric is asked once, no install is in two epochs: all of them are one crowd. Where answers have a history,
so are the epochs of each period, and periods covary as `history_noise` says. docs/estimation.md derives each line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation import history_noise
from hubbub.analysis.estimation.nested import Part, nested
from hubbub.analysis.options import Estimand
from hubbub.protocol.channel import Noise, SubsetChannel
from hubbub.protocol.metric import Definition
from hubbub.protocol.tally import Counts, Tally
from hubbub.protocol.vocabulary import Cadence


@dataclass(frozen=True, slots=True)
class TwoStageNoise:
    """P(memo bit set | mask bit set, not set) = a1, a0; P(report bit set | memo bit set, not set) = q, p.

    Either stage may be noiseless. Variances are of one install's share: divide by how many were drawn.
    """

    a1: float
    a0: float
    q: float
    p: float

    @property
    def p_star(self) -> float:
        return self.a0 * self.q + (1 - self.a0) * self.p

    @property
    def q_star(self) -> float:
        return self.a1 * self.q + (1 - self.a1) * self.p

    @property
    def gain(self) -> float:
        return (self.a1 - self.a0) * (self.q - self.p)

    @property
    def permanent(self) -> tuple[float, float]:
        """(floor, slope) of the memo's variance: a1 (1 - a1) where the mask has the bit, a0 (1 - a0) where not."""
        one, zero = self.a1 * (1 - self.a1), self.a0 * (1 - self.a0)
        scale = (self.a1 - self.a0) ** 2
        return zero / scale, (one - zero) / scale

    @property
    def instantaneous(self) -> tuple[float, float]:
        """(floor, slope) of a report's variance given its memo, averaged over memos."""
        said, unsaid = self.q * (1 - self.q), self.p * (1 - self.p)
        scale = self.gain**2
        return (self.a0 * said + (1 - self.a0) * unsaid) / scale, (self.a1 - self.a0) * (said - unsaid) / scale

    @classmethod
    def of(cls, noise: Noise) -> TwoStageNoise:
        if noise.history is not None:
            return cls(*history_noise.stages(noise.history))
        a1, a0 = noise.permanent.probabilities
        q, p = noise.instantaneous.probabilities
        return cls(float(a1), float(a0), float(q), float(p))


@dataclass(frozen=True, slots=True)
class Pairs:
    """Covariance of the shares of two categories a, b that a report names together or not, times its installs:
    floor + slope (f_a + f_b). With P(both named | one of them was sent, neither was) = b1, b0 and d = q* - p*:
    floor = (b0 - p*^2) / d^2, slope = (b1 - q* p* - b0 + p*^2) / d^2."""

    floor: float
    slope: float

    @classmethod
    def of(cls, noise: Noise) -> Pairs | None:
        if not isinstance(noise.permanent, SubsetChannel):
            return None
        (q, p), (one, neither) = noise.permanent.probabilities, noise.permanent.pairs
        scale = (q - p) ** 2
        return cls(float((neither - p * p) / scale), float((one - q * p - neither + p * p) / scale))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """All reports of one cohort, over the pooled epochs. Empty cohorts have infinite variance and no shares.

    `one_hot` says that a report names one category of a k-ary channel; `pairs` is how the bits of a subset covary. Bits
    are drawn each by itself otherwise. `count_variance` is that of noise which was added to `reports` and to each of
    `ones`, for publishing. `parts` say how many installs sent how many reports, if not all as many as `sampling` says.
    """

    noise: TwoStageNoise
    reports: float
    ones: Array
    sampling: float
    parts: tuple[Part, ...] = ()
    single_epoch: bool = True
    one_hot: bool = False
    pairs: Pairs | None = None
    count_variance: float = 0.0

    @property
    def senders(self) -> tuple[Part, ...]:
        """How many installs sent how many of the reports."""
        return self.parts or ((Part(1 / self.sampling, self.reports * self.sampling),) if self.reports else ())

    @property
    def reports_at_once(self) -> float:
        """With how many reports an install moves an estimate: those that it sent; where installs sent different
        numbers, as many as installs alike must send for the same variance and fourth cumulant."""
        return sqrt(sum(n * k**4 for n, k in self.senders) / sum(n * k**2 for n, k in self.senders))

    @property
    def shares(self) -> Array:
        if not self.reports:
            return np.full(len(self.ones), np.nan)
        return (self.ones / self.reports - self.noise.p_star) / self.noise.gain

    @property
    def floor(self) -> float:
        """Variance of a share whose bit nobody's mask has."""
        return self.own_floor + self.per_count * (1 + self.noise.p_star**2)

    @property
    def slope(self) -> float:
        return self.own_slope + self.per_count * (self.noise.q_star**2 - self.noise.p_star**2)

    @property
    def own_floor(self) -> float:
        """The same without noise on counts."""
        if not self.reports:
            return np.inf
        return self.noise.permanent[0] * self.sampling + self.noise.instantaneous[0] / self.reports

    @property
    def own_slope(self) -> float:
        if not self.reports:
            return 0.0
        return self.noise.permanent[1] * self.sampling + self.noise.instantaneous[1] / self.reports

    @property
    def per_count(self) -> float:
        """The variance of a share by noise on its ones alone. Noise on reports moves all bits of a cohort together, the
        share of one that is set with probability r by r times as much: a bit by itself has 1 + r^2 times this, with r^2
        taken along the line from p*^2 to q*^2, which is nowhere below it."""
        return self.count_variance / (self.reports * self.noise.gain) ** 2 if self.reports else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledTally:
    """The cohorts of one definition. `sampling` is 1 / (all its installs); `asked` is the share of the installs in use
    that an average period of these epochs has asked, all of them unless answers have a history or it is of a sample."""

    metric: Definition
    epochs: tuple[int, ...]
    cohorts: tuple[Cohort, ...]
    sampling: float
    asked: float = 1.0

    @property
    def reports(self) -> float:
        return sum(cohort.reports for cohort in self.cohorts)

    def __iter__(self) -> Iterator[Cohort]:
        return iter(self.cohorts)


def pool(tally: Tally) -> PooledTally:
    """The epochs of a tally together."""
    return pool_counts(tally.metric, tally.epochs)


def pool_counts(metric: Definition, epochs: Mapping[int, Counts], count_variance: float = 0.0) -> PooledTally:
    """Epochs together, whose counts may have got noise of this variance, each."""
    counts = list(epochs.values())
    noise, pairs = TwoStageNoise.of(metric.noise), Pairs.of(metric.noise)
    num_cohorts = metric.shape.num_cohorts
    reports = np.array([epoch.num_reports for epoch in counts], dtype=np.float64).reshape(len(counts), num_cohorts)
    epochs_with_reports = np.count_nonzero(reports, axis=0)
    reports, asked = crowds_of(reports, list(epochs), metric.every, metric.hold)
    cohorts = tuple(
        Cohort(
            noise=noise,
            reports=float(reports[:, c].sum()),
            ones=_ones([epoch.bit_counts[c] for epoch in counts], metric.shape.width(c)),
            sampling=sampling_of(reports[:, c]),
            parts=nested(reports[:, c]),
            single_epoch=int(np.count_nonzero(reports[:, c])) <= 1,
            one_hot=metric.one_hot,
            pairs=pairs,
            count_variance=count_variance * int(epochs_with_reports[c]),
        )
        for c in range(num_cohorts)
    )
    sampling = sampling_of(reports.sum(axis=1))
    asked *= float(metric.sample)
    return PooledTally(metric=metric, epochs=tuple(epochs), cohorts=cohorts, sampling=sampling, asked=asked)


def crowds_of(reports: Array, epochs: Sequence[int], every: Cadence, hold: int | None) -> tuple[Array, float]:
    """Reports of epochs (the first axis) as those of crowds, each of which has an install once: all epochs of a
    question that is asked once, those of each period where answers have a history, else each epoch by itself. And the
    share of the installs in use that an average crowd has asked."""
    if every == "once":
        return reports.sum(axis=0, keepdims=True), 1.0
    if hold is None or not epochs:
        return reports, 1.0
    periods, period = np.unique([epoch // hold for epoch in epochs], return_inverse=True)
    together = np.array([reports[period == number].sum(axis=0) for number in range(len(periods))])
    return together, len(epochs) / (len(periods) * hold)


def finite_population(pools: Sequence[PooledTally], estimand: Estimand) -> float:
    """What the sampling of everyone takes off: the installs that reported are not a sample of themselves.

    With cohorts drawn at random from n installs, covariances are those of independent samples minus 1/n of the
    multinomial one; that difference is all there is between the two estimands. Of several definitions the smaller crowd
    is taken as part of the larger, as of several epochs. Where only some of the installs were asked, all of them are
    meant.
    """
    crowds = [1 / (pool.sampling * pool.asked) for pool in pools if np.isfinite(pool.sampling)]
    if estimand == "population" or not crowds:
        return 0.0
    return 1 / max(crowds)


def shared_sampling(sampling: Sequence[float] | Array, weights: Sequence[float] | Array) -> float:
    """Variance factor of a weighted sum over definitions in which the smaller crowd is part of the larger: two crowds
    of N and N' then covary by 1 / max(N, N')."""
    pairs = np.minimum.outer(np.asarray(sampling), np.asarray(sampling))
    return float(np.asarray(weights) @ pairs @ np.asarray(weights))


def _ones(rows: Sequence[Sequence[int]], width: int) -> Array:
    total = np.zeros(width)
    for row in rows:
        total += np.asarray(row, dtype=np.float64)
    return total


def sampling_of(reports: Array) -> float:
    """Variance factor of a mean over epochs in which the smaller crowd is always part of the larger.

    Two epochs of N and N' installs then share min(N, N') of them, and their shares covary by 1 / max(N, N').
    """
    seen = np.sort(reports[reports > 0])
    if len(seen) <= 1:
        return 1 / float(seen[0]) if len(seen) else np.inf
    weight = seen / seen.sum()
    # Each pair once: the larger crowd of a pair is the later in this order.
    before = np.concatenate([[0.0], np.cumsum(weight)[:-1]])
    return float(np.sum((weight**2 + 2 * weight * before) / seen))
