"""What does a histogram cost when each person is asked about d of its k buckets only?

Source: Ding, Kulkarni, Yekhanin 2017 (Collecting Telemetry Data Privately, arXiv 1712.01524), section 3: dBitFlip. A
person's d bits are flipped with probability 1/(e^(epsilon/2) + 1) each; the error falls like sqrt(k/d). (Its theorem
is reproduced; its plots rest on Microsoft's own data and could not be checked here.)

Setting: 32 buckets, shares falling by 15 % from one to the next, epsilon 1, 300,000 people, d = 1 .. 32. Once with
the paper's flips, once with the noise that hubbub chooses for the same epsilon.

Expected, and why. A bucket is asked of a share d/k of people. n Var of a share f is then (k/d) V + f (1 - f)(k/d -
1): noise, and chance who was asked. The paper's flips have V = e^(epsilon/2) / (e^(epsilon/2) - 1)**2 = 3.92;
hubbub's (1s arrive with 1/2, 0s with 1/(E+1)) have V = 4E/(E-1)**2 + f = 3.68 + f. With d = 1 there is a single bit:
the paper still spends epsilon/2 on it, and so only half its promise; all of epsilon on that bit has V = E/(E-1)**2 =
0.92, a quarter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hubbub.analysis import decode
from hubbub.analysis.progress import Progress
from hubbub.analysis.render.plots import Plot, Scale
from hubbub.protocol.channel import Noise
from hubbub.protocol.kinds import Histogram
from hubbub.protocol.metric import Definition
from hubbub.protocol.noise import many_bit_noise, one_bit_noise
from hubbub.simulations.exact_tallies import assign_cohorts, ones_of, sample_tally
from hubbub.simulations.experiments import bounds
from hubbub.simulations.experiments.bounds import FALSE_ALARM
from hubbub.simulations.experiments.experiment import Experiment, Prediction, Published, StudyOutput
from hubbub.simulations.experiments.pictures import BLUE, ORANGE, lines_and_points, one, points_of, whole

BUCKETS = 32
EPSILON = Fraction(1)
_WEIGHTS = 0.85 ** np.arange(BUCKETS)
SHARES = _WEIGHTS / _WEIGHTS.sum()
PAPER, OURS = "flips of the paper", "hubbub's noise, same epsilon"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    asked: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    installs: int = 300_000
    repeats: int = 400


def noise_of(how: str, asked: int) -> Noise:
    if how == PAPER:
        return one_bit_noise(EPSILON / 2, EPSILON / 2)
    return one_bit_noise(EPSILON, EPSILON) if asked == 1 else many_bit_noise(EPSILON, EPSILON, 1)


def metric(how: str, asked: int) -> Definition:
    edges = tuple(Fraction(i) for i in range(BUCKETS + 1))
    return Definition(
        name="number",
        every="once",
        shape=Histogram(edges=edges, buckets_per_report=asked),
        noise=noise_of(how, asked),
    )


def describe(setting: Setting) -> Mapping[str, str]:
    return {
        "people": f"{setting.installs:,}, each in one of 32 buckets; every bucket holds 15 % less than the one before",
        "metric": f"histogram, epsilon 1, reported once; each person is asked about {_list(setting.asked)} buckets",
        "noise": "as published, e^(epsilon/2) for every bit; and as hubbub chooses it for the same epsilon",
        "repeats": f"{setting.repeats:,} populations of each",
    }


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers[:-1])) + f" or {numbers[-1]}"


def variance(how: str, asked: int) -> float:
    """n times the variance of a share, averaged over the buckets."""
    noise = noise_of(how, asked)
    p, q = float(noise.p_star), float(noise.q_star)
    of_bits = p * (1 - p) / (q - p) ** 2 + SHARES * (1 - p - q) / (q - p)
    part = BUCKETS / asked
    return float(np.mean(part * of_bits + SHARES * (1 - SHARES) * (part - 1)))


def predict(setting: Setting) -> Mapping[str, Prediction]:
    found = {}
    for how in (PAPER, OURS):
        for asked in setting.asked:
            low, high = bounds.mean_square(variance(how, asked), setting.repeats * BUCKETS)
            found[f"{how} {asked}"] = Prediction(
                what=f"n x variance of a share, d = {asked}, {how}",
                low=low,
                high=high,
                why=f"(k/d) V + f(1-f)(k/d - 1) = {variance(how, asked):.3g} on average; chi-square",
                false_alarm=FALSE_ALARM,
            )
    for asked, half in ((1, 0.5), (max(setting.asked), 1.0)):
        found[f"epsilon {asked}"] = Prediction(
            what=f"epsilon that the paper's flips really spend, d = {asked}",
            low=half - 1e-5,
            high=half,
            why="a single bit tells epsilon/2" if asked == 1 else "two bits may change, epsilon/2 each",
            form=".4f",
        )
    return found


def run(setting: Setting, rng: np.random.Generator, progress: Progress) -> StudyOutput:
    figures, rows, points = {}, [], []
    n, trials, done = setting.installs, 2 * len(setting.asked) * setting.repeats, 0
    for asked in setting.asked:
        for how in (PAPER, OURS):
            question = metric(how, asked)
            squares = 0.0
            for _ in range(setting.repeats):
                counts = rng.multinomial(n, SHARES)
                by_cohort = assign_cohorts(counts, question.shape.num_cohorts, rng)
                tally = sample_tally(question, by_cohort.sum(axis=1), ones_of(question.shape, by_cohort), rng)
                squares += float(np.mean((decode(tally).estimate[:BUCKETS] - counts / n) ** 2))
                done += 1
            progress(done / trials)
            figures[f"{how} {asked}"] = n * squares / setting.repeats
            points.append({"series": how, "asked": asked, "variance": figures[f"{how} {asked}"]})
        rows.append(
            (
                str(asked),
                *(
                    f"{value:.3g}"
                    for how in (PAPER, OURS)
                    for value in (variance(how, asked), figures[f"{how} {asked}"])
                ),
                f"{figures[f'{PAPER} {asked}'] / figures[f'{OURS} {asked}']:.2f}",
            )
        )
    for asked in (1, max(setting.asked)):
        figures[f"epsilon {asked}"] = float(metric(PAPER, asked).epsilon_permanent)
    return StudyOutput(
        figures=figures,
        columns=("d", "paper's flips: theory", "found", "hubbub's: theory", "found", "paper / hubbub"),
        rows=tuple(rows),
        chart=_picture(setting, points),
        caption="n times the variance of a bucket's share, by how many of the 32 buckets each person is asked "
        "about. Lines: theory. Points: what was found.",
        meaning=(
            "Asking fewer buckets costs in proportion: with the same noise each halving of d doubles the variance, "
            "for a bucket that is asked of half the people is known half as well. What is gained is not accuracy "
            "but a report of d bits and a memo that tells little of the install.",
            f"With d = 1 hubbub's noise is {rows[0][-1]} times better at the same promise. A single bit can lose or "
            "gain only itself, so it may carry all of epsilon; the published flips leave half of it unused. With "
            "more bits the gain is that of the asymmetric channel, 6 % at epsilon 1.",
        ),
        published=(
            Published(
                what="error against d",
                theirs="falls like sqrt(k/d)",
                ours="n Var " + ", ".join(f"{row[2]} (d = {row[0]})" for row in rows),
                why="agrees; a little more is added by chance who was asked, f(1-f)(k/d - 1)",
            ),
            Published(
                what="epsilon with d = 1",
                theirs="1",
                ours=f"{figures['epsilon 1']:.2f}",
                why="one bit flipped with e^(epsilon/2) spends half of what is allowed",
            ),
        ),
    )


def _picture(setting: Setting, points: list[dict[str, object]]) -> Plot:
    lines = {how: [(asked, variance(how, asked)) for asked in setting.asked] for how in (PAPER, OURS)}
    x = Scale.logarithmic(setting.asked, whole, "buckets asked of each person, d")
    y = Scale.logarithmic([3, 10, 30, 100], whole, "n x variance of a share", ends=(3, 200))
    series = {PAPER: ORANGE, OURS: BLUE}
    return one(lines_and_points(lines, points_of(points, "asked", "variance"), x, y, series), series)


EXPERIMENT = Experiment(
    name="dbitflip",
    title="A histogram, a few buckets at a time",
    question="What does a histogram cost when each person is asked about d of its k buckets only?",
    source="Ding, Kulkarni, Yekhanin 2017, section 3 (dBitFlip), arXiv 1712.01524; its theorem is reproduced, its "
    "plots rest on data that are not public",
    full=Setting(),
    quick=Setting(asked=(1, 4, 32), repeats=40),
    describe=describe,
    predict=predict,
    run=run,
)
