"""A release as one HTML page, fit for a public web site: it asks no other file and no network, and runs no script.

Everything that comes from a file is escaped. The facts stand in it once more as JSON, for `hubbub release --verify`.
"""

from __future__ import annotations

import json
from html import escape
from typing import Any

from hubbub.analysis.publishing.released_file import SCRIPT
from hubbub.protocol.invalid import plural
from hubbub.protocol.printed import intervals_of, number, percent
from hubbub.protocol.segments import in_words

_TOO_FEW = "Too few reports for figures with so much noise."
_NOT_FOUND = "No text was found that enough installs share."
_SEARCHED = "Texts that enough installs share, found without a list, which the intervals allow for."
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: #1c1c1c; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1.5rem; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #ddd; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.box { border-left: 4px solid #8a6d1d; background: #fbf6e6; padding: .5rem 1rem; }
@media (prefers-color-scheme: dark) {
  body { background: #161616; color: #eee; } th, td { border-color: #444; } .box { background: #2b2616; }
}
"""


def to_html(facts: dict[str, Any]) -> str:
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Published figures</title><style>{_STYLE}</style></head><body>",
        "<h1>Published figures</h1>",
        f"<p>Estimates with {intervals_of(facts['confidence'])}s, made from counts with added noise "
        f"({escape(facts['count_noise'])}); every answer had random noise on the device it came from.</p>",
        *_choice(facts["choice"]),
        *(_metric(one) for one in facts["metrics"]),
        "<h2>What these figures tell about one install</h2>",
        '<div class="box"><p>All of this holds only if whoever collects the messages is trusted to publish figures and '
        "nothing else. What the messages themselves tell, to everyone, is on the privacy label.</p></div>",
        "<ul>",
        *(f"<li>{escape(sentence)}</li>" for sentence in facts["statements"]),
        "</ul>",
        SCRIPT + json.dumps(facts, ensure_ascii=False).replace("<", "\\u003c") + "</script>",
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


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
