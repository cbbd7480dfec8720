"""What people answer of a cross: it follows from what the same people answer of its factors.

A person's two answers are drawn each by itself, whatever the other is. All chance comes from the `rng` argument.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from hubbub.protocol.encoding import ABSENT as SILENCE
from hubbub.protocol.shape import Factor, Shape
from hubbub.simulations.kinds import kind_of
from hubbub.simulations.kinds.kind import NOWHERE, Index
from hubbub.simulations.people.behaviour import Behaviour
from hubbub.simulations.people.distribution import Distribution
from hubbub.simulations.people.histories import AWAY, MOST_HISTORIES, Histories, draw_histories
from hubbub.simulations.people.masks import rounded_by_dither

_MOST_PAIRS = 4 * MOST_HISTORIES
_MOST_IN_AN_URN = 10**9
"""Beyond that numpy draws nothing without putting it back."""

People = tuple[Distribution, Behaviour]


def draw_crossed(
    shape: Shape, people: tuple[People, People], installs: int, epochs: int, rng: np.random.Generator
) -> Histories:
    """The cells of so many installs, epoch by epoch. When they run, come and go is said by the first factor's people;
    the second's say what they then answer."""
    (first_people, first_behaviour), (second_people, second_behaviour) = people
    first = draw_histories(first_people, first_behaviour, installs, epochs, rng, most=MOST_HISTORIES)
    there = replace(second_behaviour, away=0.0, churn=0.0, consent=1.0)
    second = draw_histories(second_people, there, int(first.installs.sum()), epochs, rng, most=MOST_HISTORIES)
    of_first, of_second = (
        _categories(factor, histories, rng) for factor, histories in zip(shape.factors, (first, second), strict=True)
    )
    return _as_cells(shape, *_paired(of_first, of_second, rng))


def crossed_installs(shape: Shape, first: Histories, second: Histories) -> Histories:
    """The same for installs of which each has a history of both, by number. What their clients round is left open: a
    place between two points."""
    one, other = (_places(factor, histories) for factor, histories in zip(shape.factors, (first, second), strict=True))
    away = first.answers == AWAY
    width = len(other)
    pairs = np.where(away, 0, first.answers % len(one) * width + second.answers % width)  # ABSENT = -1 is the last
    used, answers = np.unique(pairs, return_inverse=True)
    values = tuple((one[pair // width], other[pair % width]) for pair in used.tolist())
    return Histories(values, np.where(away, AWAY, answers.reshape(away.shape)), first.installs)


def _categories(factor: Factor, histories: Histories, rng: np.random.Generator) -> Histories:
    """Each history as the categories of its answers. Whatever is rounded is rounded by a dither for each install."""
    rounding = kind_of(factor.shape).rounding(histories.values)
    if rounding is None:
        places = np.array([factor.category(value, 0) for value in [*histories.values, SILENCE]], dtype=np.int64)
        answers, installs = places[histories.answers], histories.installs
        answers = np.where(histories.answers == AWAY, AWAY, answers)
    else:
        masks = rounded_by_dither(rounding, histories, rng)
        answers, installs = np.where(masks.keys == NOWHERE, AWAY, masks.keys), masks.installs
    distinct, which = np.unique(answers, axis=0, return_inverse=True)
    shared_by = np.bincount(which.ravel(), installs, minlength=len(distinct)).astype(np.int64)
    return Histories(factor.categories, distinct, shared_by)


def _places(factor: Factor, histories: Histories) -> list[float]:
    """Where each value lies among the categories, and last silence; between two of them where chance will decide."""
    rounding = kind_of(factor.shape).rounding(histories.values)
    if rounding is None:
        return [factor.category(value, 0) for value in [*histories.values, SILENCE]]
    return [float(place) for place in rounding.below + (1 - rounding.threshold)]


def _paired(first: Histories, second: Histories, rng: np.random.Generator) -> tuple[Index, Index, Index]:
    """Everybody of the first gets a history of the second at random: the answers of both, and how many have them."""
    installs = int(first.installs.sum())
    if installs > MOST_HISTORIES and len(first.installs) * len(second.installs) <= _MOST_PAIRS:
        table = _lots(first.installs, second.installs, rng)
        one, other = np.nonzero(table)
        return first.answers[one], second.answers[other], table[one, other]
    places = min(installs, MOST_HISTORIES)  # where they are too many, each place stands for many installs
    one, other = (_spread(histories.installs, places) for histories in (first, second))
    number = installs // places + (np.arange(places) < installs % places)
    return first.answers[one], second.answers[rng.permutation(other)], rng.permutation(number).astype(np.int64)


def _lots(first: Index, second: Index, rng: np.random.Generator) -> Index:
    """How many installs have each pair of answers, where answers of the second metric are dealt at random to those
    who gave each answer of the first, until none is left."""
    if first.sum() >= _MOST_IN_AN_URN:
        return np.asarray(rng.multinomial(first, second / second.sum()), dtype=np.int64)
    left, rows = second.astype(np.int64), []
    for number in first.tolist():
        rows.append(rng.multivariate_hypergeometric(left, number, method="marginals"))
        left = left - rows[-1]
    return np.array(rows, dtype=np.int64)


def _spread(installs: Index, places: int) -> Index:
    """Which history each of so many places has, in proportion to how many have it."""
    reached = np.cumsum(installs)
    middles = (np.arange(places) + 0.5) * reached[-1] / places
    return np.asarray(np.searchsorted(reached, middles, side="right"), dtype=np.int64)


def _as_cells(shape: Shape, first: Index, second: Index, installs: Index) -> Histories:
    one, other = (len(factor.categories) for factor in shape.factors)
    cells = np.where(first == AWAY, AWAY, first * other + second)
    return Histories(tuple(product(range(one), range(other))), cells, installs)
