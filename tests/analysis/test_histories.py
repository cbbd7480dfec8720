"""Answers that change, asked in one epoch of each period: intervals of an epoch, a period, a year and a change hold the
truth, and the tallies of whole crowds have the law of installs that are followed one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hubbub.analysis import Decoding, Options, active_installs, compare, decode
from hubbub.protocol.kinds import Choice, Flag, Histogram, Mean, Set
from hubbub.protocol.metric import Definition
from hubbub.protocol.shape import Shape
from hubbub.protocol.tally import Counts, Tally
from hubbub.simulations.people.histories import Histories
from hubbub.simulations.simulate.exact import history_tally
from tests.chance import assert_binomial, power

HOLD, ANSWERS = 4, 4
EPOCHS = range(400, 400 + HOLD * ANSWERS)  # whole periods
WEEK, QUARTER, YEAR = EPOCHS[5:6], EPOCHS[4:8], EPOCHS
INSTALLS = 600
SHARES = np.array([0.3, 0.7])


def define(shape: Shape, epsilon: str = "4", hold: int = HOLD, answers: int = ANSWERS) -> Definition:
    history = shape.best_history(Fraction(epsilon), hold, answers)
    accumulate = shape.accumulations[0]
    return Definition(name="m", every="week", shape=shape, noise=shape.history_noise(history), accumulate=accumulate)


@dataclass(frozen=True)
class People:
    """Answers that are drawn anew in each epoch with this chance, from shares that a release has moved."""

    change: float
    moved: float = 0.15

    def answers(self, rng: np.random.Generator) -> np.ndarray:
        found = np.empty((INSTALLS, len(EPOCHS)), dtype=np.int64)
        found[:, 0] = rng.random(INSTALLS) >= SHARES[0]
        for epoch in range(1, len(EPOCHS)):
            anew = rng.random(INSTALLS) < self.change
            drawn = rng.random(INSTALLS) >= SHARES[0] + self.moved
            found[:, epoch] = np.where(anew, drawn, found[:, epoch - 1])
        return found

    @property
    def shares(self) -> np.ndarray:
        """Of those who say yes, in each epoch, whoever is drawn."""
        found = [SHARES[0]]
        for _ in EPOCHS[1:]:
            found.append((1 - self.change) * found[-1] + self.change * (SHARES[0] + self.moved))
        return np.array(found)


def of(tally: Tally, epochs: Sequence[int], estimand: str = "population") -> Decoding:
    return decode(Tally(tally.metric, {e: tally.epochs[e] for e in epochs}), options=Options(estimand=estimand))


def held(found: Any, truth: float) -> bool:
    return bool(found.low[0] <= truth <= found.high[0])


def measured(people: People, populations: int, seed: int) -> dict[str, int]:
    """How many intervals of each sort held the truth."""
    metric, rng, shares = define(Flag()), np.random.default_rng([15, seed]), people.shares
    place = {epoch: i for i, epoch in enumerate(EPOCHS)}
    hits = dict.fromkeys(("week", "week, of all there are", "quarter", "change", "change over a quarter"), 0)
    for _ in range(populations):
        answers = people.answers(rng)
        who = Histories((True, False), answers, np.ones(INSTALLS, dtype=np.int64))
        tally = history_tally(metric, who, EPOCHS, rng)
        real = (answers == 0).mean(axis=0)
        hits["week"] += held(of(tally, WEEK, "reporting"), real[place[WEEK[0]]])
        hits["week, of all there are"] += held(of(tally, WEEK), shares[place[WEEK[0]]])
        hits["quarter"] += held(of(tally, QUARTER), shares[[place[e] for e in QUARTER]].mean())
        for name, (one, other) in {"change": (5, 6), "change over a quarter": (2, 13)}.items():
            changed = compare(*(of(tally, EPOCHS[i : i + 1]) for i in (one, other)))
            hits[name] += held(changed, shares[other] - shares[one])
    return hits


def assert_at_least(hits: int, populations: int) -> None:
    """95 % or more: an interval may be wider than it must be where answers of an install are not all the same."""
    assert_binomial(min(hits, round(0.95 * populations)), populations, 0.95)


def test_intervals_of_a_week_a_quarter_and_a_change_hold_the_truth_while_answers_change() -> None:
    """150 populations: .76 instead of .95 would show."""
    for hits in measured(People(change=0.1), 150, 1).values():
        assert_at_least(hits, 150)
    assert power(150, 0.95, 0.76) > 0.99


@pytest.mark.proof
@pytest.mark.parametrize("change", [0.0, 0.03, 0.1, 0.5])
def test_intervals_of_four_thousand_populations_hold_the_truth(change: float, figure) -> None:
    """95 % are not refuted; 92.1 % would be."""
    for name, hits in measured(People(change=change), 4000, 2).items():
        figure(f"flag with a history, {change:.0%} change a week, {name}", f"{hits / 4000:.4f}")
        assert_at_least(hits, 4000)
    assert power(4000, 0.95, 0.921) > 0.99


# --- what a tally shows ---------------------------------------------------------------------------------------------

KINDS = {
    "flag": (Flag(), (True, False)),
    "one of four": (Choice(choices=("a", "b", "c")), ("a", "b")),
    "one of many, as bits": (Choice(choices=tuple(f"c{i}" for i in range(60))), ("c0", "c1")),
    "histogram": (Histogram(edges=tuple(Fraction(x) for x in (0, 1, 2, 3)), buckets_per_report=3), (0.5, 1.5)),
    "mean": (Mean(low=Fraction(0), high=Fraction(1), absent=Fraction(0), points=3), (0.5, 1.0)),
    "set": (Set(items=("a", "b", "c"), items_per_report=2), (("a", "b"), ())),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_that_is_said_of_a_year_is_that_of_many_crowds(kind: str) -> None:
    """150 crowds whose answers stay: the variance of their estimates is known to 60 %, but for one chance in 1e6, and
    at most what is said; without the covariance of an install's answers a flag would have twice as much."""
    shape, values = KINDS[kind]
    metric, rng = define(shape, "4"), np.random.default_rng([16, *kind.encode()])
    people = Histories(values, np.repeat([[0], [1]], len(EPOCHS), axis=1), np.array([3000, 7000]))
    crowds = [of(history_tally(metric, people, EPOCHS, rng), YEAR, "reporting") for _ in range(150)]
    estimates, errors = (np.array([getattr(each, name)[0] for each in crowds]) for name in ("estimate", "std_error"))
    truth = 0.3 * 0.5 + 0.7 if kind == "mean" else 0.3
    said = float(np.sqrt(np.mean(errors**2)))
    assert estimates.mean() == pytest.approx(truth, abs=5 * said / np.sqrt(150))
    assert 0.25 < estimates.var() / said**2 < 1.6


def one_by_one(metric: Definition, says_yes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The yeses of each epoch from installs that draw their flags and epochs by themselves."""
    history = metric.noise.history
    assert history is not None
    number_set = rng.choice(ANSWERS + 1, len(says_yes), p=[float(chance) for chance in history.count_law])
    any_order = rng.random((len(says_yes), ANSWERS)).argsort(axis=1)
    flags = any_order < number_set[:, np.newaxis]
    asked = rng.integers(HOLD, size=flags.shape) + HOLD * np.arange(ANSWERS)
    return np.bincount(asked[flags == says_yes[:, np.newaxis]], minlength=len(EPOCHS))


def test_whole_crowds_have_the_law_of_installs_one_by_one() -> None:
    """1,000 crowds of 30: means of all epochs within five errors, and the variance of a year's yeses, which flags that
    come together make larger: .47 of it would be left without (an error of 23 % has one chance in 1e6)."""
    metric, rng = define(Flag()), np.random.default_rng(17)
    people = Histories((True, False), np.repeat([[0], [1]], len(EPOCHS), axis=1), np.array([20, 10]))
    crowds, each = [], []
    for _ in range(1000):
        tally = history_tally(metric, people, EPOCHS, rng)
        nothing = Counts((0,), ((0,),))
        crowds.append([tally.epochs.get(epoch, nothing).bit_counts[0][0] for epoch in EPOCHS])
        assert sum(sum(counts.num_reports) for counts in tally.epochs.values()) == 30 * ANSWERS
        each.append(one_by_one(metric, np.arange(30) < 20, rng))
    ours, theirs = np.array(crowds), np.array(each)
    error = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / 1000)
    assert np.all(np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 5 * error)
    assert ours.sum(axis=1).var() == pytest.approx(theirs.sum(axis=1).var(), rel=0.33)
    history = metric.noise.history
    assert history is not None
    a, r = float(history.truth), float(history.both_truths)
    expected = 30 * (ANSWERS * a * (1 - a) + ANSWERS * (ANSWERS - 1) * (r - a * a))
    assert ours.sum(axis=1).var() == pytest.approx(expected, rel=0.23)


def test_a_week_rests_on_a_part_of_the_installs_and_says_so() -> None:
    metric, rng = define(Flag()), np.random.default_rng(18)
    people = Histories((True, False), np.repeat([[0], [1]], len(EPOCHS), axis=1), np.array([30_000, 70_000]))
    tally = history_tally(metric, people, EPOCHS, rng)
    week, quarter, year = (of(tally, epochs, "reporting") for epochs in (WEEK, QUARTER, YEAR))
    for found in (week, quarter, year):
        assert found.installs == pytest.approx(100_000, rel=0.02)
        assert "in one of 4 weeks, which its device draws" in found.notes[-1 if found is week else -2]
    assert "the average of what was true at these times" in quarter.notes[-1]
    history = metric.noise.history
    assert history is not None
    a, r = float(history.truth), float(history.both_truths)
    noise, spread = a * (1 - a) / (2 * a - 1) ** 2, 0.3 * 0.7
    assert 1e5 * week.std_error[0] ** 2 == pytest.approx(4 * noise + 3 * spread, rel=0.03)
    assert 1e5 * quarter.std_error[0] ** 2 == pytest.approx(noise, rel=0.03)
    of_a_year = (a * (1 - a) / 4 + 3 / 4 * (r - a * a)) / (2 * a - 1) ** 2
    assert 1e5 * year.std_error[0] ** 2 == pytest.approx(of_a_year, rel=0.03)
    assert 1e5 * of(tally, QUARTER).std_error[0] ** 2 == pytest.approx(noise + spread, rel=0.03)
    assert active_installs([tally]) == [], "its reports are no number of installs"
