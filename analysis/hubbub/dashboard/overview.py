"""All metrics at a glance: a card each, with its figure, how sure it is, and what it costs in privacy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hubbub.analysis.render.text import percent
from hubbub.analysis.result import ANSWER, Decoding
from hubbub.dashboard.decode_jobs import Found
from hubbub.dashboard.frame import Surroundings, page
from hubbub.dashboard.glyphs import Scale, bar, point
from hubbub.dashboard.health import WHY_REFUSED, Health
from hubbub.dashboard.html import Html, el
from hubbub.dashboard.sentences import cell, headline, periods_in_words, value_label
from hubbub.dashboard.snapshot import Reading
from hubbub.protocol.epsilon import show
from hubbub.protocol.kinds import Mean
from hubbub.protocol.metric import Definition

MOST_LINES = 4


@dataclass(frozen=True, slots=True)
class Card:
    """A metric and what is known of it; `found` is None while it is being decoded."""

    name: str
    definition: Definition
    why: str
    epochs: list[str]
    num_reports: int
    found: Found | None


def overview_page(reading: Reading, cards: list[Card], health: Health | None, around: Surroundings) -> str:
    pending = any(card.num_reports and (card.found is None or not card.found.fresh) for card in cards)
    body = el(
        "div",
        el("h1", "Metrics"),
        el("p", _summary(reading, cards), class_="lead"),
        el("ul", [el("li", _card(card)) for card in cards], class_="cards") if cards else _nothing_asked(),
        None if health is None or around.public else _collector(health, around.place),
        id="whole",
        data_live=True,
    )
    return page("Metrics", body, around, pending=pending)


def _summary(reading: Reading, cards: list[Card]) -> str:
    newest = max((card.epochs[-1] for card in cards if card.epochs), default="")
    reports = f"{reading.num_reports:,} report{'s' * (reading.num_reports != 1)}"
    metrics = f"{len(cards)} metric{'s' * (len(cards) != 1)}"
    silent = sum(not card.num_reports for card in cards)
    until = f", the newest of {newest}" if newest else ""
    return f"{reports} of {metrics}{until}." + (f" {silent} of them without an answer so far." if silent else "")


def _nothing_asked() -> Html:
    return el(
        "div",
        el("h2", "Nothing has been counted yet"),
        el(
            "p",
            "As soon as the first reports arrive, their metrics appear here by themselves. Clients send what they "
            "recorded in an epoch after it has ended, so a daily metric takes until tomorrow.",
        ),
        class_="empty",
    )


def _card(card: Card) -> Html:
    every = card.definition.every
    reports = f"{card.num_reports:,} report{'s' * (card.num_reports != 1)} in {periods_in_words(card.epochs, every)}"
    foot = reports if card.num_reports else "no reports"
    epsilon = show(card.definition.epsilon_one_report)
    return el(
        "article",
        el(
            "header",
            el("h2", el("a", card.name, href=f"/metric/{card.name}")),
            el("span", card.definition.kind, class_="kind"),
        ),
        el("p", card.why, class_="why") if card.why else None,
        el("div", _content(card), class_="figures"),
        el("footer", el("span", foot), el("span", f"ε {epsilon} a report")),
        aria_busy="true" if card.num_reports and card.found is None else None,
    )


def _content(card: Card) -> list[Html]:
    if not card.num_reports:
        return [el("p", "No answers yet", class_="figure unsure"), el("p", "It is asked; nothing has arrived.")]
    if card.found is None:
        return [el("p", "Decoding …", class_="figure unsure"), el("p", "The counts are being turned into estimates.")]
    if card.found.decoding is None:
        return [el("p", "Cannot be decoded", class_="figure unsure"), el("p", card.found.problem)]
    decoding = card.found.decoding
    said = headline(decoding)
    return [
        el("p", said.figure, class_="figure" if said.certain else "figure unsure"),
        el("p", said.caption, class_="caption"),
        *_lines(decoding, card.definition),
    ]


def _lines(decoding: Decoding, definition: Definition) -> list[Html]:
    rows = _rows(decoding)
    if not rows:
        return []
    scale = _scale(decoding, definition, rows)
    is_number = decoding.roles[rows[0]] == "number"
    lines = []
    for i in rows:
        ends = float(decoding.estimate[i]), float(decoding.low[i]), float(decoding.high[i])
        drawn = point(scale, *ends) if is_number else bar(scale, *ends, certain=bool(decoding.detected[i]))
        shown = f"{decoding.estimate[i]:,.3g}" if is_number else cell(decoding, i, decoding.estimate[i])
        unsure = not is_number and not decoding.detected[i]
        lines.append(
            el(
                "tr",
                el("th", value_label(decoding.values[i], decoding.roles[i]), scope="row"),
                el("td", drawn),
                el(
                    "td",
                    shown,
                    el("span", ", below the noise floor", class_="aloud") if unsure else None,
                    class_="unsure" if unsure else None,
                ),
            )
        )
    if len(lines) == 1:
        limits = [f"{end:g}{_unit(decoding)}" for end in (scale.low, scale.high)] if is_number else ["0 %", "100 %"]
        return [el("div", drawn, el("p", *(el("span", end) for end in limits), aria_hidden="true"), class_="alone")]
    head = el(
        "thead", el("tr", *(el("th", name, scope="col") for name in ("value", "interval", "estimate"))), class_="aloud"
    )
    return [el("table", head, el("tbody", lines), class_="lines")]


def _rows(decoding: Decoding) -> list[int]:
    if decoding.kind == "mean":
        return [0] if np.isfinite(decoding.estimate[0]) else []
    if decoding.kind == "range":
        names = ("quantile 0.1", "quantile 0.25", "quantile 0.5", "quantile 0.75", "quantile 0.9")
        return [i for i, value in enumerate(decoding.values) if value in names and np.isfinite(decoding.estimate[i])]
    answers = [i for i, role in enumerate(decoding.roles) if role == ANSWER and np.isfinite(decoding.estimate[i])]
    if decoding.kind == "histogram":
        return answers[:8]
    return sorted(answers, key=lambda i: -float(decoding.estimate[i]))[:MOST_LINES]


def _scale(decoding: Decoding, definition: Definition, rows: list[int]) -> Scale:
    if isinstance(definition.shape, Mean):
        return Scale(float(definition.shape.low), float(definition.shape.high))
    if decoding.kind == "flag":
        return Scale(0.0, 1.0)
    return Scale(0.0, max([float(decoding.high[i]) for i in rows if np.isfinite(decoding.high[i])], default=1.0))


def _unit(decoding: Decoding) -> str:
    return f" {decoding.unit}" if decoding.unit else ""


def _collector(health: Health, place: str) -> Html:
    """Since it was started: what it took, what it refused and why."""
    refused = sum(health.refused.values())
    asked = health.stored + health.duplicates + refused
    facts = [
        ("Reports counted", f"{health.reports:,}"),
        ("Batches stored", f"{health.stored:,}"),
        ("Came twice, count once", f"{health.duplicates:,}"),
        ("Refused", f"{refused:,}" + (f" ({percent(refused / asked)} of requests)" if refused else "")),
        ("Waiting to be written", f"{health.queue:,} batches"),
    ]
    if health.disk_free is not None:
        facts.append(("Free disk space", _bytes(health.disk_free)))
    if health.slow_sync is not None:
        facts.append(("Syncs", f"99 of 100 within {1000 * health.slow_sync:g} ms"))
    if health.failed_checkpoints:
        facts.append(("Checkpoints that failed", f"{health.failed_checkpoints:,}; see the collector’s log"))
    return el(
        "section",
        el("h2", "Collector", id="collector-title"),
        el("p", f"{place}, since it was started", class_="note"),
        el("dl", [el("div", el("dt", name), el("dd", words)) for name, words in facts], class_="facts"),
        _refusals(health) if refused else None,
        aria_labelledby="collector-title",
        class_="collector",
    )


def _refusals(health: Health) -> Html:
    rows = [
        el(
            "tr",
            el("th", reason, scope="row"),
            el("td", f"{count:,}", class_="number"),
            el("td", WHY_REFUSED.get(reason, "")),
        )
        for reason, count in sorted(health.refused.items(), key=lambda item: -item[1])
    ]
    heads = (
        el("th", "reason", scope="col"),
        el("th", "times", scope="col", class_="number"),
        el("th", "what that means", scope="col"),
    )
    return el("table", el("caption", "Requests refused, by reason"), el("thead", el("tr", *heads)), el("tbody", rows))


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
