"""The law of a mean that rests on few counts, whatever its points: tails by saddlepoint, an interval that inverts them.

Two means with the same estimate can have very different laws, so that a mean s is tested at the law of the categories
that is nearest to what was counted and has this mean (`mean_candidates`). A mean of those who answered is tested alike:
with scores h = value - s for a point and 0 for silence, s is the truth where h is 0 on average, and h = value - s for
all is the mean over everyone.

The statistic is the sum of h over all reports, each moving the estimate by so much. Its cumulant generating function is
built the way a report is (`law` does so for shares): a report names a category given the memo, a memo has one given the
point, and points are a sample of the population; or, where the installs that reported are meant, numbers are what they
are and rounding alone is random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hubbub.analysis.arrays import Array, Mask
from hubbub.analysis.estimation.cells import Cohort
from hubbub.analysis.estimation.crowds import AnsweredAlike, crowds
from hubbub.analysis.estimation.guesses import nearest_shares
from hubbub.analysis.estimation.intervals import critical
from hubbub.analysis.estimation.mean_candidates import common_spacing, divided, shifted, tilted
from hubbub.analysis.options import Estimand

FEW = 50.0
"""So many installs must have moved an estimate, each as far as it can, for its law to be taken as normal."""

_FARTHEST = 40.0  # exponential tilts, times the step of one point
_SURE = 40.0  # deviations that stand for certainty
_TURNS = 60
_DOUBLINGS = 40
_NEAR = 1e-3  # deviations: so exactly an end is found
_DIVISIONS = 10

Curve = tuple[Array, Array, Array]
"""The logarithm of a moment generating function at a tilt, and its first two derivatives there."""


@dataclass(frozen=True, kw_only=True)
class MeanLaw:
    """Of a weighted mean over definitions, one cohort each, which the same installs answered. Category j stands at
    `value[j]`; numbers were rounded to the first `points`. `spoke` is 0 for silence where it does not count, else 1."""

    cohorts: Sequence[Cohort]
    weight: Array
    value: Array
    spoke: Array
    points: int
    estimand: Estimand

    def interval(self, share: Array, confidence: float) -> tuple[Array, Array]:
        """All s that these shares, a row for each estimate, do not make surprising; an end is infinite where nothing in
        the range beyond the estimate is excluded.

        Each end is where the tail beyond what was observed, with the whole step observed, has half of 1 - confidence.
        """
        rows = len(share)
        share = np.concatenate([share, share])
        counted = np.array([nearest_shares(row, np.ones(len(row)), exactly=True) for row in share])
        side = np.repeat([-1.0, 1.0], rows)  # of the estimate: where the end is
        reach = critical(confidence)

        def beyond(s: Array) -> Array:
            """How many deviations more than can be explained."""
            return -side * self._deviations(share, counted, s, side) - reach

        least, most = self.range
        limit = np.where(side < 0, least, most)
        inside = np.clip(counted @ self.value / np.maximum(counted @ self.spoke, 1e-12), least, most)
        width = self._first_reach(counted, inside, reach)
        outside, far = inside, np.zeros(2 * rows, dtype=bool)
        too_near, too_far = np.full(2 * rows, -reach), np.zeros(2 * rows)
        for _ in range(_DOUBLINGS):
            outside = np.where(far, outside, np.clip(inside + side * width, least, most))
            too_far = beyond(outside)
            far = (too_far > 0) | (outside == limit)
            if far.all():
                break
            inside, too_near = np.where(far, inside, outside), np.where(far, too_near, too_far)
            width = np.where(far, width, 2 * width)
        ends = _crossing(beyond, inside, outside, too_near, too_far)
        ends = np.where(too_far <= 0, side * np.inf, ends)
        return ends[:rows], ends[rows:]

    def variance(self, counted: Array, s: Array) -> Array:
        """Of the statistic, if s is the truth and people are as near to what was counted as it lets them be."""
        scores = self.value - s[:, np.newaxis] * self.spoke
        centred = scores - scores.mean(axis=1, keepdims=True)
        nothing = np.zeros(len(s))  # the sum of h is 0 where s is the truth
        added = self._added(centred, nothing)
        return self._cumulants(nothing, self._people(counted, scores), centred, added)[2]

    def _people(self, counted: Array, scores: Array) -> _Sampled | _Rounded:
        if self.estimand == "population":
            return _Sampled(tilted(counted, scores))
        return _Rounded.of(shifted(counted, scores, self.points), self.points)

    def _first_reach(self, counted: Array, estimate: Array, reach: float) -> Array:
        """About how far the ends are from the estimate, and at least a step."""
        scores = self.value - estimate[:, np.newaxis] * self.spoke
        centred = scores - scores.mean(axis=1, keepdims=True)
        nothing = np.zeros(len(counted))
        _, _, variance = self._cumulants(nothing, _Sampled(counted), centred, self._added(centred, nothing))
        return np.maximum(reach * np.sqrt(np.maximum(variance, 0)), self._step)

    @property
    def range(self) -> tuple[float, float]:
        """What a mean can be, but for a hair: at its ends only one law has it."""
        places = self.value[self.spoke > 0]
        hair = 1e-7 * float(np.ptp(places))
        return float(places.min()) + hair, float(places.max()) - hair

    @cached_property
    def _crowds(self) -> list[AnsweredAlike]:
        return crowds(self.cohorts, [0] * len(self.cohorts))

    @cached_property
    def _moves(self) -> list[float]:
        """How far a report of each definition moves the estimate, for a score of 1."""
        pairs = zip(self.weight, self.cohorts, strict=True)
        return [float(w) / (cohort.reports * cohort.noise.gain) for w, cohort in pairs]

    @property
    def farthest(self) -> float:
        """How far an install moves the estimate that goes from one end of the range to the other."""
        reports = (cohort.reports_at_once for cohort in self.cohorts)
        return float(np.ptp(self.value)) * sum(move * n for move, n in zip(self._moves, reports, strict=True))

    @cached_property
    def _step(self) -> float:
        """How far an install moves the estimate whose number is rounded to the next point."""
        most = max(move * cohort.reports_at_once for move, cohort in zip(self._moves, self.cohorts, strict=True))
        return float(self.value[1] - self.value[0]) * most

    def _deviations(self, share: Array, counted: Array, s: Array, side: Array) -> Array:
        """The number that a standard normal one exceeds as often as the statistic exceeds what was observed, if s is
        the truth; what was observed lies with its whole step between the two on that `side` of it where s is."""
        scores = self.value - s[:, np.newaxis] * self.spoke
        centred = scores - scores.mean(axis=1, keepdims=True)  # a number added to all of them adds nothing
        observed = (share * centred).sum(axis=1)
        step = np.full(len(s), self._step)
        people = self._people(counted, scores)
        if isinstance(people, _Sampled):
            installs = max(1 / cohort.sampling for cohort in self.cohorts)
            step *= common_spacing(people.law[:, : self.points], 1 / (2 * installs))
        added = self._added(centred, observed)
        step = np.where(added > 0, 0.0, step)  # noise on counts blurs their steps
        return self._tail(people, centred, added, observed + side * step / 2, step)

    def _added(self, centred: Array, observed: Array) -> Array:
        """The variance by noise on counts, if they were published: of each category, and of the reports."""
        found = np.zeros(len(centred))
        for move, cohort in zip(self._moves, self.cohorts, strict=True):
            shares_of_reports = observed * cohort.noise.gain
            found += cohort.count_variance * move**2 * ((centred**2).sum(axis=1) + shares_of_reports**2)
        return found

    def _tail(self, people: _Sampled | _Rounded, centred: Array, added: Array, value: Array, step: Array) -> Array:
        """By Lugannani and Rice, in Barndorff-Nielsen's form: at the tilt that makes the value the expected one."""
        far = _FARTHEST / self._step * max(cohort.reports_at_once for cohort in self.cohorts)
        tilt, low, high = np.zeros_like(value), np.full_like(value, -far), np.full_like(value, far)
        for _ in range(_TURNS):
            log_mgf, mean, variance = self._cumulants(tilt, people, centred, added)
            missing = value - mean
            low, high = np.where(missing > 0, tilt, low), np.where(missing > 0, high, tilt)
            # Where nothing varies (at the end of what can be reached) nothing is settled but by what is left.
            settled = np.abs(missing) < 1e-3 * np.sqrt(np.maximum(variance, 0))
            if (settled | (high - low < 1e-3 * far)).all():
                break
            with np.errstate(divide="ignore", invalid="ignore"):
                newton = tilt + missing / variance
            moved = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
            tilt = np.where(settled, tilt, moved)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            r = np.sign(tilt) * np.sqrt(np.maximum(2 * (tilt * value - log_mgf), 0))
            half = tilt * step / 2
            u = tilt * np.where(half == 0, 1, np.sinh(half) / half) * np.sqrt(np.maximum(variance, 0))
            found = np.where((np.abs(r) > 0.05) & (np.abs(r) < 10), r + np.log(u / r) / r, r)
        found = np.where(np.abs(tilt) > 0.95 * far, np.sign(tilt) * _SURE, found)
        return np.asarray(np.clip(np.nan_to_num(found), -_SURE, _SURE))

    def _cumulants(self, tilt: Array, people: _Sampled | _Rounded, centred: Array, added: Array) -> Curve:
        total: Curve = (added * tilt**2 / 2, added * tilt, added)
        nothing = np.zeros_like(centred)
        for installs, sent in self._crowds:
            answers: Curve = (nothing, nothing, nothing)
            for index, times in sent:
                noise, moved = self.cohorts[index].noise, self._moves[index] * centred
                named = (tilt[:, np.newaxis] * moved, moved, nothing)
                reports = _times(times, _named_or_other(noise.q, noise.p, named))
                answers = _plus(answers, _named_or_other(noise.a1, noise.a0, reports))
            total = _plus(total, _times(installs, people.curve(answers)))
        return total


@dataclass(frozen=True, slots=True)
class MeanVariance:
    """The variance of one estimated mean, as a function of the true one, and how far one install moves it at most.

    Two crowds that are compared have one mean, but need not have one law: each has the law with that mean that is
    nearest to its own counts. At its own estimate, few counts that happened to be small would seem too sure.
    """

    law: MeanLaw
    share: Array  # of the categories, as estimated

    @property
    def step(self) -> float:
        if any(cohort.count_variance for cohort in self.law.cohorts):  # noise on counts blurs their steps
            return 0.0
        return self.law.farthest / self._answered if self._answered > 0 else 0.0

    def at(self, place: Array) -> Array:
        """At the place nearest to `place` that a mean can have; infinite where nobody seems to have answered."""
        if not self._answered > 0:
            return np.full(len(place), np.inf)
        s = np.clip(place, *self.law.range)
        counted = nearest_shares(self.share, np.ones(len(self.share)), exactly=True)
        return self.law.variance(np.tile(counted, (len(s), 1)), s) / self._answered**2

    @property
    def _answered(self) -> float:
        return float(self.share @ self.law.spoke)


@dataclass(frozen=True, slots=True)
class _Sampled:
    """Installs drawn from a population whose categories have this law."""

    law: Array

    def curve(self, answers: Curve) -> Curve:
        return _average(self.law, answers)


@dataclass(frozen=True, slots=True)
class _Rounded:
    """Installs that hold what they hold: the share of those between two points, which part of them is rounded up, and
    the shares of categories that nothing is rounded to."""

    between: Array
    up: Array
    apart: Array

    @classmethod
    def of(cls, law: Array, points: int) -> _Rounded:
        down, up = divided(law[:, :points], _DIVISIONS)
        between = down + up
        part = np.divide(up, between, out=np.full_like(up, 0.5), where=between > 0)
        return cls(between, part, law[:, points:])

    def curve(self, answers: Curve) -> Curve:
        points = self.between.shape[1] + 1
        log, first, second = (np.stack([each[:, : points - 1], each[:, 1:points]], axis=-1) for each in answers)
        gaps = _average(np.stack([1 - self.up, self.up], axis=-1), (log, first, second))
        log, first, second = (
            (self.between * gap).sum(axis=1) + (self.apart * each[:, points:]).sum(axis=1)
            for gap, each in zip(gaps, answers, strict=True)
        )
        return log, first, second


def _crossing(beyond: Callable[[Array], Array], low: Array, high: Array, below: Array, above: Array) -> Array:
    """Where a function that is `below` 0 at the one end and `above` 0 at the other is 0: by the line between the ends,
    the weight of an end that stays being halved (the Illinois rule)."""
    found, done = high, above <= 0
    kept = np.zeros(len(low))
    for _ in range(_TURNS):
        with np.errstate(invalid="ignore", divide="ignore"):
            part = np.nan_to_num(below / (below - above), nan=0.5)
        found = np.where(done, found, low + np.clip(part, 0.02, 0.98) * (high - low))
        value = beyond(found)
        done = done | (np.abs(value) < _NEAR)  # and stays: what a row comes to does not depend on the others
        if done.all():
            break
        is_low = value <= 0
        below, above = np.where(is_low, value, below), np.where(is_low, above, value)
        low, high = np.where(is_low, found, low), np.where(is_low, high, found)
        above = np.where(is_low & (kept > 0), above / 2, above)
        below = np.where(~is_low & (kept < 0), below / 2, below)
        kept = np.where(is_low, 1.0, -1.0)
    return found


def rests_on_few(noise: Array, beside: Array, farthest: float, cohorts: Sequence[Cohort]) -> Mask:
    """Whether an estimate with these two parts of its variance is far from normal. Noise moves it by up to the whole
    range; what comes beside it, sampling or rounding, by up to `farthest`: the sum of their fourth cumulants, over the
    squared variance, is at most the sum of variance times squared move."""
    one = max(cohort.reports_at_once / (cohort.reports * cohort.noise.gain) for cohort in cohorts)
    return np.asarray((noise + beside) ** 2 < FEW * one**2 * (noise + farthest**2 * beside))


def _named_or_other(truth: float, other: float, curve: Curve) -> Curve:
    """Of k curves, the last axis: each other one with one probability, and its own with the rest."""
    top = curve[0].max(axis=-1, keepdims=True)
    weight = np.exp(curve[0] - top)
    parts = (weight, weight * curve[1], weight * (curve[2] + curve[1] ** 2))
    total, first, second = (other * part.sum(axis=-1, keepdims=True) + (truth - other) * part for part in parts)
    return np.log(total) + top, first / total, second / total - (first / total) ** 2


def _average(law: Array, curve: Curve) -> Curve:
    """One of the curves along the last axis, by chance."""
    top = curve[0].max(axis=-1, keepdims=True)
    weight = law * np.exp(curve[0] - top)
    total = weight.sum(axis=-1)
    first = (weight * curve[1]).sum(axis=-1) / total
    second = (weight * (curve[2] + curve[1] ** 2)).sum(axis=-1) / total
    return np.log(total) + top[..., 0], first, second - first**2


def _times(factor: float, curve: Curve) -> Curve:
    return factor * curve[0], factor * curve[1], factor * curve[2]


def _plus(one: Curve, other: Curve) -> Curve:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]
