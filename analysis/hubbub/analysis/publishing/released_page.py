"""A release as one HTML page, fit for a public web site: it asks no other file and no network, and runs no script.

Everything that comes from a file is escaped. The facts stand in it once more as JSON, for `hubbub release --verify`.
What is the same on every such page is in `pages/release.html`.
"""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from hubbub.analysis.publishing.released_file import SCRIPT
from hubbub.protocol.invalid import plural
from hubbub.protocol.printed import intervals_of, number, percent
from hubbub.protocol.segments import in_words

_TOO_FEW = "Too few reports for figures with so much noise."
_NOT_FOUND = "No text was found that enough installs share."
_SEARCHED = "Texts that enough installs share, found without a list, which the intervals allow for."
_PAGE = files("hubbub.analysis.publishing") / "pages" / "release.html"


def to_html(facts: dict[str, Any]) -> str:
    """The page: a template, whose parts are escaped here."""
    figures = [*_choice(facts["choice"]), *(_metric(one) for one in facts["metrics"])]
    parts = {
        "intervals": intervals_of(facts["confidence"]),
        "count_noise": escape(facts["count_noise"]),
        "figures": "".join(f"{part}\n" for part in figures),
        "statements": "".join(f"<li>{escape(sentence)}</li>\n" for sentence in facts["statements"]),
        "facts": SCRIPT + json.dumps(facts, ensure_ascii=False).replace("<", "\\u003c") + "</script>",
    }
    return Template(_PAGE.read_text(encoding="utf-8")).substitute(parts)


def _choice(choice: dict[str, Any] | None) -> list[str]:
    if choice is None:
        return []
    words = f"The {choice['top']} of {choice['among']} with the most reports by {choice['by']}, chosen with noise, too."
    return [f"<p>{escape(words)}</p>"]


def _metric(one: dict[str, Any]) -> str:
    segment = in_words(one["metric"].get("segment", {}).items())
    title = f"<h2>{escape(', '.join(filter(None, (one['metric']['name'], segment))))}</h2>"
    listed, searched = one["candidates"], one["metric"]["shape"].get("discover")
    if not one["figures"]:
        nothing = f"None of {plural(listed, 'string')} was detected." if listed else _TOO_FEW
        return f"{title}<p>{_NOT_FOUND if searched else nothing}</p>"
    rows = "".join(_row(figure, one["unit"]) for figure in one["figures"])
    head = '<tr><th>when</th><th>value</th><th class="n">estimate</th><th class="n">interval</th></tr>'
    words = ""
    if searched:
        words = f"<p>{_SEARCHED}</p>"
    elif listed:
        words = f"<p>Detected among {plural(listed, 'string')} that were looked for, which the intervals allow for.</p>"
    return f"{title}{words}<table>{head}{rows}</table>"


def _row(figure: dict[str, Any], unit: str) -> str:
    say = percent if figure["is_share"] else number
    after = "" if figure["is_share"] or not unit else f" {unit}"
    estimate, low, high = (escape(f"{say(figure[name])}{after}") for name in ("estimate", "low", "high"))
    return (
        f"<tr><td>{escape(figure['epochs'])}</td><td>{escape(figure['value'])}</td>"
        f'<td class="n">{estimate}</td><td class="n">{low} to {high}</td></tr>'
    )
