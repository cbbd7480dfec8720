"""What readers may see: counts as they were when they had last grown by at least `min_reports` reports.

Each metric and epoch goes forward in such steps, so that no two reads differ by fewer installs (an install sends one
report per metric and epoch). A step is taken when somebody reads, and shown once it is saved: else a crash would forget
it, and the next read could differ by less. What is counted, backed up or kept is not touched by this.

It is a courtesy and no proof: counts of a cohort within a step may still be those of one report.
Where segments of a metric are counted apart, those below `min_reports` are to be merged before a reader gets them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from hubbub.collector.storage.counting import Cells, MetricEpoch
from hubbub.protocol.pair import Counted

Condition = Callable[[Counted, int], bool]


@dataclass(frozen=True, slots=True)
class ReadableCounts:
    """Counters to read, which nobody changes any more; and of how many reports nothing is shown yet."""

    cells: Mapping[MetricEpoch, Cells]
    withheld: Mapping[MetricEpoch, int]
    definitions: Mapping[str, Counted]
    min_reports: int


class HandingOut:
    """The counts that may be seen, beside those that there are. With 0 all may be seen at once."""

    def __init__(
        self, min_reports: int, saved: Mapping[MetricEpoch, Cells], cells: Mapping[MetricEpoch, Cells]
    ) -> None:
        self.min_reports = min_reports
        self.seen = {key: _shared(shown, cells.get(key)) for key, shown in saved.items() if key in cells}
        self._grown = set(cells)  # since a step was last looked for; at first all, because `min_reports` may be another

    def grew(self, key: MetricEpoch) -> None:
        self._grown.add(key)

    def is_due(self, cells: Mapping[MetricEpoch, Cells]) -> bool:
        """Whether any counts have grown enough for a step."""
        return bool(self.min_reports) and any(self._has_grown(key, cells) for key in self._grown)

    def take_steps(self, cells: Mapping[MetricEpoch, Cells]) -> dict[MetricEpoch, Cells]:
        """The counts that have grown enough. Call `saved` or `not_saved` with them when that is known."""
        grown, self._grown = self._grown, set()
        return {key: cells[key] for key in grown if self.min_reports and self._has_grown(key, cells)}

    def saved(self, steps: Mapping[MetricEpoch, Cells]) -> None:
        """From now on these are shown."""
        self.seen.update(steps)

    def not_saved(self, steps: Iterable[MetricEpoch]) -> None:
        self._grown.update(steps)

    def drop(self, keys: Iterable[MetricEpoch]) -> None:
        for key in keys:
            self.seen.pop(key, None)

    def readable(self, cells: Mapping[MetricEpoch, Cells], wanted: Condition) -> ReadableCounts:
        """What may be seen of the counters wanted."""
        chosen = {key: counted for key, counted in cells.items() if wanted(counted.metric, key[1])}
        definitions = {key[0]: counted.metric for key, counted in chosen.items()}
        if not self.min_reports:
            return ReadableCounts(chosen, {}, definitions, 0)
        withheld = {key: self._withheld(key, counted) for key, counted in chosen.items()}
        return ReadableCounts(
            {key: self.seen[key] for key in chosen if key in self.seen},
            {key: number for key, number in withheld.items() if number},
            definitions,
            self.min_reports,
        )

    def _has_grown(self, key: MetricEpoch, cells: Mapping[MetricEpoch, Cells]) -> bool:
        return key in cells and self._withheld(key, cells[key]) >= self.min_reports

    def _withheld(self, key: MetricEpoch, counted: Cells) -> int:
        seen = self.seen.get(key)
        if seen is counted:
            return 0
        return counted.total - (0 if seen is None else seen.total)


def _shared(shown: Cells, counted: Cells | None) -> Cells:
    """The counters themselves where all of them may be seen: most epochs are over, and need not be kept twice."""
    return counted if counted is not None and counted.total == shown.total else shown
