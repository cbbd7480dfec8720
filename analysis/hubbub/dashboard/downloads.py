"""Results as files, byte for byte what `hubbub decode` writes of the same tallies, candidates and options."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hubbub.analysis.crosstab_result import Crosstab
from hubbub.analysis.render.charts import decoding_chart
from hubbub.analysis.render.crosstab_chart import crosstab_chart
from hubbub.analysis.render.crosstab_export import crosstabs_to_csv, crosstabs_to_json, write_crosstabs_parquet
from hubbub.analysis.render.excel import write_crosstabs_excel, write_excel
from hubbub.analysis.render.export import to_csv, to_json, write_parquet
from hubbub.analysis.result import Decoding
from hubbub.protocol.invalid import Invalid

TYPES = {
    "csv": "text/csv",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
    "png": "image/png",
    "svg": "image/svg+xml",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def file_of(decodings: Sequence[Decoding], kind: str) -> bytes:
    """The content of a table's file: csv, json, parquet or xlsx. Raises `Invalid` where an extra is missing."""
    match kind:
        case "csv":
            return to_csv(decodings).encode()
        case "json":
            return to_json(decodings).encode()
    with tempfile.TemporaryDirectory(prefix="hubbub-") as folder:  # their libraries write to a path
        path = Path(folder, f"result.{kind}")
        (write_parquet if kind == "parquet" else write_excel)(decodings, str(path))
        return path.read_bytes()


def chart_of(decoding: Decoding) -> str:
    """What `hubbub decode --chart` draws, as the JSON that is drawn."""
    if not drawable(decoding):
        raise Invalid([f"there is nothing to draw of {decoding.metric}: it could not be estimated"])
    chart: str = decoding_chart(decoding).to_json()
    return chart


def crosstab_file(table: Crosstab, kind: str) -> bytes:
    """The same of two answers at once."""
    match kind:
        case "csv":
            return crosstabs_to_csv([table]).encode()
        case "json":
            return crosstabs_to_json([table]).encode()
    with tempfile.TemporaryDirectory(prefix="hubbub-") as folder:
        path = Path(folder, f"result.{kind}")
        (write_crosstabs_parquet if kind == "parquet" else write_crosstabs_excel)([table], str(path))
        return path.read_bytes()


def crosstab_chart_of(table: Crosstab, given: int | None) -> str:
    chart: str = crosstab_chart(table, given).to_json()
    return chart


def drawable(decoding: Decoding) -> bool:
    """Whether there is anything to draw."""
    finite = np.isfinite(decoding.estimate) & np.isfinite(decoding.low) & np.isfinite(decoding.high)
    if decoding.distribution is not None:
        return bool(finite.all())
    return bool(finite.any()) if decoding.has_shares else bool(finite[0])
