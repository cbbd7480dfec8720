"""Shares, differences of shares and plurals are written by `protocol/printed.py` and `invalid.plural`: no other module
has a format of its own for them, so that one number looks the same wherever a person meets it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("client", "collector", "analysis", "simulations", "tools")
ELSEWHERE = {
    "client/hubbub/protocol/printed.py": "the one place for shares and points",
    "client/hubbub/protocol/invalid.py": "the one place for plurals",
    "client/hubbub/protocol/epsilon.py": "a certainty is rounded up, never to the nearest",
    "analysis/hubbub/analysis/progress.py": "a bar's percentage is cut to a whole number of three places",
    "analysis/hubbub/analysis/kinds/range.py": "`levels` stands before the levels themselves, without a number",
}


def formats_of_its_own(source: str) -> Iterator[int]:
    """Lines with an f-string that writes a share as `{x:.1%}` or `{x:.1f} %`, a difference as `{100 * x:g} points`, or
    a plural as `{'s' * ...}`. Widths in CSS, `{x:.1f}%`, are none of these."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for part, following in zip(node.values, [*node.values[1:], None], strict=True):
            if not isinstance(part, ast.FormattedValue):
                continue
            value, form = ast.unparse(part.value), ast.unparse(part.format_spec) if part.format_spec else ""
            after = str(following.value) if isinstance(following, ast.Constant) else ""
            share = re.search("%['\"]$", form) or (form and after.startswith(" %"))
            points = "100" in value and re.match(" points?\\b", after)
            if share or points or re.match("'s' \\*|'s' if|'' if .* else 's'", value):
                yield part.lineno


def test_no_other_module_writes_shares_points_or_plurals_by_itself() -> None:
    found: dict[str, list[int]] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if lines := sorted(formats_of_its_own(path.read_text(encoding="utf-8"))):
                found[path.relative_to(ROOT).as_posix()] = lines
    assert found.keys() == ELSEWHERE.keys(), found


@pytest.mark.parametrize(
    "line",
    [
        'f"in {share:.1%} of runs"',
        'f"{100 * share:.0f} % narrower"',
        'f"{share:{sign}.2%}"',
        'f"{100 * change:.2g} points"',
        "f\"{n} epoch{'s' * (n != 1)}\"",
    ],
)
def test_a_format_of_its_own_is_noticed(line: str) -> None:
    assert list(formats_of_its_own(line)) == [1]


@pytest.mark.parametrize(
    "line", ['f"width:{x:.1f}%"', 'f"{fixed_percent(x)} of all"', 'f"{n:,} points"', '"{x:.1%}"', 'f"{name} %"']
)
def test_what_is_no_such_format_is_left(line: str) -> None:
    assert list(formats_of_its_own(line)) == []
