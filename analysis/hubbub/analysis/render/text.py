"""Tables for people, tidy rows for programs. Shares are shares here, and percent only where a person reads them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from hubbub.analysis.columns import COLUMNS, NUMBER, epoch_span
from hubbub.analysis.optional import need
from hubbub.analysis.render.terminal import PLAIN, Style

if TYPE_CHECKING:  # a decoding shows itself in notebooks by means of this module, so it comes first
    from hubbub.analysis.compare import Comparison
    from hubbub.analysis.result import Decoding

FORMATS = ("table", "csv", "json", "parquet", "rappor")
SHOWN = 50
Show = Callable[[float], str]


def table(decoding: Decoding, most: int = SHOWN, style: Style = PLAIN) -> str:
    """What a person reads: what was found, how sure that is, and what cannot be said."""
    rows = shown(decoding, most)
    header, *lines = _aligned(_header(decoding), [cells(decoding, i) for i in rows])
    untold = [not decoding.detected[i] and not np.isnan(decoding.p_adjusted[i]) for i in rows]
    lines = [style.faint(line) if faint else line for line, faint in zip(lines, untold, strict=True)]
    lines = [style.bold(_title(decoding)), "", header, *lines, "", *_hidden(decoding, most), *remarks(decoding)]
    return "\n".join(lines)


def _title(decoding: Decoding) -> str:
    reports = f"{decoding.num_reports:,} report{'s' * (decoding.num_reports != 1)}"
    epochs = f", {epoch_span(decoding.epochs)}" if decoding.epochs else ""
    unit = f", in {decoding.unit}" if decoding.unit else ""
    return f"{decoding.metric} ({decoding.kind}{unit}){epochs}, {reports}"


def _header(decoding: Decoding) -> list[str]:
    return ["value", "estimate", f"{100 * decoding.confidence:g} % interval", "installs", "best guess", ""]


def shown(decoding: Decoding, most: int) -> list[int]:
    """Kinds with a natural order keep it; strings and long lists show what was detected, the largest first."""
    if decoding.kind in ("range", "mean", "flag") or (decoding.kind != "string" and len(decoding) <= most):
        return list(range(len(decoding)))
    largest = np.argsort(-np.nan_to_num(decoding.estimate, nan=-np.inf), kind="stable")
    first = [int(i) for i in largest if decoding.roles[i] == "answer"]
    detected = decoding.detected  # of all rows at once: asked for row by row, a million would take minutes
    found = [i for i in first if detected[i]][:most]
    rest = [i for i in first if not detected[i]][: max(0, min(most - len(found), 10))]
    return found + rest + [i for i, role in enumerate(decoding.roles) if role != "answer"]


def cells(decoding: Decoding, i: int) -> list[str]:
    is_number = decoding.roles[i] == NUMBER
    show: Show = number if is_number else percent
    if not np.isfinite(decoding.std_error[i]):
        return [decoding.values[i], "unknown", "", "", "", "cannot be estimated"]
    return [
        decoding.values[i],
        show(decoding.estimate[i]),
        f"{show(decoding.low[i])} to {show(decoding.high[i])}",
        "" if is_number else _count(float(decoding.estimate[i]) * decoding.installs),
        show(decoding.best_guess[i]),
        verdict(decoding, i),
    ]


def verdict(decoding: Decoding, i: int) -> str:
    if np.isnan(decoding.p_adjusted[i]):
        return ""
    if not decoding.detected[i]:
        return "below the noise floor"
    if np.isfinite(decoding.high_selected[i]):
        low, high = percent(decoding.low_selected[i]), percent(decoding.high_selected[i])
        return f"detected; given that, {low} to {high}"
    return "detected"


def _hidden(decoding: Decoding, most: int) -> list[str]:
    hidden = len(decoding) - len(shown(decoding, most))
    are = "value is" if hidden == 1 else "values are"
    return [f"{hidden:,} more {are} not shown; --format csv has them all."] if hidden else []


def remarks(decoding: Decoding) -> list[str]:
    """Of whom the numbers speak, where noise begins, what fake reports could do, and all that is odd."""
    whom = {
        "reporting": "the installs that reported",
        "population": "the population that the reporting installs are a sample of",
    }[decoding.estimand]
    of = ", as shares of those who answered" if decoding.of == "answered" else ""
    found_out = [f"Intervals speak of {whom}{of} ({decoding.estimand})."]
    if np.isfinite(decoding.noise_floor):
        found_out.append(
            f"Noise floor: an estimate under {percent(decoding.noise_floor)} cannot be told from nothing "
            f"({decoding.correction}, {100 * (1 - decoding.confidence):.3g} %)."
        )
    found = decoding.diagnostics
    unit = f" {decoding.unit}" if decoding.unit else ""
    radius = f"{found.attack_radius:.4g}{unit}" if decoding.kind == "mean" else percent(found.attack_radius)
    if found.fake_share:
        found_out.append(
            f"If {percent(found.fake_share)} of the reports were fake, an estimate could be off by {radius}."
        )
    if found.odd_cohorts:
        some = ", ".join(map(str, found.odd_cohorts[:10]))
        found_out.append(f"Cohorts that do not fit the others, broken or tampered with: {some}.")
    return found_out + list(decoding.notes)


def comparison_table(comparison: Comparison, most: int = SHOWN, style: Style = PLAIN) -> str:
    """Before, after and the difference, for a person; of long lists the rows that changed most surely."""
    after = comparison.after
    unit = f", in {after.unit}" if after.unit else ""
    order = compared(comparison, most)
    header, *rows = _aligned(comparison_header(comparison), [comparison_cells(comparison, i) for i in order])
    lines = [row if comparison.changed[i] else style.faint(row) for i, row in zip(order, rows, strict=True)]
    note = "The two sides are taken as independent: variances add."
    return "\n".join([style.bold(f"{after.metric} ({after.kind}{unit})"), "", header, *lines, "", note])


def comparison_header(comparison: Comparison) -> list[str]:
    interval = f"{100 * comparison.after.confidence:g} % interval"
    return ["value", _side(comparison.before), _side(comparison.after), "difference", interval, ""]


def compared(comparison: Comparison, most: int = SHOWN) -> list[int]:
    """The most certain changes, in the order of the values."""
    order = np.argsort(np.nan_to_num(comparison.p_adjusted, nan=2.0), kind="stable")[:most]
    return sorted(order.tolist())


def comparison_cells(comparison: Comparison, i: int) -> list[str]:
    show: Show = number if comparison.roles[i] == NUMBER else percent
    return [
        comparison.values[i],
        show(comparison.estimate_before[i]),
        show(comparison.estimate_after[i]),
        show(comparison.difference[i]),
        f"{show(comparison.low[i])} to {show(comparison.high[i])}",
        "changed" if comparison.changed[i] else "no change seen",
    ]


def _side(decoding: Decoding) -> str:
    return epoch_span(decoding.epochs) or decoding.metric


def html_table(decoding: Decoding, most: int = SHOWN) -> str:
    """For notebooks."""

    def row(cells: Iterable[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row(cells(decoding, i), "td") for i in shown(decoding, most))
    notes = "".join(f"<li>{escape(remark)}</li>" for remark in [*_hidden(decoding, most), *remarks(decoding)])
    return (
        f"<table><caption>{escape(_title(decoding))}</caption><thead>{row(_header(decoding), 'th')}</thead>"
        f"<tbody>{body}</tbody></table><ul>{notes}</ul>"
    )


def to_csv(tables: Sequence[Decoding] | Sequence[Comparison]) -> str:
    """A row for each value of each table, under one header. Shares are between 0 and 1; what is not known is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for place, columns in enumerate(table.columns() for table in tables):
        if place == 0:
            writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow([_csv_cell(cell) for cell in row])
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
    kinds = {"metric": pa.string(), "epochs": pa.string(), "value": pa.string(), "detected": pa.bool_()}
    kinds["num_reports"] = pa.int64()
    schema = pa.schema([(name, kinds.get(name, pa.float64())) for name in COLUMNS])
    tables = [pa.table(decoding.columns(), schema=schema) for decoding in decodings]
    pq.write_table(pa.concat_tables(tables), path)


def _json_of(decoding: Decoding) -> dict[str, Any]:
    found = decoding.diagnostics
    return {
        "metric": decoding.metric,
        "kind": decoding.kind,
        "unit": decoding.unit,
        "epochs": list(decoding.epochs),
        "estimand": decoding.estimand,
        "of": decoding.of,
        "confidence": decoding.confidence,
        "correction": decoding.correction,
        "num_reports": decoding.num_reports,
        "noise_floor": _plain(decoding.noise_floor),
        "notes": list(decoding.notes),
        "diagnostics": {
            "cohort_p": [_plain(p) for p in found.cohort_p],
            "odd_cohorts": list(found.odd_cohorts),
            "indistinguishable": [list(group) for group in found.indistinguishable],
            "rank": found.rank,
            "num_columns": found.num_columns,
            "fake_share": found.fake_share,
            "attack_radius": found.attack_radius,
            "hidden_heavy_share": found.hidden_heavy_share,
        },
        "rows": [{"role": role, **row} for role, row in zip(decoding.roles, decoding.rows(), strict=True)],
    }


def _plain(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def _csv_cell(cell: Any) -> Any:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return "" if cell is None else cell


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns side by side: names to the left, numbers to the right."""
    printed = [[_printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in printed) for i in range(len(header))]
    last = len(header) - 1
    return [
        "  ".join(
            cell.ljust(width) if i in (0, last) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in printed
    ]


def _printable(text: str, longest: int = 40) -> str:
    """A candidate may hold anything; a terminal gets no control characters from it."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return plain if len(plain) <= longest else plain[: longest - 1] + "\N{HORIZONTAL ELLIPSIS}"


def percent(share: float) -> str:
    if not np.isfinite(share):
        return "unknown"
    if share == 0:
        return "0 %"
    digits = 1 if abs(share) >= 0.1 else 2 if abs(share) >= 0.001 else 4
    text = f"{100 * share:.{digits}f} %"
    return "0 %" if float(text[:-2]) == 0 else text


def number(value: float) -> str:
    return f"{value:,.6g}" if np.isfinite(value) else "unknown"


def _count(installs: float) -> str:
    return f"{installs:,.0f}" if np.isfinite(installs) else ""
