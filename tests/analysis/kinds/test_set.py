"""Sets: shares that need not sum to one, with intervals that hold the truth however items go together."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from hubbub.analysis import Options, compare, decode
from hubbub.analysis.estimation.cells import finite_population, pool
from hubbub.analysis.estimation.misfit import of_shares
from hubbub.analysis.estimation.shares import shares
from hubbub.analysis.options import ESTIMANDS
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Set
from hubbub.protocol.tally import Counts, Tally
from hubbub.simulations.exact_tallies import assign_cohorts, sample_tally
from tests.analysis.worlds import define
from tests.chance import assert_binomial, power

INSTALLS = 6_000
SHARES = np.array([0.9, 0.5, 0.3, 0.1, 0.02, 0.0])
ITEMS = tuple(f"item {i}" for i in range(len(SHARES)))
AT_ONCE = 400
CASES = [("1", 1), ("4", 2), ("2", 3), ("8", 6)]


@cache
def people(seed: int = 0) -> np.ndarray:
    """Who uses what: whoever is busy uses everything that is used by more people than there are busier ones, so that
    items go together as closely as they can, but for one in three who do not follow."""
    rng = np.random.default_rng([5, seed])
    busy = np.where(rng.random((INSTALLS, 1)) < 2 / 3, rng.random((INSTALLS, 1)), rng.random((INSTALLS, len(SHARES))))
    return busy < SHARES


def tally_of_people(metric, uses: np.ndarray, rng: np.random.Generator, epochs: tuple[int, ...] = (0,)) -> Tally:
    """Each install joins a cohort by itself and reports once an epoch."""
    shape = metric.shape
    cohort = rng.integers(0, shape.num_cohorts, len(uses))
    holders = np.stack([np.bincount(cohort[column], minlength=shape.num_cohorts) for column in uses.T], axis=1)
    ones = [[holders[c, shape.item(c, i)] for i in range(shape.width(c))] for c in range(shape.num_cohorts)]
    return sample_tally(metric, np.bincount(cohort, minlength=shape.num_cohorts), ones, rng, epochs)


def tally_of_crowds(metric, alike: np.ndarray, counts: np.ndarray, rng: np.random.Generator, epochs) -> Tally:
    """The same, where so many use the same items as each row says: only how many of them join a cohort is drawn."""
    shape = metric.shape
    by_cohort = assign_cohorts(counts, shape.num_cohorts, rng)
    holders = by_cohort @ alike
    ones = [[holders[c, shape.item(c, i)] for i in range(shape.width(c))] for c in range(shape.num_cohorts)]
    return sample_tally(metric, by_cohort.sum(axis=1), ones, rng, epochs)


def measured(epsilon: str, asked: int, estimand: str, populations: int, epochs=(0,)) -> tuple[int, int]:
    """Of one row of each population, each in its turn: how many intervals held the truth; and in how many populations
    an item was detected that nobody uses."""
    metric = define(Set(items=ITEMS, items_per_report=asked), epsilon, str(2 * int(epsilon)))
    rng = np.random.default_rng([18, asked, len(epochs), *estimand.encode()])
    truth = people().mean(axis=0)
    alike, times = np.unique(people(), axis=0, return_counts=True)
    held = false = 0
    for start in range(0, populations, AT_ONCE):
        tallies = []
        for _ in range(min(AT_ONCE, populations - start)):
            counts = times if estimand == "reporting" else rng.multinomial(INSTALLS, times / INSTALLS)
            tallies.append(tally_of_crowds(metric, alike, counts, rng, epochs))
        low, high, detected = side_by_side(metric, tallies, estimand)
        row = np.arange(start, start + len(tallies)) % (len(ITEMS) - 1)
        each = np.arange(len(tallies))
        held += int(((low[each, row] <= truth[row]) & (truth[row] <= high[each, row])).sum())
        false += int(detected[:, -1].sum())
    return held, false


def side_by_side(metric, tallies: list[Tally], estimand: str) -> tuple[np.ndarray, ...]:
    """Intervals and detections of many populations, a row each, by one call of what `decode` calls: as cohorts and
    items of their own. Two are decoded alone, too, and must come out the same."""
    pools, size = [pool(tally) for tally in tallies], len(ITEMS)
    shape = metric.shape
    asked = [
        [number * size + shape.item(c, i) for i in range(shape.width(c))]
        for number in range(len(pools))
        for c in range(shape.num_cohorts)
    ]
    cohorts = [cohort for pooled in pools for cohort in pooled.cohorts]
    found = shares(cohorts, asked, len(pools) * size, finite_population(pools[:1], estimand))
    low, high = (end.reshape(-1, size) for end in found.interval(0.95))
    detected = found.p_value.reshape(-1, size) <= 0.05 / size
    for number in (0, len(tallies) - 1):
        alone = decode(tallies[number], options=Options(estimand=estimand))
        assert low[number] == pytest.approx(alone.low)
        assert high[number] == pytest.approx(alone.high)
        assert (detected[number] == alone.detected).all()
    return low, high, detected


@pytest.mark.parametrize(("epsilon", "asked", "estimand"), [("1", 1, "reporting"), ("4", 2, "population")])
def test_intervals_hold_the_truth_of_items_that_go_together(epsilon: str, asked: int, estimand: str) -> None:
    """400 populations: .84 instead of .95, and 16 % false detections instead of at most 5, would show."""
    held, false = measured(epsilon, asked, estimand, 400)
    assert_binomial(held, 400, 0.95)
    assert_binomial(max(false, 20), 400, 0.05)
    assert power(400, 0.95, 0.84) > 0.99
    assert power(400, 0.05, 0.16) > 0.99


@pytest.mark.proof
@pytest.mark.parametrize("epochs", [(0,), (0, 1, 2, 3)], ids=["one epoch", "four epochs"])
@pytest.mark.parametrize("estimand", ESTIMANDS)
@pytest.mark.parametrize(("epsilon", "asked"), CASES)
def test_intervals_of_ten_thousand_populations_hold_the_truth(epsilon, asked, estimand, epochs, figure) -> None:
    """95 % are not refuted; 93.2 % would be, and 96.6 %."""
    held, false = measured(epsilon, asked, estimand, 10_000, epochs)
    what = f"epsilon {epsilon}, {asked} of {len(ITEMS)} items, {estimand}, {len(epochs)} epochs"
    figure(f"coverage of a set, {what}", f"{held / 10_000:.4f}; falsely detected {false / 10_000:.4f}")
    assert_binomial(held, 10_000, 0.95)
    assert false <= 0.05 / len(ITEMS) * 10_000 + 5 * (0.05 * 10_000 / len(ITEMS)) ** 0.5
    assert power(10_000, 0.95, 0.932) > 0.99
    assert power(10_000, 0.95, 0.966) > 0.99


def test_the_standard_error_is_that_of_the_formula() -> None:
    """n Var = (b/d) V + f (1 - f)(b/d - 1), V = E/(E - 1)**2 with E = e**(epsilon/d); of a population f (1 - f)
    more."""
    for asked in (1, 2, 6):
        metric = define(Set(items=ITEMS, items_per_report=asked), "4", "8")
        tally = tally_of_people(metric, people(), np.random.default_rng(1))
        e = np.exp(4 / asked)
        for estimand, sampled in zip(ESTIMANDS, (0, 1), strict=True):
            found = decode(tally, options=Options(estimand=estimand))
            f = np.clip(found.estimate, 0, 1)
            times = len(ITEMS) / asked
            formula = times * e / (e - 1) ** 2 + f * (1 - f) * (times - 1 + sampled)
            # Cohorts are of different sizes, by chance.
            assert found.std_error**2 * INSTALLS == pytest.approx(formula, rel=0.05)


def test_shares_need_not_sum_to_one_and_silence_is_no_row() -> None:
    metric = define(Set(items=ITEMS, items_per_report=2), "4", "8")
    uses = np.ones((INSTALLS, len(ITEMS)), dtype=bool)
    found = decode(tally_of_people(metric, uses, np.random.default_rng(2)))
    assert found.values == ITEMS
    assert set(found.roles) == {"answer"}
    assert found.best_guess.sum() == pytest.approx(len(ITEMS), abs=0.2)
    assert found.best_guess.max() <= 1
    assert "one that recorded nothing counts as using none of them" in found.notes[0]


def test_the_best_guess_of_a_long_list_is_learnt_from_it() -> None:
    """40 items, each used by one install in a hundred and all noise: far nearer together than estimates are."""
    items = tuple(f"item {i}" for i in range(40))
    uses = np.random.default_rng(3).random((20_000, 40)) < 0.01
    found = decode(tally_of_people(define(Set(items=items, items_per_report=1)), uses, np.random.default_rng(4)))
    errors = [float(((guess - 0.01) ** 2).sum()) for guess in (found.best_guess, np.clip(found.estimate, 0, 1))]
    assert errors[0] < 0.3 * errors[1]


def test_a_change_of_one_item_is_seen_and_of_no_other() -> None:
    metric = define(Set(items=ITEMS, items_per_report=1), "4", "8")
    rng = np.random.default_rng(3)
    after = people().copy()
    after[: INSTALLS // 3, 5] = True
    changed = compare(*(decode(tally_of_people(metric, uses, rng)) for uses in (people(), after)))
    assert [bool(row) for row in changed.changed] == [False] * 5 + [True]


def test_a_cohort_that_was_tampered_with_is_found_and_items_that_go_together_are_not() -> None:
    """All items are one and the same here. 300 tallies: the sum of squares of dependent cells would cry wolf."""
    metric = define(Set(items=ITEMS, items_per_report=5), "8", "8")
    alike = np.repeat(np.arange(INSTALLS)[:, np.newaxis] % 2 == 0, len(ITEMS), axis=1)
    rng = np.random.default_rng(4)
    alarms = sum(bool(decode(tally_of_people(metric, alike, rng)).diagnostics.odd_cohorts) for _ in range(300))
    assert alarms <= 3  # one in a thousand is allowed: four or more have probability 3e-4
    tally = tally_of_people(metric, alike, rng)
    counts = tally.epochs[0]
    rows = [list(row) for row in counts.bit_counts]
    rows[2][1] = counts.num_reports[2]
    found = decode(Tally(metric, {0: Counts(counts.num_reports, tuple(map(tuple, rows)))}))
    assert 2 in found.diagnostics.odd_cohorts
    assert int(np.argmin(found.diagnostics.cohort_p)) == 2


def test_definitions_of_other_items_are_not_decoded_together() -> None:
    one, other = (define(Set(items=ITEMS[:size]), "1", "2") for size in (5, 6))
    with pytest.raises(Invalid, match="definitions of a set decoded together must ask the same"):
        decode([Tally(one, {}), Tally(other, {})])


def test_items_asked_of_nobody_are_said_to_be() -> None:
    metric = define(Set(items=ITEMS, items_per_report=1))
    nothing = (0,) * 5
    found = decode(Tally(metric, {0: Counts((100, *nothing), ((60,), *((0,),) * 5))}))
    assert "5 of 6 answers were asked of nobody who reported." in found.notes


def test_one_fake_report_moves_an_estimate_by_no_more_than_the_radius() -> None:
    metric = define(Set(items=ITEMS, items_per_report=2), "2", "4")
    tally = tally_of_people(metric, people(), np.random.default_rng(5))
    counts = tally.epochs[0]
    fakes, cohort = 200, 3
    rows = [list(row) for row in counts.bit_counts]
    rows[cohort] = [count + fakes for count in rows[cohort]]
    reports = list(counts.num_reports)
    reports[cohort] += fakes
    share = fakes / sum(reports)
    before = decode(tally, options=Options(fake_share=share))
    after = decode(Tally(metric, {0: Counts(tuple(reports), tuple(map(tuple, rows)))}))
    assert 0 < np.max(after.estimate - before.estimate) <= before.diagnostics.attack_radius


def test_the_p_value_of_a_cohort_of_dependent_cells_is_that_of_its_worst() -> None:
    """Without `several`, squares are added up: the two differ, and only where a cohort has more than one cell."""
    metric = define(Set(items=ITEMS, items_per_report=2), "2", "4")
    pooled = pool(tally_of_people(metric, people(), np.random.default_rng(6)))
    asked = [[metric.shape.item(c, i) for i in range(2)] for c in range(6)]
    found = shares(pooled.cohorts, asked, 6, finite_population([pooled], "reporting"))
    worst, added = (of_shares(pooled.cohorts, found, several) for several in (True, False))
    assert (worst != added).all()
    single = replace(found, coefficient=np.where(np.arange(12) % 2, 1.0, found.coefficient))
    worst, added = (of_shares(pooled.cohorts, single, several) for several in (True, False))
    assert worst == pytest.approx(added)
