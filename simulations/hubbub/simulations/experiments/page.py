"""The report: one HTML page that explains itself, with pictures inside it. It asks no other file and no network."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from hubbub.analysis.render.glyphs import Svg
from hubbub.simulations.experiments.experiment import ExperimentResult
from hubbub.simulations.html_page import html_page

_NUMBER = re.compile(r"[+−-]?[\d,.]+(e-?\d+)?( ?%| h)?( to [+-]?[\d,.]+ ?%?)?|[\d.]+ in a million|not run|none|-|")


@dataclass(frozen=True, slots=True)
class Article:
    """One experiment on the page: its result, how many figures were met, its picture, the class of each column."""

    result: ExperimentResult
    met: int
    picture: Svg
    classes: list[str]

    @classmethod
    def of(cls, result: ExperimentResult) -> Article:
        output = result.output
        return cls(
            result,
            sum(finding.met for finding in result.findings),
            output.chart.drawn(output.caption),
            _column_classes(output.columns, output.rows),
        )


def page(results: Sequence[ExperimentResult], *, seed: int, quick: bool, command: str) -> str:
    """The whole page."""
    articles = [Article.of(result) for result in results]
    findings = [finding for result in results for finding in result.findings]
    chances = [f.prediction.false_alarm for f in findings if f.prediction.false_alarm > 0]
    values = {
        "articles": articles,
        "met": sum(article.met for article in articles),
        "total": len(findings),
        "ranges": len(chances),
        "one_page_in": f"{1 / max(sum(chances), 1e-12):,.0f}",
        "quick": quick,
        "seed": seed,
        "command": command,
        "seconds": f"{sum(result.seconds for result in results):.0f}",
    }
    package = "hubbub.simulations.experiments"
    return html_page(package, "experiments", values, prose=_prose, attribute=_class_attribute)


def _column_classes(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of numbers are set flush right, but for the first, which names the rows."""
    names = "nowrap" if all(len(row[0]) < 25 for row in rows) else ""
    numbers = ["number" if all(_NUMBER.fullmatch(row[i]) for row in rows) else "" for i in range(1, len(columns))]
    return [names, *numbers]


def _class_attribute(name: str) -> str:
    return f' class="{name}"' if name else ""


def _prose(words: str) -> str:
    """Words for the page: code between backticks, exponents raised, no break before a per cent sign."""
    marked = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(words))
    marked = re.sub(r"\be\^(?:\(([^)]*)\)|([\d.]*\d|\w+))", r"e<sup>\1\2</sup>", marked)
    marked = re.sub(r"\bepsilon_(\w)", r"epsilon<sub>\1</sub>", marked)
    return re.sub(r"(?<=\d) ?%", "\u00a0%", marked)
