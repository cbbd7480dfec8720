"""One in a hundred reports is fake. How far can they move a mean, and what would a single one do?

Source: Cheu, Smith, Ullman 2021 (Manipulation Attacks in Local Differential Privacy) for the principle that a local
report weighs as much as its noise; the 1-bit mean is Ding, Kulkarni, Yekhanin 2017. (Formulas derived here.)

Setting: hours of use a day in [0, 24], a million honest people as skewed as app usage, hubbub's `mean` at epsilon 1,
10,000 fakes that all say "24 hours" (or all "0"). Beside it, collectors of whole numbers with Laplace noise: one that
believes any number, and one that cuts off what honest noise exceeds once in a million. Fakes of the bit go through
the real intake.

Expected, and why. A bit counts as (b(E+1) - 1)/(E-1) of the range: E/(E-1) = 1.58 or -1/(E-1) = -0.58. With b the
share of fakes and x the honest mean, the mean moves by b (E/(E-1) - x) or -b (1/(E-1) + x), never by more than the
attack radius b (E+1)/(E-1) = 2.16 b that `decode` prints. A report of two bits, a byte of ones or many reports in a
message are refused. A number with Laplace noise can be anything: a single fake of a billion hours moves the mean of a
million people by a thousand hours; cut at 24 (1 + ln(500,000)) hours, 10,000 fakes still move it by b (14.1 - x) of
the range, nine times as far as the bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log

import numpy as np
from scipy import stats

from hubbub.analysis import Options, decode
from hubbub.analysis.progress import Progress
from hubbub.protocol.printed import fixed_percent
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally import Tally
from hubbub.simulations.exact_tallies import sample_tally
from hubbub.simulations.experiments import bounds
from hubbub.simulations.experiments.bounds import FALSE_ALARM
from hubbub.simulations.experiments.experiment import Experiment, Prediction, Published, StudyOutput
from hubbub.simulations.experiments.fake_reports import TODAY, FakeReport, messages_of, received, unchecked
from hubbub.simulations.experiments.pictures import attack_bars, thousands

HOURS = 24
REGISTRY = Registry.parse("""
app = "poisoned"
recipient = { name = "Example", url = "https://telemetry.example.org" }
lifetime_epsilon = 10
[metrics.hours]
kind = "mean"
low = 0
high = 24
unit = "h"
absent = 0
why = "an experiment"
owner = "nobody"
expires = 2099-01-01
every = "day"
epsilon_one_report = 1
epsilon_permanent = 2
max_values = 1
""")
METRIC = REGISTRY["hours"]
E = exp(1)
PEOPLE = np.minimum(np.exp(1.2 * stats.norm.ppf((np.arange(200) + 0.5) / 200)), HOURS) / HOURS
"""Two hundred numbers in units of the range, each held by one in two hundred: log-normal, median one hour."""
HONEST = float(PEOPLE.mean())
CUT = 1 + log(500_000)
"""Where honest noise of epsilon 1 goes once in a million times, above the range's end; in units of the range."""
BULK, BYTE, UP, DOWN = "all in one message", "eight bits for one", "all say 24", "all say 0"
BELIEVED, CLIPPED = "numbers, any believed", "numbers, cut off"
HUGE = 10**9
_WHY = {
    UP: "each fake weighs E/(E - 1) of the range, an honest report the mean",
    DOWN: "each fake weighs -1/(E - 1) of the range, an honest report the mean",
    CLIPPED: "each fake says as much as will count",
    BELIEVED: "a billion hours, shared by everybody",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    honest: int = 1_000_000
    fakes: int = 10_000
    repeats: int = 300

    @property
    def share(self) -> float:
        return self.fakes / (self.honest + self.fakes)


def describe(setting: Setting) -> Mapping[str, str]:
    return {
        "people": f"{setting.honest:,} honest reports, log-normal hours with a median of one; mean "
        f"{HOURS * HONEST:.2f} hours",
        "fakes": f"{setting.fakes:,}: {fixed_percent(setting.share, 2)} of all reports",
        "metric": "mean in [0, 24] hours, one bit, epsilon 1",
        "rivals": f"numbers with Laplace noise of epsilon 1: any number believed, or cut at {HOURS * CUT:.0f} hours",
        "repeats": f"{setting.repeats:,} honest populations",
    }


def moved(setting: Setting) -> dict[str, float]:
    """How far the mean moves, in units of the range."""
    b = setting.share
    return {
        UP: b * (E / (E - 1) - HONEST),
        DOWN: -b * (1 / (E - 1) + HONEST),
        CLIPPED: b * (CUT - HONEST),
        BELIEVED: (HUGE / HOURS - HONEST) / (setting.honest + 1),
    }


def predict(setting: Setting) -> Mapping[str, Prediction]:
    found = {
        f"refused {attack}": Prediction(
            what=f"messages refused: {attack}", low=refused, high=refused, why=why, form=".0%"
        )
        for attack, refused, why in (
            (BULK, 1, "an install sends one report an epoch"),
            (BYTE, 1, "a mean has one bit"),
            (UP, 0, "each by itself could be honest"),
            (DOWN, 0, "each by itself could be honest"),
        )
    }
    one = 1 / (E + 1) + PEOPLE * (E - 1) / (E + 1)
    noise = {UP: float(np.mean(one * (1 - one))) * ((E + 1) / (E - 1)) ** 2, CLIPPED: 2.0}
    noise |= {DOWN: noise[UP], BELIEVED: noise[CLIPPED]}
    for attack, by in moved(setting).items():
        low, high = bounds.mean(by, noise[attack] / (setting.honest * setting.repeats))
        found[f"shift {attack}"] = Prediction(
            what=f"hours by which the mean moves: {attack}{' (one fake)' * (attack == BELIEVED)}",
            low=HOURS * low,
            high=HOURS * high,
            why=f"{HOURS * by:.4g}: {_WHY[attack]}; normal",
            false_alarm=FALSE_ALARM,
            form=",.3f",
        )
    radius = HOURS * setting.share * (E + 1) / (E - 1)
    found["radius"] = Prediction(
        what="attack radius that decode prints, in hours",
        low=radius * (1 - 1e-5),
        high=radius * (1 + 1e-5),
        why="b (E+1)/(E-1) of the range; the noise is rounded to 2^-24",
        form=".3f",
    )
    found["within"] = Prediction(
        what="largest move by the bit, as a share of the radius",
        low=0,
        high=1,
        why="the radius is from one end to the other; honest people are in between",
        form=".2f",
    )
    return found


def run(setting: Setting, rng: np.random.Generator, progress: Progress) -> StudyOutput:
    attacks: dict[str, list[FakeReport]] = {
        BULK: [(TODAY, 0, 1)] * setting.fakes,
        BYTE: [(TODAY, 0, 255)] * setting.fakes,
        UP: [(TODAY, 0, 1)] * setting.fakes,
        DOWN: [(TODAY, 0, 0)] * setting.fakes,
    }
    taken = {a: received(REGISTRY, METRIC, messages_of(METRIC, f, in_one=a == BULK)) for a, f in attacks.items()}
    progress(0.3)
    shifts: dict[str, list[float]] = {attack: [] for attack in (UP, DOWN, CLIPPED, BELIEVED)}
    believed: list[float] = []
    radius = 0.0
    for repeat in range(setting.repeats):
        honest = _honest(setting, rng)
        for attack in (UP, DOWN):
            estimate, radius = _mean(setting, honest + taken[attack].counted)
            shifts[attack].append(estimate - HOURS * HONEST)
        believed.append(_mean(setting, honest + unchecked(METRIC, attacks[BULK]))[0] - HOURS * HONEST)
        for attack in (CLIPPED, BELIEVED):
            shifts[attack].append(HOURS * _numbers(setting, attack, rng))
        progress(0.3 + 0.7 * repeat / setting.repeats)
    figures = {f"refused {a}": sum(taken[a].refused.values()) / taken[a].messages for a in attacks}
    figures |= {f"shift {attack}": float(np.mean(values)) for attack, values in shifts.items()}
    figures["radius"] = radius
    figures["within"] = max(abs(figures[f"shift {a}"]) for a in (UP, DOWN)) / radius
    without = {
        BULK: float(np.mean(believed)),
        BYTE: float(np.mean(believed)),
        **{a: figures[f"shift {a}"] for a in (UP, DOWN)},
    }
    with_checks = {**dict.fromkeys((BULK, BYTE), 0.0), **{a: figures[f"shift {a}"] for a in (UP, DOWN)}}
    with_checks[CLIPPED] = figures[f"shift {CLIPPED}"]
    rows = [
        (
            attack,
            f"{taken[attack].messages:,}",
            fixed_percent(figures[f"refused {attack}"], 0),
            f"{without[attack]:+.3f} h",
            f"{with_checks[attack]:+.3f} h" if with_checks[attack] else "0 h",
        )
        for attack in attacks
    ]
    rows.append((CLIPPED, f"{setting.fakes:,}", "none", "", f"{figures[f'shift {CLIPPED}']:+.3f} h"))
    rows.append((BELIEVED, "1", "none", f"{figures[f'shift {BELIEVED}']:+,.0f} h", ""))
    return StudyOutput(
        figures=figures,
        columns=("attack", "messages", "refused", "mean moves, believing all", "with the checks"),
        rows=tuple(rows),
        chart=attack_bars(
            without, with_checks, checks="with the checks", title="hours by which the mean moves", show=thousands
        ),
        caption=f"How far {fixed_percent(setting.share)} fakes move a mean of {HOURS * HONEST:.1f} hours. The "
        f"collector that believes any number is not shown: one fake moves it by {figures[f'shift {BELIEVED}']:,.0f} "
        "hours.",
        meaning=_meaning(setting, figures, radius),
        published=_published(setting, figures),
    )


def _published(setting: Setting, figures: Mapping[str, float]) -> tuple[Published, ...]:
    return (
        Published(
            what="weight of a fake report",
            theirs="grows like 1/epsilon (principle)",
            ours=f"{figures[f'shift {UP}'] / HOURS / setting.share + HONEST:.3f} of the range at epsilon 1",
            why="E/(E-1) = 1.582: agrees",
        ),
    )


def _meaning(setting: Setting, figures: Mapping[str, float], radius: float) -> tuple[str, ...]:
    return (
        "A bit can only lie by a bit. Whatever fakes say, each weighs at most 1.58 of the range at epsilon 1, and "
        f"{fixed_percent(setting.share, 2)} of them move the mean by {figures[f'shift {UP}']:.2f} hours at most. "
        f"`decode` prints a radius of {radius:.2f} hours for that share. No check on the data can do better: a fake "
        "bit looks like any other bit, and nothing in the table gives it away.",
        f"Numbers with noise are far easier to poison: honest noise reaches {HOURS * CUT:.0f} hours now and "
        "then, so a collector must accept that much, and the same fakes move the mean by "
        f"{figures[f'shift {CLIPPED}']:.2f} hours. One that forgets to cut off is finished by a single report.",
    )


def _honest(setting: Setting, rng: np.random.Generator) -> Tally:
    """Alpha-point rounding with a uniform alpha sends x to the upper end with chance x."""
    rounded_up = int(rng.binomial(setting.honest // len(PEOPLE), PEOPLE).sum())
    return sample_tally(METRIC, [setting.honest], [[rounded_up]], rng, [TODAY])


def _mean(setting: Setting, tally: Tally) -> tuple[float, float]:
    """The decoded mean and its attack radius, in hours."""
    decoding = decode(tally, options=Options(fake_share=setting.share))
    return float(decoding.estimate[0]), decoding.diagnostics.attack_radius


def _numbers(setting: Setting, attack: str, rng: np.random.Generator) -> float:
    """The rival's error, in units of the range: honest numbers with Laplace noise, and fakes as large as will count.

    The sum of n Laplace draws is a difference of two gammas. What cutting off does to honest noise, less than once in
    a million draws, is left out.
    """
    noise = float(rng.gamma(setting.honest) - rng.gamma(setting.honest))
    fakes, value = (setting.fakes, CUT) if attack == CLIPPED else (1, HUGE / HOURS)
    return (setting.honest * HONEST + noise + fakes * value) / (setting.honest + fakes) - HONEST


EXPERIMENT = Experiment(
    name="poisoned-mean",
    title="A mean under attack",
    question="One in a hundred reports is fake. How far can they move a mean, and what would a single one do?",
    source="Cheu, Smith, Ullman 2021; Ding, Kulkarni, Yekhanin 2017; formulas derived here",
    full=Setting(),
    quick=Setting(honest=200_000, fakes=2_000, repeats=40),
    describe=describe,
    predict=predict,
    run=run,
)
