"""Pooled weeks with different numbers of reports, by exact enumeration: a few installs may have sent many of the
reports, or every week may have other installs. Neither makes p-values too small, or intervals too short."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from scipy.fft import irfft, next_fast_len, rfft
from scipy.stats import binom

from hubbub.analysis import decode
from hubbub.analysis.estimation.cells import TwoStageNoise, pool
from hubbub.analysis.estimation.shares import Shares, shares
from hubbub.analysis.options import ESTIMANDS, Estimand
from hubbub.protocol.kinds import Choice, Flag
from hubbub.protocol.metric import Definition
from hubbub.protocol.tally import Counts, Tally
from tests.analysis.worlds import define
from tests.chance import binomial_bounds

LEVELS = (0.05, 0.005, 0.0005, 0.00005)
"""Of a single row, of one of ten, of a hundred and of a thousand."""
WEEKS = {
    "large": [200] + [10] * 12,
    "larger": [2_000] + [100] * 12,
    "few stay": [3_000] + [10] * 20,
    "falling": [100, 80, 60, 40, 20],
}
TWENTY = Choice(choices=tuple(f"choice {i}" for i in range(20)), absent="choice 0")


def every_count(metric: Definition, weeks: list[int], estimand: Estimand = "reporting") -> Shares:
    """What is found of each number of ones, as an answer of its own."""
    nobody = (0,) * (metric.shape.width(0) - 1)
    first = weeks if metric.one_hot else [0] * len(weeks)  # the categories of a report add up to one
    tally = Tally(metric, {i: Counts((weeks[i],), ((first[i], *nobody),)) for i in range(len(weeks))})
    size = sum(weeks) + 1
    cohort = replace(pool(tally).cohorts[0], ones=np.arange(size, dtype=np.float64))
    return shares([cohort], [range(size)], size, cohort.sampling if estimand == "reporting" else 0.0)


def groups(weeks: list[int]) -> list[tuple[int, int]]:
    """How many installs sent how many reports, if the smaller crowd is part of the larger."""
    crowds = [*sorted(weeks, reverse=True), 0]
    return [(crowds[k] - crowds[k + 1], k + 1) for k in range(len(weeks)) if crowds[k] > crowds[k + 1]]


def law_of_ones(noise: TwoStageNoise, weeks: list[int], share: float, estimand: Estimand = "population") -> np.ndarray:
    """P(so many ones), where each install holds the answer with this probability, or so many of each group do: the
    product of the generating functions of all installs, on the unit circle."""
    size = sum(weeks) + 1
    padded = next_fast_len(size, real=True)

    def of_one(reports: int, said: float) -> np.ndarray:
        ones = np.arange(reports + 1)
        law = said * binom.pmf(ones, reports, noise.q) + (1 - said) * binom.pmf(ones, reports, noise.p)
        return np.asarray(rfft(law, padded))

    def of_group(installs: int, reports: int) -> np.ndarray:
        if estimand == "population":
            return of_one(reports, share * noise.a1 + (1 - share) * noise.a0) ** installs
        holders = round(share * installs)
        assert holders == pytest.approx(share * installs)
        return of_one(reports, noise.a1) ** holders * of_one(reports, noise.a0) ** (installs - holders)

    every = reduce(np.multiply, [of_group(*group) for group in groups(weeks)])
    return np.maximum(irfft(every, padded)[:size], 0)


@pytest.mark.parametrize("weeks", WEEKS)
@pytest.mark.parametrize(("one_report", "permanent"), [("6", "6"), ("8", "8"), ("2", "4"), ("1", "1")])
def test_nothing_is_detected_more_often_than_a_p_value_says(weeks: str, one_report: str, permanent: str) -> None:
    """As if all installs had sent the average number of reports, P(p <= level) was up to 108 levels. And detection
    begins at no more than one install's reports beyond the count at which it could."""
    crowds, metric = WEEKS[weeks], define(Flag(), one_report, permanent)
    noise, found = TwoStageNoise.of(metric.noise), every_count(metric, crowds)
    law = law_of_ones(noise, crowds, 0.0)
    apart = binom.pmf(np.arange(len(law)), sum(crowds), noise.p_star)  # where no install is in two weeks
    tail = np.cumsum(law[::-1])[::-1]
    for level in LEVELS:
        detected = found.p_value <= level
        assert law[detected].sum() <= level
        assert apart[detected].sum() <= level
        assert detected.argmax() - (tail <= level).argmax() <= len(crowds)


@pytest.mark.parametrize("estimand", ESTIMANDS)
@pytest.mark.parametrize("weeks", WEEKS)
def test_intervals_hold_every_truth(weeks: str, estimand: Estimand) -> None:
    """Whoever sent many reports being like the others. With a step of the average number of reports few counts would be
    taken for many: where few stay, some shares would be held in .926 of cases."""
    crowds, metric = WEEKS[weeks], define(Flag(), "8", "8")
    found, noise = every_count(metric, crowds, estimand), TwoStageNoise.of(metric.noise)
    low, high = found.interval(0.95)
    for share in np.linspace(0, 1, 201 if estimand == "population" else 11):
        law = law_of_ones(noise, crowds, share, estimand)
        assert law[(low - 1e-9 <= share) & (share <= high + 1e-9)].sum() >= 0.95


def test_rows_of_a_choice_of_twenty_are_falsely_detected_together_as_rarely_as_stated() -> None:
    """By the sum over rows that nobody holds, exactly (Boole): the proof below draws what happens to all at once."""
    metric, weeks = define(TWENTY, "6", "6"), WEEKS["large"]
    found, law = every_count(metric, weeks), law_of_ones(TwoStageNoise.of(metric.noise), weeks, 0.0)
    assert 20 * law[found.p_value <= 0.05 / 20].sum() <= 0.05


@pytest.mark.proof
def test_a_choice_of_twenty_has_no_more_false_detections_than_stated(figure) -> None:
    """All installs hold one choice, and those of small weeks are in the large one. With the average number of reports
    155 had a false detection."""
    metric, weeks, decodings = define(TWENTY, "6", "6"), WEEKS["large"], 1_000
    noise, rng, false = TwoStageNoise.of(metric.noise), np.random.default_rng(36), 0

    def sent(values: np.ndarray, truth: float) -> np.ndarray:
        """Each as it is with this probability, else any other."""
        other = (values + rng.integers(1, 20, len(values))) % 20
        return np.where(rng.random(len(values)) < truth, values, other)

    for _ in range(decodings):
        memos = sent(np.zeros(max(weeks), dtype=np.int64), noise.a1)
        ones = [np.bincount(sent(memos[:week], noise.q), minlength=20).tolist() for week in weeks]
        tally = Tally(metric, {i: Counts((weeks[i],), (tuple(ones[i]),)) for i in range(len(weeks))})
        false += bool(decode(tally).detected[1:].any())
    figure("a choice of 20, a week of 200 and twelve of 10: decodings with a false detection", f"{false}/{decodings}")
    assert false <= binomial_bounds(decodings, 0.05)[1]
