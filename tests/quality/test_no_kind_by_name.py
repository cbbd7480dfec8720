"""A kind of metric is a file, not a branch: outside of the `kinds` folders no shipped code compares or matches with the
name of a kind or tests for its class. Experiments from the literature are about one kind each, and may."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from hubbub.analysis.kinds import KINDS as DECODED
from hubbub.protocol.kinds import FORMS, KINDS
from hubbub.simulations.kinds import KINDS as SIMULATED

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("client", "collector", "analysis", "simulations")
NAMES = {*KINDS, *DECODED, *SIMULATED}
CLASSES = {place.partition(":")[2] for place in (*KINDS.values(), *FORMS.values())}
OF_ONE_KIND = {"kinds", "studies"}


def kinds_named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where a kind is told from others by its name or class, and how."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                found = any(map(_names_a_kind, (left, *others)))
            case ast.MatchValue(value=value):
                found = _names_a_kind(value)
            case ast.MatchClass(cls=its_class):
                found = _is_class_of_a_kind(its_class)
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]):
                found = any(map(_is_class_of_a_kind, ast.walk(classes)))
            case _:
                continue
        if found:
            yield node.lineno, ast.unparse(node)


def _names_a_kind(operand: ast.expr) -> bool:
    """A key such as `facts["choice"]` names none: it is the operand itself that counts, or what a list holds."""
    match operand:
        case ast.Constant(value=str(name)):
            return name in NAMES
        case ast.Tuple(elts=members) | ast.List(elts=members) | ast.Set(elts=members):
            return any(map(_names_a_kind, members))
        case ast.Call(func=ast.Name(id="frozenset" | "set" | "tuple"), args=[members]):
            return _names_a_kind(members)
        case ast.Attribute(attr="kind", value=its_class):  # `Flag.kind`
            return _is_class_of_a_kind(its_class)
        case _:
            return _is_class_of_a_kind(operand)  # `type(shape) is Flag`


def _is_class_of_a_kind(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in CLASSES
        case _:
            return False


def test_no_code_outside_of_its_files_tells_a_kind_from_others() -> None:
    files = [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if OF_ONE_KIND.isdisjoint(path.relative_to(ROOT).parts)
    ]
    assert len(files) > 300
    found = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in files
        for line, what in kinds_named(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        'if metric.kind == "flag": pass',
        'if "mean" != kind: pass',
        'if shape.form in ("range", "discovery"): pass',
        'if kind not in {"x", "set"}: pass',
        'if kind in frozenset({"cross"}): pass',
        'match kind:\n    case "histogram" | "range": pass',
        'match (kind, every):\n    case ["choice", _]: pass',
        "match shape:\n    case Mean(low=low): pass",
        "if isinstance(shape, Flag | kinds.Choice): pass",
        "if type(shape) is String: pass",
        "if kind == Cross.kind: pass",
    ],
)
def test_a_planted_comparison_is_seen(source: str) -> None:
    assert list(kinds_named(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        'if facts["choice"] is not None: pass',
        'if metric.every == "week": pass',
        "if isinstance(value, str): pass",
        "if shape.is_number: pass",
        'kind_class("flag").draw(rng)',
    ],
)
def test_other_comparisons_are_not_taken_for_one(source: str) -> None:
    assert not list(kinds_named(ast.parse(source)))
