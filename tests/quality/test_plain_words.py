"""Texts that people read use plain words: what the commands, the label, the dashboard and the errors say, all pages and
READMEs, and the comments of the code, that of tests and tools as well. A list of oddities that were once in them, each
with what to write instead, keeps them away."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("client", "collector", "analysis", "simulations")
CODE = (*FOLDERS, "tests", "tools")
NOT_READ = {
    "tests/quality/test_plain_words.py": "it has the list",
    "tests/vectors/scenarios.py": "its words are in golden vectors, which stay as they are",
}

BANNED = {
    r"betray": "reveal",
    r"(cannot be|not) told from": "not statistically different from; looks the same as; not detected",
    r"may be nothing": "is below the detection limit",
    r"noise could not have made": "no significant change",
    r"\bshall\b": "is to; may; or what happens",
    r"\bnought\b": "zero",
    r"on the way ever holds": "neither the collector nor the analyst ever receives an individual answer",
    r"\bspeaks? of\b": "describes",
    r"\bof whom\b[^.]{0,20}\bspeaks?\b": "which installs the numbers describe",
    r"torn tail": "incomplete last record",
    r"in the making": "collecting",
    r"at most so (much|sure)": "to at most this; upper bound",
    r"so that no message proves anything": "so no message shows your real answer",
    r"mixed (with chance|afresh)": "with noise added",
    r"goes on by itself": "resumes automatically",
    r"numbers that came": "last data received",
    r"\b(thereof|whereby|hitherto|whence|whilst|lest|unto|henceforth|ere)\b": "a word of today",
}
_RELATIVE = r"(?:that|who|which|what|how|as|all|both|those|each|where)\b"
_SUBJECT = rf"(?:(?:that|this|the|a|an|each|every|no|some) )?(?!{_RELATIVE})[\w`-]+"
_VERB = "(?:is|are|was|were|has|have|had|would|could|can|cannot|will|may|must|does|do)"
CAUSAL_FOR = {
    rf"[,;] for (?:(?:it|they|he|she|nobody|nothing|there|then)|(?:that|{_SUBJECT}) {_VERB})\b": "because, or a colon"
}
"""`for` in the place of `because`: a subject and its verb follow, and no `that` or `who` between them."""
PAGES = sorted([
    *(page for page in ROOT.glob("*.md")),
    *(ROOT / "docs").rglob("*.md"),
    *(readme for folder in (*FOLDERS, "tests", "tools", "examples") for readme in (ROOT / folder).rglob("README.md")),
])  # fmt: skip


def texts_of_code() -> Iterator[tuple[str, str]]:
    """Every string in the code but for docstrings, with its place. An f-string is one text, with gaps."""
    for place, source in code():
        tree = ast.parse(source)
        documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in documented:
                yield f"{place}:{node.lineno}", _text(node)


def code() -> Iterator[tuple[str, str]]:
    """Every module, with its place."""
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            if place not in NOT_READ:
                yield place, path.read_text(encoding="utf-8")


def _text(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)


def comments_of(source: str) -> Iterator[tuple[int, str]]:
    """The docstrings of a module and of what is in it, and its comments, with lines; a comment of several is one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, _one_line(node.value.value)
    together: list[str] = []
    last = begin = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1 or token.line.strip() != token.string:
                if together:
                    yield begin, " ".join(together)
                together, begin = [], token.start[0]
            together.append(token.string.lstrip("# "))
            last = token.start[0]
    if together:
        yield begin, " ".join(together)


def comments_of_code() -> Iterator[tuple[str, str]]:
    for place, source in code():
        for line, text in comments_of(source):
            yield f"{place}:{line}", text


def texts_of_files() -> Iterator[tuple[str, str]]:
    """Pages, templates, and what else is shown or shipped as it is; line ends are spaces."""
    shipped = [
        path for folder in FOLDERS for kind in ("html", "yml", "toml") for path in (ROOT / folder).rglob(f"*.{kind}")
    ]
    examples = [*(ROOT / "examples").rglob("*.toml"), *(ROOT / "examples").rglob("*.py")]
    for path in sorted([*PAGES, *shipped, *examples]):
        yield str(path.relative_to(ROOT)), _one_line(path.read_text(encoding="utf-8"))


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def oddities(texts: Iterator[tuple[str, str]], banned: dict[str, str] = BANNED) -> list[str]:
    """Where a banned word stands, and what to write instead."""
    patterns = [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in banned.items()]
    return [
        f"{place}: {found[0]!r} ... instead: {instead}"
        for place, text in texts
        for pattern, instead in patterns
        for found in pattern.finditer(text)
    ]


def test_no_text_of_the_code_has_an_oddity() -> None:
    texts = list(texts_of_code())
    assert len(texts) > 20_000
    assert oddities(iter(texts), BANNED | CAUSAL_FOR) == []


def test_no_page_template_or_example_has_an_oddity() -> None:
    texts = list(texts_of_files())
    assert len(texts) > 60
    assert oddities(iter(texts), BANNED | CAUSAL_FOR) == []


def test_no_comment_or_docstring_has_an_oddity() -> None:
    texts = list(comments_of_code())
    assert len(texts) > 7000
    assert oddities(iter(texts), BANNED | CAUSAL_FOR) == []


@pytest.mark.parametrize("text", ["365 reports betray everyone", "whom it Speaks of", "It goes on by itself."])
def test_an_oddity_is_noticed(text: str) -> None:
    (found,) = oddities(iter([("here", text)]))
    assert found.startswith("here: ")


@pytest.mark.parametrize(
    "text",
    [
        "none, for the registry has no segments",
        "refused, for that is one process's own",
        "kept, for duplicates are noticed",
        "lost, for `min_reports` may change",
    ],
)
def test_a_for_that_means_because_is_noticed(text: str) -> None:
    assert len(oddities(iter([("here", text)]), CAUSAL_FOR)) == 1


@pytest.mark.parametrize(
    "text", ["kept, for as long as they are read", "asked, for answers that are rare", "a page, for people who can see"]
)
def test_a_for_that_means_nothing_else_is_left(text: str) -> None:
    assert oddities(iter([("here", text)]), CAUSAL_FOR) == []


def test_an_oddity_in_an_f_string_is_noticed() -> None:
    tree = ast.parse('x = f"{n} reports in the making"')
    string = next(node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr))
    assert oddities(iter([("here", _text(string))]))


def test_an_oddity_in_a_docstring_or_in_a_comment_of_two_lines_is_noticed() -> None:
    two = "# The variance is nought, and in the\n# making. It waits, for it\n# can."
    source = f'"""It is in\nthe making."""\n{two}\nx = 1  # shall\n'
    found = [oddities(iter([(str(line), text)]), BANNED | CAUSAL_FOR) for line, text in comments_of(source)]
    assert [len(each) for each in found] == [1, 3, 1]
