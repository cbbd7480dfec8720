"""One name for one thing: a class of shipped code has a name of its own, underscores aside."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("client", "collector", "analysis", "simulations")
SHARED = (
    "Answered Block Branch Busy Change Column Distribution Events Factor Figure Histogram Item Kind Level Look Looks "
    "Moment Pair Part Parts Piece Plan Point Response Sampled Setting Settings Sight Snapshot Spread Terms Together "
    "View Wanted Watched Withheld"
)
"""Names that two classes have: the same thing in two roles (`Kind`, `Settings`, the `Setting` of each study), or words
of two packages that do not know each other. No name is to be added where another can be found."""


def places_of_classes(root: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    found[node.name.lstrip("_")].append(f"{path.relative_to(root)}:{node.lineno}")
    return found


def test_no_other_name_is_that_of_two_classes() -> None:
    found = places_of_classes(ROOT)
    assert len(found) > 400
    assert {name: places for name, places in found.items() if len(places) > 1 and name not in SHARED.split()} == {}


def test_a_second_class_of_a_name_is_seen(tmp_path: Path) -> None:
    for folder, source in (("client", "class Row: pass"), ("analysis", "def made():\n    class _Row: pass")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "planted.py").write_text(source)
    assert places_of_classes(tmp_path) == {"Row": ["client/planted.py:1", "analysis/planted.py:2"]}
