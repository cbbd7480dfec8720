"""`hubbub simulate` of pairs and crosses: truth beside estimate, for answers that go together as was said."""

from __future__ import annotations

import json
from argparse import ArgumentParser

import numpy as np
import pytest

from hubbub.analysis import crosstab
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.tally_files import read_pair_tallies
from hubbub.simulations.simulate.command import add_simulate, run_simulate
from hubbub.simulations.simulate.joint import coupled

TERMS = """
every = "week"
why = "To know."
owner = "a@example.org"
expires = 2027-12-31
epsilon_one_report = 2
epsilon_permanent = 4
"""
REGISTRY = f"""
app = "org.example.editor"
recipient = {{ name = "Example Foundation", url = "https://telemetry.example.org" }}
lifetime_epsilon = 60
[metrics.dark]
kind = "flag"
max_values = 2 {TERMS}
[metrics.os]
kind = "choice"
choices = ["linux", "macos", "windows"]
max_values = 2 {TERMS}
[metrics.startup]
kind = "mean"
low = 0
high = 10
absent = 0
points = 3
max_values = 3 {TERMS}
[metrics.page]
kind = "string"
num_bits = 32
num_hashes = 1
num_cohorts = 2
max_values = 2 {TERMS}
[metrics.asked]
kind = "cross"
of = ["dark", "os"]
max_values = 4 {TERMS}
[metrics.crashes]
kind = "histogram"
accumulate = "sum"
edges = [0, 1, 5, 20]
buckets_per_report = 3
max_values = 2 {TERMS}
[together.dark_crashes]
metrics = ["dark", "crashes"]
[together.dark_os]
metrics = ["dark", "os"]
[together.startup_os]
metrics = ["startup", "os"]
[together.dark_page]
metrics = ["dark", "page"]
"""


@pytest.fixture
def world(tmp_path):
    (tmp_path / "metrics.toml").write_text(REGISTRY)
    return tmp_path


def simulate(*arguments: object) -> int:
    parser = ArgumentParser()
    add_simulate(parser)
    return run_simulate(parser.parse_args([str(argument) for argument in arguments]))


def test_pairs_of_a_registry_come_with_their_truth(world, capsys):
    options = ["--metric", "dark", "--joint", "dark_os=correlation:0.5", "--joint", "startup_os=correlation:-0.4"]
    assert simulate(world / "metrics.toml", "--installs", "40000", *options, "--out", world / "out") == 0
    out = capsys.readouterr().out
    assert "dark_os (pair of dark and os, correlation:0.5)" in out
    assert "dark and os are related" in out
    assert "of 8 intervals hold the truth." in out
    tallies = {tally.pair.name: tally for tally in read_pair_tallies(world / "out" / "dark_os.json")}
    assert tallies["dark_os"].num_batches == 40_000
    truth = json.loads((world / "out" / "dark_os.truth.json").read_text())
    found = crosstab(tallies["dark_os"])
    assert truth["cells"][0]["estimate"] == pytest.approx(found.cells.estimate[0, 0])
    assert truth["held"] >= 5  # of 8 at 95 %: fewer have probability 4e-4 if they were independent


def test_what_nothing_added_comes_to_is_a_sum_of_nothing(world, capsys):
    """A mask of its own for silence would take those with a sum of 0 out of their bucket."""
    options = ["--metric", "dark", "--joint", "dark_crashes=correlation:0.3", "--installs", "100000", "--json"]
    assert simulate(world / "metrics.toml", *options) == 0
    (found,) = json.loads(capsys.readouterr().out)["joint"]
    assert found["held"] >= 4  # of 6 at 95 %


def test_a_csv_of_pairs_is_the_population(world, capsys):
    (world / "pairs.csv").write_text("dark,os,count\nyes,linux,500\nno,windows,300\nno,,100\ntrue,macos,100\n")
    options = ["--metric", "dark", "--joint", f"asked=csv:{world / 'pairs.csv'}", "--installs", "50000", "--json"]
    assert simulate(world / "metrics.toml", *options) == 0
    (found,) = json.loads(capsys.readouterr().out)["joint"]
    truth = {(cell["dark"], cell["os"]): cell["truth"] for cell in found["cells"]}
    assert found["way"] == "cross"
    assert truth["yes", "linux"] == pytest.approx(0.5, abs=0.02)
    assert truth["yes", "macos"] == pytest.approx(0.1, abs=0.02)
    assert truth["no", "absent"] == pytest.approx(0.1, abs=0.02)
    assert truth["no", "linux"] == 0
    assert [cell["estimate"] for cell in found["cells"]] == pytest.approx(list(truth.values()), abs=0.02)


def test_what_is_no_relation_is_said_before_anything_is_drawn(world, tmp_path):
    (tmp_path / "wrong.csv").write_text("yes,plan9,3\n")
    (tmp_path / "short.csv").write_text("yes,linux,1\nyes,2\n")
    (tmp_path / "empty.csv").write_text("dark,os,count\n")
    wrong = {
        "dark_os=zipf:1": "--joint dark_os: must be correlation:NUMBER or csv:FILE, got 'zipf:1'",
        "dark_os=correlation:2": "a correlation must be a number from -1 to 1, got 'correlation:2'",
        "nothing=correlation:0": "--joint must be NAME=RELATION with a pair or a cross: dark_crashes, dark_os,",
        "dark_page=correlation:0": "--joint dark_page: answers must be declared, of flags, choices, histograms",
        f"dark_os=csv:{tmp_path / 'wrong.csv'}": "line 1: os must be one of linux, macos, windows, absent, got 'plan9'",
        f"dark_os=csv:{tmp_path / 'short.csv'}": "line 2: must be an answer, the other answer and a count, got",
        f"dark_os=csv:{tmp_path / 'empty.csv'}": "must count at least one pair, got none",
    }
    for relation, message in wrong.items():
        with pytest.raises(Invalid) as error:
            simulate(world / "metrics.toml", "--installs", "100", "--joint", relation)
        assert message in str(error.value)


@pytest.mark.parametrize("correlation", [-1, -0.5, 0, 0.5, 1])
def test_two_margins_are_coupled_without_changing_either(correlation):
    first, second = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.1, 0.0, 0.3])
    table = coupled(first, second, correlation)
    assert table.sum(axis=1) == pytest.approx(first, abs=1e-6)
    assert table.sum(axis=0) == pytest.approx(second, abs=1e-6)
    covariance = np.arange(3) @ (table - np.outer(first, second)) @ np.arange(4)
    assert np.sign(round(float(covariance), 6)) == np.sign(correlation)
