"""Counters as tallies: of a running store, or straight from a directory or a database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from hubbub.collector.database import administration
from hubbub.collector.storage.counting import Cells, MetricEpoch
from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.handing_out import Lent
from hubbub.collector.storage.log import Damaged
from hubbub.collector.storage.logged_counts import LoggedCounts
from hubbub.collector.storage.sums import Sums
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.tally import Tally
from hubbub.protocol.tally_files import Answer, Wanted, Withheld


def select(store: LoggedCounts, wanted: Wanted) -> Lent:
    """The counters wanted, as far as they may be seen."""
    return store.lend(wanted.has)


def withheld(lent: Lent) -> list[Withheld]:
    """Of how many reports nothing is shown yet, by metric and epoch."""
    return [
        Withheld(lent.definitions[metric_hash].name, metric_hash, epoch, number, lent.min_reports)
        for (metric_hash, epoch), number in sorted(lent.withheld.items())
    ]


def tallies(cells: Mapping[MetricEpoch, Cells]) -> list[Tally]:
    """One tally for each definition, by name; definitions that share a name stay apart."""
    metrics = {metric_hash: counted.metric for (metric_hash, _), counted in cells.items()}
    return [
        Tally(metric, {epoch: counted.counts() for (key, epoch), counted in cells.items() if key == metric_hash})
        for metric_hash, metric in sorted(metrics.items(), key=lambda item: (item[1].name, item[0]))
    ]


def from_data(data: Path, wanted: Wanted, clock: Callable[[], float]) -> Answer:
    """The tallies in the directory of a collector that is not running, as far as it would hand them out."""
    data_dir = DataDir(data, create=False)
    try:
        try:
            store = LoggedCounts(data_dir, None, clock)
        except Damaged as error:
            raise Invalid([f"the data directory is damaged; restore a backup, or `hubbub repair`. {error}"]) from None
        try:
            store.show_more()
            lent = select(store, wanted)
            return Answer(tallies(lent.cells), withheld(lent))
        finally:
            store.close()
    finally:
        data_dir.close()


def from_database(store: str, wanted: Wanted) -> Answer:
    """The tallies of a store that collectors share, as far as they would hand them out."""
    lent = Sums().of(administration().select_from(store, wanted.has))
    return Answer(tallies(lent.cells), withheld(lent))
