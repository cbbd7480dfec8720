"""How many reports until a bell curve shows through one-time randomized response?

Source: RAPPOR (Erlingsson, Pihur, Korolova 2014, arXiv 1407.6981), section 5.1: whole numbers from a normal law of
mean 50 and standard deviation 10, one bit per number (Basic One-time RAPPOR), q = 3/4 and p = 1/4, at 10,000, 100,000
and 1,000,000 reports. The paper shows pictures and says that the curve cannot be made out at ten thousand, begins to
emerge at a hundred thousand and is traced closely at a million; it gives epsilon = ln 3. (Quoted from the paper as
known; its text was not at hand to be checked again.)

Setting: the same, through hubbub: a `choice` of 1..100, reported once, whose permanent channel is the paper's q and p
(for a report that is never repeated the two stages are one), exact tallies, `decode`.

Expected, and why. Bits are independent and q + p = 1, so every count has the same standard deviation sqrt(n p (1 -
p)) / (q - p) = 0.866 sqrt(n), whatever is true (section 4 of the paper): 87, 274 and 866, beside a peak of 0.0399 n:
399, 3,989 and 39,894. So the peak stands 4.6, 14.6 and 46 standard deviations tall. How many of the hundred numbers
are then detected (Bonferroni, 5 %) follows from the normal law. Epsilon is ln 9 = 2.197, not ln 3: another value
clears one bit and sets another, and each of the two bits tells up to ln 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import log, sqrt

import numpy as np
from scipy import stats

from hubbub.analysis import decode
from hubbub.analysis.arrays import Array
from hubbub.analysis.progress import Progress
from hubbub.analysis.render.plots import Panel, Plot, Scale, Series
from hubbub.protocol.kinds import Choice
from hubbub.protocol.metric import Definition
from hubbub.protocol.noise import rappor_noise
from hubbub.protocol.printed import plain_percent
from hubbub.simulations.exact_tallies import assign_cohorts, ones_of, sample_tally
from hubbub.simulations.experiments import bounds
from hubbub.simulations.experiments.bounds import FALSE_ALARM
from hubbub.simulations.experiments.experiment import Experiment, Prediction, Published, StudyOutput
from hubbub.simulations.experiments.pictures import BLUE, INK, whole

NUMBERS = np.arange(1, 101)
SHARES = np.diff(stats.norm.cdf(np.arange(0.5, 101), 50, 10))
METRIC = Definition(
    name="number",
    every="once",
    shape=Choice(choices=tuple(map(str, NUMBERS))),
    noise=rappor_noise(Fraction(1, 2), Fraction(0), Fraction(1)),  # a memo that is itself the report
)
P, Q = float(METRIC.noise.p_star), float(METRIC.noise.q_star)
VARIANCE = P * (1 - P) / (Q - P) ** 2
"""Of an estimated share, times n: the same for every share, because p + q = 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    reports: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    repeats: int = 400


def describe(setting: Setting) -> Mapping[str, str]:
    return {
        "people": "each holds a whole number, normal with mean 50 and standard deviation 10",
        "metric": "choice of 1..100, one bit each, reported once; q = 3/4, p = 1/4",
        "reports": ", ".join(f"{n:,}" for n in setting.reports),
        "repeats": f"{setting.repeats:,} populations of each size",
    }


def predict(setting: Setting) -> Mapping[str, Prediction]:
    found = {
        "epsilon": Prediction(
            what="epsilon of the one report",
            low=log(9),
            high=log(9) + 2e-6,
            why="two bits change with the value, each tells ln 3; shown epsilons are rounded up",
            form=".4f",
        )
    }
    for n in setting.reports:
        low, high = bounds.mean_square(VARIANCE * n, setting.repeats * len(NUMBERS))
        found[f"deviation {n}"] = Prediction(
            what=f"standard deviation of a count, {n:,} reports",
            low=sqrt(low),
            high=sqrt(high),
            why=f"sqrt(n p(1-p))/(q-p) = {sqrt(VARIANCE * n):.1f}; chi-square over all counts of all repeats",
            false_alarm=FALSE_ALARM,
            form=".1f",
        )
        low, high = bounds.found(_powers(n), setting.repeats)
        found[f"detected {n}"] = Prediction(
            what=f"numbers detected of 100, {n:,} reports",
            low=low,
            high=high,
            why="the sum of the powers of 100 one-sided tests at 5 % / 100",
            false_alarm=FALSE_ALARM,
            form=".2f",
        )
    low, high = bounds.share(setting.repeats * len(setting.reports) * len(NUMBERS), 0.95)
    found["coverage"] = Prediction(
        what="95 % intervals that hold the true share",
        low=low,
        high=high,
        why="that is what 95 % means; binomial over all intervals of all repeats",
        false_alarm=FALSE_ALARM,
        form=".4f",
    )
    return found


def _powers(n: int) -> Array:
    """Shares of those who reported vary by sampling, estimates of them by noise."""
    return bounds.power(SHARES, sqrt(VARIANCE / n), np.sqrt((VARIANCE + SHARES * (1 - SHARES)) / n), 0.05 / 100)


def run(setting: Setting, rng: np.random.Generator, progress: Progress) -> StudyOutput:
    figures = {"epsilon": float(METRIC.epsilon_permanent)}
    rows, drawn, covered = [], [], 0
    for step, n in enumerate(setting.reports):
        squares, detected = 0.0, 0
        for repeat in range(setting.repeats):
            counts = rng.multinomial(n, SHARES / SHARES.sum())
            by_cohort = assign_cohorts(np.append(counts, 0), 1, rng)  # the last column: nobody is absent
            decoding = decode(sample_tally(METRIC, [n], ones_of(METRIC.shape, by_cohort), rng))
            truth = counts / n
            squares += float(np.sum((decoding.estimate[:100] - truth) ** 2))
            covered += int(np.sum((decoding.low[:100] <= truth) & (truth <= decoding.high[:100])))
            detected += int(decoding.detected[:100].sum())
            if repeat == 0:
                drawn.append((n, decoding.estimate[:100]))
            progress((step + repeat / setting.repeats) / len(setting.reports))
        deviation = n * sqrt(squares / (setting.repeats * len(NUMBERS)))
        figures[f"deviation {n}"] = deviation
        figures[f"detected {n}"] = detected / setting.repeats
        peak = n * float(SHARES.max())
        rows.append(
            (
                f"{n:,}",
                f"{peak:,.0f}",
                f"{sqrt(VARIANCE * n):,.1f}",
                f"{deviation:,.1f}",
                f"{peak / deviation:.1f}",
                f"{detected / setting.repeats:.1f}",
            )
        )
    figures["coverage"] = covered / (setting.repeats * len(setting.reports) * len(NUMBERS))
    return StudyOutput(
        figures=figures,
        columns=("reports", "count at the peak", "its deviation: theory", "found", "peak / deviation", "detected"),
        rows=tuple(rows),
        chart=_picture(drawn),
        caption="One population of each size. Line: the truth. Bars: what decoding says, noise below zero and all.",
        meaning=(
            "Noise grows like the square root of the number of reports and the signal like the number itself. At "
            f"the smallest size the peak of the bell stands {float(rows[0][4]):.0f} standard deviations above "
            "nothing, so a hump is there but its shape is lost; each tenfold crowd makes it three times as clear.",
            "What the tails show is noise of exactly the predicted size: nobody holds a 5 or a 95, and the bars "
            "there say how uncertain every other bar is.",
        ),
        published=(
            Published(
                what="visible with how many reports",
                theirs="not at 10,000; emerging at 100,000; traced at 1,000,000",
                ours=", ".join(f"{row[0]}: {row[5]} of 100 numbers detected" for row in rows),
                why="agrees; the paper judges by eye, a count of detections is added here",
            ),
            Published(
                what="epsilon",
                theirs="ln 3 = 1.10",
                ours="ln 9 = 2.20",
                why="theirs is what one bit tells; two people with different numbers differ in two bits of the mask",
            ),
        ),
    )


def _picture(drawn: list[tuple[int, Array]]) -> Plot:
    rows = []
    for n, estimates in drawn:
        x = Scale.linear(0, 101, whole, "number held" if n == drawn[-1][0] else "")
        y = Scale.linear(-0.03, 0.07, plain_percent, "share", most=4)
        bars = [(float(i), float(e)) for i, e in zip(NUMBERS, estimates, strict=True)]
        truth = [(float(i), float(t)) for i, t in zip(NUMBERS, SHARES, strict=True)]
        series = (Series(css=BLUE, bars=bars), Series(css=INK, line=truth))
        rows.append((Panel(x=x, y=y, series=series, title=f"{n:,} reports", height=110),))
    return Plot(rows=tuple(rows))


EXPERIMENT = Experiment(
    name="rappor-normal",
    title="A bell curve through noise",
    question="How many reports does it take until a bell curve shows through one-time randomized response?",
    source="Erlingsson, Pihur, Korolova 2014 (RAPPOR), section 5.1, arXiv 1407.6981; its figures are quoted as "
    "known, not checked again against its text",
    full=Setting(),
    quick=Setting(reports=(10_000, 1_000_000), repeats=60),
    describe=describe,
    predict=predict,
    run=run,
)
