"""A new kind is one file and one line in the table: decoding, planning and rendering ask it and name no kind."""

from __future__ import annotations

import ast
import json
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from hubbub.analysis import decode
from hubbub.analysis.kinds import KINDS, kind_of
from hubbub.analysis.planning.plan import Plan, installs_for, power_of
from hubbub.analysis.planning.words import answer_words, toml_of
from hubbub.analysis.render.export import to_json
from hubbub.analysis.render.text import table
from hubbub.protocol import kinds as protocol_kinds
from hubbub.protocol.kinds import Flag
from tests.analysis.worlds import define, tally_of

ROOT = Path(__file__).resolve().parents[3] / "analysis" / "hubbub" / "analysis"
SHAPE = """
from hubbub.protocol.kinds.flag import Flag

class Doubt(Flag, kw_only=True):
    kind = "doubt"
"""
ANALYSIS = """
import numpy as np
from hubbub.analysis.kinds.categorical import Questions, bit_attack_gain, decode_answers
from hubbub.analysis.kinds.kind import Kind
from hubbub.analysis.kinds.variances import bit_variance
from toy_shape import Doubt

def decode_doubt(pools, candidates, options):
    questions = Questions(
        values=["in doubt"], roles=["answer"], asked=[[0] for _ in pools],
        best_guess=lambda estimate, variance: np.clip(estimate, 0, 1), attack_gain=bit_attack_gain(pools),
    )
    return decode_answers(pools, questions, options)

DOUBT = Kind(
    decode=decode_doubt,
    unit_variance=lambda shape, noise, share, strings: 4 * bit_variance(noise, share),
    planned=lambda given, strings: Doubt(),
    toml=lambda shape: "absent = false",
)
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    (tmp_path / "toy_shape.py").write_text(SHAPE)
    (tmp_path / "toy_analysis.py").write_text(ANALYSIS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(protocol_kinds.KINDS, "doubt", "toy_shape:Doubt")
    monkeypatch.setitem(KINDS, "doubt", "toy_analysis:DOUBT")
    yield protocol_kinds.shape_class("doubt")
    for name in ("toy_shape", "toy_analysis"):
        sys.modules.pop(name, None)


def test_a_kind_from_elsewhere_is_decoded_planned_and_shown(toy):
    metric = define(toy())
    rng = np.random.default_rng(1)
    tally = tally_of(define(Flag()), [7_000, 3_000], rng)
    found = decode(type(tally)(metric, tally.epochs))
    assert found.kind == "doubt"
    assert abs(found.estimate[0] - 0.3) < 5 * found.std_error[0]
    assert "asked (doubt)" in table(found)
    assert json.loads(to_json([found]))[0]["rows"][0]["value"] == "in doubt"
    epsilons = {"epsilon_one_report": Fraction(1), "epsilon_permanent": Fraction(2)}
    ours, flag = Plan(shape=toy(), **epsilons), Plan(shape=Flag(), **epsilons)
    assert installs_for(ours) == pytest.approx(4 * installs_for(flag), rel=0.01)
    assert power_of(ours) < power_of(flag)
    assert answer_words(ours, "power", 0.5, None)[0].startswith("An answer of 1.0 % of installs")
    assert toml_of(ours, None).endswith("absent = false")


def test_every_kind_of_the_protocol_has_its_analysis():
    forms = {protocol_kinds.shape_class(kind, [key]).__name__.lower() for kind, key in protocol_kinds.FORMS}
    assert set(KINDS) == {*protocol_kinds.KINDS, *forms, "mean_apart"}
    for name in KINDS:
        assert callable(kind_of(name).decode)


def test_nothing_but_the_kinds_themselves_asks_for_a_kind():
    """No module outside `kinds` imports a shape of some kind, but those that hash strings or stand in for a metric."""
    shapes = {"Flag", "Choice", "String", "Mean", "Histogram", "Range"}
    found = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and shapes & {alias.name for alias in node.names}:
                found.add(path.relative_to(ROOT).as_posix())
    outside = {path for path in found if not path.startswith("kinds/")}
    assert outside == {"estimation/hashing.py", "estimation/shards.py", "rappor.py"}
