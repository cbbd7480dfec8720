"""Nothing is too long to be read: a module holds one idea, a function fits on a screen."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("client", "collector", "analysis", "simulations", "tests", "tools")
MODULE_LINES = 450
FUNCTION_LINES = 60
LONG_FUNCTIONS = {
    ("tests/protocol/test_registry.py", "test_all_mistakes_of_a_file_are_reported_at_once"): "the file stands in it",
}
"""By path, or the beginning of one, and name: why cutting it would make it harder to read. Keep this list short."""


def modules() -> list[Path]:
    return [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def long_functions() -> list[tuple[str, str, int]]:
    return list(_long_functions())


def _long_functions() -> Iterator[tuple[str, str, int]]:
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    yield path.relative_to(ROOT).as_posix(), node.name, lines


def excuses(path: str, name: str) -> list[tuple[str, str]]:
    return [(where, what) for where, what in LONG_FUNCTIONS if path.startswith(where) and name == what]


def test_no_module_is_long():
    assert len(modules()) > 300
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text("utf-8").splitlines()) for path in modules()}
    assert {path: lines for path, lines in lengths.items() if lines > MODULE_LINES} == {}


def test_no_function_is_long_without_a_reason():
    assert [found for found in long_functions() if not excuses(found[0], found[1])] == []


def test_every_reason_is_still_needed():
    needed = {excuse for path, name, _ in long_functions() for excuse in excuses(path, name)}
    assert set(LONG_FUNCTIONS) == needed
