"""Results as files, byte for byte what `hubbub decode` writes of the same tallies, candidates and options."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hubbub.analysis.charts import decoding_chart, save
from hubbub.analysis.decoding import Decoding
from hubbub.analysis.present import to_csv, to_json, write_parquet

TYPES = {
    "csv": "text/csv",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
    "png": "image/png",
}


def file_of(decoding: Decoding, kind: str) -> bytes:
    """The content of the file; `kind` is a key of TYPES. Raises `Invalid` where an extra is missing."""
    match kind:
        case "csv":
            return to_csv([decoding]).encode()
        case "json":
            return to_json([decoding]).encode()
    with tempfile.TemporaryDirectory(prefix="hubbub-") as folder:  # their libraries write to paths
        path = Path(folder, f"result.{kind}")
        if kind == "parquet":
            write_parquet([decoding], str(path))
        else:
            save(decoding_chart(decoding), str(path))
        return path.read_bytes()
