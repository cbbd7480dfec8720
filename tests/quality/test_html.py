"""Shipped code makes HTML by templates, which escape what is filled in, and never by f-strings, `format` or `%`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("client", "collector", "analysis", "simulations")
PICTURES = {
    "analysis/hubbub/analysis/render/glyphs.py",
    "analysis/hubbub/analysis/render/plots.py",
    "simulations/hubbub/simulations/experiments/pictures.py",
}
"""SVG is drawn there: coordinates by the thousand, and the few words in it are escaped where they are put in."""
TAG = re.compile(r"</?[a-z][a-z0-9]*[\s/>]|<!--|<!doctype", re.IGNORECASE)
FILLED = "x"  # stands for what an f-string fills in, so that `<{tag}>` is seen, too


def put_together(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The lines where text with a tag is put together with values, and that text."""
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=parts):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else FILLED for part in parts)
            case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod() | ast.Add()):
                pass
            case ast.BinOp(op=ast.Add(), right=ast.Constant(value=str(text))):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format" | "format_map")):
                pass
            case _:
                continue
        if TAG.search(text):
            yield node.lineno, text


def test_no_html_is_put_together_by_hand() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if str(path.relative_to(ROOT)) not in PICTURES
        for line, text in put_together(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_the_pictures_are_where_the_list_says() -> None:
    for path in PICTURES:
        assert list(put_together(ast.parse((ROOT / path).read_text(encoding="utf-8")))), path


@pytest.mark.parametrize(
    "source",
    [
        'f"<li>{sentence}</li>"',
        'f"<{tag}>{cell}</{tag}>"',
        "f'<a href=\"{address}\">'",
        '"<b>%s</b>" % name',
        '"<b>{}</b>".format(name)',
        '"<td>" + name',
        'name + "</td>"',
    ],
)
def test_planted_html_is_seen(source: str) -> None:
    assert len(list(put_together(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "source", ['f"{low} <= {value} < {high}"', 'fill("<li>$sentence</li>", sentence=sentence)', 'f"<{count}: others"']
)
def test_other_text_is_not_taken_for_html(source: str) -> None:
    assert list(put_together(ast.parse(source))) == []
