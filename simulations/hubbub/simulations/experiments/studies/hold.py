"""Can the collector see that somebody's answer has changed, and does `hold` prevent it?

Source: RAPPOR (Erlingsson, Pihur, Korolova 2014), section 6, and Ding, Kulkarni, Yekhanin 2017, section 4, both note
that memoisation does not hide changes of value. How well a change can be detected we know of no publication for; the
exact laws below are our own derivation.

Setting: a yes or no, daily, epsilon 1 for one report and 2.2 for ever. Half the installs say yes for 60 days; the
others change to no on day 16. The attacker knows all this, and takes the most powerful test of "no change" at 5 %
false alarms. Each install is a real `Client` that reports two metrics: one plain, one with hold = 30, which keeps the
first answer of each thirty days.

Expected, and why. Plain: a change shows as another memo. From c1 yes among n1 reports before and c2 among n2 after
it, the likelihood without change is a1 Bq(c1) Bq(c2) + (1-a1) Bp(c1) Bp(c2), with a change [a1 Bq(c1) + (1-a1)
Bp(c1)] [a0 Bq(c2) + (1-a0) Bp(c2)]; the test and its power follow by enumeration. The two memos differ with
probability 0.82, and no false alarm has to be paid for that in the long run. With hold, both histories send the same
reports until day 30: no test has more power than its false alarms, 5 %. Afterwards a new memo is drawn for both, and
power is at most e^2.2 x 5 % = 45 %, whatever is collected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp

import numpy as np
from scipy import stats

from hubbub.analysis.arrays import Array
from hubbub.analysis.progress import Progress
from hubbub.protocol.cadence import DAY
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import by_short_hash
from hubbub.protocol.wire import unpack
from hubbub.simulations.audit.transcripts import transcript
from hubbub.simulations.experiments import bounds
from hubbub.simulations.experiments.bounds import FALSE_ALARM
from hubbub.simulations.experiments.experiment import Experiment, Prediction, Published, StudyOutput
from hubbub.simulations.experiments.pictures import BLUE, ORANGE, WIDTH, altair, chart, colours, finished, rule

FALSE = 0.05
PLAIN, HELD = "plain", "held"
NAMES = {PLAIN: "without hold", HELD: "with hold"}
_TERMS = (
    'kind = "flag"\nwhy = "an experiment"\nowner = "nobody"\nexpires = 2099-01-01\nevery = "day"\n'
    "epsilon_one_report = 1\nepsilon_permanent = 2.2\nmax_values = 2\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    hold: int = 30
    installs: int = 1_000
    """Of each sort: constant, changing."""

    @property
    def change(self) -> int:
        return self.hold // 2

    @property
    def windows(self) -> tuple[int, int]:
        """The days seen: one period of hold, and two."""
        return self.hold, 2 * self.hold

    @property
    def registry(self) -> Registry:
        return Registry.parse(
            'app = "changing"\nlifetime_epsilon = 20\n'
            'recipient = { name = "Example", url = "https://telemetry.example.org" }\n'
            f"[metrics.{PLAIN}]\n{_TERMS}[metrics.{HELD}]\n{_TERMS}hold = {self.hold}\n"
        )


def describe(setting: Setting) -> Mapping[str, str]:
    return {
        "people": f"{setting.installs:,} say yes for {2 * setting.hold} days; {setting.installs:,} change to no on "
        f"day {setting.change + 1}",
        "metric": "flag, every day, epsilon 1 for one report, 2.2 for ever; once plain, once with hold = "
        f"{setting.hold}",
        "installs": "real clients on a clock that is moved by hand; both metrics on each",
        "attacker": "knows when a change would have been; the most powerful test at 5 % false alarms",
    }


# --- exact laws -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Law:
    """Probabilities of (c1, c2), the yes counts of two stretches of days, without a change and with one."""

    constant: Array
    changed: Array

    @classmethod
    def of(cls, registry: Registry, first: int, second: int, *, one_memo: bool, shown: bool = True) -> Law:
        """`one_memo`: without a change both stretches show one memo. `shown`: a change draws another one."""
        noise = registry[PLAIN].noise
        (a1, a0), (q, p) = noise.permanent.probabilities, noise.instantaneous.probabilities
        said, unsaid = ([stats.binom.pmf(np.arange(n + 1), n, float(x)) for n in (first, second)] for x in (q, p))
        yes, no = (
            [float(a) * one + (1 - float(a)) * zero for one, zero in zip(said, unsaid, strict=True)] for a in (a1, a0)
        )
        apart = np.outer(yes[0], yes[1])
        shared = float(a1) * np.outer(*said) + (1 - float(a1)) * np.outer(*unsaid)
        constant = shared if one_memo else apart
        return cls(constant, np.outer(yes[0], no[1]) if shown else constant)

    def test(self) -> Array:
        """The chance with which each (c1, c2) is called a change: most powerful at exactly FALSE (Neyman, Pearson)."""
        order = np.argsort(-(np.log(self.changed) - np.log(self.constant)), axis=None, kind="stable")
        spent = np.cumsum(self.constant.ravel()[order])
        calls = np.zeros(self.constant.size)
        whole = int(np.searchsorted(spent, FALSE))
        calls[order[:whole]] = 1
        before = spent[whole - 1] if whole else 0.0
        calls[order[whole]] = (FALSE - before) / self.constant.ravel()[order[whole]]
        return calls.reshape(self.constant.shape)

    def power(self, test: Array) -> float:
        return float(np.sum(self.changed * test))


def law(setting: Setting, metric: str, days: int) -> tuple[Law, Array]:
    """What this metric shows in so many days, and the attacker's test of it."""
    registry, change, hold = setting.registry, setting.change, setting.hold
    plain = Law.of(registry, change, days - change, one_memo=True)
    if metric == PLAIN:
        return plain, plain.test()
    if days <= hold:  # nothing differs: the test for a plain metric is as good as any
        return Law.of(registry, change, days - change, one_memo=True, shown=False), plain.test()
    held = Law.of(registry, hold, days - hold, one_memo=False)
    return held, held.test()


def stretches(setting: Setting, metric: str, days: int) -> tuple[int, int]:
    """Where the first stretch of days ends, and the second."""
    return (setting.hold if metric == HELD and days > setting.hold else setting.change), days


def predict(setting: Setting) -> Mapping[str, Prediction]:
    found = {}
    for metric, words in NAMES.items():
        for days in setting.windows:
            seen, test = law(setting, metric, days)
            for changed, chance in ((True, seen.power(test)), (False, FALSE)):
                low, high = bounds.share(setting.installs, chance)
                found[f"{metric} {days} {changed}"] = Prediction(
                    what=f"{'changes detected' if changed else 'false alarms'} within {days} days, {words}",
                    low=low,
                    high=high,
                    why=f"exactly {chance:.1%} by enumeration; binomial",
                    false_alarm=FALSE_ALARM,
                    form=".1%",
                )
    return found


# --- the run ----------------------------------------------------------------------------------------------------------


def run(setting: Setting, rng: np.random.Generator, progress: Progress) -> StudyOutput:
    counts = {changed: _installs(setting, changed, rng, progress) for changed in (False, True)}
    figures = {}
    for metric in NAMES:
        for window in setting.windows:
            _, test = law(setting, metric, window)
            middle, end = stretches(setting, metric, window)
            for changed, by_day in counts.items():
                seen = by_day[metric]
                c1, c2 = seen[:, :middle].sum(axis=1), seen[:, middle:end].sum(axis=1)
                calls = rng.random(len(seen)) < test[c1, c2]
                figures[f"{metric} {window} {changed}"] = float(calls.mean())
    epsilon = float(setting.registry[HELD].epsilon_permanent)
    rows = tuple(
        (
            words,
            str(window),
            f"{FALSE:.0%}",
            f"{figures[f'{metric} {window} False']:.1%}",
            f"{law(setting, metric, window)[0].power(law(setting, metric, window)[1]):.1%}",
            f"{figures[f'{metric} {window} True']:.1%}",
            f"{_worst(law(setting, metric, window)[0]):.1f}",
        )
        for metric, words in NAMES.items()
        for window in setting.windows
    )
    plain, held = (figures[f"{metric} {setting.hold} True"] for metric in NAMES)
    return StudyOutput(
        figures=figures,
        columns=(
            "metric",
            "days seen",
            "false alarms: theory",
            "found",
            "changes detected: theory",
            "found",
            "worst log-odds",
        ),
        rows=rows,
        chart=_picture(setting, figures),
        caption="Chance that the attacker detects a change, at 5 % false alarms, by the days since it. Lines: "
        "theory. Points: real clients.",
        meaning=(
            f"Without hold a change is seen: {plain:.0%} of those who changed are detected {setting.change} days "
            "later, for 5 % false alarms. What they changed from and to stays as uncertain as before; that they "
            f"changed does not. The odds grow without limit, beyond anything that epsilon {epsilon:.1f} for the "
            "value would allow.",
            f"With hold = {setting.hold} the same attacker detects {held:.1%} within the period, which is his rate "
            "of false alarms: nothing. When the next period begins everybody draws a new memo, changed or not, so "
            f"no change of memo gives anyone away; the evidence is bounded by epsilon {epsilon:.1f} for each period, "
            f"and detection by e^{epsilon:.1f} x 5 % = {exp(epsilon) * FALSE:.0%} for the best of all tests. The "
            "price is freshness: an answer may be a period old.",
        ),
        published=_published(setting, figures, plain),
    )


def _published(setting: Setting, figures: Mapping[str, float], plain: float) -> tuple[Published, ...]:
    days = 2 * setting.hold
    return (
        Published(
            what="changes of value under memoisation",
            theirs="visible (said, not measured)",
            ours=f"detected with {plain:.0%} after {setting.change} days, {days} days in all: "
            f"{figures[f'{PLAIN} {days} True']:.0%}",
            why="agrees; the figures are new",
        ),
    )


def _installs(setting: Setting, changed: bool, rng: np.random.Generator, progress: Progress) -> dict[str, np.ndarray]:
    """Which days each install reported a yes, for both metrics."""
    registry, days = setting.registry, 2 * setting.hold
    first = -(-20_000 // setting.hold) * setting.hold  # a period begins
    times = [DAY * (first + day + 0.5) for day in range(days)]
    history = tuple(not changed or day < setting.change for day in range(days))
    known = by_short_hash(registry.in_all_segments())
    seen = {metric: np.zeros((setting.installs, days), dtype=np.int64) for metric in NAMES}
    for install in range(setting.installs):
        for body in transcript(registry, times, dict.fromkeys(NAMES, history), rng.bytes):
            for report in unpack(body, known).reports:
                seen[report.metric.name][install, report.epoch - first] = report.bits
        progress((changed + install / setting.installs) / 2)
    return seen


def _worst(seen: Law) -> float:
    """The largest log-odds that any outcome gives between the two histories."""
    return float(np.max(np.abs(np.log(seen.changed) - np.log(seen.constant))))


def _picture(setting: Setting, figures: Mapping[str, float]) -> object:
    alt = altair()
    names = {NAMES[PLAIN]: ORANGE, NAMES[HELD]: BLUE}
    lines = []
    for metric, words in NAMES.items():
        for days in range(setting.change + 1, 2 * setting.hold + 1):
            seen, test = law(setting, metric, days)
            lines.append({"series": words, "days": days - setting.change, "power": seen.power(test)})
    points = [
        {"series": words, "days": days - setting.change, "power": figures[f"{metric} {days} True"]}
        for metric, words in NAMES.items()
        for days in setting.windows
    ]
    x = alt.X("days:Q", title="days since the change")
    y = alt.Y("power:Q", title="changes detected", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=".0%"))
    drawn = chart(lines).mark_line(strokeWidth=2).encode(x=x, y=y, color=colours(names, columns=2))
    dots = chart(points).mark_point(filled=True, size=60, opacity=1).encode(x=x, y=y, color=colours(names, columns=2))
    epsilon = float(setting.registry[HELD].epsilon_permanent)
    limit = rule(exp(epsilon) * FALSE, f"what epsilon {epsilon:.1f} allows", left=WIDTH - 165)
    return finished(alt.layer(drawn, dots, limit).properties(width=WIDTH, height=230))


EXPERIMENT = Experiment(
    name="hold",
    title="Has the answer changed?",
    question="Can the collector see that somebody's answer has changed, and does `hold` prevent it?",
    source="Erlingsson, Pihur, Korolova 2014 (RAPPOR), section 6; Ding, Kulkarni, Yekhanin 2017, section 4; exact "
    "laws derived here",
    full=Setting(),
    quick=Setting(hold=8, installs=40),
    describe=describe,
    predict=predict,
    run=run,
)
