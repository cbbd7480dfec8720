"""All metrics at a glance, as plain values for `templates/overview.html`: a card each, with its figure, how sure it is,
and what it costs in privacy; below, how the collector is doing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hubbub.analysis.render.text import percent
from hubbub.analysis.result import NUMBER, Decoding
from hubbub.dashboard import tables
from hubbub.dashboard.decode_jobs import Decoded
from hubbub.dashboard.figures import Scale
from hubbub.dashboard.health import Health
from hubbub.dashboard.installs_view import InstallsView, installs_view
from hubbub.dashboard.lines import Line, line
from hubbub.dashboard.row_choice import card_rows
from hubbub.dashboard.sentences import (
    Fact,
    headline,
    periods_in_words,
    several,
    value_label,
    with_unit,
    withheld_in_words,
)
from hubbub.dashboard.snapshot import Snapshot
from hubbub.dashboard.tables import Table
from hubbub.protocol.epsilon import show
from hubbub.protocol.metric import Definition


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """`figure` and `caption` are what was found, or why nothing is shown. One line alone is drawn large, with the
    `limits` of its scale; several make a table."""

    name: str
    kind: str
    why: str
    figure: str
    caption: str
    found: bool
    certain: bool
    busy: bool
    lines: tuple[Line, ...]
    limits: tuple[str, ...]
    reports: str
    epsilon: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorView:
    """Since it was started: what it took, what it refused and why."""

    facts: tuple[Fact, ...]
    refusals: Table | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewView:
    summary: str
    installs: InstallsView | None
    cards: tuple[Card, ...]
    collector: CollectorView | None
    pending: bool


def overview_view(snapshot: Snapshot, known: Mapping[str, Decoded | None], health: Health | None) -> OverviewView:
    """`known` holds the metrics that were counted; None for those still being decoded."""
    names = snapshot.names
    return OverviewView(
        summary=_summary(snapshot),
        installs=installs_view(snapshot),
        cards=tuple(_card(snapshot, name, known.get(name)) for name in names),
        collector=None if health is None else _collector(health),
        pending=any(
            _num_reports(snapshot, name) and ((decoded := known.get(name)) is None or not decoded.fresh)
            for name in names
        ),
    )


def _summary(snapshot: Snapshot) -> str:
    names = snapshot.names
    newest = max((epochs[-1] for name in names if (epochs := snapshot.epochs(name))), default="")
    silent = sum(not _num_reports(snapshot, name) for name in names)
    until = f", the newest of {newest}" if newest else ""
    reports, metrics = several(snapshot.num_reports, "report"), several(len(names), "metric")
    return f"{reports} of {metrics}{until}." + (f" {silent} of them without an answer so far." if silent else "")


def _num_reports(snapshot: Snapshot, name: str) -> int:
    return sum(tally.num_reports for tally in snapshot.tallies.get(name, ()))


def _card(snapshot: Snapshot, name: str, decoded: Decoded | None) -> Card:
    definition, terms = snapshot.definitions(name)[-1], snapshot.terms_of(name)
    num_reports = _num_reports(snapshot, name)
    decoding = decoded.decoding if decoded and num_reports else None
    withheld, at_least = snapshot.withheld_of(name)
    figure, caption, certain = _said(num_reports, decoded, withheld, at_least)
    lines, limits = _lines(decoding, definition) if decoding is not None else ((), ())
    periods = periods_in_words(snapshot.epochs(name), definition.every)
    return Card(
        name=name,
        kind=definition.kind,
        why=terms.why if terms else "",
        figure=figure,
        caption=caption,
        found=decoding is not None,
        certain=certain,
        busy=bool(num_reports) and decoded is None,
        lines=lines,
        limits=limits,
        reports=(f"{several(num_reports, 'report')} in {periods}" if num_reports else "no reports")
        + (f"; {withheld:,} withheld" if withheld else ""),
        epsilon=show(definition.epsilon_one_report),
    )


def _said(num_reports: int, decoded: Decoded | None, withheld: int, at_least: int) -> tuple[str, str, bool]:
    """Figure, caption, and whether that is certain."""
    if not num_reports and withheld:
        return "Too few answers yet", withheld_in_words(withheld, at_least), False
    if not num_reports:
        return "No answers yet", "It is asked; nothing has arrived.", False
    if decoded is None:
        return "Decoding …", "The counts are being turned into estimates.", False
    if decoded.decoding is None:
        return "Cannot be decoded", decoded.problem, False
    said = headline(decoded.decoding)
    return said.figure, said.caption, said.certain


def _lines(decoding: Decoding, definition: Definition) -> tuple[tuple[Line, ...], tuple[str, ...]]:
    """The lines of a card and the limits of their scale."""
    rows = card_rows(decoding)
    if not rows:
        return (), ()
    scale = _scale(decoding, definition, rows)
    is_number = decoding.roles[rows[0]] == NUMBER
    lines = [line(decoding, i, value_label(decoding.values[i], decoding.roles[i]), scale) for i in rows]
    ends = [with_unit(decoding, f"{end:g}") for end in (scale.low, scale.high)] if is_number else ["0 %", "100 %"]
    return tuple(lines), tuple(ends)


def _scale(decoding: Decoding, definition: Definition, rows: list[int]) -> Scale:
    limits = definition.shape.limits
    if not decoding.has_shares and limits is not None:
        return Scale(*map(float, limits))
    if decoding.has_one_answer:
        return Scale(0.0, 1.0)
    return Scale(0.0, max([float(decoding.high[i]) for i in rows if np.isfinite(decoding.high[i])], default=1.0))


def _collector(health: Health) -> CollectorView:
    refused = sum(health.refused.values())
    asked = health.stored + health.duplicates + refused
    facts = [
        Fact("Reports counted", f"{health.reports:,}"),
        Fact("Batches stored", f"{health.stored:,}"),
        Fact("Came twice, count once", f"{health.duplicates:,}"),
        Fact("Refused", f"{refused:,}" + (f" ({percent(refused / asked)} of requests)" if refused else "")),
        Fact("Waiting to be written", f"{health.queue:,} batches"),
    ]
    if health.disk_free is not None:
        facts.append(Fact("Free disk space", _bytes(health.disk_free)))
    if health.slow_sync is not None:
        facts.append(Fact("Syncs", f"99 of 100 within {1000 * health.slow_sync:g} ms"))
    if health.failed_checkpoints:
        facts.append(Fact("Checkpoints that failed", f"{health.failed_checkpoints:,}; see the collector’s log"))
    return CollectorView(facts=tuple(facts), refusals=tables.refusals(health) if refused else None)


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
