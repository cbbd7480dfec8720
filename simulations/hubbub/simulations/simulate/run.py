"""One metric, simulated: people with known answers, the tally their installs would leave, what an analyst makes of it.

The fast way draws exact tallies; where installs part in too many ways to be followed as groups, every report is drawn
instead, as long as there are not too many of them. Either way the result is the law of real clients, and nothing else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hubbub.analysis import decode
from hubbub.analysis.engines.engine import Engine
from hubbub.analysis.progress import Progress
from hubbub.analysis.result import Decoding
from hubbub.client.recorder import is_expired
from hubbub.protocol.cadence import epoch_of
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry
from hubbub.protocol.segments import in_words
from hubbub.protocol.shape import MAX_CELLS
from hubbub.protocol.tally import Tally
from hubbub.simulations.people.behaviour import Behaviour
from hubbub.simulations.people.crosses import crossed_installs, draw_crossed
from hubbub.simulations.people.distribution import Distribution
from hubbub.simulations.people.histories import MOST_HISTORIES, Histories, draw_histories
from hubbub.simulations.people.truth import Truth, truth_of
from hubbub.simulations.simulate.clients import client_tallies, first_moment
from hubbub.simulations.simulate.exact import Sampled, exact_tally
from hubbub.simulations.simulate.reports import report_tally
from hubbub.simulations.simulate.scorecard import Scorecard, score, sentence
from hubbub.simulations.simulate.slots import TooManyHistories

WAYS = ("tallies", "reports")
START = 1_767_571_200
"""Monday 2026-01-05, in seconds since 1970. Simulations begin on a day of their own, so that a seed means the same for
ever."""

MOST_BITS = 40_000_000_000
"""Bits of all reports together that are drawn one by one: some minutes of one process."""
MOST_BITS_SPREAD = 100 * MOST_BITS
"""The same for an engine."""

_FEWEST_HISTORIES = 512
_MOST_WORK = 1 << 27
_MOST_DECOYS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting:
    """What is simulated. `candidates` are what the analyst looks for, where answers are not declared."""

    metric: Metric  # what is asked
    people: Distribution  # what they would answer
    behaviour: Behaviour  # how they change, come and go
    installs: int  # how many there are
    epochs: int  # for how many epochs they are asked
    candidates: tuple[str, ...] | None = None  # what the analyst looks for, where answers are not declared
    start: int = START  # the first second of the first epoch
    of: tuple[Setting, ...] = ()  # of a cross that follows from its factors: what they answer, and how they behave

    def __post_init__(self) -> None:
        if self.metric.accumulate == "sum" and self.behaviour.absent:
            raise Invalid(
                [
                    f"absent must be 0 for {self.metric.name}, where nothing added is a sum of 0: give 0 its share of "
                    f"the population, got {self.behaviour.absent:g}"
                ]
            )

    @property
    def epoch_numbers(self) -> list[int]:
        """The epochs in which the metric is asked: none after its end."""
        first = epoch_of(self.metric.every, self.start)
        return [epoch for epoch in range(first, first + self.epochs) if not is_expired(self.metric, epoch)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulationResult:
    """What came of it."""

    setting: Setting  # what was simulated
    way: str  # how: exact tallies, every report, or real clients
    histories: Histories  # what the installs answered
    tally: Tally  # what a collector would have counted
    decoding: Decoding  # what an analyst makes of it
    truth: Truth  # the true value of each row
    card: Scorecard  # the one held against the other

    @property
    def sentence(self) -> str:
        """How near the estimates came to the truth, in one sentence."""
        return sentence(self.setting.metric, self.card, self.decoding, self.truth)


def simulate_metric(
    setting: Setting,
    seed: int,
    way: str | None = None,
    progress: Progress = lambda share: None,
    engine: Engine | None = None,
) -> SimulationResult:
    """Draw, decode, judge. The same seed gives the same people, tally and estimates, whatever other metrics do.

    An engine draws single reports, where they must be drawn; the result is the same as without one.
    """
    epochs = setting.epoch_numbers
    if not epochs:
        name, end = setting.metric.name, setting.metric.expires.isoformat()
        raise Invalid([f"{name}: expires must be after the simulation begins, got {end}; --start sets an earlier day"])
    rng = np.random.default_rng([seed, *setting.metric.name.encode(), *in_words(setting.metric.segment).encode()])
    histories = histories_of(setting, rng)
    heard = histories if setting.metric.sample == 1 else histories.thinned(float(setting.metric.sample), rng)
    used, sampled = _sample(setting, heard, epochs, rng, way, progress, engine)
    return judge(setting, used, histories, sampled.tally, sampled.stale)


def simulate_clients(
    registry: Registry, settings: Sequence[Setting], seed: int, progress: Progress = lambda share: None
) -> list[SimulationResult]:
    """The same through real clients and a real collector, for a whole registry at once, in the epochs just past.

    The people are those of the seed; the noise is the operating system's. What is stale is not known from outside.
    """
    if {setting.metric.name for setting in settings} != set(registry.metrics):
        raise Invalid(["real clients answer all metrics of a registry, got some of them"])
    if len(settings) > 1 and (settings[0].behaviour.away or settings[0].behaviour.churn):
        raise Invalid(
            ["--away and --churn need a registry of one metric for real clients: installs are away as a whole"]
        )
    for setting in settings:
        if setting.metric.shape.factors and not setting.of:
            names = " and ".join(factor.name for factor in setting.metric.shape.factors)
            raise Invalid([f"{setting.metric.name}: real clients find it from {names}, got a population of its own"])
    now = time.time()
    histories = {}
    for setting in (setting for setting in settings if not setting.metric.shape.factors):
        rng = np.random.default_rng([seed, *setting.metric.name.encode()])
        some = replace(setting.behaviour, consent=1.0)
        agreed = max(1, round(setting.installs * setting.behaviour.consent))
        each = histories_of(replace(setting, behaviour=some, installs=agreed), rng).split()
        if setting.metric.name in registry.crosses:
            # They come sorted by their first answer; nobody's answer to one factor may depend on that to another.
            each = Histories(each.values, rng.permutation(each.answers), each.installs)
        histories[setting.metric.name] = each
    tallies = client_tallies(
        registry.source, histories, now=now, processes=min(4, os.cpu_count() or 1), progress=progress
    )
    for metric in registry:
        if metric.shape.factors:  # only now: nobody records it
            first, second = (histories[factor.name] for factor in metric.shape.factors)
            histories[metric.name] = crossed_installs(metric.shape, first, second)
    return [
        judge(
            replace(setting, start=first_moment(setting.metric.every, setting.epochs, now)),
            "clients",
            histories[setting.metric.name],
            tallies[setting.metric.name],
            float("nan"),
        )
        for setting in settings
    ]


def judge(setting: Setting, way: str, histories: Histories, tally: Tally, stale: float) -> SimulationResult:
    """Decode as an analyst would, and hold it against the truth."""
    metric = setting.metric
    listed = metric.shape.open_list and (setting.candidates is not None or not metric.shape.discovers)
    candidates = candidates_of(setting) if listed else None
    decoding = decode(tally, candidates)
    # With `hold`, nobody reports after the last turn: the estimates are of the epochs before.
    asked = [place for place, epoch in enumerate(setting.epoch_numbers) if metric.hold is None or epoch in tally.epochs]
    counts = histories.in_epochs(asked).counts()
    truth = truth_of(decoding, metric, counts, max(len(decoding.epochs), 1))
    return SimulationResult(
        setting=replace(setting, candidates=candidates),
        way=way,
        histories=histories,
        tally=tally,
        decoding=decoding,
        truth=truth,
        card=score(metric, decoding, truth, counts, stale),
    )


def histories_of(setting: Setting, rng: np.random.Generator) -> Histories:
    """The people's histories as far as this metric hears of them."""
    shape = setting.metric.shape
    if setting.of:
        first, second = ((each.people, each.behaviour) for each in setting.of)
        crossed = draw_crossed(shape, (first, second), setting.installs, len(setting.epoch_numbers), rng)
        return crossed.reporting_once() if setting.metric.every == "once" else crossed
    cells = sum(shape.width(cohort) for cohort in range(shape.num_cohorts))
    # Histories are costly where cells are many, and where epochs are: a number may be rounded anew in each.
    most = max(_FEWEST_HISTORIES, min(MOST_HISTORIES, MAX_CELLS // 2 // cells, _MOST_WORK // setting.epochs**2))
    histories = draw_histories(
        setting.people, setting.behaviour, setting.installs, len(setting.epoch_numbers), rng, most
    )
    return histories.reporting_once() if setting.metric.every == "once" else histories


def candidates_of(setting: Setting) -> tuple[str, ...]:
    """Unless somebody gave a list: every string there is, and as many that nobody holds."""
    if setting.candidates is not None:
        return setting.candidates
    strings = [text for text in setting.people.values if text and "\n" not in text]
    known = set(strings)
    decoys = (f"nobody {i}" for i in range(1, min(len(strings), _MOST_DECOYS) + 1))
    return (*strings, *(text for text in decoys if text not in known))


def _sample(
    setting: Setting,
    histories: Histories,
    epochs: Sequence[int],
    rng: np.random.Generator,
    way: str | None,
    progress: Progress,
    engine: Engine | None,
) -> tuple[str, Sampled]:
    why = "drawing every report"
    if way != "reports":
        try:
            return "tallies", exact_tally(setting.metric, histories, epochs, rng, progress)
        except TooManyHistories as problem:
            if way == "tallies":
                raise
            why = str(problem)
    _refuse_too_many(setting, why, MOST_BITS if engine is None else MOST_BITS_SPREAD)
    return "reports", report_tally(setting.metric, histories, epochs, rng, progress, engine)


def _refuse_too_many(setting: Setting, why: str, most_bits: int) -> None:
    shape = setting.metric.shape
    widest = max(shape.width(cohort) for cohort in range(shape.num_cohorts))
    most = most_bits // (widest * setting.epochs)
    if setting.installs > most:
        raise Invalid(
            [
                f"{setting.metric.name}: {why}; one by one, --installs must be at most {most:,} here, "
                f"got {setting.installs:,}. Fewer --epochs, less --change or a larger max_values would do as well"
            ]
        )
