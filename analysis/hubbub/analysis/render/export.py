"""Results for programs: tidy rows as CSV, JSON and Parquet. Shares are between 0 and 1."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from hubbub.analysis.comparison import Comparison
from hubbub.analysis.optional import need
from hubbub.analysis.result import COLUMNS, Decoding


def to_csv(tables: Sequence[Decoding] | Sequence[Comparison]) -> str:
    """A row for each value of each table, under one header. Shares are between 0 and 1; what is not known is empty.

    A text that a spreadsheet would take for a formula gets an apostrophe in front; numbers stay numbers.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for place, columns in enumerate(table.columns() for table in tables):
        if place == 0:
            writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow([csv_cell(cell) for cell in row])
    return out.getvalue()


def to_json(decodings: Sequence[Decoding]) -> str:
    """One object for each metric: the facts of the whole, then the rows."""
    return json.dumps([_json_of(decoding) for decoding in decodings], indent=1, ensure_ascii=False) + "\n"


def comparisons_to_json(comparisons: Sequence[Comparison]) -> str:
    """Tidy rows of all comparisons: after minus before."""
    rows = [
        dict(zip(columns, cells, strict=True))
        for columns in (comparison.columns() for comparison in comparisons)
        for cells in zip(*columns.values(), strict=True)
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def write_parquet(decodings: Sequence[Decoding], path: str) -> None:
    """The rows of `to_csv` as a Parquet file, with types. Needs `hubbub[parquet]`."""
    pa, pq = need("pyarrow", "'hubbub[parquet]'"), need("pyarrow.parquet", "'hubbub[parquet]'")
    kinds = dict.fromkeys(("metric", "segment", "epochs", "value"), pa.string()) | {"detected": pa.bool_()}
    kinds |= {"num_reports": pa.int64(), "from": pa.string(), "to": pa.string()}
    schema = pa.schema([(name, kinds.get(name, pa.float64())) for name in COLUMNS])
    tables = [pa.table(decoding.columns(), schema=schema) for decoding in decodings]
    pq.write_table(pa.concat_tables(tables), path)


def _json_of(decoding: Decoding) -> dict[str, Any]:
    found = decoding.diagnostics
    return {
        "metric": decoding.metric,
        "segment": dict(decoding.segment),
        "kind": decoding.kind,
        "unit": decoding.unit,
        "epochs": list(decoding.epochs),
        "estimand": decoding.estimand,
        "of": decoding.of,
        "confidence": decoding.confidence,
        "correction": decoding.correction,
        "num_reports": decoding.num_reports,
        "noise_floor": plain(decoding.noise_floor),
        "notes": list(decoding.notes),
        "diagnostics": {
            "cohort_p": [plain(p) for p in found.cohort_p],
            "odd_cohorts": list(found.odd_cohorts),
            "indistinguishable": [list(group) for group in found.indistinguishable],
            "rank": found.rank,
            "num_columns": found.num_columns,
            "fake_share": found.fake_share,
            "attack_radius": found.attack_radius,
            "hidden_heavy_share": found.hidden_heavy_share,
        },
        **({"beginnings": [asdict(found) for found in decoding.beginnings]} if decoding.beginnings else {}),
        "rows": [{"role": role, **row} for role, row in zip(decoding.roles, decoding.rows(), strict=True)],
    }


def plain(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def csv_cell(cell: Any) -> Any:
    """A cell as CSV has it."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, str) and not _is_number(cell):
        return no_formula(cell)
    return "" if cell is None else cell


def no_formula(text: str) -> str:
    """With an apostrophe in front of what a spreadsheet would run: a candidate may be anybody's text."""
    return "'" + text if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
