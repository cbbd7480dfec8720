"""A collector keeps a year of daily reports of one person and averages the noise away. What does it learn?

Source: RAPPOR (Erlingsson, Pihur, Korolova 2014), sections 2 and 3, on why the permanent response is memoised; Ding,
Kulkarni, Yekhanin 2017, section 4, on repeated collection.

Setting: (a) a yes or no, epsilon 1 for one report and 2 for ever, answered daily for a year through the real
`respond`; half the people say yes, and the attacker guesses the likelier answer from T reports. Beside it the same
with fresh noise every day, as a client without memos would send. (b) Whole installs, the real `Client` on a clock
that is moved by hand, report one string daily for a year (128 bits, f = 1/2, p = 1/4, q = 3/4); for every bit the
attacker takes the majority.

Expected, and why. With c of T reports saying yes, the best guess is right with probability 1/2 sum over c of max(P(c
| yes), P(c | no)); with a memo P(c | yes) = a1 Bin(c; T, q) + (1 - a1) Bin(c; T, p). It starts at e/(e+1) = 73.1 %
and ends at the memo's own e^2/(e^2+1) = 88.1 %, for ever. Fresh noise starts at the same 73.1 % and reaches 99.9 %
within six weeks. In (b) averaging uncovers the memo, and a memo's bit is the true one with probability 1 - f/2 = 3/4;
without memos every bit would be uncovered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import stats

from hubbub.analysis.progress import Progress
from hubbub.analysis.render.plots import Plot, Scale
from hubbub.client.respond import respond
from hubbub.protocol.cadence import DAY
from hubbub.protocol.invalid import plural
from hubbub.protocol.kinds import Flag
from hubbub.protocol.metric import Definition
from hubbub.protocol.noise import one_bit_noise
from hubbub.protocol.printed import fixed_percent, plain_percent
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import by_short_hash
from hubbub.protocol.wire import unpack
from hubbub.simulations.audit.transcripts import transcript
from hubbub.simulations.experiments import bounds
from hubbub.simulations.experiments.bounds import FALSE_ALARM
from hubbub.simulations.experiments.experiment import Experiment, Prediction, Published, StudyOutput
from hubbub.simulations.experiments.pictures import BLUE, ORANGE, lines_and_points, one, whole

START = 20_000.5 * DAY
ANSWER = Definition(name="answer", every="day", shape=Flag(), noise=one_bit_noise(Fraction(1), Fraction(2)))
A1, A0 = (float(p) for p in ANSWER.noise.permanent.probabilities)
Q, P = (float(p) for p in ANSWER.noise.instantaneous.probabilities)
MEMO, FRESH = "one memo for life", "fresh noise every day"
REGISTRY = Registry.parse("""
app = "averaged"
recipient = { name = "Example", url = "https://telemetry.example.org" }
lifetime_epsilon = 10
[metrics.page]
kind = "string"
num_bits = 128
num_hashes = 2
num_cohorts = 16
why = "an experiment"
owner = "nobody"
expires = 2099-01-01
every = "day"
prob_f = 0.5
prob_p = 0.25
prob_q = 0.75
max_values = 1
""")
PAGE = REGISTRY["page"]
TEXT = "https://example.org/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    days: tuple[int, ...] = (1, 3, 7, 31, 101, 365)
    """Odd numbers: an even one may tie, and tells no more than the odd one before it."""

    people: int = 5_000
    clients: int = 60

    @property
    def year(self) -> int:
        return self.days[-1]


def describe(setting: Setting) -> Mapping[str, str]:
    return {
        "people": f"{setting.people:,} with a yes or no that never changes, half of them yes",
        "metric": "flag, every day, epsilon 1 for one report, 2 for all reports together",
        "attacker": "sees all reports, knows the noise, guesses the likelier answer",
        "whole installs": f"{setting.clients} real clients, {setting.year} days of one string; 128 bits, f = 1/2, p "
        "= 1/4, q = 3/4; the attacker takes the majority for every bit",
    }


def success(reports: int, how: str) -> float:
    """How often the best guess from so many reports is right, exactly."""
    c = np.arange(reports + 1)
    if how == FRESH:
        shown, hidden = (float(x) for x in ANSWER.noise.composed.probabilities)
        yes, no = stats.binom.pmf(c, reports, shown), stats.binom.pmf(c, reports, hidden)
    else:
        said, unsaid = stats.binom.pmf(c, reports, Q), stats.binom.pmf(c, reports, P)
        yes, no = A1 * said + (1 - A1) * unsaid, A0 * said + (1 - A0) * unsaid
    return float(np.maximum(yes, no).sum()) / 2


def predict(setting: Setting) -> Mapping[str, Prediction]:
    found = {}
    for how in (MEMO, FRESH):
        for reports in setting.days:
            chance = min(success(reports, how), 1.0)
            low, high = bounds.share(setting.people, chance)
            found[f"{how} {reports}"] = Prediction(
                what=f"right guesses after {plural(reports, 'report')}, {how}",
                low=low,
                high=high,
                why=f"the best guess is right with {fixed_percent(chance, 2)}; binomial",
                false_alarm=FALSE_ALARM,
                form=".2%",
            )
    low, high = bounds.share(128 * setting.clients, 0.75)
    found["bits"] = Prediction(
        what="bits of the string that averaging uncovers, whole installs",
        low=low,
        high=high,
        why="1 - f/2 = 75 %: averaging ends at the memo; binomial",
        false_alarm=FALSE_ALARM,
        form=".2%",
    )
    return found


def run(setting: Setting, rng: np.random.Generator, progress: Progress) -> StudyOutput:
    right = {MEMO: _memos(setting, rng, progress), FRESH: _fresh(setting, rng)}
    figures = {f"{how} {days}": right[how][i] for how in right for i, days in enumerate(setting.days)}
    figures["bits"] = _whole_installs(setting, rng, progress)
    rows = tuple(
        (
            str(days),
            *(fixed_percent(x) for how in (MEMO, FRESH) for x in (success(days, how), figures[f"{how} {days}"])),
            f"{float(ANSWER.epsilon_after(days)):.2f}",
            f"{days * float(ANSWER.epsilon_one_report):.0f}",
        )
        for days in setting.days
    )
    last = setting.days[-1]
    return StudyOutput(
        figures=figures,
        columns=(
            "reports",
            "memo: theory",
            "found",
            "fresh: theory",
            "found",
            "epsilon with memo",
            "epsilon without",
        ),
        rows=rows,
        chart=_picture(setting, figures),
        caption="How often the attacker's best guess is right. Lines: theory. Points: what was found.",
        meaning=(
            f"After {last} reports the attacker is right about {fixed_percent(figures[f'{MEMO} {last}'])} of people "
            f"who answer through a memo, and about {fixed_percent(figures[f'{FRESH} {last}'])} of those whose noise "
            "is drawn afresh. A memo makes the noise part of the answer: no number of reports wears it off. That is "
            "all it does, though: about a week of reports uncovers the memo itself, so epsilon for one report must "
            "never be shown alone.",
            f"Whole installs agree: {setting.year} days of {setting.clients} real clients, averaged bit by bit, gave "
            f"away {fixed_percent(figures['bits'])} of the bits of their string, where a coin gives 50 % and a client "
            "without memos gives all of them.",
        ),
        published=(
            Published(
                what="what averaging can reach",
                theirs="no more than the permanent response (by argument)",
                ours=f"{fixed_percent(figures[f'{MEMO} {last}'])}; the permanent response itself gives "
                f"{fixed_percent(A1)}",
                why="agrees; neither paper measures it",
            ),
        ),
    )


def _memos(setting: Setting, rng: np.random.Generator, progress: Progress) -> list[float]:
    """The share of right guesses at each number of days, from reports of the real code."""
    right = np.zeros(len(setting.days))
    for person in range(setting.people):
        mask, memo, bits = person % 2, None, []
        for _ in range(setting.year):
            response = respond(ANSWER, mask, 0, rng.bytes, memo)
            memo = response.memo
            bits.append(response.bits)
        ones = np.cumsum(bits)[np.array(setting.days) - 1]
        right += (2 * ones >= setting.days) == bool(mask)
        progress(0.7 * person / setting.people)
    return list(right / setting.people)


def _fresh(setting: Setting, rng: np.random.Generator) -> list[float]:
    """The rival: the same noise of one report, drawn anew each day."""
    shown, hidden = (float(x) for x in ANSWER.noise.composed.probabilities)
    says_yes = np.arange(setting.people) % 2 == 1
    reports = rng.random((setting.year, setting.people)) < np.where(says_yes, shown, hidden)
    ones = np.cumsum(reports, axis=0)
    return [float(np.mean((2 * ones[days - 1] >= days) == says_yes)) for days in setting.days]


def _whole_installs(setting: Setting, rng: np.random.Generator, progress: Progress) -> float:
    known, right = by_short_hash(REGISTRY.in_all_segments()), 0
    times = [START + DAY * day for day in range(setting.year)]
    for client in range(setting.clients):
        messages = transcript(REGISTRY, times, {"page": (TEXT,) * len(times)}, rng.bytes)
        reports = [report for body in messages for report in unpack(body, known).reports]
        assert len(reports) == setting.year
        mask = PAGE.shape.encode(TEXT, reports[0].cohort).mask
        right += sum(
            (2 * sum(report.bits >> i & 1 for report in reports) > len(reports)) == (mask >> i & 1) for i in range(128)
        )
        progress(0.7 + 0.3 * client / setting.clients)
    return right / (128 * setting.clients)


def _picture(setting: Setting, figures: Mapping[str, float]) -> Plot:
    every = np.unique(np.geomspace(1, setting.year, 60).astype(int)).tolist()
    every = sorted({min(t + 1 - t % 2, setting.year) for t in every})
    lines = {how: [(t, success(t, how)) for t in every] for how in (MEMO, FRESH)}
    points = {how: [(t, figures[f"{how} {t}"]) for t in setting.days] for how in (MEMO, FRESH)}
    x = Scale.logarithmic(setting.days, whole, "reports of one value")
    y = Scale.linear(0.5, 1, plain_percent, "right guesses", most=6)
    series = {MEMO: BLUE, FRESH: ORANGE}
    limit = (A1, f"the memo's own limit, {fixed_percent(A1)}")
    return one(lines_and_points(lines, points, x, y, series, rules=(limit,)), series)


EXPERIMENT = Experiment(
    name="averaging",
    title="A year of reports, averaged",
    question="A collector keeps a year of daily reports of one person and averages the noise away. What does it learn?",
    source="Erlingsson, Pihur, Korolova 2014 (RAPPOR), sections 2 and 3; Ding, Kulkarni, Yekhanin 2017, section 4",
    full=Setting(),
    quick=Setting(days=(1, 7, 31), people=600, clients=3),
    describe=describe,
    predict=predict,
    run=run,
)
