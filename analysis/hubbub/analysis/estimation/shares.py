"""Least squares where every cell asks about one answer: flags, choices, ends of a mean, buckets.

The design is then a selection, the normal equations are diagonal, and the estimate of an answer is the average of its
cells weighted by their precision. What differs between kinds is which cells ask what, and how counts covary: bits
are independent given the masks; the categories of a k-ary channel are multinomial, and add up to everyone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc  # scipy.stats has a binomial law, and takes as long to load as all else here

from hubbub.analysis.arrays import Array, Index, Mask
from hubbub.analysis.estimation.cells import Cohort, Pairs
from hubbub.analysis.estimation.crowds import Entries, largest_step, law_of
from hubbub.analysis.estimation.curves import sums
from hubbub.analysis.estimation.detection import Rule
from hubbub.analysis.estimation.intervals import Variance
from hubbub.analysis.estimation.law import Law, interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Estimated shares of all installs, one for each answer. `samples` are the crowds behind the cells.

    Cell i asked about `answer[i]`, in `cohort[i]`, and enters that answer's estimate with `coefficient[i]`. `law` gives
    the law of some answers' estimates, `line` the estimate from which on all of some answers are detected.
    """

    estimate: Array
    variance: Variance
    p_value: Array
    coefficient: Array
    answer: Index
    cohort: Index
    samples: Samples
    law: Callable[[Index], Law]
    line: Callable[[Rule, Index], float]

    @property
    def std_error(self) -> Array:
        return np.sqrt(self.variance.at(self.estimate))

    def interval(self, confidence: float) -> tuple[Array, Array]:
        return interval(self.estimate, self.variance, self.law, confidence)


@dataclass(frozen=True, slots=True)
class Samples:
    """Independent samples of installs, and with which weight each answer's estimate rests on each.

    A cohort is one. The same cohort of several definitions holds the same installs, the smaller crowd being part of the
    larger, so that two of them covary by the smaller 1/N: by as much as samples of these sizes, each of which all the
    definitions share that are no larger.
    """

    sample: Index
    answer: Index
    weight: Array
    size: Array

    @classmethod
    def of(cls, cohorts: Sequence[Cohort], places: Sequence[int], cells: tuple[Index, Index, Array]) -> Samples:
        """`cells` are the answer, the cohort and the coefficient of each cell; `places` say which cohort each is in its
        own definition."""
        answer, cohort, coefficient = cells
        by_place: dict[int, list[int]] = {}
        for index, place in enumerate(places):
            if cohorts[index].reports:
                by_place.setdefault(place, []).append(index)
        sizes: list[float] = []
        pairs: list[tuple[int, int]] = []
        for members in by_place.values():
            members.sort(key=lambda index: cohorts[index].sampling)
            before = 0.0
            for i, largest in enumerate(members):
                pairs += [(len(sizes), index) for index in members[i:]]
                sizes.append(cohorts[largest].sampling - before)
                before = cohorts[largest].sampling
        starts = np.searchsorted(cohort, np.arange(len(cohorts) + 1))
        cell = np.concatenate([np.arange(starts[c], starts[c + 1]) for _, c in pairs] or [np.zeros(0, dtype=np.int64)])
        sample = np.repeat([s for s, _ in pairs], [starts[c + 1] - starts[c] for _, c in pairs]).astype(np.int64)
        num_answers = int(answer.max(initial=0)) + 1
        key, where = np.unique(sample * num_answers + answer[cell], return_inverse=True)
        weight = sums(where, coefficient[cell], len(key))
        return cls(key // num_answers, key % num_answers, weight, np.array(sizes)[key // num_answers])

    def variance(self, num_answers: int) -> Array:
        """Of each answer's estimate, divided by f (1 - f)."""
        return sums(self.answer, self.size * self.weight**2, num_answers)

    def covariance(self, own: Array, others: Array) -> Array:
        """Of each answer's estimate, held by `own`, with the sum of all others, held by `others`.

        Those who hold the one do not hold the other.
        """
        held = self.weight * others[self.answer]
        rest = sums(self.sample, held, int(self.sample.max(initial=0)) + 1)[self.sample] - held
        return -sums(self.answer, self.size * self.weight * own[self.answer] * rest, len(own))


def shares(
    cohorts: Sequence[Cohort],
    asked: Sequence[Sequence[int]],
    num_answers: int,
    finite: float,
    places: Sequence[int] | None = None,
) -> Shares:
    """The share of each answer. `asked[c][j]` is the answer that bit j of cohort c asks about; `finite` is what the
    sampling of everyone takes off (see `cells.finite_population`); cohorts with the same one of `places` are of several
    definitions and hold the same installs."""
    rows = [np.asarray(row, dtype=np.int64) for row in asked]
    answer = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
    widths = [len(row) for row in rows]
    where = np.repeat(np.arange(len(cohorts)), widths)
    floor, slope, sampling = (_each(cohorts, widths, name) for name in ("floor", "slope", "sampling"))
    share = np.concatenate([cohort.shares for cohort in cohorts])
    observed = np.isfinite(floor)
    # The weights must not depend on the shares, or estimates would lean to where the noise happened to be small.
    # A channel that never turns a 0 into a 1 has no floor; its cells then weigh by the installs behind them.
    weight = np.where(observed, 1 / np.where(floor > 0, floor, np.where(observed, sampling, 1)), 0)
    total = sums(answer, weight, num_answers)
    with np.errstate(invalid="ignore", divide="ignore"):
        coefficient = np.where(observed, weight / total[answer], 0)
    never = total == 0

    def combine(cell_values: Array) -> Array:
        return sums(answer, coefficient**2 * np.where(observed, cell_values, 0), num_answers)

    estimate = np.where(never, np.nan, sums(answer, coefficient * np.where(observed, share, 0), num_answers))
    same = list(places or range(len(cohorts)))
    samples = Samples.of(cohorts, same, (answer, where, coefficient))

    def law(answers: Index) -> Law:
        return law_of(cohorts, same, _entries(answers, answer, where, coefficient), len(answers), finite)

    steps = largest_step(cohorts, same, answer, where, coefficient, num_answers)
    variance = Variance(
        floor=np.where(never, np.inf, combine(floor)),
        slope=combine(slope),
        sampling=np.maximum(samples.variance(num_answers) - finite, 0),
        step=0 * steps if any(cohort.count_variance for cohort in cohorts) else steps,  # noise on counts blurs them
    )
    p_value, line = _tests(cohorts, rows, estimate, variance, law)
    return Shares(
        estimate=estimate,
        variance=variance,
        p_value=p_value,
        coefficient=coefficient,
        answer=answer,
        cohort=where,
        samples=samples,
        law=law,
        line=line,
    )


def law_of_sum(of: Shares, cohorts: Sequence[Cohort], places: Sequence[int], finite: float) -> Law:
    """Of the estimates of all answers added up, as one row: whoever is inside holds one of them, as likely as it
    seems."""
    seen = possible(of.estimate)
    likely = seen / seen.sum() if seen.any() else np.full(len(seen), 1 / len(seen))
    cells = np.flatnonzero(of.coefficient > 0)
    entries = Entries(
        row=np.zeros(len(cells), dtype=np.int64),
        cohort=of.cohort[cells],
        bit=of.answer[cells],
        coefficient=of.coefficient[cells],
        inside=likely[of.answer[cells]],
        outside=np.zeros(len(cells)),
        alike=np.ones(len(cells)),
    )
    return law_of(cohorts, places, entries, 1, finite)


def covariance_with_others(
    of: Shares, cohorts: Sequence[Cohort], chosen: Mask, finite: float, own: Array, truth: Array
) -> Array:
    """Cov(estimate of each answer, sum of the estimates of all *other* chosen answers), where the share of the answer
    itself is `own` and the others' are `truth`."""
    covariance = of.samples.covariance(own, truth * chosen)
    covariance += finite * own * (truth[chosen].sum() - truth * chosen)
    for index, cohort in enumerate(cohorts):
        if cohort.one_hot and cohort.reports:
            covariance += _kary_noise_covariance(of, cohort, index, own, truth, chosen)
        if cohort.pairs is not None and cohort.reports:
            covariance += _subset_noise_covariance(of, cohort, cohort.pairs, index, own, truth, chosen)
    return covariance


def possible(shares: Array) -> Array:
    """The nearest shares that a population can have."""
    return np.clip(np.nan_to_num(shares), 0, 1)


def _kary_noise_covariance(of: Shares, cohort: Cohort, index: int, own: Array, truth: Array, chosen: Mask) -> Array:
    """A report in one category is no report in another: both stages of a k-ary channel are multinomial draws."""
    noise = cohort.noise
    here = of.cohort == index
    coefficient = np.zeros(len(truth))
    coefficient[of.answer[here]] = of.coefficient[here]
    kept = noise.a1 - noise.a0

    def products(offset: float) -> Array:
        """The share of the answer, and this offset, times the sum of the other chosen ones."""
        weighted = coefficient * (truth + offset) * chosen
        return np.asarray(coefficient * (own + offset) * (weighted.sum() - weighted))

    held, memo, report = products(0.0), products(noise.a0 / kept), products(noise.p_star / noise.gain)
    return np.asarray((held - memo) * cohort.sampling + (memo - report) / cohort.reports)


def _subset_noise_covariance(
    of: Shares, cohort: Cohort, pairs: Pairs, index: int, own: Array, truth: Array, chosen: Mask
) -> Array:
    """A subset has a fixed size: what is in it keeps others out."""
    here = of.cohort == index
    coefficient = np.zeros(len(truth))
    coefficient[of.answer[here]] = of.coefficient[here]
    each, held = coefficient * chosen, coefficient * truth * chosen
    others, held_by_others = each.sum() - each, held.sum() - held
    shared = (pairs.floor + pairs.slope * own) * others + pairs.slope * held_by_others
    return np.asarray(coefficient * shared * cohort.sampling)


def _tests(
    cohorts: Sequence[Cohort], rows: Sequence[Index], estimate: Array, variance: Variance, law: Callable[[Index], Law]
) -> tuple[Array, Callable[[Rule, Index], float]]:
    """P(so many ones or more | nobody holds the answer): binomial, exactly, for one epoch through one channel; of
    several the law that they have together. And where a rule has it pass, of all of some answers."""
    observed = [(cohort, row) for cohort, row in zip(cohorts, rows, strict=True) if cohort.reports]
    if not observed:
        return np.full(len(estimate), np.nan), lambda rule, answers: np.inf
    if len({cohort.noise for cohort, _ in observed}) > 1 or not all(cohort.single_epoch for cohort, _ in observed):
        p_value, known = np.full(len(estimate), np.nan), np.flatnonzero(~np.isnan(estimate))
        of_known = law(known)
        p_value[known] = of_known.p_values(estimate[known])
        return p_value, lambda rule, answers: _line(rule, answers, known, variance, of_known)
    answer = np.concatenate([row for _, row in observed])
    ones = sums(answer, np.concatenate([cohort.ones for cohort, _ in observed]), len(estimate))
    asked = np.repeat([c.reports for c, _ in observed], [len(row) for _, row in observed])
    reports, noise = sums(answer, asked, len(estimate)), observed[0][0].noise
    p_value = np.where(reports > 0, _so_many_or_more(ones, reports, noise.p_star), np.nan)
    # The fewer were asked, the larger a share must be.
    return p_value, lambda rule, answers: rule.line(float(reports[answers].min()), noise.p_star, noise.gain)


def _line(rule: Rule, answers: Index, known: Index, variance: Variance, law: Law) -> float:
    """The largest of some answers, of a law that has the `known` ones as rows."""
    if not np.isin(answers, known).all():
        return np.inf
    # With the same noise they have the same law while nobody holds them.
    noise = np.stack([variance.floor, np.broadcast_to(variance.step, variance.floor.shape)])[:, answers]
    _, unlike = np.unique(noise, axis=1, return_index=True)
    rows = np.searchsorted(known, np.sort(answers[unlike]))
    return float(law.of_rows(rows).line(rule.deviations).max())


def _so_many_or_more(ones: Array, trials: Array, p: float) -> Array:
    """The upper tail of the binomial law, which is the incomplete beta function."""
    some = np.maximum(ones, 1)
    return np.asarray(np.where(ones > 0, betainc(some, trials - some + 1, p), 1.0))


def _entries(wanted: Index, answer: Index, cohort: Index, coefficient: Array) -> Entries:
    """The cells of the answers wanted: whoever holds an answer sets its bit, and nobody else."""
    place = np.full(int(answer.max(initial=0)) + 1, -1)
    place[wanted] = np.arange(len(wanted))
    cells = np.flatnonzero((place[answer] >= 0) & (coefficient > 0))
    row, ones = place[answer[cells]], np.ones(len(cells))
    return Entries(
        row=row,
        cohort=cohort[cells],
        bit=np.zeros(len(cells), dtype=np.int64),
        coefficient=coefficient[cells],
        inside=ones,
        outside=0 * ones,
        alike=ones,
    )


def _each(cohorts: Sequence[Cohort], widths: Sequence[int], name: str) -> Array:
    return np.repeat(np.array([getattr(cohort, name) for cohort in cohorts], dtype=np.float64), widths)
