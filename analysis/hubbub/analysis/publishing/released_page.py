"""A release as one HTML page, fit for a public web site: it asks no other file and no network, and runs no script.

Everything that comes from a file is escaped. The facts stand in it once more as JSON, for `hubbub release --verify`.
What is the same on every such page is in `pages/release.html`, and its parts are below.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from hubbub.analysis.publishing.released_file import SCRIPT
from hubbub.protocol.invalid import plural
from hubbub.protocol.markup import Markup, fill, join
from hubbub.protocol.printed import intervals_of, number, percent
from hubbub.protocol.segments import in_words

_TOO_FEW = "Too few reports for figures with so much noise."
_NOT_FOUND = "No text was found that enough installs share."
_SEARCHED = "Texts that enough installs share, found without a list, which the intervals allow for."
_PAGE = files("hubbub.analysis.publishing") / "pages" / "release.html"

_PARAGRAPH = "<p>$words</p>"
_STATEMENT = "<li>$statement</li>\n"
_METRIC = "<h2>$name</h2>$words$table"
_TABLE = (
    '<table><tr><th>when</th><th>value</th><th class="n">estimate</th><th class="n">interval</th></tr>$rows</table>'
)
_ROW = '<tr><td>$epochs</td><td>$value</td><td class="n">$estimate</td><td class="n">$low to $high</td></tr>'


def to_html(facts: dict[str, Any]) -> str:
    """The page: a template, into which everything is filled escaped."""
    figures = [*_choice(facts["choice"]), *(_metric(one) for one in facts["metrics"])]
    page = fill(
        _PAGE.read_text(encoding="utf-8"),
        intervals=intervals_of(facts["confidence"]),
        count_noise=facts["count_noise"],
        figures=join(join([part, "\n"]) for part in figures),
        statements=join(fill(_STATEMENT, statement=sentence) for sentence in facts["statements"]),
        facts=join([Markup(SCRIPT), _in_a_script(facts), Markup("</script>")]),
    )
    return str(page)


def _in_a_script(facts: dict[str, Any]) -> Markup:
    """JSON is as it is in a script, but for what could end it."""
    return Markup(json.dumps(facts, ensure_ascii=False).replace("<", "\\u003c"))


def _choice(choice: dict[str, Any] | None) -> list[Markup]:
    if choice is None:
        return []
    words = f"The {choice['top']} of {choice['among']} with the most reports by {choice['by']}, chosen with noise, too."
    return [fill(_PARAGRAPH, words=words)]


def _metric(one: dict[str, Any]) -> Markup:
    segment = in_words(one["metric"].get("segment", {}).items())
    name = ", ".join(filter(None, (one["metric"]["name"], segment)))
    words = _words(one)
    table = fill(_TABLE, rows=join(_row(figure, one["unit"]) for figure in one["figures"])) if one["figures"] else ""
    return fill(_METRIC, name=name, words=fill(_PARAGRAPH, words=words) if words else "", table=table)


def _words(one: dict[str, Any]) -> str:
    """What is said before the figures of a metric, or instead of them."""
    listed, searched = one["candidates"], one["metric"]["shape"].get("discover")
    if not one["figures"]:
        nothing = f"None of {plural(listed, 'string')} was detected." if listed else _TOO_FEW
        return _NOT_FOUND if searched else nothing
    if searched:
        return _SEARCHED
    return (
        f"Detected among {plural(listed, 'string')} that were looked for, which the intervals allow for."
        if listed
        else ""
    )


def _row(figure: dict[str, Any], unit: str) -> Markup:
    say = percent if figure["is_share"] else number
    after = "" if figure["is_share"] or not unit else f" {unit}"
    numbers = {name: f"{say(figure[name])}{after}" for name in ("estimate", "low", "high")}
    return fill(_ROW, epochs=figure["epochs"], value=figure["value"], **numbers)
