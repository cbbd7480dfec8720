"""Texts that people read use plain words: what the commands, the label, the dashboard and the errors say, the README,
and the pages for users. A list of oddities that were once in them, each with what to write instead, keeps them away."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("client", "collector", "analysis", "simulations")

BANNED = {
    r"betray": "reveal",
    r"(cannot be|not) told from": "not statistically different from; looks the same as; not detected",
    r"may be nothing": "is below the detection limit",
    r"noise could not have made": "no significant change",
    r"shall be seen": "probability of detection",
    r"on the way ever holds": "neither the collector nor the analyst ever receives an individual answer",
    r"\bspeaks? of\b": "describes",
    r"torn tail": "incomplete last record",
    r"in the making": "collecting",
    r"at most so (much|sure)": "to at most this; upper bound",
    r"so that no message proves anything": "so no message shows your real answer",
    r"mixed (with chance|afresh)": "with noise added",
    r"goes on by itself": "resumes automatically",
    r"numbers that came": "last data received",
    r"\b(thereof|whereby|hitherto|whence|whilst|lest|unto|henceforth|ere)\b": "a word of today",
}
PAGES = [
    "README.md",
    *(f"docs/{name}.md" for name in (
        "index", "tutorial", "your-data", "operator", "analyst", "dashboard", "planning", "simulating", "publishing",
        "choosing-epsilons", "metrics-toml", "discovery", "histories", "commands", "http", "scaling", "shared-store",
        "experiments", "estimation", "benchmarks",
    )),
]  # fmt: skip


def texts_of_code() -> Iterator[tuple[str, str]]:
    """Every string in the code but for docstrings, with its place. An f-string is one text, with gaps."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in documented:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", _text(node)


def _text(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)


def texts_of_files() -> Iterator[tuple[str, str]]:
    """Pages for users, templates, and what else is shown or shipped as it is; line ends are spaces."""
    shipped = [
        path for folder in FOLDERS for kind in ("html", "yml", "toml") for path in (ROOT / folder).rglob(f"*.{kind}")
    ]
    examples = [*(ROOT / "examples").rglob("*.toml"), *(ROOT / "examples").rglob("*.py")]
    for path in sorted([*(ROOT / page for page in PAGES), *shipped, *examples]):
        yield str(path.relative_to(ROOT)), re.sub(r"\s+", " ", path.read_text(encoding="utf-8"))


def oddities(texts: Iterator[tuple[str, str]]) -> list[str]:
    """Where a banned word stands, and what to write instead."""
    patterns = [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in BANNED.items()]
    return [
        f"{place}: {found[0]!r} ... instead: {instead}"
        for place, text in texts
        for pattern, instead in patterns
        for found in pattern.finditer(text)
    ]


def test_no_text_of_the_code_has_an_oddity() -> None:
    texts = list(texts_of_code())
    assert len(texts) > 5000
    assert oddities(iter(texts)) == []


def test_no_page_template_or_example_has_an_oddity() -> None:
    texts = list(texts_of_files())
    assert len(texts) > 30
    assert oddities(iter(texts)) == []


@pytest.mark.parametrize("text", ["365 reports betray everyone", "whom it Speaks of", "It goes on by itself."])
def test_an_oddity_is_noticed(text: str) -> None:
    (found,) = oddities(iter([("here", text)]))
    assert found.startswith("here: ")


def test_an_oddity_in_an_f_string_is_noticed_and_in_a_docstring_left() -> None:
    tree = ast.parse('"""in the making"""\nx = f"{n} reports in the making"\n')
    string = next(node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr))
    assert oddities(iter([("here", _text(string))]))
