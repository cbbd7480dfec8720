"""A sample of all installs: figures about all of them, intervals that allow for who was drawn, and what that hides."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp, log
from typing import Any

import numpy as np
import pytest

from hubbub.analysis import Options, active_installs, decode
from hubbub.analysis.accounting.mechanisms import amplified_by_sampling
from hubbub.analysis.options import ESTIMANDS
from hubbub.analysis.publishing.reader_words import ReaderLabel
from hubbub.analysis.publishing.released_file import _of_a_sample
from hubbub.protocol.epsilon import show
from hubbub.protocol.kinds import Choice, Flag, Mean
from hubbub.protocol.tally import Counts, Tally
from tests.analysis.worlds import define, tally_of
from tests.chance import assert_binomial, power
from tests.protocol.toml import registry

TENTH = Fraction(1, 10)
FLAG = define(Flag(), "2", "4").replace(sample=TENTH)


def test_numbers_of_installs_are_those_of_all() -> None:
    tally = tally_of(FLAG, [600, 400], np.random.default_rng(1))
    found = decode(tally)
    assert (found.num_reports, found.installs) == (1_000, pytest.approx(10_000))
    assert found.counts[0] == pytest.approx(10_000 * found.estimate[0])
    assert found.notes[-1] == (
        "Of one in 10 installs, which their devices drew once: shares and intervals are about all installs, and "
        "numbers of installs are those of the reports divided by that share."
    )
    (active,) = active_installs([tally])
    assert active.installs == 10_000


def test_a_metric_that_asks_all_counts_installs_where_there_is_one() -> None:
    everyone = define(Flag(), "2", "4").replace(name="all")
    rng = np.random.default_rng(2)
    some, all_of = tally_of(FLAG, [600, 500], rng, epochs=(0, 1)), tally_of(everyone, [6_000, 3_990], rng)
    first, second = active_installs([some, all_of])
    assert (first.installs, first.metric) == (9_990, "all")
    assert (second.installs, second.metric) == (11_000, "asked")


@pytest.mark.parametrize("estimand", ESTIMANDS)
@pytest.mark.parametrize("kind", ["flag", "choice", "mean", "sum"])
def test_intervals_are_about_all_installs_whoever_was_drawn(kind: str, estimand) -> None:
    """Of 4,000 installs a tenth is drawn anew in each of 400 populations: .84 instead of .95 would show, and so would
    intervals about the 400 alone."""
    shape, held = {
        "flag": (Flag(), [2_800, 1_200]),
        "choice": (Choice(choices=("a", "b", "c"), absent="a"), [2_000, 1_200, 800]),
    }.get(kind, (Mean(low=Fraction(0), high=Fraction(1), absent=Fraction(0)), [2_800, 1_200]))
    metric, rng, inside = define(shape, "6", "8").replace(sample=TENTH), np.random.default_rng([3, len(kind)]), 0
    everyone = np.array(held)
    if estimand == "population":
        everyone = everyone * 1_000  # so large that the 4,000 are as drawn from it
    truth = {"choice": 0.3, "sum": 1_200.0 * (everyone[0] // held[0])}.get(kind, 0.3)
    row = {"choice": 1, "sum": 1}.get(kind, 0)
    for _ in range(400):
        share = 0.1 if estimand == "reporting" else 0.0001
        drawn = rng.binomial(everyone, share)
        found = decode(tally_of(metric, drawn, rng), options=Options(estimand=estimand))
        scale = 1 if estimand == "reporting" or kind != "sum" else 1_000
        inside += bool(found.low[row] * scale <= truth <= found.high[row] * scale)
    # Of numbers and sums the interval is somewhat too wide: rounding and N are allowed for in full.
    careful = kind in ("mean", "sum") or estimand == "population"
    assert_binomial(min(inside, 380) if careful else inside, 400, 0.95)
    assert power(400, 0.95, 0.84) > 0.99


def test_as_if_all_had_been_asked_the_intervals_would_be_too_narrow() -> None:
    """What the test above would notice: at this epsilon hardly anything but the draw of a tenth is unsure."""
    metric, rng, inside = define(Flag(), "6", "8"), np.random.default_rng(4), 0
    for _ in range(400):
        found = decode(tally_of(metric, rng.binomial([2_800, 1_200], 0.1), rng))
        inside += bool(found.low[0] <= 0.3 <= found.high[0])
    assert inside < 0.8 * 400


def test_what_sampling_leaves_of_a_difference_is_exactly_the_formula_where_counts_have_noise() -> None:
    """Counts of 0 to 30 others with discrete Laplace noise, all outcomes of two releases: with the install in or not in
    (E = e^epsilon in all); drawn with s nobody can be surer than 1 + s (E - 1), and the bound is reached."""
    epsilon, s, others = 0.7, 0.1, 15
    outcomes = np.arange(-80, 130)

    def law(count: int) -> np.ndarray:
        weight = np.exp(-epsilon / 2 * np.abs(outcomes - count))
        return weight / weight.sum()

    here, gone = (np.multiply.outer(law(others + there), law(others + there)) for there in (1, 0))
    # The ends of the range are cut, which moves the odds by less than 1e-9.
    assert np.max(np.abs(np.log(here / gone))) == pytest.approx(epsilon, abs=1e-9)
    drawn = s * here + (1 - s) * gone
    left = np.log(drawn / gone)
    assert np.max(np.abs(left)) == pytest.approx(amplified_by_sampling(epsilon, s), abs=1e-9)
    assert amplified_by_sampling(epsilon, s) == pytest.approx(log(1 + s * (exp(epsilon) - 1)))


def test_with_exact_counts_sampling_hides_nothing_from_one_who_knows_all_others() -> None:
    """Enumerated: three others whose answers are known, a target that answers 1 or 0 and is drawn with 1/10. Published
    are the exact number of reports and the ones among them, through a flip with odds E: the worst odds are E itself,
    and not 1 + s (E - 1). So the statement about published figures has no such factor."""
    s, truth = Fraction(1, 10), Fraction(3, 4)
    flip = {0: {0: truth, 1: 1 - truth}, 1: {0: 1 - truth, 1: truth}}

    def law(value: int) -> dict[tuple[int, int], Fraction]:
        found: dict[tuple[int, int], Fraction] = {}
        for said in product((0, 1), repeat=3):
            chance = Fraction(1)
            for bit in said:
                chance *= flip[0][bit]
            for drawn, own in ((False, None), (True, 0), (True, 1)):
                p = chance * ((1 - s) if not drawn else s * flip[value][own])
                key = 3 + drawn, sum(said) + (own or 0)
                found[key] = found.get(key, Fraction(0)) + p
        return found

    one, zero = law(1), law(0)
    worst = max(one[key] / zero[key] for key in one)
    amplified = 1 + s * (3 - 1)
    assert worst > amplified
    assert worst == max(one[4, ones] / zero[4, ones] for ones in range(5))


def test_a_release_says_what_its_sample_hides_and_the_largest_counts() -> None:
    def metrics(*samples: str) -> dict[str, Any]:
        return {"metrics": [{"metric": {"sample": each} if each != "1" else {}} for each in samples]}

    (said,) = _of_a_sample(metrics("1/10", "1/5"), Fraction(1), 1e-9)
    left = log(1 + (exp(1) - 1) / 5)
    assert said.startswith("Devices draw whether they are asked, one in 5, and tell nobody.")
    assert f"(epsilon {show(Fraction(left), 3)}, but for a chance of 1e-09)" in said
    assert _of_a_sample(metrics("1/10", "1"), Fraction(1), 1e-9) == []


def test_the_statement_about_published_figures_rests_on_the_crowd_that_is_drawn() -> None:
    some, everyone = (
        ReaderLabel(registry(**keys), installs) for keys, installs in (({"sample": "0.1"}, 100_000), ({}, 10_000))
    )
    assert some.bounds["it"] == everyone.bounds["it"]
    assert some.bounds["it"].one_answer > ReaderLabel(registry(), 100_000).bounds["it"].one_answer


def test_two_samples_of_one_metric_are_added_up_each_by_its_share() -> None:
    half = FLAG.replace(sample=Fraction(1, 2))
    counts = Counts((100,), ((40,),))
    assert decode([Tally(FLAG, {0: counts}), Tally(half, {0: counts})]).installs == pytest.approx(1_200)
