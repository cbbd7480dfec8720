"""One metric as plain values for `templates/metric.html`: what was found, in words, in a picture and in a table; what
can be chosen; what to look for; over time; between two epochs; what stands beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hubbub.analysis.kinds import kind_of
from hubbub.analysis.options import CORRECTIONS, ESTIMANDS
from hubbub.analysis.render.text import remarks
from hubbub.analysis.result import ANSWER, NUMBER, Decoding
from hubbub.dashboard import aside_view, tables
from hubbub.dashboard.aside_view import Download, Privacy
from hubbub.dashboard.figures import Figure, decoding_figure
from hubbub.dashboard.metric_inputs import MetricInputs
from hubbub.dashboard.query import CONFIDENCES, ONLY, Select
from hubbub.dashboard.row_choice import table_rows
from hubbub.dashboard.segments_view import SegmentsView, segments_view
from hubbub.dashboard.sentences import Fact, epochs_in_words, headline, several, withheld_in_words
from hubbub.dashboard.series_view import ComparisonView, SeriesView, comparison_view, series_view
from hubbub.dashboard.tables import Table
from hubbub.protocol.segments import in_words

ESTIMANDS_IN_WORDS = {"reporting": "installs that reported", "population": "the population behind"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultView:
    """What was found, or why nothing was."""

    state: Literal["no answers", "decoding", "failed", "found"]
    problem: str = ""
    lead: str = ""
    note: str = ""
    figure: Figure | None = None
    table: Table | None = None
    cells: Table | None = None
    """Of a range, whose quantiles say more."""
    num_cells: int = 0
    num_hidden: int = 0
    remarks: tuple[str, ...] = ()
    withheld: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatesView:
    """`words` say which list is used; `problem` what is wrong with one that was uploaded just now."""

    words: str
    listed: bool
    problem: str
    can_upload: bool
    can_forget: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionsView:
    """`open`: something was chosen, so the choices are in sight."""

    fields: tuple[Select, ...]
    has_shares: bool
    exclude_absent: bool
    open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricView:
    """All between bar and foot; the same for every viewer of the same counts."""

    name: str
    kind: str
    why: str | None
    query: str
    candidates: CandidatesView | None
    result: ResultView
    options: OptionsView
    segments: SegmentsView | None
    series: SeriesView | None
    comparison: ComparisonView
    downloads: tuple[Download, ...]
    privacy: Privacy
    diagnostics: tuple[Fact, ...]


def metric_view(inputs: MetricInputs, *, public: bool) -> MetricView:
    definition = inputs.snapshot.definitions(inputs.name)[-1]
    terms = inputs.snapshot.terms_of(inputs.name)
    decoding = inputs.whole.decoding if inputs.whole else None
    figure = decoding_figure(decoding) if decoding is not None else None
    has_series = definition.every != "once" or len(inputs.epochs) > 1
    return MetricView(
        name=inputs.name,
        kind=definition.kind,
        why=terms.why if terms else None,
        query=inputs.view.query(),
        candidates=_candidates(inputs, public=public) if definition.shape.open_list else None,
        result=_result(inputs, figure, definition.every),
        options=_options(inputs),
        segments=segments_view(inputs),
        series=series_view(inputs) if has_series else None,
        comparison=comparison_view(inputs),
        downloads=aside_view.downloads(inputs.name, inputs.view, is_drawable=figure is not None)
        if decoding is not None
        else (),
        privacy=aside_view.privacy(definition, terms, inputs.snapshot),
        diagnostics=aside_view.diagnostics(decoding, inputs.snapshot) if decoding is not None else (),
    )


def _result(inputs: MetricInputs, figure: Figure | None, every: str) -> ResultView:
    withheld = withheld_in_words(*inputs.snapshot.withheld_of(inputs.name))
    if not inputs.epochs:
        return ResultView(state="no answers", withheld=withheld)
    if inputs.whole is None:
        return ResultView(state="decoding")
    if inputs.whole.decoding is None:
        return ResultView(state="failed", problem=inputs.whole.problem)
    decoding = inputs.whole.decoding
    chosen = [inputs.view.epoch] if inputs.view.epoch else inputs.epochs
    older = "" if inputs.whole.fresh else " Newer counts are being decoded."
    whom = f"Only {in_words(inputs.view.only)}: " if inputs.view.only else ""
    rows = table_rows(decoding)
    table, cells, num_cells = _tables(decoding, rows)
    return ResultView(
        state="found",
        lead=headline(decoding).sentence,
        note=f"{whom}{several(decoding.num_reports, 'report')}; {epochs_in_words(chosen, every)}.{older}",
        figure=figure,
        table=table,
        cells=cells,
        num_cells=num_cells,
        num_hidden=len(decoding) - len(rows),
        remarks=tuple(remarks(decoding)),
        withheld=withheld,
    )


def _tables(decoding: Decoding, rows: list[int]) -> tuple[Table, Table | None, int]:
    """The table in sight; of a range also that of its cells, and how many there are."""
    if decoding.distribution is None:
        return tables.estimates(decoding, rows, "Estimates"), None, 0
    numbers = [i for i in rows if decoding.roles[i] == NUMBER]
    others = [i for i in rows if decoding.roles[i] != NUMBER]
    num_cells = sum(decoding.roles[i] == ANSWER for i in others)
    return tables.estimates(decoding, numbers, "Quantiles"), tables.estimates(decoding, others, "Shares"), num_cells


def _candidates(inputs: MetricInputs, *, public: bool) -> CandidatesView:
    """Strings can only be found among those somebody thought of."""
    listed = inputs.candidates
    words = (
        f"{len(listed.texts):,} candidates, {listed.origin}."
        if listed
        else "No candidates yet. Strings are found only among "
        "those listed: give a list of what people may have answered, one a line."
    )
    return CandidatesView(
        words=words,
        listed=listed is not None,
        problem=inputs.problem,
        can_upload=not public,
        can_forget=not public and listed is not None and listed.uploaded,
    )


def _pickers(inputs: MetricInputs) -> Iterator[Select]:
    """For each key of segments, which installs to look at."""
    chosen = dict(inputs.view.only)
    for key, values in inputs.snapshot.segments(inputs.name).items():
        choices = (("", "all"), *((value, value) for value in values))
        yield Select(f"{ONLY}{key}", key.capitalize(), choices, chosen.get(key, ""))


def _options(inputs: MetricInputs) -> OptionsView:
    view = inputs.view
    epochs = (("", "all together"), *((epoch, epoch) for epoch in reversed(inputs.epochs)))
    confidences = tuple((text, f"{100 * float(text):g} %") for text in CONFIDENCES)
    estimands = tuple((name, ESTIMANDS_IN_WORDS[name]) for name in ESTIMANDS)
    corrections = tuple((name, name.title()) for name in CORRECTIONS)
    return OptionsView(
        fields=(
            *_pickers(inputs),
            Select("epoch", "Epoch", epochs, view.epoch or ""),
            Select("confidence", "Confidence", confidences, view.confidence),
            Select("estimand", "Speak of", estimands, view.estimand),
            Select("correction", "Many values", corrections, view.correction),
        ),
        has_shares=kind_of(inputs.snapshot.definitions(inputs.name)[-1].shape.form).has_shares,
        exclude_absent=view.exclude_absent,
        open=bool(view.query()),
    )
