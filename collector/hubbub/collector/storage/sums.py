"""Counts of several databases, added up as one store would hand them out.

What each of them shows grows in steps of at least `min_reports`, so their sum does, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

from hubbub.collector.storage.counting import Cells, MetricEpoch
from hubbub.collector.storage.handing_out import ReadableCounts


class Sums:
    """Adds up what several databases hand out. Sums of counts that have not changed are the very object they were."""

    def __init__(self) -> None:
        self._known: dict[MetricEpoch, tuple[list[Cells], Cells]] = {}

    def of(self, readable: Sequence[ReadableCounts]) -> ReadableCounts:
        before, self._known = self._known, {}
        parts: dict[MetricEpoch, list[Cells]] = {}
        withheld: dict[MetricEpoch, int] = {}
        for one in readable:
            for key, cells in one.cells.items():
                parts.setdefault(key, []).append(cells)
            for key, number in one.withheld.items():
                withheld[key] = withheld.get(key, 0) + number
        for key, found in parts.items():
            known = before.get(key)
            if known is None or [id(cells) for cells in known[0]] != [id(cells) for cells in found]:
                known = found, reduce(add, found)
            known[1].rename(max((cells.metric for cells in found), key=lambda metric: len(metric.shape.later_names)))
            self._known[key] = known
        definitions = {name: metric for one in readable for name, metric in one.definitions.items()}
        sums = {key: known[1] for key, known in self._known.items()}
        return ReadableCounts(sums, withheld, definitions, max(one.min_reports for one in readable))
