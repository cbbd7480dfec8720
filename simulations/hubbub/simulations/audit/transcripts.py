"""Auditing whole clients: installs that record, and everything they would have put on the wire.

Each install is the real `Client` with a state directory of its own and a clock that is moved by hand; the audit stands
where the network is and keeps every message. What an install records of each metric is drawn by itself, so one crowd
answers many questions: what do seven epochs of one value tell? Does a message come whatever was recorded? Does one
metric's transcript depend on another's value?
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.client.vocabulary import Random
from hubbub.protocol.cadence import epoch_of
from hubbub.protocol.invalid import Invalid, plural
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import Report, by_short_hash
from hubbub.protocol.wire import unpack
from hubbub.simulations.audit.evidence import Chances, Finding, Seen, about_expected, judge
from hubbub.simulations.audit.pairs import Pair, far_values
from hubbub.simulations.audit.scores import ScoreLaw, most_promising, score_law
from hubbub.simulations.fleet import Run, run_install
from hubbub.simulations.pretend_machine import keep_in

RUNS = 7
"""How often each app is run: once in each of so many epochs, of every cadence."""

STEP = timedelta(days=28, hours=1).total_seconds()
"""Between two runs: another month every time, and few enough days that no message grows too old to be sent. The machine
sleeps meanwhile: epochs in which no client looked are not answered."""

NOT_RECORDED = 2
SILENT_ONE_IN = 8
"""Of so many installs one leaves metrics out; the others record all of them."""

Bools = npt.NDArray[np.bool_]


def _kept(registry: Registry) -> list[Metric]:
    """Those whose noise is kept. Of the others `whole_histories` looks at everything that is ever said."""
    return [metric for metric in registry if metric.noise.history is None]


def _can_differ_alone(a: Metric, b: Metric) -> bool:
    """Whether one answer can stay while the other changes: not if one metric is a cross of the other, or both are
    crosses of the same one."""
    names = [{metric.name, *(factor.name for factor in metric.shape.factors)} for metric in (a, b)]
    return names[0].isdisjoint(names[1])


class ClientAudit:
    """The claims of a registry about whole transcripts. `tests` are counted before anything is drawn."""

    def __init__(self, registry: Registry, installs: int, alpha: float) -> None:
        self.registry, self.installs, self.alpha = registry, installs, alpha
        self.times = run_times(registry)
        self.views = [_View(metric, self.times) for metric in _kept(registry)]
        for view in self.views:
            view.fix_thresholds(installs // 2, alpha)
        self.rows: list[list[_OfOneInstall]] = []

    @staticmethod
    def tests_of(registry: Registry) -> int:
        kept = _kept(registry)
        return (2 + 4) * len(kept) + 2 * sum(_can_differ_alone(a, b) for a, b in combinations(kept, 2))

    @property
    def work(self) -> int:
        return self.installs

    def run(self, random: Random = os.urandom) -> Iterator[None]:
        known = by_short_hash(self.registry.in_all_segments())
        for number in range(self.installs):
            choices = 3 if number % SILENT_ONE_IN == 0 else 2
            recorded = [view for view in self.views if not view.metric.shape.made_of_others]
            histories = {view.metric.name: view.history(random, choices) for view in recorded}
            messages = transcript(self.registry, self.times, histories, random)
            reports = [report for body in messages for report in unpack(body, known).reports]
            self.rows.append([view.of_install(view.which(histories), reports) for view in self.views])
            yield

    def findings(self) -> list[Finding]:
        crowd = [_OfAllInstalls.of(rows) for rows in zip(*self.rows, strict=True)]
        found: list[Finding] = []
        for view, seen in zip(self.views, crowd, strict=True):
            found += self._of_reports(view, seen)
            found += self._of_presence(view, seen)
        for (a, seen_a), (b, seen_b) in combinations(zip(self.views, crowd, strict=True), 2):
            if _can_differ_alone(a.metric, b.metric):
                found += self._of_two(a, seen_a, b, seen_b)
        return found

    def _of_reports(self, view: _View, crowd: _OfAllInstalls) -> Iterator[Finding]:
        for toward in (0, 1):
            yield self._judge(
                view,
                f"client, {plural(view.reports, 'report')}",
                _PAIRS[toward],
                float(view.metric.epsilon_after(view.reports)),
                _seen(crowd.reached[toward], crowd.first == toward, crowd.first == 1 - toward),
                view.chances(toward),
            )

    def _of_presence(self, view: _View, crowd: _OfAllInstalls) -> Iterator[Finding]:
        """That a report comes must tell nothing at all: it comes from everybody."""
        recorded = crowd.first != NOT_RECORDED
        for pair, one, other in (
            (_PAIRS[0], crowd.first == 0, crowd.first == 1),
            (_PAIRS[1], crowd.first == 1, crowd.first == 0),
            ("recorded against not recorded", recorded, ~recorded),
            ("not recorded against recorded", ~recorded, recorded),
        ):
            seen = _seen(crowd.complete, one, other)
            yield self._judge(view, "client, presence", pair, 0.0, seen, Chances(1.0, 1.0))

    def _of_two(self, a: _View, seen_a: _OfAllInstalls, b: _View, seen_b: _OfAllInstalls) -> Iterator[Finding]:
        """While one metric stays, another changes: both transcripts together tell no more than the other's epsilon.

        Were a memo shared, the event "the first looks like one value, the second like the other" would hardly happen
        to an install whose two values are alike.
        """
        for toward in (0, 1):
            both = seen_a.reached[1 - toward] & seen_b.reached[toward]
            fixed = seen_a.first == 1 - toward
            yield self._judge(
                b,
                f"client, together with {a.metric.name}",
                _PAIRS[toward],
                float(b.metric.epsilon_after(b.reports)),
                _seen(both, fixed & (seen_b.first == toward), fixed & (seen_b.first == 1 - toward)),
                _joint(a, b, toward),
            )

    def _judge(self, view: _View, what: str, pair: str, claim: float, seen: Seen, chances: Chances) -> Finding:
        return judge(seen, self.alpha, metric=view.metric.name, what=what, pair=pair, claim=claim, chances=chances)


_PAIRS = ("first value against second", "second value against first")


# --- one install --------------------------------------------------------------------------------------------------


def transcript(
    registry: Registry, times: Sequence[float], histories: Mapping[str, Sequence[Any]], random: Random = os.urandom
) -> list[bytes]:
    """Every message of an install, from its yes to its last: at each of these times it records what its histories say
    (None: nothing)."""
    messages: list[bytes] = []
    runs = [
        Run(time, {name: history[number] for name, history in histories.items()}) for number, time in enumerate(times)
    ]
    agreed, finished = times[0] - STEP, times[-1] + STEP
    run_install(registry, runs, agreed=agreed, finished=finished, post=keep_in(messages), random=random)
    return messages


def run_times(registry: Registry) -> list[float]:
    """When the app is run: in seven months one after the other, before any metric expires.

    From the last day of a long month, steps of 28 days come earlier in each month and skip none.
    """
    first = min(metric.expires for metric in registry)
    latest = datetime(first.year, first.month, first.day, 1, tzinfo=UTC) - timedelta(seconds=(RUNS + 2) * STEP)
    while (latest + timedelta(days=1)).day != 1 or latest.day != 31:
        latest -= timedelta(days=1)
    if latest.timestamp() < 0:
        raise Invalid([f"an audit needs {RUNS} months before the first metric expires, after 1970, got {first}"])
    return [latest.timestamp() + STEP * (number + 1) for number in range(RUNS)]


# --- one metric in all installs -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OfOneInstall:
    """What one install recorded of a metric, and what its reports looked like."""

    first: int
    complete: bool
    reached: tuple[bool, bool]


class _View:
    """How one metric is looked at: the reports of one memo, and the score that tells its two values apart."""

    def __init__(self, metric: Metric, times: list[float]) -> None:
        self.metric = metric
        self.values = _far_values(metric)
        epochs = [epoch_of(metric.every, time) for time in times]
        self.due = epochs[:1] if metric.every == "once" else epochs
        self.runs, self.reports = len(epochs), len(set(self.due))
        self.thresholds = (0, 0)

    @cached_property
    def pairs(self) -> list[Pair]:
        return [Pair.of(self.metric, self.values, cohort) for cohort in range(self.metric.shape.num_cohorts)]

    @cached_property
    def ways(self) -> Counter[tuple[int, int]]:
        """In how many cohorts the two values differ in which way; in some not at all."""
        return Counter(pair.differences for pair in self.pairs)

    @cached_property
    def laws(self) -> dict[tuple[int, int], tuple[ScoreLaw, ScoreLaw]]:
        found = {}
        for differences in self.ways:
            law = score_law(self.metric.noise, *differences, self.reports)
            found[differences] = (law, law.reversed())
        return found

    def fix_thresholds(self, trials: int, alpha: float) -> None:
        """For each direction, the threshold that promises the largest bound over all cohorts together."""
        self.thresholds = (self._sharpest(0, trials, alpha), self._sharpest(1, trials, alpha))

    def _sharpest(self, toward: int, trials: int, alpha: float) -> int:
        candidates = np.unique(np.concatenate([laws[toward].scores for laws in self.laws.values()]))
        chances = [self._average(toward, int(score)) for score in candidates]
        one, other = np.array([c.one for c in chances]), np.array([c.other for c in chances])
        bounds = about_expected(one, other, trials, alpha)
        return int(candidates[most_promising(candidates, one, bounds, trials)])

    def by_cohort(self, toward: int, threshold: int) -> npt.NDArray[np.float64]:
        """Rows are cohorts: the chance of the event if the install holds the favoured value, and if the other."""
        chances = {differences: laws[toward].reaches(threshold) for differences, laws in self.laws.items()}
        return np.array([(chances[p.differences].one, chances[p.differences].other) for p in self.pairs])

    def _average(self, toward: int, threshold: int) -> Chances:
        chances = [(number, self.laws[of][toward].reaches(threshold)) for of, number in self.ways.items()]
        one, other = (sum(number * getattr(c, which) for number, c in chances) for which in ("one", "other"))
        return Chances(one / len(self.pairs), other / len(self.pairs))

    def chances(self, toward: int) -> Chances:
        return self._average(toward, self.thresholds[toward])

    def history(self, random: Random, choices: int) -> tuple[Any, ...]:
        """What an install records, run by run: one value throughout."""
        return ((*self.values, None)[int.from_bytes(random(4), "little") % choices],) * self.runs

    def which(self, histories: Mapping[str, Sequence[Any]]) -> int:
        """Which of the two values an install has that recorded this. Of a cross it is what both factors have."""
        names = [factor.name for factor in self.metric.shape.factors] or [self.metric.name]
        values = [far_values(factor.shape, 0) for factor in self.metric.shape.factors] or [self.values]
        found = {_place(histories[name][0], of) for name, of in zip(names, values, strict=True)}
        return found.pop() if len(found) == 1 else NOT_RECORDED

    def of_install(self, first: int, reports: list[Report]) -> _OfOneInstall:
        mine = [report for report in reports if report.metric.name == self.metric.name]
        looked_at = [report for report in mine if report.epoch in self.due]
        reached = (False, False)
        if looked_at:
            pair = self.pairs[looked_at[0].cohort]
            if sum(pair.differences) and len(looked_at) == self.reports:
                counts = pair.counts([report.bits for report in looked_at], self.reports)
                laws = self.laws[pair.differences]
                reached = (self._reaches(laws, 0, counts), self._reaches(laws, 1, counts))
            elif len(looked_at) == self.reports:  # the two values look alike here: every score is 0
                reached = (self.thresholds[0] <= 0, self.thresholds[1] <= 0)
        return _OfOneInstall(
            first=first,
            complete=sorted(report.epoch for report in mine) == self.due,
            reached=reached,
        )

    def _reaches(self, laws: tuple[ScoreLaw, ScoreLaw], toward: int, counts: npt.NDArray[np.int64]) -> bool:
        return bool(laws[toward].of(counts)[0] >= self.thresholds[toward])


def _place(value: Any, of: tuple[Any, Any]) -> int:
    return NOT_RECORDED if value is None else of.index(value)


def _far_values(metric: Metric) -> tuple[Any, Any]:
    """Of a cross: the cells of the first of both factors' values, and of the second of both."""
    factors = metric.shape.factors
    if not factors:
        return far_values(metric.shape, 0)
    values = [(factor, far_values(factor.shape, 0)) for factor in factors]
    first, second = (tuple(factor.category(of[which], 0) for factor, of in values) for which in (0, 1))
    return first, second


@dataclass(frozen=True, slots=True)
class _OfAllInstalls:
    """The rows of all installs, as columns."""

    first: npt.NDArray[np.int64]
    complete: Bools
    reached: tuple[Bools, Bools]

    @classmethod
    def of(cls, rows: tuple[_OfOneInstall, ...]) -> _OfAllInstalls:
        return cls(
            np.array([row.first for row in rows]),
            np.array([row.complete for row in rows]),
            (np.array([row.reached[0] for row in rows]), np.array([row.reached[1] for row in rows])),
        )


def _seen(happened: Bools, one: Bools, other: Bools) -> Seen:
    return Seen(int((happened & one).sum()), int(one.sum()), int((happened & other).sum()), int(other.sum()))


def _joint(a: _View, b: _View, toward: int) -> Chances:
    """Metrics are independent given the install's place on the line, which the cohorts of both cut into pieces."""
    of_a = a.by_cohort(1 - toward, a.thresholds[1 - toward])[:, 0]
    of_b = b.by_cohort(toward, b.thresholds[toward])
    line = len(of_a) * len(of_b)
    cuts = np.unique(np.concatenate([np.arange(len(of_a)) * len(of_b), np.arange(len(of_b)) * len(of_a)]))
    share = np.diff(cuts, append=line) / line
    one, other = share @ (of_a[cuts // len(of_b), np.newaxis] * of_b[cuts // len(of_a)])
    return Chances(float(one), float(other))
