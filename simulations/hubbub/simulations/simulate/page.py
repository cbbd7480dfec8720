"""A simulation as one HTML page: sentences first, then figures, then pictures. No other computer is asked."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from hubbub.analysis.optional import need
from hubbub.analysis.result import NUMBER
from hubbub.protocol.epsilon import show
from hubbub.simulations.simulate.charts import series_chart, shown_rows, truth_chart
from hubbub.simulations.simulate.run import Outcome
from hubbub.simulations.simulate.scorecard import Scorecard, percent, share_of_stale

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; margin: 2rem auto; max-width: 52rem;
  padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { font-size: 1.25rem; margin: 2.4rem 0 .3rem; }
p.facts { color: #555; margin-top: 0; } ul.seen { padding-left: 1.2rem; } ul.seen li { margin: .25rem 0; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; margin: .8rem 0; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #e6e6e6; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
th { font-weight: 600; border-bottom: 2px solid #767676; } th:first-child, td:first-child, td.left, th.left {
  text-align: left; }
td.left { white-space: normal; overflow-wrap: anywhere; max-width: 18rem; } figure { margin: 1rem 0; } img {
max-width: 100%; height: auto; } code { background: #f3f5f6; padding: .1rem .3rem; border-radius: 3px; overflow-wrap:
anywhere; } dt { font-weight: 600; } dd { margin: 0 0 .4rem 1.2rem; } .no { color: #B34700; } footer { color: #555;
font-size: .85rem; border-top: 1px solid #e6e6e6; margin-top: 3rem; padding-top: .6rem; }
"""

_READING = (
    ("found, missed, false", "answers that people hold and an analyst would detect or not; answers nobody holds."),
    (
        "distance",
        "total variation between the best guess and the truth: the share of people put on a wrong answer. For a range "
        "the largest error of its distribution function; for a mean the error as a part of its range.",
    ),
    (
        "coverage",
        "how many of the 95 % intervals hold the truth. Stale answers are an error that intervals do not know.",
    ),
    ("error, theory", "root mean square error of the unbiased estimates, and what the formulas predict."),
    (
        "stale",
        "reports that repeat an older answer, because <code>hold</code> keeps it or all <code>max_values</code> slots "
        "are taken. That is the price of the promise made to people, and it biases the estimates.",
    ),
)


def page(app: str, outcomes: Sequence[Outcome], command: str) -> str:
    """The whole page."""
    setting = outcomes[0].setting
    epochs = f"{setting.epochs} epoch{'s' * (setting.epochs > 1)}"
    agreed = f", of which {percent(setting.habits.consent)} agree" if setting.habits.consent < 1 else ""
    return "".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>What {escape(app)} would see</title><style>{_STYLE}</style></head><body>",
            f"<h1>What {escape(app)} would see</h1>",
            f'<p class="facts">{setting.installs:,} simulated installs{agreed}, {epochs}. The people are made up; the '
            "noise, the memos and the estimates are those of the real thing.</p>",
            '<ul class="seen">',
            *(f"<li>{_sentence(outcome)}</li>" for outcome in outcomes),
            "</ul>",
            "<h2>Scorecard</h2>",
            _scorecard([outcome.card for outcome in outcomes]),
            "<details><summary>How to read it</summary><dl>",
            *(f"<dt>{name}</dt><dd>{words}</dd>" for name, words in _READING),
            "</dl></details>",
            *(_section(outcome) for outcome in outcomes),
            f"<footer>Made by <code>{escape(command)}</code>. {_again(outcomes)}</footer>",
            "</body></html>\n",
        ]
    )


def _again(outcomes: Sequence[Outcome]) -> str:
    if any(outcome.way == "clients" for outcome in outcomes):
        return "The people are those of the seed; the noise of real clients differs every time."
    return "The same command gives the same page."


def _sentence(outcome: Outcome) -> str:
    name, _, rest = outcome.sentence.partition(":")
    return f"<strong>{escape(name)}</strong>:{escape(rest)}"


def _scorecard(cards: Iterable[Scorecard]) -> str:
    header = ["metric", "found", "missed", "false", "distance", "coverage", "error", "theory", "stale"]
    rows = []
    for card in cards:
        counts = ["", "", ""] if card.kind in ("flag", "mean") else [str(card.found), str(card.missed), str(card.false)]
        rows.append(
            [
                f"{card.metric} ({card.kind})",
                *counts,
                percent(card.distance),
                f"{card.covered:,} of {card.intervals:,}",
                percent(card.error),
                percent(card.theory),
                share_of_stale(card),
            ]
        )
    return _table(header, rows)


def _section(outcome: Outcome) -> str:
    metric, setting = outcome.setting.metric, outcome.setting
    one, permanent = show(metric.epsilon_one_report), show(metric.epsilon_permanent)
    cadence = "once" if metric.every == "once" else f"every {metric.every}"
    kept = f"; one answer for each {metric.hold} epochs" if metric.hold else ""
    facts = (
        f"{metric.kind}, {cadence}; people: {setting.people.words}; {setting.habits.words()}. One report tells at most "
        f"epsilon {one}, all reports of one answer {permanent}; at most {metric.max_values} answers in a life{kept}."
    )
    pictures = [(truth_chart(outcome), f"Truth beside estimate of {metric.name}")]
    if len(outcome.tally.epochs) > 1:
        pictures.append((series_chart(outcome), f"{metric.name} over time"))
    return "".join(
        [
            f'<section><h2>{escape(metric.name)}</h2><p class="facts">{escape(facts)}</p>',
            f"<p>{escape(metric.why)}.</p>" if not metric.why.endswith(".") else f"<p>{escape(metric.why)}</p>",
            *(_figure(chart, words) for chart, words in pictures),
            _rows(outcome),
            "</section>",
        ]
    )


def _figure(chart: Any, words: str) -> str:
    """As an image of its own: names inside one drawing cannot collide with those of another."""
    svg = need("vl_convert", "'hubbub[charts]'").vegalite_to_svg(chart.to_json())
    return (
        f'<figure><img alt="{escape(words, quote=True)}" '
        f'src="data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"></figure>'
    )


def _rows(outcome: Outcome) -> str:
    decoding, truth = outcome.decoding, outcome.truth
    if decoding.kind in ("mean", "range"):
        shown = [i for i, role in enumerate(decoding.roles) if role == NUMBER and np.isfinite(truth[i])]
    else:
        shown = shown_rows(outcome)
    rows = []
    for i in shown:
        number = decoding.roles[i] == NUMBER
        true, estimate, low, high = (
            f"{x:,.5g}" if number else percent(x)
            for x in (truth[i], decoding.estimate[i], decoding.low[i], decoding.high[i])
        )
        verdict = "" if number else "detected" if decoding.detected[i] else "not told from noise"
        holds = "yes" if decoding.low[i] <= truth[i] <= decoding.high[i] else '<span class="no">no</span>'
        rows.append([decoding.values[i], true, estimate, f"{low} to {high}", holds, verdict])
    header = ["answer", "truth", "estimate", "95 % interval", "holds the truth", ""]
    return "<details><summary>The figures</summary>" + _table(header, rows) + "</details>"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        shown = (
            f'<{tag} class="left">{escape(cell)}</{tag}>'
            if i in (0,)
            else f"<{tag}>{cell if cell.startswith('<span') else escape(cell)}</{tag}>"
            for i, cell in enumerate(cells)
        )
        return f"<tr>{''.join(shown)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f'<div class="scroll"><table><thead>{line(header, "th")}</thead><tbody>{body}</tbody></table></div>'
