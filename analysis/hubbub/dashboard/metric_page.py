"""One metric: what was found, in words, in a picture and in a table; over time; between two epochs."""

from __future__ import annotations

from hubbub.analysis.options import CORRECTIONS, ESTIMANDS
from hubbub.analysis.render.text import cells, remarks
from hubbub.analysis.result import ANSWER, NUMBER, Decoding
from hubbub.dashboard.beside import diagnostics, downloads, privacy
from hubbub.dashboard.figures import decoding_figure
from hubbub.dashboard.html import Child, Html, el, join
from hubbub.dashboard.metric_view import MOST_ROWS, Shown, select
from hubbub.dashboard.over_time import comparison, series
from hubbub.dashboard.query import CONFIDENCES
from hubbub.dashboard.sentences import epochs_in_words, headline, label_of, verdict_in_words, with_code


def metric_body(what: Shown, *, public: bool) -> Html:
    """All between bar and foot; the same for every viewer of the same counts."""
    definition = what.reading.definitions(what.name)[-1]
    terms = what.reading.terms_of(what.name)
    decoding = what.found.decoding if what.found else None
    figure = decoding_figure(decoding) if decoding is not None else None
    return el(
        "div",
        el("nav", el("a", "Metrics", href="/"), aria_label="Breadcrumb", class_="crumbs"),
        el("h1", what.name, " ", el("span", definition.kind, class_="kind")),
        el("p", terms.why, class_="why") if terms else None,
        el(
            "div",
            el(
                "div",
                _candidates(what, public=public) if definition.kind == "string" else None,
                _result(what, figure, definition.every),
                _options(what),
                series(what) if definition.every != "once" or len(what.epochs) > 1 else None,
                comparison(what),
                class_="numbers",
            ),
            el(
                "aside",
                downloads(what.name, what.view, drawable=figure is not None) if decoding is not None else None,
                privacy(definition, terms),
                diagnostics(decoding, what.reading) if decoding is not None else None,
                aria_label="About these numbers",
            ),
            class_="columns",
        ),
    )


def _result(what: Shown, figure: Html | None, every: str) -> Html:
    """What was found."""
    if not what.epochs:
        inside: Child = [
            el("p", "No answers yet.", class_="lead"),
            el(
                "p",
                "The metric is asked, and nothing has arrived. Clients send what they recorded after the epoch "
                "has ended; this page renews itself when they do.",
            ),
        ]
    elif what.found is None:
        inside = el("p", "Decoding the counts …", class_="lead busy")
    elif what.found.decoding is None:
        inside = [el("p", "This cannot be decoded.", class_="lead"), el("p", what.found.problem, class_="problem")]
    else:
        decoding = what.found.decoding
        chosen = [what.view.epoch] if what.view.epoch else what.epochs
        reports = f"{decoding.num_reports:,} report{'s' * (decoding.num_reports != 1)}"
        older = None if what.found.fresh else " Newer counts are being decoded."
        inside = [
            el("p", headline(decoding).sentence, class_="lead"),
            el("p", f"{reports}; {epochs_in_words(chosen, every)}.", older, class_="note"),
            figure,
            _tables(decoding),
            el("ul", [el("li", with_code(remark)) for remark in remarks(decoding)], class_="remarks"),
        ]
    busy = bool(what.epochs) and what.found is None
    return el(
        "section", inside, aria_label="Estimates", aria_busy="true" if busy else None, id="result", data_live=True
    )


def _tables(decoding: Decoding) -> Html:
    rows = decoding.top_rows(MOST_ROWS)
    hidden = len(decoding) - len(rows)
    more = el("p", f"{hidden:,} more values are not shown; the CSV has them all.", class_="note") if hidden else None
    if decoding.kind != "range":
        return join(_table(decoding, rows, "Estimates"), more)
    numbers = [i for i in rows if decoding.roles[i] == NUMBER]
    others = [i for i in rows if decoding.roles[i] != NUMBER]
    closed = el(
        "details",
        el("summary", f"Shares of {sum(decoding.roles[i] == ANSWER for i in others)} cells"),
        _table(decoding, others, "Shares"),
        id="cells",
    )
    return join(_table(decoding, numbers, "Quantiles"), closed, more)


def _table(decoding: Decoding, rows: list[int], caption: str) -> Html:
    """The cells of `hubbub decode`; columns that would be empty are left out."""
    names = ("value", "estimate", f"{100 * decoding.confidence:g} % interval", "installs", "best guess", "verdict")
    kinds = ("", "number", "number", "number wide", "number wide", "verdict")
    lines = [[*cells(decoding, i)[:-1], verdict_in_words(decoding, i)] for i in rows]
    kept = [column for column in range(len(names)) if any(line[column] for line in lines)]
    heads = [el("th", names[column], scope="col", class_=kinds[column] or None) for column in kept]
    body = []
    for i, line in zip(rows, lines, strict=True):
        name = el("th", label_of(line[0], decoding.roles[i]), scope="row")
        others = (el("td", line[column], class_=kinds[column]) for column in kept[1:])
        body.append(el("tr", name, *others, class_="unsure" if "noise floor" in line[-1] else None))
    return el(
        "table",
        el("caption", caption, class_="aloud"),
        el("thead", el("tr", heads)),
        el("tbody", body),
        class_="estimates",
    )


def _candidates(what: Shown, *, public: bool) -> Html:
    """Strings can only be found among those somebody thought of."""
    now = what.candidates
    words = (
        f"{len(now.texts):,} candidates, {now.origin}."
        if now
        else "No candidates yet. Strings are found only among "
        "those listed: give a list of what people may have answered, one a line."
    )
    form = el(
        "form",
        el("label", "A text file, UTF-8, one candidate a line", for_="file"),
        el(
            "input",
            type="file",
            id="file",
            name="file",
            accept=".txt,.csv,text/plain",
            required=True,
            aria_describedby="upload-problem" if what.problem else None,
        ),
        el("button", "Look for these", type="submit"),
        method="post",
        action=f"/metric/{what.name}/candidates{what.view.query()}",
        enctype="multipart/form-data",
        class_="upload",
    )
    forget = el(
        "form",
        el("button", "Forget this list", type="submit", class_="quiet"),
        method="post",
        action=f"/metric/{what.name}/forget-candidates{what.view.query()}",
    )
    inside = join(
        el("p", what.problem, class_="problem", role="alert", id="upload-problem") if what.problem else None,
        None if public else form,
        forget if now and now.uploaded and not public else None,
    )
    if now and not what.problem:
        inside = join(el("p", words), el("details", el("summary", "Use another list"), inside) if inside else None)
    else:
        inside = join(el("p", words), inside)
    return el(
        "section",
        el("h2", "Candidates", id="candidates-title"),
        inside,
        aria_labelledby="candidates-title",
        class_="panel" if now else "panel empty",
        id="candidates",
    )


def _options(what: Shown) -> Html:
    view = what.view
    fields = [
        select(
            "epoch",
            "Epoch",
            [("", "all together"), *((epoch, epoch) for epoch in reversed(what.epochs))],
            view.epoch or "",
        ),
        select("confidence", "Confidence", [(c, f"{100 * float(c):g} %") for c in CONFIDENCES], view.confidence),
        select(
            "estimand",
            "Speak of",
            [
                (name, {"reporting": "installs that reported", "population": "the population behind"}[name])
                for name in ESTIMANDS
            ],
            view.estimand,
        ),
        select("correction", "Many values", [(name, name.title()) for name in CORRECTIONS], view.correction),
        el(
            "label",
            el("input", type="checkbox", name="exclude_absent", value="yes", checked=view.exclude_absent),
            "only those who answered",
            class_="check",
        ),
    ]
    return el(
        "details",
        el("summary", "Options"),
        el(
            "form", fields, el("button", "Decode again", type="submit"), action=f"/metric/{what.name}", class_="options"
        ),
        id="options",
        open=bool(view.query()),
    )
