"""What does it cost that nobody is trusted? Noise on every device beside noise on one count of a trusted curator.

Source: Dwork, McSherry, Nissim, Smith 2006 (Calibrating Noise to Sensitivity) for Laplace noise on a count; Canonne,
Kamath, Steinke 2020 (The Discrete Gaussian, arXiv 2004.00010) for both laws on whole numbers; Kasiviswanathan and
others 2008 (arXiv 0803.0924) and Duchi, Jordan, Wainwright 2013 (arXiv 1302.3203) for the gap between the two models.

Setting: a yes or no, 30 % say yes, the same epsilon for everybody. On the device: hubbub's `flag`, reported once,
decoded as an analyst does. With a curator who is trusted with all answers: their exact count, plus discrete Laplace
noise of this epsilon, or discrete Gaussian noise whose epsilon is this one at delta 1e-9, drawn by the code of
`hubbub release`. The error is that of the share of those who reported.

Expected, and why. Randomised response with E = e^epsilon has an error of sqrt(E) / (E - 1) / sqrt(n), about 1 /
(epsilon sqrt(n)): n devices, each with its own noise. A count has one draw of noise however many it counts: with r =
1/E the error is sqrt(2 r) / (1 - r) / n, about sqrt(2) / (epsilon n); Gaussian noise has deviation / n, about four
times as much at this delta. What it buys is composition, not one release. The ratio grows as sqrt(n).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import ceil, exp, floor, log10, sqrt

import numpy as np

from hubbub.analysis import decode
from hubbub.analysis.accounting.mechanisms import gaussian_count
from hubbub.analysis.arrays import Array
from hubbub.analysis.progress import Progress
from hubbub.analysis.publishing.count_noise import CountNoise
from hubbub.analysis.publishing.discrete_noise import NoiseSource
from hubbub.analysis.render.plots import Plot, Scale
from hubbub.protocol.kinds import Flag
from hubbub.protocol.metric import Definition
from hubbub.protocol.noise import one_bit_noise
from hubbub.protocol.printed import plain_percent
from hubbub.simulations.exact_tallies import sample_tally
from hubbub.simulations.experiments import bounds
from hubbub.simulations.experiments.bounds import FALSE_ALARM
from hubbub.simulations.experiments.experiment import Experiment, Prediction, Published, StudyOutput
from hubbub.simulations.experiments.pictures import (
    BLUE,
    GREEN,
    ORANGE,
    lines_and_points,
    one,
    points_of,
    thousands,
)

DELTA = 1e-9
SHARE = 0.3
LOCAL, LAPLACE, GAUSSIAN = "noise on every device", "Laplace noise on the count", "Gaussian noise on the count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    epsilons: tuple[float, ...] = (0.25, 0.5, 1)
    installs: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    repeats: int = 200


def metric(epsilon: float) -> Definition:
    noise = one_bit_noise(Fraction(epsilon), Fraction(epsilon))
    return Definition(name="answer", every="once", shape=Flag(), noise=noise)


@cache
def count_noise(how: str, epsilon: float) -> CountNoise:
    """Laplace noise of this epsilon, or the least Gaussian noise in tenths that has it at `DELTA`."""
    if how == LAPLACE:
        return CountNoise.parse(f"laplace:{epsilon:g}")
    low, high = 10, 1_000  # tenths: epsilon 0.1 at 1e-9 takes a deviation of about 50
    while low < high:
        middle = (low + high) // 2
        enough = gaussian_count(middle / 10).epsilon(DELTA) <= epsilon
        low, high = (low, middle) if enough else (middle + 1, high)
    return CountNoise.parse(f"gaussian:{low / 10:g}")


def error(how: str, epsilon: float, installs: int) -> float:
    """The standard error of a share, by theory."""
    if how == LOCAL:
        e = exp(epsilon)
        return sqrt(e) / (e - 1) / sqrt(installs)
    return sqrt(count_noise(how, epsilon).variance) / installs


def law(noise: CountNoise) -> Array:
    """The probabilities of |noise| = 0, 1, 2, ... as far as there are any."""
    width = float(noise.width)
    x = np.arange(int((12 if noise.law == "gaussian" else 40) * width) + 2)
    weight = np.exp(-(x**2) / (2 * width**2)) if noise.law == "gaussian" else np.exp(-x / width)
    weight[1:] *= 2
    return np.asarray(weight / weight.sum())


def describe(setting: Setting) -> Mapping[str, str]:
    return {
        "people": f"{plain_percent(SHARE)} say yes",
        "on the device": "flag, reported once",
        "curator": f"the exact count of yes with discrete noise; Gaussian at delta {DELTA:g}",
        "epsilon": ", ".join(f"{e:g}" for e in setting.epsilons),
        "installs": ", ".join(f"{n:,}" for n in setting.installs),
        "repeats": f"{setting.repeats:,} of each",
    }


def predict(setting: Setting) -> Mapping[str, Prediction]:
    found = {}
    draws = setting.repeats * len(setting.installs)
    for epsilon in setting.epsilons:
        variance = error(LOCAL, epsilon, 1) ** 2
        low, high = bounds.mean_square(variance, draws)
        found[f"{LOCAL} {epsilon:g}"] = Prediction(
            what=f"sqrt(n) x error, {LOCAL}, epsilon {epsilon:g}",
            low=sqrt(low),
            high=sqrt(high),
            why=f"sqrt(E) / (E - 1) = {sqrt(variance):.3f}; chi-square",
            false_alarm=FALSE_ALARM,
        )
        for how in (LAPLACE, GAUSSIAN):
            noise = count_noise(how, epsilon)
            low, high = bounds.mean_square_of_whole_numbers(law(noise), draws)
            found[f"{how} {epsilon:g}"] = Prediction(
                what=f"n x error, {how}, epsilon {epsilon:g}",
                low=sqrt(low),
                high=sqrt(high),
                why=f"one draw of {noise}, whatever n: {sqrt(noise.variance):.3f}; the exact law of so many squares",
                false_alarm=FALSE_ALARM,
            )
    return found


def run(setting: Setting, rng: np.random.Generator, progress: Progress) -> StudyOutput:
    figures: dict[str, float] = {}
    rows, points = [], []
    source = NoiseSource(rng.bytes)
    for place, epsilon in enumerate(setting.epsilons):
        squares = dict.fromkeys((LOCAL, LAPLACE, GAUSSIAN), 0.0)
        for n in setting.installs:
            found = {LOCAL: _local_error(metric(epsilon), n, setting.repeats, rng)}
            for how in (LAPLACE, GAUSSIAN):
                noise = count_noise(how, epsilon)
                found[how] = sqrt(np.mean([noise.draw(source) ** 2 for _ in range(setting.repeats)])) / n
            for how, size in found.items():
                squares[how] += (size * (sqrt(n) if how == LOCAL else n)) ** 2 / len(setting.installs)
                points.append({"epsilon": epsilon, "series": how, "installs": n, "error": size})
            rows.append((f"{epsilon:g}", f"{n:,}", *_cells(epsilon, n, found), f"{found[LOCAL] / found[LAPLACE]:,.0f}"))
            progress((place + setting.installs.index(n) / len(setting.installs)) / len(setting.epsilons))
        figures |= {f"{how} {epsilon:g}": sqrt(total) for how, total in squares.items()}
    last = setting.epsilons[-1]
    as_good = (error(LOCAL, last, 1) / error(LAPLACE, last, 1_000)) ** 2
    return StudyOutput(
        figures=figures,
        columns=("epsilon", "installs", LOCAL, "theory", LAPLACE, "theory", GAUSSIAN, "theory", "device / Laplace"),
        rows=tuple(rows),
        chart=_picture(setting, points),
        caption=f"Standard error of a share at epsilon {last:g}. Lines: theory. Points: what was found.",
        meaning=(
            "Where nobody is trusted, everybody adds noise, and the noise of n devices falls as 1 / sqrt(n); a trusted "
            f"curator adds noise once. At epsilon {last:g} a curator's thousand people are worth {as_good:,.0f} whose "
            "devices add the noise.",
            "That is the price of having nobody to trust, and the reason why noise on published counts, on top of that "
            "of the devices, is hardly seen.",
        ),
        published=(
            Published(
                what="error of a count, both models",
                theirs="1 / epsilon against sqrt(n) / epsilon, up to constants",
                ours=f"{error(LAPLACE, last, 1):.2f} against {error(LOCAL, last, 1):.2f} sqrt(n) at epsilon {last:g}",
                why="agrees; the constants are those of discrete Laplace noise and of randomised response",
            ),
        ),
    )


def _local_error(asked: Definition, n: int, repeats: int, rng: np.random.Generator) -> float:
    yes = round(SHARE * n)
    errors = [float(decode(sample_tally(asked, [n], [[yes]], rng)).estimate[0]) - yes / n for _ in range(repeats)]
    return sqrt(np.mean(np.square(errors)))


def _cells(epsilon: float, n: int, found: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(plain_percent(size, 2) for how, at in found.items() for size in (at, error(how, epsilon, n)))


def _picture(setting: Setting, points: list[dict[str, object]]) -> Plot:
    shown = setting.epsilons[-1]
    series = {LOCAL: ORANGE, GAUSSIAN: GREEN, LAPLACE: BLUE}
    lines = {how: [(n, error(how, shown, n)) for n in setting.installs] for how in series}
    found = points_of((point for point in points if point["epsilon"] == shown), "installs", "error")
    x = Scale.logarithmic(setting.installs, thousands, "installs")
    sizes = [size for some in (lines, found) for line in some.values() for _, size in line]
    powers = [10.0**power for power in range(floor(log10(min(sizes))), ceil(log10(max(sizes))) + 1)]
    y = Scale.logarithmic(powers, plain_percent, "standard error of a share")
    return one(lines_and_points(lines, found, x, y, series), series)


EXPERIMENT = Experiment(
    name="central-noise",
    title="Noise on every device, or on one count",
    question="What does it cost that nobody is trusted with the answers?",
    source="Dwork, McSherry, Nissim, Smith 2006; Kasiviswanathan and others 2008; Canonne, Kamath, Steinke 2020",
    full=Setting(),
    quick=Setting(epsilons=(1,), installs=(1_000, 100_000), repeats=100),
    describe=describe,
    predict=predict,
    run=run,
)
