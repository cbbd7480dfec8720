"""A sweep and a simulation of single reports give the same digits on every engine, also where a worker is killed."""

from __future__ import annotations

import json
from contextlib import closing

import numpy as np
import pytest

from hubbub.analysis.engines.engine import engine_from
from hubbub.protocol.registry import Registry
from hubbub.simulations.people.behaviour import Behaviour
from hubbub.simulations.people.distribution import default_population
from hubbub.simulations.people.histories import draw_histories
from hubbub.simulations.simulate import reports
from hubbub.simulations.simulate.reports import report_tally
from hubbub.simulations.sweep.run import Point, grid, run
from tests.analysis.engines.clusters import dask
from tests.analysis.engines.work import Killing
from tests.registry_head import head
from tests.simulations.command import hubbub

POINTS = grid(
    Point(kind="flag", epsilon=1.0, permanent=2.0, installs=1000, repeats=1),
    {"epsilon": [1, 2], "installs": [1e3, 1e4]},
)
TERMS = 'why = "w"\nowner = "o"\nexpires = 2099-01-01\nevery = "day"\nepsilon_one_report = 1\nepsilon_permanent = 3\n'
STRING = 'kind = "string"\nnum_bits = 16\nnum_hashes = 2\nnum_cohorts = 8\nmax_values = 2'
SOURCE = head("t", 200) + f"[metrics.page]\n{TERMS}{STRING}\n[metrics.dark]\n{TERMS}kind = 'flag'\nmax_values = 2\n"
REGISTRY = Registry.parse(SOURCE)


def drawn(name, engine=None, told=lambda share: None):
    metric, rng = REGISTRY[name], np.random.default_rng(5)
    habits = Behaviour(change=0.2, away=0.1)
    histories = draw_histories(default_population(metric.shape), habits, 3000, 3, rng)
    found = report_tally(metric, histories, [700, 701, 702], rng, told, engine)
    return found.tally, found.stale


def test_processes_and_a_cluster_that_loses_a_worker_give_the_same_digits(tmp_path):
    sweep, simulated = list(run(POINTS, engine_from("local:1"), None)), drawn("page")
    told: list[float] = []
    with closing(engine_from("local:2")) as local:
        assert list(run(POINTS, Killing(local, tmp_path / "sweep", at=1), None)) == sweep
        assert drawn("page", Killing(local, tmp_path / "simulate", at=1), told.append) == simulated
    assert told == [number / 8 for number in range(1, 9)]
    with dask(tmp_path, workers=2) as address, closing(engine_from(address)) as cluster:
        assert drawn("page", cluster) == simulated
        assert list(run(POINTS, Killing(cluster, tmp_path / "far", at=1), None)) == sweep
    assert {path.name for path in tmp_path.iterdir()} >= {"sweep", "simulate", "far"}


@pytest.mark.parametrize("name", ["page", "dark"])
def test_portions_hold_every_install_once_whatever_their_size(name, monkeypatch):
    monkeypatch.setattr(reports, "CELLS", 1 << 10)
    monkeypatch.setattr(reports, "_BLOCKS_AT_ONCE", 2)
    told: list[float] = []
    tally, _ = drawn(name, told=told.append)
    assert len(told) > 4
    whole, _ = drawn_in_one(name, monkeypatch)
    assert {epoch: sum(c.num_reports) for epoch, c in tally.epochs.items()} == {
        epoch: sum(c.num_reports) for epoch, c in whole.epochs.items()
    }


def drawn_in_one(name, monkeypatch):
    monkeypatch.setattr(reports, "_BLOCKS_AT_ONCE", 1 << 20)
    return drawn(name)


def test_the_commands_take_an_engine(tmp_path):
    (tmp_path / "metrics.toml").write_text(SOURCE)
    words = ["simulate", str(tmp_path / "metrics.toml"), "--installs", "2000", "--way", "reports", "--json"]
    alone, spread = hubbub(*words), hubbub(*words, "--engine", "local:2")
    assert spread.returncode == 0, spread.stderr
    assert json.loads(spread.stdout) == json.loads(alone.stdout)
    refused = hubbub(*words, "--engine", "tcp://nowhere")
    assert (refused.returncode, "engine must be local, local:N" in refused.stderr) == (2, True)
    refused = hubbub("simulate", str(tmp_path / "metrics.toml"), "--way", "tallies", "--engine", "local")
    assert "--engine draws single reports; with --way tallies it has nothing to do" in refused.stderr
    refused = hubbub("sweep", "--kind", "flag", "--processes", "2", "--engine", "local")
    assert "--processes N is --engine local:N: give one of them" in refused.stderr
