"""How many installs were active, from the numbers of reports: no noise is in them.

An install that agreed sends one report of every metric for each period in which its app ran, whatever was recorded. So
the reports of a metric and period are installs, counted exactly: those that agreed, ran, and whose message has arrived
by now. Where several metrics have the same period the largest number counts, for one may have ended, begun or used up
its budget; reports of earlier definitions of a metric are of other installs, and are added. Metrics whose answers have
a history ask some of the installs in each period, and say nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hubbub.protocol.cadence import CADENCES, Cadence, epoch_text
from hubbub.protocol.segments import Segment
from hubbub.protocol.tally import Tally, common_segment


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


def active_installs(tallies: Iterable[Tally]) -> list[ActiveInstalls]:
    """Those of every period that the tallies have, by cadence and then in order of time. Segments are added up."""
    tallies = list(tallies)
    if not tallies:
        return []
    segment = common_segment(tallies)
    reports: dict[tuple[Cadence, int], dict[str, int]] = {}
    for tally in tallies:
        if tally.metric.hold is not None:
            continue
        name = tally.metric.name
        for epoch, counts in tally.epochs.items():
            of_period = reports.setdefault((tally.metric.every, epoch), {})
            of_period[name] = of_period.get(name, 0) + sum(counts.num_reports)
    found = []
    for every, epoch in sorted(reports, key=lambda key: (CADENCES.index(key[0]), key[1])):
        of_period = reports[every, epoch]
        metric = max(of_period, key=lambda name: of_period[name])  # the first of several with as many
        found.append(ActiveInstalls(every, epoch, of_period[metric], metric, segment))
    return found
