"""Crosstabs for programs: tidy rows as CSV, JSON and Parquet. Shares are between 0 and 1."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hubbub.analysis.crosstab_result import COLUMNS, Crosstab
from hubbub.analysis.optional import need
from hubbub.analysis.render.export import csv_cell, plain

_TEXTS = ("table", "segment", "epochs", "share_of", "given", "first", "second")


def crosstabs_to_csv(tables: Sequence[Crosstab]) -> str:
    """A row for each cell of each table: `share_of` is all (installs), given (a factor) or margin."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for table in tables:
        for row in zip(*table.columns().values(), strict=True):
            writer.writerow([csv_cell(cell) for cell in row])
    return out.getvalue()


def crosstabs_to_json(tables: Sequence[Crosstab]) -> str:
    """One object for each table: the facts of the whole, the test, then the rows."""
    return json.dumps([_json_of(table) for table in tables], indent=1, ensure_ascii=False) + "\n"


def write_crosstabs_parquet(tables: Sequence[Crosstab], path: str) -> None:
    """The rows of `crosstabs_to_csv` as a Parquet file, with types. Needs `hubbub[parquet]`."""
    pa, pq = need("pyarrow", "'hubbub[parquet]'"), need("pyarrow.parquet", "'hubbub[parquet]'")
    kinds = dict.fromkeys(_TEXTS, pa.string()) | {"detected": pa.bool_(), "num_reports": pa.int64()}
    schema = pa.schema([(name, kinds.get(name, pa.float64())) for name in COLUMNS])
    pq.write_table(pa.concat_tables([pa.table(table.columns(), schema=schema) for table in tables]), path)


def _json_of(table: Crosstab) -> dict[str, Any]:
    return {
        "table": table.name,
        "way": table.way,
        "segment": dict(table.segment),
        "factors": [{"name": factor.name, "unit": factor.unit, "values": factor.values} for factor in table.factors],
        "epochs": list(table.epochs),
        "estimand": table.estimand,
        "of": table.of,
        "confidence": table.confidence,
        "correction": table.correction,
        "num_reports": table.num_reports,
        "notes": list(table.notes),
        "fake_share": table.fake_share,
        "attack_radius": table.attack_radius,
        "independence": {name: plain(value) for name, value in asdict(table.independence).items()},
        "clearest": {
            table.factors[side].name: _clearest(table, side)
            for side in (0, 1)
            if table.given[side].clearest is not None
        },
        "means": {
            table.factors[side].name: _means(table, side) for side in (0, 1) if table.given[side].means is not None
        },
        "rows": list(table.rows()),
    }


def _clearest(table: Crosstab, side: int) -> dict[str, Any]:
    found = table.given[side].clearest
    assert found is not None
    group, other = table.factors[side].values, table.factors[1 - side].values
    return {
        "outcome": other[found.outcome],
        "complement": found.complement,
        "more": group[found.more],
        "less": group[found.less],
        "chosen_from": found.chosen_from,
        "detectable": plain(found.detectable),
        **{name: plain(value) for name, value in asdict(found.contrast).items()},
    }


def _means(table: Crosstab, side: int) -> list[dict[str, Any]]:
    found = table.given[side].means
    assert found is not None
    return [
        {
            "given": value,
            **{name: plain(float(getattr(found, name)[i])) for name in ("estimate", "std_error", "low", "high")},
        }
        for i, value in enumerate(table.factors[side].values)
    ]
