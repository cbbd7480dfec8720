"""Results as files, byte for byte what `hubbub decode` writes of the same tallies, candidates and options."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from hubbub.analysis.render.charts import decoding_chart
from hubbub.analysis.render.export import to_csv, to_json, write_parquet
from hubbub.analysis.result import Decoding
from hubbub.protocol.invalid import Invalid

TYPES = {
    "csv": "text/csv",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
    "png": "image/png",
    "svg": "image/svg+xml",
}


def file_of(decoding: Decoding, kind: str) -> bytes:
    """The content of a table's file: csv, json or parquet. Raises `Invalid` where an extra is missing."""
    match kind:
        case "csv":
            return to_csv([decoding]).encode()
        case "json":
            return to_json([decoding]).encode()
    with tempfile.TemporaryDirectory(prefix="hubbub-") as folder:  # its library writes to a path
        path = Path(folder, "result.parquet")
        write_parquet([decoding], str(path))
        return path.read_bytes()


def chart_of(decoding: Decoding) -> str:
    """What `hubbub decode --chart` draws, as the JSON that is drawn."""
    if not drawable(decoding):
        raise Invalid([f"there is nothing to draw of {decoding.metric}: it could not be estimated"])
    chart: str = decoding_chart(decoding).to_json()
    return chart


def drawable(decoding: Decoding) -> bool:
    """Whether there is anything to draw."""
    finite = np.isfinite(decoding.estimate) & np.isfinite(decoding.low) & np.isfinite(decoding.high)
    if decoding.distribution is not None:
        return bool(finite.all())
    return bool(finite.any()) if decoding.has_shares else bool(finite[0])
