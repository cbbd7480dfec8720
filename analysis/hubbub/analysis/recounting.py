"""Kept reports counted anew: the Parquet files of metrics with `keep_reports = true` become tallies again.

Each file is one item of an engine's work. Counts are whole numbers and are added up in the order of the files, so the
result is the same whoever counted what. With `parts` the reports are dealt out to so many tallies, each a sample of its
own: a collector shuffles a file when it writes it, so every so-many-th row is drawn at random.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.analysis.engines.engine import Engine
from hubbub.analysis.optional import need
from hubbub.analysis.progress import Progress
from hubbub.protocol.invalid import Invalid, brief
from hubbub.protocol.metric import Definition
from hubbub.protocol.tally import Counts, Tally
from hubbub.protocol.tally_files import Wanted

MOST_PARTS = 1000
_AT_ONCE = 1 << 16  # rows

Integers = NDArray[np.int64]


def recount(
    places: Sequence[str | Path],
    engine: Engine,
    wanted: Wanted | None = None,
    parts: int = 1,
    progress: Progress = lambda share: None,
) -> list[list[Tally]]:
    """For each part one tally of each definition, by name. Raises `Invalid` for a file that holds no kept reports."""
    if not 1 <= parts <= MOST_PARTS:
        raise Invalid([f"parts must be in [1, {MOST_PARTS}], got {parts}"])
    files = report_files(places)
    metrics: dict[str, Definition] = {}
    sums: list[dict[tuple[str, int], list[Integers]]] = [{} for _ in range(parts)]
    items = [Item(path, parts, wanted) for path in files]
    for done, found in enumerate(engine.map(count_file, items), 1):
        if found is not None:
            metrics[found.metric.metric_hash] = found.metric
            for cells, counted in zip(sums, found.parts, strict=True):
                key = found.metric.metric_hash, found.epoch
                cells[key] = [a + b for a, b in zip(cells[key], counted, strict=True)] if key in cells else counted
        progress(done / len(files))
    by_name = sorted(metrics.values(), key=lambda metric: (metric.name, metric.metric_hash))
    return [[_tally(metric, cells) for metric in by_name] for cells in sums]


def report_files(places: Sequence[str | Path]) -> list[str]:
    """Files, and all those below folders, in the order of their names: absolute paths, which mean the same to every
    worker."""
    found: list[Path] = []
    for place in places:
        path = Path(place).resolve(strict=True)
        inside = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        if not inside:
            raise Invalid([f"{place}: must hold kept reports, got no file that ends in .parquet"])
        found += inside
    twice = [path for number, path in enumerate(found) if path in found[:number]]
    if twice:
        raise Invalid([f"{twice[0]}: must be named once, or its reports would count twice"])
    return [str(path) for path in found]


@dataclass(frozen=True, slots=True)
class Item:
    """What a worker is told."""

    path: str
    parts: int
    wanted: Wanted | None


@dataclass(frozen=True, slots=True)
class Counted:
    """One file: for each part the reports of each cohort, and how often each bit was set, cohort after cohort."""

    metric: Definition
    epoch: int
    parts: list[list[Integers]]


def count_file(item: Item) -> Counted | None:
    """Count the reports of one file; None if it is of a metric or an epoch that is not wanted."""
    pa, pq = need("pyarrow", "'hubbub[parquet]'"), need("pyarrow.parquet", "'hubbub[parquet]'")
    try:
        file = pq.ParquetFile(item.path)
    except pa.ArrowInvalid as error:
        raise Invalid([f"{item.path}: must be Parquet, got {error}"]) from None
    with file:
        metric, epoch = _what_of(item.path, file.schema_arrow)
        if item.wanted is not None and not item.wanted.has(metric, epoch):
            return None
        widths = [metric.shape.width(cohort) for cohort in range(metric.shape.num_cohorts)]
        counted = [[np.zeros(len(widths), np.int64), np.zeros(sum(widths), np.int64)] for _ in range(item.parts)]
        done = 0
        for batch in file.iter_batches(batch_size=_AT_ONCE, columns=["cohort", "bits"]):
            cohorts = batch.column(0).to_numpy()
            vectors = batch.column(1).to_pylist()
            _check(item.path, metric, cohorts, vectors, done)
            for part, (num_reports, bit_counts) in enumerate(counted):
                first = (part - done) % item.parts
                _add(metric, cohorts[first :: item.parts], vectors[first :: item.parts], num_reports, bit_counts)
            done += len(cohorts)
    return Counted(metric, epoch, counted)


def _what_of(path: str, schema: Any) -> tuple[Definition, int]:
    """The metric and the epoch that a file says it is of."""
    said = schema.metadata or {}
    columns = {field.name: str(field.type) for field in schema}
    if columns != {"cohort": "uint16", "bits": "binary"} or not {b"metric", b"metric_hash", b"epoch"} <= set(said):
        shown = ", ".join(f"{name}: {kind}" for name, kind in columns.items())
        raise Invalid([f"{path}: must be a collector's file of kept reports (cohort, bits), got {brief(shown)}"])
    try:
        metric, epoch = Definition.from_json(json.loads(said[b"metric"])), int(said[b"epoch"])
    except ValueError as error:  # Invalid is one
        raise Invalid([f"{path}: metric and epoch must be those of kept reports, got {brief(str(error))}"]) from None
    if metric.metric_hash != said[b"metric_hash"].decode():
        got = brief(said[b"metric_hash"].decode())
        raise Invalid([f"{path}: metric_hash must be {metric.metric_hash}, that of its metric, got {got}"])
    return metric, epoch


def _check(path: str, metric: Definition, cohorts: NDArray[np.uint16], vectors: list[bytes], before: int) -> None:
    """Raise `Invalid` for the first row that no client could have sent."""
    most = metric.shape.num_cohorts
    sizes = np.array([metric.vector_bytes(cohort) for cohort in range(most)])
    unused = np.array([8 * metric.vector_bytes(cohort) - metric.shape.width(cohort) for cohort in range(most)])
    wrong = cohorts >= most
    if not wrong.any():
        wrong = sizes[cohorts] != np.fromiter(map(len, vectors), np.int64, len(vectors))
    if not wrong.any():
        last = np.fromiter((vector[-1] for vector in vectors), np.int64, len(vectors))
        wrong = last >> (8 - unused[cohorts]) != 0
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        got = f"cohort {cohorts[row]} with {len(vectors[row])} bytes"
        raise Invalid([f"{path}: row {before + row} must be a report of {metric.name}, got {got}"])


def _add(
    metric: Definition, cohorts: NDArray[np.uint16], vectors: list[bytes], num_reports: Integers, bit_counts: Integers
) -> None:
    """Sorted by cohort, reports of one cohort lie together and have one width."""
    order = np.argsort(cohorts, kind="stable")
    present, starts = np.unique(cohorts[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    offsets = np.concatenate([[0], np.cumsum([metric.shape.width(c) for c in range(metric.shape.num_cohorts)])])
    for cohort, start, end in zip(present.tolist(), starts.tolist(), ends, strict=True):
        rows = np.frombuffer(b"".join(vectors[i] for i in order[start:end].tolist()), np.uint8)
        width = metric.shape.width(cohort)
        bits = np.unpackbits(rows.reshape(end - start, -1), axis=1, count=width, bitorder="little")
        num_reports[cohort] += end - start
        bit_counts[offsets[cohort] : offsets[cohort + 1]] += bits.sum(axis=0, dtype=np.int64)


def _tally(metric: Definition, cells: dict[tuple[str, int], list[Integers]]) -> Tally:
    widths = [metric.shape.width(cohort) for cohort in range(metric.shape.num_cohorts)]
    ends = np.cumsum(widths)[:-1]
    return Tally(
        metric,
        {
            epoch: Counts(tuple(reports.tolist()), tuple(tuple(row.tolist()) for row in np.split(bits, ends)))
            for (metric_hash, epoch), (reports, bits) in cells.items()
            if metric_hash == metric.metric_hash
        },
    )


def differences(recounted: Sequence[Tally], counted: Sequence[Tally]) -> Iterator[tuple[str, int, int, int | None]]:
    """Where kept reports and counts are not the same: metric, epoch, how many were kept and how many counted; None if
    nothing was. Epochs of which nothing is kept are left out: they may be open still, or of a metric that is not kept.
    """
    known = {tally.metric.metric_hash: tally for tally in counted}
    for tally in recounted:
        other = known.get(tally.metric.metric_hash)
        for epoch, counts in tally.epochs.items():
            there = None if other is None else other.epochs.get(epoch)
            if there != counts:
                number = None if there is None else sum(there.num_reports)
                yield tally.metric.name, epoch, sum(counts.num_reports), number
