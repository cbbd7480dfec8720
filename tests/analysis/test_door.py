"""The door of the analysis: every name is there, and opening it costs nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hubbub.analysis

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import sys
import hubbub.analysis
heavy = {"numpy", "scipy", "hubbub.analysis.result"} & set(sys.modules)
assert not heavy, heavy
import hubbub.analysis.decoding, hubbub.analysis.comparison
from hubbub.analysis import compare, decode
assert callable(decode) and callable(compare), "a module of the package stands where its function should"
import hubbub.analysis.commands.decode, hubbub.analysis.commands.plan, hubbub.dashboard.app
import hubbub.simulations.demo.people, hubbub.simulations.fleet  # what each process of a fleet loads
from hubbub.protocol.kinds import Flag
from tests.analysis.worlds import define, tally_of
import numpy
decode(tally_of(define(Flag()), [700, 300], numpy.random.default_rng(1)))  # what a dashboard does first
slow = {"scipy.stats", "scipy.optimize", "scipy.signal"} & set(sys.modules)
assert not slow, f"all would wait for {slow}: write `import scipy` and name the part where it is used"
"""


def test_every_name_is_there_and_no_other():
    for name in hubbub.analysis.__all__:
        assert getattr(hubbub.analysis, name).__name__ == name
    assert dir(hubbub.analysis) == sorted(hubbub.analysis.__all__)
    with pytest.raises(AttributeError, match="no attribute 'decypher'"):
        _ = hubbub.analysis.decypher


def test_importing_the_package_loads_no_statistics():
    done = subprocess.run([sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
