"""Auditing the draw: many memos and reports of two values, from the client's own code and the system's own chance.

One trial is one install that answers for the first time: its memo, and its first report. Of one trial in ten, six
more reports of that memo follow. No position of a draw stands for another: a trial looks at the positions where the
two masks differ and nowhere else.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from hubbub.client.respond import Response, respond
from hubbub.client.vocabulary import Random
from hubbub.protocol.epsilon import log_above
from hubbub.protocol.metric import Definition
from hubbub.simulations.audit.enumeration import worst_odds
from hubbub.simulations.audit.evidence import Chances, Finding, Seen, judge
from hubbub.simulations.audit.pairs import Pair, far_pairs
from hubbub.simulations.audit.scores import MEMO, ScoreLaw, score_law

Respond = Callable[[Definition, int, int, Random, int | None], Response]
"""`hubbub.client.respond.respond`, or something that wants to be audited in its place."""

REPORTS = 7
ONE_IN = 10
"""Of so many trials one goes on to seven reports: they cost seven times as much, and show their claim as well."""

BLOCK = 4_000
_STAGES = (MEMO, 1, REPORTS)
_NAMES = {MEMO: "permanent response", 1: "one report", REPORTS: f"{REPORTS} reports"}


@dataclass
class _Event:
    """A score that reaches a threshold fixed beforehand, and how often it did."""

    reports: int
    toward: int
    law: ScoreLaw
    threshold: int
    happened: Counter[int] = field(default_factory=Counter)
    trials: Counter[int] = field(default_factory=Counter)

    @property
    def chances(self) -> Chances:
        return self.law.reaches(self.threshold)

    @property
    def seen(self) -> Seen:
        one, other = self.toward, 1 - self.toward
        return Seen(self.happened[one], self.trials[one], self.happened[other], self.trials[other])


class DrawAudit:
    """The claims of one metric about its draws. `tests` are counted before anything is drawn, to share out alpha."""

    tests = 2 * len(_STAGES)

    def __init__(self, metric: Definition, trials: int, alpha: float) -> None:
        self.metric, self.alpha = metric, alpha
        self.pairs = far_pairs(metric)
        self.blocks = list(_blocks(trials // 2))
        self.events = [event for reports in _STAGES for event in self._events(reports, trials // 2)]

    def _events(self, reports: int, trials: int) -> Iterator[_Event]:
        law = score_law(self.metric.noise, *self.pairs[0].differences, reports)
        number = trials // ONE_IN if reports == REPORTS else trials
        for toward, favoured in enumerate((law, law.reversed())):
            yield _Event(reports, toward, favoured, favoured.sharpest(number, self.alpha))

    @property
    def work(self) -> int:
        return 2 * len(self.blocks)

    def run(self, answer: Respond = respond, random: Random = os.urandom) -> Iterator[None]:
        """Draw; yields after each block, so that somebody can show progress."""
        for number, trials in enumerate(self.blocks):
            pair = self.pairs[number // ONE_IN % len(self.pairs)]
            for which in (0, 1):
                self._draw(pair, which, trials, number % ONE_IN == 0, answer, random)
                yield

    def _draw(self, pair: Pair, which: int, trials: int, long: bool, answer: Respond, random: Random) -> None:
        metric, cohort, mask = self.metric, pair.cohort, pair.masks[which]
        responses = [answer(metric, mask, cohort, random, None) for _ in range(trials)]
        seen = {
            MEMO: pair.counts([response.memo for response in responses], 1),
            1: pair.counts([response.bits for response in responses], 1),
        }
        if long:
            bits: list[int] = []
            for first in responses:
                bits.append(first.bits)
                bits += [answer(metric, mask, cohort, random, first.memo).bits for _ in range(REPORTS - 1)]
            seen[REPORTS] = pair.counts(bits, REPORTS)
        for event in self.events:
            if event.reports in seen:
                scores = event.law.of(seen[event.reports])
                event.happened[which] += int((scores >= event.threshold).sum())
                event.trials[which] += trials

    def findings(self) -> list[Finding]:
        return [
            judge(
                event.seen,
                self.alpha,
                metric=self.metric.name,
                what=_NAMES[event.reports],
                pair=("first value against second", "second value against first")[event.toward],
                claim=float(self._claim(event.reports)),
                chances=event.chances,
                exact=self._exact(event.reports),
            )
            for event in self.events
        ]

    def _claim(self, reports: int) -> Fraction:
        return self.metric.epsilon_permanent if reports == MEMO else self.metric.epsilon_after(reports)

    def _exact(self, reports: int) -> float | None:
        odds = worst_odds(self.metric.noise, *self.pairs[0].differences, reports)
        return None if odds is None else float(log_above(odds))


def _blocks(trials: int) -> Iterator[int]:
    """Blocks of trials, as many as divide evenly into those that go on and those that do not."""
    size = max(1, min(BLOCK, -(-trials // ONE_IN)))
    for start in range(0, trials, size):
        yield min(size, trials - start)
