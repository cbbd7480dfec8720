"""One in a hundred reports is fake. Can these make a string appear that nobody has, and would anyone notice?

Source: Cao, Jia, Gong 2021 (Data Poisoning Attacks to Local Differential Privacy Protocols): the maximal gain attack;
one fake report moves a share by at most 2E/((E-1) n) under optimised unary encoding. Cheu, Smith, Ullman 2021 on
manipulation in the local model. (Formulas re-derived; the papers' data sets are not used.)

Setting: a million honest reports of 50 strings, hubbub's `string` with 64 bits, 1 hash, 128 cohorts, epsilon 1;
10,000 fake reports push a string that nobody holds. Seven attacks, each as real messages through the collector's real
intake; the honest crowd by exact tallies; `decode` with its diagnostics.

Expected, and why. The collector refuses whatever no honest install can send: many reports in one message, closed
epochs, cohorts that do not exist; all of these come to nothing. It cannot refuse a well-formed lie. With b the share
of fakes among all reports and D = q* - p*: the target's bit set and the others drawn with p' = p* - (1 - q*)/63, so
that reports have as many bits as honest ones, moves its share by b (1 - p')/D, 3.2 %; the papers' 2E/(E-1) is (1 -
p*)/D, 3.1 %. The target's bit set and all others empty moves it by b/D, 4.3 %: hubbub fits the strings outside the
list as an intercept, so empty bits count as well; more than the papers' bound, which is for estimates without
intercept. All bits set moves no single string. Decoding notices fakes that crowd into one cohort (chi-square of its
residuals, one false alarm in a thousand), and wrong totals: all bits set makes `absent` -b 64 (1-p*)/D = -200 %, all
empty +b (64 p* - 1)/D = +70 %. The disguised attack looks like people. One sender alone is held to 200 + 20 x 60 =
1,400 messages in a minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import sqrt
from typing import Any

import numpy as np

from hubbub.analysis import Decoding, Options, decode
from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.analysis.progress import Progress
from hubbub.collector.http.limits import Limits
from hubbub.collector.settings import Settings
from hubbub.protocol.kinds import String
from hubbub.protocol.printed import fixed_percent, plain_percent
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally import Tally
from hubbub.simulations.exact_tallies import assign_cohorts, ones_of, sample_tally
from hubbub.simulations.experiments import bounds
from hubbub.simulations.experiments.bounds import FALSE_ALARM
from hubbub.simulations.experiments.experiment import Experiment, Prediction, Published, StudyOutput
from hubbub.simulations.experiments.fake_reports import TODAY, FakeReport, Received, messages_of, received, unchecked
from hubbub.simulations.experiments.pictures import attack_bars

REGISTRY = Registry.parse("""
app = "poisoned"
recipient = { name = "Example", url = "https://telemetry.example.org" }
lifetime_epsilon = 10
[metrics.text]
kind = "string"
num_bits = 64
num_hashes = 1
num_cohorts = 128
why = "an experiment"
owner = "nobody"
expires = 2099-01-01
every = "day"
epsilon_one_report = 1
epsilon_permanent = 3
max_values = 1
""")
TEXT = REGISTRY["text"]
SHAPE = String(num_bits=64, num_hashes=1, num_cohorts=128)
P, Q = float(TEXT.noise.p_star), float(TEXT.noise.q_star)
LIKE_HONEST = P - (1 - Q) / 63
"""How often a disguised report sets any other bit: it then has as many bits as an honest one."""
TARGET = "pushed by nobody you know"
STRINGS = 50
NAMES = (*(f"string {i}" for i in range(1, STRINGS + 1)), TARGET)
SHARES = 1 / np.arange(1, STRINGS + 1) / np.sum(1 / np.arange(1, STRINGS + 1))
BULK, CLOSED, NOWHERE = "all in one message", "a closed epoch", "a cohort that is none"
LUMP, FULL, BARE, DISGUISED = "one cohort only", "all bits set", "the target's bit alone", "disguised as noise"
REFUSED, COUNTED = (BULK, CLOSED, NOWHERE), (LUMP, FULL, BARE, DISGUISED)
_WHERE = positions(SHAPE, digests(NAMES))
_DEFAULTS: dict[str, Any] = {setting.name: setting.default for setting in fields(Settings)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    honest: int = 1_000_000
    fakes: int = 10_000
    repeats: int = 150

    @property
    def share(self) -> float:
        """Of the fakes among all reports."""
        return self.fakes / (self.honest + self.fakes)

    @property
    def std_error(self) -> float:
        """Of the target's share in one population."""
        variance = P * (1 - P) / (Q - P) ** 2 / ((1 - 1 / 64) * (1 - (len(NAMES) + 1) / (64 * 128)))
        return sqrt(variance / (self.honest + self.fakes))


def describe(setting: Setting) -> Mapping[str, str]:
    return {
        "people": f"{setting.honest:,} honest reports of 50 strings, the r-th held in proportion to 1/r",
        "fakes": f"{setting.fakes:,} reports for a string that nobody holds: {fixed_percent(setting.share, 2)} of all",
        "metric": "string, 64 bits, 1 hash, 128 cohorts, epsilon 1",
        "checks": "the collector's intake and its limit per sender; the decoder's test of each cohort and the "
        "totals of its table",
        "repeats": f"{setting.repeats:,} honest populations",
    }


def predict(setting: Setting) -> Mapping[str, Prediction]:
    b, repeats = setting.share, setting.repeats
    found = _refusals()
    # The honest noise differs in each population; that of the fakes is the same in all, and theirs only a share b.
    variance = setting.std_error**2 * (1 / repeats + b)
    for attack, moved, why in (
        (
            DISGUISED,
            (1 - LIKE_HONEST) / (Q - P),
            "each fake weighs (1 - p')/(q* - p*), p' being how often it sets other bits",
        ),
        (BARE, 1 / (Q - P), "each fake weighs 1/(q* - p*): its empty bits count too, as strings outside the list"),
        (FULL, 0.0, "what raises all bits alike raises no single string"),
    ):
        low, high = bounds.mean(b * moved, variance)
        found[f"shift {attack}"] = Prediction(
            what=f"share of the target: {attack}",
            low=low,
            high=high,
            why=f"{fixed_percent(b * moved, 2)}: {why}; normal",
            false_alarm=FALSE_ALARM,
            form=".2%",
        )
    found |= _alarms(repeats)
    allowed = _DEFAULTS["sender_burst"] + 60 * _DEFAULTS["sender_rate"]
    found["one sender"] = Prediction(
        what="messages counted from one address in a minute",
        low=allowed - 1,
        high=allowed,
        why="the burst and sixty seconds at the default rate, less what is left over: under one message",
        form=".0f",
    )
    return found


def _refusals() -> dict[str, Prediction]:
    """What the collector lets in and what it does not."""
    found = {
        f"refused {attack}": Prediction(
            what=f"messages refused: {attack}", low=1, high=1, why="no honest install sends such", form=".0%"
        )
        for attack in REFUSED
    }
    found |= {
        f"refused {attack}": Prediction(
            what=f"messages refused: {attack}", low=0, high=0, why="each by itself could be honest", form=".0%"
        )
        for attack in COUNTED
    }
    return found


def _alarms(repeats: int) -> dict[str, Prediction]:
    """What the decoder notices."""
    found: dict[str, Prediction] = {}
    for attack in ("honest", DISGUISED):
        found[f"odd {attack}"] = Prediction(
            what=f"populations with a cohort that does not fit: {attack}",
            low=0,
            high=bounds.at_most(repeats, 0.001)[1],
            why="one false alarm in a thousand decodes; binomial",
            false_alarm=FALSE_ALARM,
            form=".1%",
        )
    found[f"odd {LUMP}"] = Prediction(
        what=f"populations with a cohort that does not fit: {LUMP}",
        low=1,
        high=1,
        why="more fakes than honest reports in that cohort: hundreds of deviations",
        form=".0%",
    )
    for attack, total, at in (("honest", 0, ""), (DISGUISED, 0, ""), (FULL, 1, "-200 %"), (BARE, 1, "+70 %")):
        found[f"totals {attack}"] = Prediction(
            what=f"populations with impossible totals: {attack}",
            low=total,
            high=total,
            why=f"`absent` at about {at}" if total else "totals stay within 6 standard errors of what shares can be",
            form=".0%",
        )
    return found


def run(setting: Setting, rng: np.random.Generator, progress: Progress) -> StudyOutput:
    made = {attack: _fakes(attack, setting.fakes, rng) for attack in (*REFUSED, *COUNTED)}
    taken: dict[str, Received] = {}
    for step, (attack, fakes) in enumerate(made.items()):
        taken[attack] = received(REGISTRY, TEXT, messages_of(TEXT, fakes, in_one=attack == BULK))
        progress(0.4 * step / len(made))
    believed = {attack: unchecked(TEXT, made[attack]) for attack in made}
    shifts: dict[str, list[float]] = {key: [] for key in (*made, *(f"{attack} believed" for attack in REFUSED))}
    odd, totals = dict.fromkeys(("honest", *COUNTED), 0), dict.fromkeys(("honest", *COUNTED), 0)
    radius = 0.0
    for repeat in range(setting.repeats):
        honest = _honest(setting, rng)
        clean = _decoded(setting, honest)
        for attack in REFUSED:  # nothing of these was counted
            shifts[attack].append(_target(clean))
            shifts[f"{attack} believed"].append(_target(_decoded(setting, honest + believed[attack])))
        for case in ("honest", *COUNTED):
            decoding = clean if case == "honest" else _decoded(setting, honest + taken[case].counted)
            odd[case] += bool(decoding.diagnostics.odd_cohorts)
            totals[case] += _impossible(decoding)
            radius = decoding.diagnostics.attack_radius
            if case != "honest":
                shifts[case].append(_target(decoding))
        progress(0.4 + 0.6 * repeat / setting.repeats)
    figures = {f"refused {a}": sum(taken[a].refused.values()) / taken[a].messages for a in made}
    figures |= {f"shift {a}": float(np.mean(shifts[a])) for a in (DISGUISED, BARE, FULL)}
    figures |= {f"odd {a}": odd[a] / setting.repeats for a in ("honest", DISGUISED, LUMP)}
    figures |= {f"totals {a}": totals[a] / setting.repeats for a in ("honest", DISGUISED, FULL, BARE)}
    figures["one sender"] = _one_sender(setting)
    without = {a: float(np.mean(shifts.get(f"{a} believed", shifts[a]))) for a in made}
    with_checks = {a: float(np.mean(shifts[a])) for a in made}
    return StudyOutput(
        figures=figures,
        columns=("attack", "messages", "refused", "target's share, believing all", "with the checks", "what shows it"),
        rows=tuple(
            (
                attack,
                f"{taken[attack].messages:,}",
                fixed_percent(figures[f"refused {attack}"], 0),
                fixed_percent(without[attack], 2),
                fixed_percent(with_checks[attack], 2),
                _shown_by(attack, taken[attack].reason, odd, totals, setting.repeats),
            )
            for attack in made
        ),
        chart=attack_bars(
            without,
            with_checks,
            checks="with the collector's checks",
            title="estimated share of a string nobody holds",
            show=plain_percent,
        ),
        caption=f"Estimated share of a string that nobody holds, when {fixed_percent(setting.share)} of the reports "
        "are fake.",
        meaning=_meaning(figures, radius),
        published=_published(setting, figures),
    )


def _shown_by(attack: str, reason: str, odd: Mapping[str, int], totals: Mapping[str, int], repeats: int) -> str:
    """What gives an attack away, in words."""
    if attack in REFUSED:
        return f"refused: {reason}"
    shown = {
        LUMP: f"a cohort that does not fit, in {fixed_percent(odd[LUMP] / repeats, 0)} of populations",
        FULL: f"`absent` far below 0, in {fixed_percent(totals[FULL] / repeats, 0)}",
        BARE: f"`other` far below 0, in {fixed_percent(totals[BARE] / repeats, 0)}",
    }
    return shown.get(attack, "nothing")


def _meaning(figures: Mapping[str, float], radius: float) -> tuple[str, ...]:
    return (
        "The collector's checks remove everything that is cheap: one message cannot carry many votes, the past "
        f"is closed, and one address gets {figures['one sender']:,.0f} messages into the count in a minute. What "
        "is left needs many senders and well-formed reports.",
        "The decoder's checks catch the careless: fakes crowded into a cohort, or with too many or too few bits. "
        "They do not catch a lie that is made like the truth. For that there is only an honest number: the attack "
        f"radius that `decode` prints, {fixed_percent(radius, 2)} here, beside "
        f"{fixed_percent(figures[f'shift {DISGUISED}'], 2)} that the disguised attack reached. Fakes with the "
        f"target's bit alone moved the share by {fixed_percent(figures[f'shift {BARE}'], 2)}, all that the radius "
        "allows, at the price of an absurd table. Privacy and poisoning are two sides of one coin: the less a report "
        "may reveal, the more weight each one gets.",
    )


def _published(setting: Setting, figures: Mapping[str, float]) -> tuple[Published, ...]:
    return (
        Published(
            what="gain of one fake report, times n",
            theirs="2E/(E-1) = 3.16",
            ours=f"{figures[f'shift {DISGUISED}'] / setting.share:.2f} disguised, "
            f"{figures[f'shift {BARE}'] / setting.share:.2f} bare",
            why="disguised agrees but for 1 %, its bits being a little rarer than noise. Bare gains 1/D = 4.33: "
            "hubbub estimates the strings outside the list too, and empty bits pull that estimate down and the "
            "target up; the published bound is for estimates without it",
        ),
    )


def _fakes(attack: str, number: int, rng: np.random.Generator) -> list[FakeReport]:
    """Each pushes the target; what else it shows is the attack's."""
    cohorts = [7] * number if attack == LUMP else rng.integers(128, size=number).tolist()
    noise = np.packbits(rng.random((number, 64)) < LIKE_HONEST, axis=1)
    fakes = []
    for cohort, others in zip(cohorts, noise, strict=True):
        target = TEXT.shape.encode(TARGET, cohort).mask
        bits = {FULL: (1 << 64) - 1, BARE: target}.get(attack, target | int.from_bytes(others.tobytes(), "little"))
        fakes.append((TODAY - 30 * (attack == CLOSED), cohort + 128 * (attack == NOWHERE), bits))
    return fakes


def _honest(setting: Setting, rng: np.random.Generator) -> Tally:
    counts = np.append(rng.multinomial(setting.honest, SHARES), 0)
    by_cohort = assign_cohorts(counts, TEXT.shape.num_cohorts, rng)
    return sample_tally(TEXT, by_cohort.sum(axis=1), ones_of(TEXT.shape, by_cohort, _WHERE), rng, [TODAY])


def _decoded(setting: Setting, tally: Tally) -> Decoding:
    return decode(tally, NAMES, Options(fake_share=setting.share))


def _target(decoding: Decoding) -> float:
    return float(decoding.estimate[decoding.index(TARGET)])


def _impossible(decoding: Decoding) -> bool:
    """Whether `absent` or `other` lies more than six standard errors outside of what a share can be."""
    for role in ("absent", "other"):
        i = decoding.index(role, role)
        value, error = float(decoding.estimate[i]), float(decoding.std_error[i])
        if value < -6 * error or value > 1 + 6 * error:
            return True
    return False


def _one_sender(setting: Setting) -> float:
    """How many of the fakes one address gets in, sent evenly within a minute, by the collector's own limit."""
    now = [0.0]
    limits = Limits(_DEFAULTS["sender_rate"], _DEFAULTS["sender_burst"], lambda: now[0])
    sender = limits.name("192.0.2.1")
    allowed = 0
    for message in range(setting.fakes):
        now[0] = 60 * message / (setting.fakes - 1)
        allowed += limits.allows(sender)
    return float(allowed)


EXPERIMENT = Experiment(
    name="poisoned-string",
    title="A string that nobody holds",
    question="One in a hundred reports is fake. Can they make a string appear that nobody holds, and who would notice?",
    source="Cao, Jia, Gong 2021; Cheu, Smith, Ullman 2021; formulas re-derived for hubbub's decoder",
    full=Setting(),
    quick=Setting(honest=200_000, fakes=2_000, repeats=10),
    describe=describe,
    predict=predict,
    run=run,
)
