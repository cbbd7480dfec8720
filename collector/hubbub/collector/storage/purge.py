"""Counts that were purged because their retention was over, and back: for seven days they can be had again.

A wrong `retention` or a wrong clock would else delete years of counts in a moment. Works on the directory of a
collector that is not running.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hubbub.collector.storage.checkpoint import RECOVERABLE_DAYS, Checkpoint
from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.log import Damaged
from hubbub.protocol.cadence import epoch_text
from hubbub.protocol.invalid import Invalid


@dataclass(frozen=True, slots=True)
class Purged:
    """The counts of one metric and epoch that can still be had back."""

    metric: str
    epoch: str
    reports: int
    days_left: int


def list_purged(data: Path) -> list[Purged]:
    """What can be had back, by metric and epoch."""
    with at_rest(data) as (_, checkpoint):
        return _purged(checkpoint)


def restore_purged(data: Path, metric: str | None) -> list[Purged]:
    """Put purged counts back, of one metric or of all; which these were."""
    with at_rest(data) as (_, checkpoint):
        found = [item for item in _purged(checkpoint) if metric in (None, item.metric)]
        definitions = checkpoint.load().definitions
        keys = [key for key in checkpoint.purged() if metric in (None, definitions[key[0]].name)]
        checkpoint.restore_purged(keys)
        return found


def _purged(checkpoint: Checkpoint) -> list[Purged]:
    saved = checkpoint.load()
    found = []
    for (metric_hash, epoch), (cells, day) in checkpoint.purged().items():
        definition = saved.definitions[metric_hash]
        days_left = max(0, day + RECOVERABLE_DAYS - saved.day)
        reports = int(cells.num_reports.sum())
        found.append(Purged(definition.name, epoch_text(definition.every, epoch), reports, days_left))
    return sorted(found, key=lambda item: (item.metric, item.epoch))


@contextmanager
def at_rest(data: Path) -> Iterator[tuple[DataDir, Checkpoint]]:
    """The data directory of a collector that is stopped, and its checkpoint. Raises `Invalid` if it is damaged."""
    data_dir = DataDir(data, create=False)
    try:
        checkpoint = Checkpoint(data_dir.database)
        try:
            yield data_dir, checkpoint
        finally:
            checkpoint.close()
    except Damaged as error:
        raise Invalid([f"the data directory is damaged; restore a backup, or `hubbub repair`. {error}"]) from None
    finally:
        data_dir.close()
