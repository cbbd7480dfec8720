"""Counters as tallies: of a running store, or straight from a directory or a database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from hubbub.collector.database import administration
from hubbub.collector.storage.counting import Cells, MetricEpoch
from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.handing_out import Condition, ReadableCounts
from hubbub.collector.storage.log import Damaged
from hubbub.collector.storage.logged_counts import LoggedCounts
from hubbub.collector.storage.pair_counting import counts_of
from hubbub.collector.storage.sums import Sums
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.metric import Definition
from hubbub.protocol.pair import Counted, Pair, PairTally
from hubbub.protocol.tally import Tally
from hubbub.protocol.tally_files import HandedOut, Wanted, Withheld


def select(store: LoggedCounts, wanted: Wanted) -> ReadableCounts:
    """The counters wanted, as far as they may be seen."""
    return store.readable(wanted.has)


def of_metrics(wanted: Wanted) -> Condition:
    """What is wanted of the counts of metrics."""
    return lambda counted, epoch: isinstance(counted, Definition) and wanted.has(counted, epoch)


def of_pairs(wanted: Wanted) -> Condition:
    """What is wanted of those of pairs."""
    return lambda counted, epoch: isinstance(counted, Pair) and wanted.has(counted, epoch)


def withheld(readable: ReadableCounts) -> list[Withheld]:
    """Of how many reports nothing is shown yet, by metric and epoch."""
    return [
        Withheld(readable.definitions[metric_hash].name, metric_hash, epoch, number, readable.min_reports)
        for (metric_hash, epoch), number in sorted(readable.withheld.items())
    ]


def tallies(cells: Mapping[MetricEpoch, Cells]) -> list[Tally]:
    """One tally for each definition, by name; definitions that share a name stay apart."""
    return [
        Tally(metric, {epoch: counted.counts() for epoch, counted in epochs.items()})
        for metric, epochs in _by_definition(cells)
        if isinstance(metric, Definition)
    ]


def pair_tallies(cells: Mapping[MetricEpoch, Cells]) -> list[PairTally]:
    """The same for pairs."""
    return [
        PairTally(pair, {epoch: counts_of(counted) for epoch, counted in epochs.items()})
        for pair, epochs in _by_definition(cells)
        if isinstance(pair, Pair)
    ]


def _by_definition(cells: Mapping[MetricEpoch, Cells]) -> list[tuple[Counted, dict[int, Cells]]]:
    found: dict[str, tuple[Counted, dict[int, Cells]]] = {}
    for (metric_hash, epoch), counted in cells.items():
        found.setdefault(metric_hash, (counted.metric, {}))[1][epoch] = counted
    return [found[key] for key in sorted(found, key=lambda key: (found[key][0].name, key))]


def from_data(data: Path, wanted: Wanted, clock: Callable[[], float]) -> HandedOut:
    """The tallies in the directory of a collector that is not running, as far as it would hand them out."""
    data_dir = DataDir(data, create=False)
    try:
        try:
            store = LoggedCounts(data_dir, None, clock)
        except Damaged as error:
            raise Invalid([f"the data directory is damaged; restore a backup, or `hubbub repair`. {error}"]) from None
        try:
            store.show_more()
            return _answer(select(store, wanted))
        finally:
            store.close()
    finally:
        data_dir.close()


def from_database(store: str, wanted: Wanted) -> HandedOut:
    """The tallies of a store that collectors share, as far as they would hand them out."""
    return _answer(Sums().of(administration().select_from(store, wanted.has)))


def _answer(readable: ReadableCounts) -> HandedOut:
    return HandedOut(tallies(readable.cells), withheld(readable), pair_tallies(readable.cells))
