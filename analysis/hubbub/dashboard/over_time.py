"""A metric from epoch to epoch: one value as a line, and two epochs side by side with what changed beyond noise."""

from __future__ import annotations

from hubbub.analysis import Comparison, compare
from hubbub.analysis.render.text import compared, comparison_cells, comparison_header
from hubbub.analysis.result import NUMBER
from hubbub.dashboard.figures import default_series, estimated, series_figure
from hubbub.dashboard.html import Child, Html, el
from hubbub.dashboard.metric_view import MOST_ROWS, Shown, hidden, select
from hubbub.dashboard.sentences import cell, label_of, value_label
from hubbub.protocol.invalid import Invalid


def series(what: Shown) -> Html:
    decoding = what.found.decoding if what.found else None
    value = what.view.series or (default_series(decoding) if decoding is not None else None)
    done = [(epoch, found) for epoch, found in what.series if found is not None]
    if len(what.epochs) < 2:
        inside: Child = el("p", "One epoch so far: a line needs two.", class_="note")
    elif len(done) < len(what.series) or what.found is None:
        inside = el("p", f"Decoding epoch by epoch: {len(done)} of {len(what.series)} …", class_="note busy")
    elif value is None:
        inside = el("p", "There is no value to follow yet.", class_="note")
    else:
        inside = _series_inside(what, value)
    return el(
        "section",
        el("h2", "Over time", id="series-title"),
        _series_form(what, value) if len(what.epochs) > 1 else None,
        el("div", inside, id="series", data_live=True),
        aria_labelledby="series-title",
    )


def _series_inside(what: Shown, value: str) -> Child:
    decodings = [found.decoding for _, found in what.series if found is not None and found.decoding is not None]
    told = [decoding for decoding in decodings if estimated(decoding, value)]
    if not told:
        return el("p", "It could be estimated in no single epoch.", class_="note")
    role = told[0].roles[told[0].values.index(value)]
    rows = []
    for decoding in reversed(told):
        i = decoding.values.index(value)
        ends = f"{cell(decoding, i, decoding.low[i])} to {cell(decoding, i, decoding.high[i])}"
        rows.append(
            el(
                "tr",
                el("th", decoding.epochs[0], scope="row"),
                el("td", cell(decoding, i, decoding.estimate[i]), class_="number"),
                el("td", ends, class_="number"),
                el("td", f"{decoding.num_reports:,}", class_="number"),
            )
        )
    names = ("epoch", "estimate", "interval", "reports")
    heads = [el("th", name, scope="col", class_="number" if name != "epoch" else None) for name in names]
    table = el(
        "table",
        el("caption", f"{value_label(value, role)}, epoch by epoch", class_="aloud"),
        el("thead", el("tr", heads)),
        el("tbody", rows),
    )
    return [
        series_figure(told, value, role),
        el("details", el("summary", f"The same {len(rows)} epochs as a table"), table, id="series-table"),
    ]


def _series_form(what: Shown, value: str | None) -> Html | None:
    decoding = what.found.decoding if what.found else None
    if decoding is None:
        return None
    rows = [i for i in decoding.top_rows(MOST_ROWS) if decoding.values[i] != "sum"]
    if len(rows) < 2:
        return None
    choices = [(decoding.values[i], value_label(decoding.values[i], decoding.roles[i])) for i in rows]
    return el(
        "form",
        hidden(what.view),
        select("series", "Value", choices, value or ""),
        el("button", "Show", type="submit", class_="quiet"),
        action=f"/metric/{what.name}#series-title",
        class_="inline",
    )


def comparison(what: Shown) -> Html:
    return el(
        "section",
        el("h2", "Compare two epochs", id="compare-title"),
        _pair_form(what) if what.pair else None,
        el("div", _comparison_inside(what), id="comparison", data_live=True),
        aria_labelledby="compare-title",
    )


def _pair_form(what: Shown) -> Html:
    assert what.pair is not None
    epochs = [(epoch, epoch) for epoch in reversed(what.epochs)]
    return el(
        "form",
        hidden(what.view),
        select("before", "Before", epochs, what.pair[0]),
        select("after", "After", epochs, what.pair[1]),
        el("button", "Compare", type="submit", class_="quiet"),
        action=f"/metric/{what.name}#compare-title",
        class_="inline",
    )


def _comparison_inside(what: Shown) -> Child:
    if what.pair is None:
        return el("p", "One epoch so far: there is nothing to compare it with.", class_="note")
    if what.before is None or what.after is None:
        return el("p", "Decoding both …", class_="note busy")
    if what.before.decoding is None or what.after.decoding is None:
        return el("p", what.before.problem or what.after.problem, class_="problem")
    try:
        found = compare(what.before.decoding, what.after.decoding)
    except Invalid as error:
        return el("p", str(error), class_="problem")
    changed = int(found.changed.sum())
    lead = (
        "No change that noise could not have made."
        if not changed
        else f"{changed} of {len(found.values)} values changed by more than noise would."
    )
    rows = compared(found, MOST_ROWS)
    numbers = [i for i in rows if found.roles[i] == NUMBER]
    shares = [i for i in rows if found.roles[i] != NUMBER]
    tables = [_differences(found, part) for part in (numbers, shares) if part]
    if len(tables) == 2:  # a range: its quantiles say more than its cells
        tables[1] = el(
            "details",
            el("summary", f"Shares of cells, the {len(shares)} that differ most"),
            tables[1],
            id="cells-compared",
        )
    return [
        el("p", lead, class_="lead"),
        tables,
        el("p", "The two sides are taken as independent: variances add.", class_="note"),
    ]


def _differences(found: Comparison, rows: list[int]) -> Html:
    kinds = ("", "number wide", "number wide", "number", "number", "verdict")
    header = [*comparison_header(found)[:-1], "verdict"]
    heads = [el("th", name, scope="col", class_=kind or None) for name, kind in zip(header, kinds, strict=True)]
    lines = []
    for i in rows:
        cells = comparison_cells(found, i)
        others = (el("td", text, class_=kind) for text, kind in zip(cells[1:], kinds[1:], strict=True))
        name = el("th", label_of(cells[0], found.roles[i]), scope="row")
        lines.append(el("tr", name, *others, class_=None if found.changed[i] else "unsure"))
    return el(
        "table",
        el("caption", "Differences", class_="aloud"),
        el("thead", el("tr", heads)),
        el("tbody", lines),
    )
