"""Which installs are behind which counts: from linear estimates of cohorts' cells to the laws of these estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from hubbub.analysis.arrays import Array, Index
from hubbub.analysis.estimation.cells import Cohort
from hubbub.analysis.estimation.curves import sums
from hubbub.analysis.estimation.law import Law
from hubbub.analysis.estimation.nested import Part

_NOBODY = 1e-9  # of all installs: so much is rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """How counted cells enter the estimates of some rows. An install sets at most one bit of a cohort.

    Entry i: cells of `cohort[i]` enter row `row[i]` with `coefficient[i]`. `alike` cells may be one entry, if that is
    the same for all. `inside` and `outside` are the probabilities that an install inside or outside the row sets one of
    them; `bit` is the same number where several definitions ask about the same.
    """

    row: Index
    cohort: Index
    bit: Index
    coefficient: Array
    inside: Array
    outside: Array
    alike: Array

    @classmethod
    def joined(cls, parts: Sequence[Entries]) -> Entries:
        return cls(**{each.name: np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)})


def law_of(cohorts: Sequence[Cohort], places: Sequence[int], entries: Entries, num_rows: int, finite: float) -> Law:
    """The law of each row's estimate. Cohorts with the same one of `places` hold the same installs; `finite` is what
    the sampling of everyone takes off (see `cells.finite_population`)."""
    noise = [each.noise for each in cohorts]
    a1, a0, q, p = (np.array([getattr(each, name) for each in noise]) for name in ("a1", "a0", "q", "p"))
    base = np.array([each.p_star / each.gain for each in noise])
    # How far one more one moves the share of a cohort.
    one = np.array([1 / (each.reports * each.noise.gain) if each.reports else 0.0 for each in cohorts])

    order = np.argsort(entries.cohort, kind="stable")
    starts = np.searchsorted(entries.cohort[order], np.arange(len(cohorts) + 1))
    groups = [
        (number, crowd.installs, sent, order[starts[c] : starts[c + 1]])
        for number, crowd in enumerate(crowds(cohorts, places))
        for c, sent in crowd.reports
    ]
    sizes = [len(found) for *_, found in groups]
    cell = np.concatenate([found for *_, found in groups])
    number, installs, asked = (np.repeat(np.array([group[i] for group in groups]), sizes) for i in (0, 1, 2))
    # A crowd of the law is one for each row that rests on it, and a bit one for each such crowd.
    crowd_key, crowd_first, crowd_of = np.unique(
        number * num_rows + entries.row[cell], return_index=True, return_inverse=True
    )
    _, bit_first, bit = np.unique(
        crowd_of * (int(entries.bit.max()) + 1) + entries.bit[cell], return_index=True, return_inverse=True
    )
    where = entries.cohort[cell]
    law = Law(
        offset=sums(entries.row, entries.alike * entries.coefficient * base[entries.cohort], num_rows),
        step=largest_step(cohorts, places, entries.row, entries.cohort, entries.coefficient, num_rows),
        fixed=np.zeros(num_rows),
        added=_by_noise_on_counts(cohorts, entries, num_rows),
        row=(crowd_key % num_rows).astype(np.int64),
        installs=installs[crowd_first],
        crowd=crowd_of[bit_first],
        inside=entries.inside[cell][bit_first],
        outside=entries.outside[cell][bit_first],
        bit=bit,
        alike=entries.alike[cell],
        a1=a1[where],
        a0=a0[where],
        q=q[where],
        p=p[where],
        asked=asked,
        move=entries.coefficient[cell] * one[where],
    )
    return law.of_finite(finite)


def largest_step(
    cohorts: Sequence[Cohort], places: Sequence[int], row: Index, cohort: Index, coefficient: Array, num_rows: int
) -> Array:
    """How far the reports of one install move each row's estimate: it sets one bit of its cohort, and may set the one
    that asks about the same in every definition."""
    one = np.array([each.reports_at_once / (each.reports * each.noise.gain) if each.reports else 0 for each in cohorts])
    # By row and cohort, and then by row and crowd: only those that are there, which of all pairs are few.
    key, cell = np.unique(row * len(cohorts) + cohort, return_inverse=True)
    moved = np.zeros(len(key))
    np.maximum.at(moved, cell, np.abs(coefficient) * one[cohort])
    most = max(places) + 1
    crowd, member = np.unique(key // len(cohorts) * most + np.asarray(places)[key % len(cohorts)], return_inverse=True)
    steps = np.zeros(num_rows)
    np.maximum.at(steps, crowd // most, sums(member, moved, len(crowd)))
    return steps


def _by_noise_on_counts(cohorts: Sequence[Cohort], entries: Entries, num_rows: int) -> Array:
    """The variance of each row by noise on the counts of ones, each for itself, and on those of reports, by which all
    ratios of a cohort move together; where no install, half of them and all are inside the row."""
    per_count, p_star, gain = (
        np.array(each)[entries.cohort]
        for each in zip(*((c.per_count, c.noise.p_star, c.noise.gain) for c in cohorts), strict=True)
    )
    if not per_count.any():
        return np.zeros((num_rows, 3))
    each = sums(entries.row, per_count * entries.alike * entries.coefficient**2, num_rows)
    group = entries.row * len(cohorts) + entries.cohort
    found = []
    for share in (0.0, 0.5, 1.0):
        ratios = entries.alike * p_star + gain * (share * entries.inside + (1 - share) * entries.outside)
        together = sums(group, np.sqrt(per_count) * entries.coefficient * ratios, num_rows * len(cohorts))
        found.append(each + (together**2).reshape(num_rows, len(cohorts)).sum(axis=1))
    return np.stack(found, axis=1)


class AnsweredAlike(NamedTuple):
    """Installs that answer alike: how many, and the numbers of the cohorts in which they do, each with how many reports
    one of them sends there."""

    installs: float
    reports: tuple[tuple[int, float], ...]


def crowds(cohorts: Sequence[Cohort], places: Sequence[int]) -> list[AnsweredAlike]:
    """Cohorts with the same place are of several definitions and hold the same installs, the smaller crowd being part
    of the larger; and of each it is those who send most that are in most of the others."""
    by_place: dict[int, list[int]] = {}
    for index, place in enumerate(places):
        if cohorts[index].reports:
            by_place.setdefault(place, []).append(index)
    found: list[AnsweredAlike] = []
    for members in by_place.values():
        if len(members) == 1:
            found += [
                AnsweredAlike(part.installs, ((members[0], part.reports),)) for part in cohorts[members[0]].senders
            ]
        else:
            found += _of_several({index: cohorts[index].senders for index in members})
    return found


def _of_several(senders: Mapping[int, Sequence[Part]]) -> list[AnsweredAlike]:
    """Installs in one order for all definitions, those that send most first: a crowd lasts until one sends fewer."""
    ends = {index: np.cumsum([part.installs for part in parts]) for index, parts in senders.items()}
    found, counted = [], 0.0
    for end in np.unique(np.concatenate(list(ends.values()))).tolist():
        if end - counted > _NOBODY * end:
            at = {index: int(np.searchsorted(its, (counted + end) / 2)) for index, its in ends.items()}
            sent = tuple((index, senders[index][i].reports) for index, i in at.items() if i < len(senders[index]))
            found.append(AnsweredAlike(end - counted, sent))
            counted = end
    return found
