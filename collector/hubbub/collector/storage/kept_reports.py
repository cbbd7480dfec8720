"""Reports of the metrics with `keep_reports = true`: a Parquet file for each metric and closed epoch, shuffled.

Until its epoch closes a report waits in the checkpoint, saved in the transaction that counts it, so it is kept exactly
once. A row is a cohort and a bit vector: no batch id, no order, nothing that says which rows came together.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hubbub.collector.storage.counting import MetricEpoch
from hubbub.collector.storage.log import sync_folder
from hubbub.protocol.cadence import epoch_text
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.metric import Definition, Metric
from hubbub.protocol.pair import Counted


def check_can_keep(metrics: Sequence[Metric]) -> None:
    """Refuse to start if reports are to be kept and cannot be written."""
    kept = [metric.name for metric in metrics if metric.keep_reports]
    if kept:
        try:
            import_module("pyarrow.parquet")
        except ModuleNotFoundError:
            words = f"keep_reports = true ({', '.join(kept)}) needs pyarrow: pip install 'hubbub[parquet]'"
            raise Invalid([words]) from None


class Kept(Protocol):
    """Where reports wait."""

    def kept_epochs(self) -> list[MetricEpoch]:
        """The metrics and epochs of which there are any."""

    def kept_reports(self, key: MetricEpoch) -> list[tuple[bytes, bytes]]:
        """Cohorts and vectors, in parts."""

    def drop_kept(self, key: MetricEpoch) -> None:
        """They have been written."""


def write_closed(kept: Kept, sealed: Mapping[str, int], definitions: Mapping[str, Counted], folder: Path) -> None:
    """Write the files of epochs that have closed. A crash in between writes the same file again, in another order."""
    for key in kept.kept_epochs():
        metric_hash, epoch = key
        if epoch <= sealed.get(metric_hash, -1):
            metric = definitions[metric_hash]
            assert isinstance(metric, Definition)  # of a pair no reports are kept
            _write(path_of(folder, metric, epoch), metric, kept, key)
            kept.drop_kept(key)


def path_of(folder: Path, metric: Counted, epoch: int) -> Path:
    return folder_of(folder, metric) / f"{epoch_text(metric.every, epoch)}.parquet"


def folder_of(folder: Path, metric: Counted) -> Path:
    return folder / f"{metric.name}-{metric.metric_hash[:8]}"


def remove(folder: Path, metric: Counted, epoch: int) -> None:
    """Delete the reports of an epoch whose retention is over."""
    path_of(folder, metric, epoch).unlink(missing_ok=True)


def shuffled(metric: Definition, cohorts: bytes, vectors: bytes) -> tuple[bytes, bytes]:
    """The same reports in an order that says nothing."""
    numbers = np.frombuffer(cohorts, f"<u{metric.cohort_bytes}")
    rows = _rows(metric, numbers, vectors)
    order = np.random.default_rng().permutation(len(rows))
    return numbers[order].tobytes(), b"".join(rows[i] for i in order)


def _rows(metric: Definition, cohorts: NDArray[np.unsignedinteger], vectors: bytes) -> list[bytes]:
    if not metric.shape.equal_widths:
        sizes = np.array([metric.vector_bytes(level) for level in range(metric.shape.num_cohorts)])[cohorts]
    else:
        sizes = np.full(len(cohorts), metric.vector_bytes(0))
    ends = np.cumsum(sizes).tolist()
    return [vectors[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _write(path: Path, metric: Definition, kept: Kept, key: MetricEpoch) -> None:
    parts = kept.kept_reports(key)
    cohorts, vectors = shuffled(metric, b"".join(part[0] for part in parts), b"".join(part[1] for part in parts))
    numbers = np.frombuffer(cohorts, f"<u{metric.cohort_bytes}")
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    table = arrow.table(
        {
            "cohort": arrow.array(numbers.astype(np.uint16)),
            "bits": arrow.array(_rows(metric, numbers, vectors), arrow.binary()),
        }
    ).replace_schema_metadata(
        {"metric_hash": metric.metric_hash, "metric": json.dumps(metric.described()), "epoch": str(key[1])}
    )
    for folder in reversed(path.parents[:4]):  # each by itself: `parents` ignores the mode
        folder.mkdir(mode=0o700, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.touch(mode=0o600)
    with unfinished.open("wb") as file:
        parquet.write_table(table, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)
    sync_folder(path.parent.parent)
