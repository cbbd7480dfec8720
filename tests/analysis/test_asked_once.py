"""Metrics that are asked once: each install is in one month, so that pooled months are one larger crowd."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hubbub.analysis import Options, decode
from hubbub.analysis.estimation.cells import pool_counts
from hubbub.analysis.options import ESTIMANDS, Estimand
from hubbub.protocol.kinds import Choice, Flag, Histogram, Mean, Range, Set
from hubbub.protocol.metric import Definition
from hubbub.protocol.shape import Shape
from hubbub.protocol.tally import Counts, Tally
from hubbub.simulations.people.histories import Histories
from hubbub.simulations.simulate.exact import history_tally
from tests.analysis.worlds import tally_of
from tests.chance import assert_binomial, power

SHAPES: dict[str, tuple[Shape, int]] = {
    "flag": (Flag(), 2),
    "choice": (Choice(choices=tuple("abcdefgh")), 9),
    "histogram": (Histogram(edges=tuple(map(Fraction, range(5))), buckets_per_report=2), 5),
    "mean": (Mean(low=Fraction(0), high=Fraction(1), absent=Fraction(0)), 2),
    "range": (Range(low=Fraction(0), high=Fraction(4), num_leaves=4, branching=2), 5),
}
EPSILONS = Fraction(1), Fraction(3)
MONTHS = ((3, 500), (4, 1_500), (6, 1_000))
"""Which month, and how many installs are new in it."""


def define(shape: Shape) -> Definition:
    noise = shape.best_noise(*EPSILONS, once=True)
    return Definition(name="asked", every="once", shape=shape, noise=noise)


def several_months(metric: Definition, held: list[np.ndarray], rng: np.random.Generator) -> Tally:
    epochs: dict[int, Counts] = {}
    for (month, _), counts in zip(MONTHS, held, strict=True):
        epochs |= tally_of(metric, counts, rng, epochs=(month,)).epochs
    return Tally(metric, epochs)


@pytest.mark.parametrize("name", SHAPES)
def test_months_are_one_crowd(name: str) -> None:
    """Three months give what one month with all their counts would give, to the last digit."""
    shape, size = SHAPES[name]
    metric, rng = define(shape), np.random.default_rng(7)
    tally = several_months(metric, [np.full(size, installs // size) for _, installs in MONTHS], rng)
    first, second, third = tally.epochs.values()
    pooled, single = decode(tally), decode(Tally(metric, {3: first + second + third}))
    for column in ("estimate", "std_error", "low", "high", "p_value", "best_guess"):
        assert np.array_equal(getattr(pooled, column), getattr(single, column), equal_nan=True), column
    assert pooled.installs == single.installs == tally.num_reports


@pytest.mark.parametrize("estimand", ESTIMANDS)
def test_intervals_of_pooled_months_hold_what_they_say(estimand: Estimand) -> None:
    """A choice that is sent as subsets; 400 populations, one row of each in its turn. As if every month had seen the
    same installs, more than 99 % would hold."""
    metric, rng = define(SHAPES["choice"][0]), np.random.default_rng(8)
    probability = np.array([0.3, 0.2, 0.1, 0.1, 0.05, 0.05, 0.0, 0.0, 0.2])
    held = 0
    for population in range(400):
        crowds = [rng.multinomial(installs, probability) for _, installs in MONTHS]
        everyone = sum(crowds)
        truth = everyone / everyone.sum() if estimand == "reporting" else probability
        found = decode(several_months(metric, crowds, rng), options=Options(estimand=estimand))
        row = population % 9
        held += bool(found.low[row] <= truth[row] <= found.high[row])
    assert_binomial(held, 400, 0.95)
    assert power(400, 0.95, 0.999) > 0.99


def test_intervals_of_items_that_are_drawn_together_hold_what_they_say() -> None:
    """A set of five items, three asked of each install, with flags drawn jointly as devices do; items that go together.
    400 populations, one item of each in its turn: .84 would show."""
    shape = Set(items=tuple("abcde"), items_per_report=3)
    noise = shape.best_noise(Fraction(4), Fraction(4), once=True)
    assert noise.history is not None
    metric = Definition(name="asked", every="once", shape=shape, noise=noise, accumulate="any")
    values = [frozenset(some) for some in ("", "ab", "abc", "c", "de")]
    installs = np.array([600, 900, 300, 900, 300])
    shares = [sum(n for value, n in zip(values, installs, strict=True) if item in value) / 3_000 for item in "abcde"]
    people = Histories(tuple(values), np.arange(5)[:, np.newaxis], installs)
    rng, held = np.random.default_rng(9), 0
    for population in range(400):
        found = decode(history_tally(metric, people, [0], rng))
        item = population % 5
        held += bool(found.low[item] <= shares[item] <= found.high[item])
    assert_binomial(held, 400, 0.95)
    assert power(400, 0.95, 0.84) > 0.99


def test_noise_on_counts_adds_up_over_the_months() -> None:
    """Each month's counts got noise of their own before they were added up."""
    metric = define(Flag())
    counts = Counts((100,), ((40,),))
    (cohort,) = pool_counts(metric, {0: counts, 1: counts}, count_variance=9.0).cohorts
    assert (cohort.reports, cohort.count_variance) == (200.0, 18.0)
