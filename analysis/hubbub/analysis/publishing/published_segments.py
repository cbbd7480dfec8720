"""Figures by platform or release: every declared value of a key by itself, or the K largest of them.

An install is in one segment of an epoch, so that what is published of several of them tells no more than what is
published of one. Which values there are comes from the registry, which is public, and never from the counts: that
anybody reported from a segment is not to be seen either. The K largest are chosen by the exponential mechanism:
choosing by the exact counts would tell something by the choice itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b

from hubbub.analysis.publishing.count_noise import EXPONENTIAL
from hubbub.analysis.publishing.discrete_noise import NoiseSource
from hubbub.analysis.publishing.ledger import Item
from hubbub.protocol.invalid import Invalid, brief, require, say
from hubbub.protocol.segments import OTHER, Declared
from hubbub.protocol.tally import Counts, Tally, merge

_DECIMAL = re.compile(r"[0-9]{1,2}(\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """By which key figures are published, its values, and how many of them: all, or the `top` largest, each chosen with
    this epsilon."""

    key: str
    values: tuple[str, ...]
    top: int | None = None
    epsilon: Fraction = Fraction(1, 10)

    @classmethod
    def of(cls, declared: Declared, key: str, top: int | None, epsilon: str) -> Division:
        """From what a registry declares. Raises `Invalid`."""
        if key not in declared:
            has = f"one of {', '.join(sorted(declared))}" if declared else "left out: this registry has no segments"
            raise Invalid([f"--by must be {has}, got {key!r}"])
        values = (*declared[key], OTHER)
        given = Fraction(epsilon) if _DECIMAL.fullmatch(epsilon) else Fraction(0)
        problems = []
        if top is not None and not 1 <= top < len(values):
            problems.append(f"--top must be at least 1 and below {len(values)}, the values of {key}, got {top}")
        if not Fraction(1, 1_000_000) <= given <= 10:
            problems.append(f"--choice-epsilon must be a number from 0.000001 to 10, got {brief(epsilon)}")
        require(problems)
        return cls(key=key, values=values, top=top, epsilon=given)


def divided(tallies: Sequence[Tally], key: str, values: Sequence[str]) -> list[Tally]:
    """One tally for each question and each of the values; what has none of them counts as `other`. Every one has every
    epoch of its question, also where nobody reported."""
    found: list[Tally] = []
    for whole in merge(Tally(tally.metric.undivided, tally.epochs) for tally in tallies).values():
        question, shape = whole.metric, whole.metric.shape
        widths = [shape.width(cohort) for cohort in range(shape.num_cohorts)]
        nobody = Counts((0,) * len(widths), tuple((0,) * width for width in widths))
        for value in values:
            epochs = dict.fromkeys(whole.epochs, nobody)
            for tally in tallies:
                said = dict(tally.metric.segment).get(key, OTHER)
                if tally.metric.undivided == question and (said if said in values else OTHER) == value:
                    for epoch, counts in tally.epochs.items():
                        epochs[epoch] = epochs[epoch] + counts
            found.append(Tally(question.in_segment(((key, value),)), epochs))
    return found


def scores_of(tallies: Sequence[Tally], division: Division) -> dict[str, int]:
    """The reports of each value; `tallies` are `divided`."""
    scores = dict.fromkeys(division.values, 0)
    for tally in tallies:
        scores[dict(tally.metric.segment)[division.key]] += tally.num_reports
    return scores


def reports_of_an_install(tallies: Sequence[Tally]) -> int:
    """At most so many of them are of one install: one for each question and epoch."""
    return sum(len(tally.epochs) for tally in {tally.metric.undivided: tally for tally in tallies}.values())


def choose(scores: Mapping[str, int], division: Division, reach: int, source: NoiseSource) -> list[str]:
    """The `top` values, one after the other, each with a probability that grows with its score. One install moves any
    score by at most `reach`, and all of them in one direction: a choice with odds of exp(epsilon score / reach) then
    tells no more than epsilon (McSherry and Talwar 2007)."""
    assert division.top is not None
    left = dict(scores)
    for _ in range(division.top):
        names = list(left)
        del left[names[source.likely([left[name] for name in names], division.epsilon / reach)]]
    return [value for value in scores if value not in left]


def item_of_choice(tallies: Sequence[Tally], division: Division) -> Item:
    """What a ledger writes down of a choice."""
    assert division.top is not None
    counted = sorted((tally.metric.metric_hash, list(tally.epochs), tally.num_reports) for tally in tallies)
    digest = blake2b(repr(counted).encode(), digest_size=16).hexdigest()
    return Item(
        metric=f"the choice of {division.key}",
        metric_hash=f"choice:{digest}",
        every="once",
        epoch=0,
        reports=sum(tally.num_reports for tally in tallies),
        digest=digest,
        noise=f"{EXPONENTIAL}:{say(division.epsilon)}",
        counts=division.top,
    )
