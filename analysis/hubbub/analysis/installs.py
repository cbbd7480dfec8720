"""How many installs were active, from the numbers of reports: no noise is in them.

An install that agreed sends one report of every metric for each period in which its app ran, whatever was recorded. So
the reports of a metric and period are installs, counted exactly: those that agreed, ran, and whose message has arrived
by now. Where several metrics have the same period the largest number counts, as one may have ended, begun or used up
its budget; reports of earlier definitions of a metric are of other installs, and are added. Metrics whose answers have
a history ask some of the installs in each period, and say nothing here. Those with a `sample` ask a share of all: they
count where no other metric does, each report for as many installs as that is one in, and then it is an estimate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hubbub.protocol.cadence import CADENCES, epoch_text
from hubbub.protocol.segments import Segment
from hubbub.protocol.tally import Tally, common_segment
from hubbub.protocol.vocabulary import Cadence


@dataclass(frozen=True, slots=True)
class ActiveInstalls:
    """The installs of one period. Of metrics that are asked once, those that came in a month are new ones."""

    every: Cadence  # how long the period is
    epoch: int  # its number
    installs: int  # how many there were
    metric: str  # the metric that says so: the one with the most reports
    segment: Segment = ()  # the installs that are counted, such as those of one release; empty: all

    @property
    def period(self) -> str:
        """Such as `2026-W47`."""
        return epoch_text(self.every, self.epoch)

    @property
    def counts(self) -> str:
        """What is counted, in a word or two."""
        return "new installs" if self.every == "once" else "active installs"


def active_installs(tallies: Iterable[Tally], only: int | None = None) -> list[ActiveInstalls]:
    """Those of every period that the tallies have, or of the one with the number `only`, by cadence and then in order
    of time. Segments are added up."""
    tallies = list(tallies)
    if not tallies:
        return []
    segment = common_segment(tallies)
    reports: dict[tuple[Cadence, int], dict[str, float]] = {}
    exact = {
        (t.metric.every, epoch) for t in tallies if t.metric.sample == 1 and not t.metric.hold for epoch in t.epochs
    }
    for tally in tallies:
        if tally.metric.hold is not None:
            continue
        name = tally.metric.name
        for epoch in tally.epochs if only is None else {only} & tally.epochs.keys():
            counts, period = tally.epochs[epoch], (tally.metric.every, epoch)
            if tally.metric.sample == 1 or period not in exact:
                of_period = reports.setdefault(period, {})
                of_period[name] = of_period.get(name, 0) + sum(counts.num_reports) / tally.metric.sample
    found = []
    for every, epoch in sorted(reports, key=lambda key: (CADENCES.index(key[0]), key[1])):
        of_period = reports[every, epoch]
        metric = max(of_period, key=lambda name: of_period[name])  # the first of several with as many
        found.append(ActiveInstalls(every, epoch, round(of_period[metric]), metric, segment))
    return found
