"""The report: one HTML page that explains itself, with pictures inside it. It asks no other file and no network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files

from hubbub.simulations.experiments.experiment import CheckedPrediction, ExperimentResult
from hubbub.simulations.experiments.pictures import svg

_NUMBER = re.compile(r"[+−-]?[\d,.]+(e-?\d+)?( ?%| h)?( to [+-]?[\d,.]+ ?%?)?|[\d.]+ in a million|not run|none|-|")


def page(results: Sequence[ExperimentResult], *, seed: int, quick: bool, command: str) -> str:
    """The whole page."""
    style = files("hubbub.simulations.experiments").joinpath("report.css").read_text(encoding="utf-8")
    body = "\n".join([*_head(results, quick), *(part for i, r in enumerate(results, 1) for part in _article(i, r))])
    seconds = sum(result.seconds for result in results)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>hubbub: experiments</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}\n"
        f"<footer><p>Made by <code>{escape(command)}</code> in {seconds:.0f} seconds of processor time, from the seed "
        f"{seed}: the same command gives the same figures.</p></footer>\n</body>\n</html>\n"
    )


def _head(results: Sequence[ExperimentResult], quick: bool) -> Iterator[str]:
    findings = [finding for result in results for finding in result.findings]
    chance = [f.prediction.false_alarm for f in findings if f.prediction.false_alarm > 0]
    met = sum(finding.met for finding in findings)
    yield "<header>\n<h1>What the literature says, tried on hubbub</h1>"
    yield (
        '<p class="lead">hubbub collects statistics without learning anybody’s answer: every report is made noisy on '
        "the person’s own machine, and only crowds can be read. This page repeats published experiments on such "
        "methods, and attacks on them, with hubbub’s own code.</p>"
    )
    yield (
        "<p>For every experiment the figures were <em>predicted first</em>, from formulas alone; then the code was run "
        "and each figure compared with its range. In the pictures lines are predictions and points are what was "
        "found. Where a published figure differs from ours, the last table of the experiment says why.</p>"
    )
    yield (
        '<p class="small">Epsilon (ε) measures what reports give away: nobody can change their odds about a person by '
        "more than a factor of e<sup>ε</sup>. A range that rests on chance is left by a right figure once in a million "
        f"times; with {len(chance)} of them on this page, one page in {1 / max(sum(chance), 1e-12):,.0f} shows a false "
        "alarm.</p>"
    )
    if quick:
        small = "smaller crowds and fewer repeats, so wider ranges than the full one"
        yield f'<p class="small"><strong>This is the quick form</strong>: {small}.</p>'
    yield f'<p class="verdict">{_words(met, len(findings))}</p>'
    rows = "".join(
        f'<tr><td class="nowrap"><a href="#{r.name}">{i}. {escape(r.title)}</a></td><td>{_text(r.question)}</td>'
        f'<td class="nowrap">{_score(r)}</td></tr>'
        for i, r in enumerate(results, 1)
    )
    yield (
        '<table class="summary"><thead><tr><th>experiment</th><th>question</th><th>as predicted</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>\n</header>"
    )


def _article(number: int, result: ExperimentResult) -> Iterator[str]:
    output = result.output
    met = sum(finding.met for finding in result.findings)
    yield f'<article id="{result.name}">\n<h2>{number}. {escape(result.title)}</h2>'
    yield f'<p class="question">{_text(result.question)}</p>'
    yield f'<p class="verdict">{_words(met, len(result.findings))}</p>'
    setting = "".join(f"<div><dt>{escape(k)}</dt><dd>{_text(v)}</dd></div>" for k, v in result.setting.items())
    yield f"<dl>{setting}</dl>"
    picture = svg(output.chart, result.name, output.caption)
    yield f"<figure>{picture}<figcaption>{_text(output.caption)}</figcaption></figure>"
    yield f'<div class="scroll">{_table(output.columns, output.rows)}</div>'
    yield "<h3>What it means</h3>"
    yield from (f"<p>{_text(words)}</p>" for words in output.meaning)
    yield "<h3>Predicted, then found</h3>"
    yield _findings(result.findings)
    if output.published:
        yield "<h3>Beside the published figures</h3>"
        yield _compared(
            ("figure", "published", "here", "why they agree or differ"),
            [(p.what, p.theirs, p.ours, p.why) for p in output.published],
        )
    yield f'<p class="source">Source: {_text(result.source)}.</p>\n</article>'


def _words(met: int, total: int) -> str:
    if met == total:
        return f'<span class="met">✓ All {total} figures were found where they were predicted.</span>'
    return f'<span class="missed">✗ {total - met} of {total} figures were not found where they were predicted.</span>'


def _score(result: ExperimentResult) -> str:
    met, total = sum(finding.met for finding in result.findings), len(result.findings)
    return f'<span class="{"met" if result.met else "missed"}">{"✓" if result.met else "✗"} {met} of {total}</span>'


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns of numbers are set flush right, but for the first, which names the rows."""
    held = list(rows)
    numeric = [i > 0 and all(_NUMBER.fullmatch(row[i]) for row in held) for i in range(len(columns))]
    kind = [' class="number"' if is_number else "" for is_number in numeric]
    if all(len(row[0]) < 25 for row in held):
        kind[0] = ' class="nowrap"'
    head = "".join(f"<th{k}>{_text(column)}</th>" for column, k in zip(columns, kind, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{k}>{_text(cell)}</td>" for cell, k in zip(row, kind, strict=True)) + "</tr>"
        for row in held
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _findings(findings: Iterable[CheckedPrediction]) -> str:
    rows = "".join(
        f'<tr><td>{_text(f.prediction.what)}<span class="why">{_text(f.prediction.why)}</span></td>'
        f'<td class="number" data-label="predicted">{_text(f.prediction.expected)}</td>'
        f'<td class="number" data-label="found">{_text(f.prediction.say(f.found))}</td>'
        f'<td class="nowrap">{_verdict(f)}</td></tr>'
        for f in findings
    )
    head = '<th>figure</th><th class="number">predicted</th><th class="number">found</th><th>verdict</th>'
    return f'<table class="compared"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _verdict(finding: CheckedPrediction) -> str:
    return '<span class="met">✓ as predicted</span>' if finding.met else '<span class="missed">✗ not met</span>'


def _compared(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-label="{escape(column)}">{_text(cell)}</td>' if i else f"<td>{_text(cell)}</td>"
            for i, (column, cell) in enumerate(zip(columns, row, strict=True))
        )
        + "</tr>"
        for row in rows
    )
    return f'<table class="compared"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _text(words: str) -> str:
    """Words for the page: code between backticks, exponents raised, no break before a per cent sign."""
    marked = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(words))
    marked = re.sub(r"\be\^(?:\(([^)]*)\)|([\d.]*\d|\w+))", r"e<sup>\1\2</sup>", marked)
    marked = re.sub(r"\bepsilon_(\w)", r"epsilon<sub>\1</sub>", marked)
    return re.sub(r"(?<=\d) ?%", "\u00a0%", marked)
