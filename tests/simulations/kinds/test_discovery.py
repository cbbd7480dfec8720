"""Strings that are discovered, before anything is collected: simulated, planned, audited."""

from __future__ import annotations

from argparse import ArgumentParser
from random import Random

import pytest

from hubbub.analysis.commands.plan import add_plan, run_plan
from hubbub.protocol.kinds import Discovery
from hubbub.protocol.registry import Registry
from hubbub.simulations.audit.run import audit_registry
from hubbub.simulations.kinds.discovery import made_up_name
from hubbub.simulations.people.behaviour import Behaviour
from hubbub.simulations.people.distribution import default_population, parse_population
from hubbub.simulations.simulate.run import Setting, SimulationResult, simulate_clients, simulate_metric
from hubbub.simulations.simulate.scorecard import sentence
from tests.registry_head import head

TERMS = """
kind = "string"
discover = true
alphabet = "host"
why = "To learn"
owner = "us@example.org"
expires = 2090-01-01
every = "week"
max_values = 1
"""


def registry(keys: str) -> Registry:
    return Registry.parse(head("discovered", 100) + f"[metrics.plugin]{TERMS}{keys}")


REGISTRY = registry("max_length = 6\nepsilon_one_report = 2\nepsilon_permanent = 4\n")


def simulated(population: str = "zipf:1,1000", **more: object) -> SimulationResult:
    metric = REGISTRY["plugin"]
    people = parse_population(metric.shape, population)
    return simulate_metric(
        Setting(metric=metric, people=people, behaviour=Behaviour(), installs=200_000, epochs=1, **more), 1
    )  # type: ignore[arg-type]


def test_made_up_names_are_all_different_and_begin_differently() -> None:
    names = [made_up_name(number) for number in range(5_000)]
    assert len(set(names)) == 5_000
    assert len({name[:2] for name in names[:100]}) > 50


def test_a_simulation_counts_the_texts_that_were_not_found() -> None:
    found = simulated()
    assert (found.card.present, found.card.false) == (1_000, 0)
    assert 5 <= found.card.found == 1_000 - found.card.missed
    said = sentence(REGISTRY["plugin"], found.card, found.decoding, found.truth)
    assert said.startswith(f"plugin: you would see {found.card.found} of 1,000 texts")


def test_a_simulation_takes_a_known_list_along() -> None:
    found = simulated(candidates=("bababa", "nobodys"))
    assert "bababa" in found.decoding.values
    assert "nobodys" not in found.decoding.values  # longer than is asked for
    assert found.setting.candidates is not None


def test_real_clients_report_their_beginnings() -> None:
    metric = REGISTRY["plugin"]
    setting = Setting(
        metric=metric, people=default_population(metric.shape), behaviour=Behaviour(), installs=10, epochs=1
    )
    (found,) = simulate_clients(REGISTRY, [setting], 1)
    assert found.decoding.num_reports == 10


def test_a_plan_says_what_share_is_visible_and_what_a_list_would_see(capsys: pytest.CaptureFixture[str]) -> None:
    parser = ArgumentParser()
    add_plan(parser)
    options = ["--kind", "discovery", "--installs", "1e6", "--epsilon", "4", "--permanent", "4"]
    assert run_plan(parser.parse_args(options)) == 0
    said = capsys.readouterr().out
    assert "answers above 0.46 % of installs" in said
    assert "each with one in 10 of all installs. A list of all texts would see shares 3.2 times smaller." in said
    assert run_plan(parser.parse_args([*options, "--toml"])) == 0
    shape = Registry.parse(head("planned", 100) + capsys.readouterr().out)["planned"].shape
    assert isinstance(shape, Discovery)
    assert shape.num_bits == 256
    assert run_plan(parser.parse_args([*options, "--num-bits", "128", "--max-length", "64"])) == 0
    said = capsys.readouterr().out
    assert "64 bytes make many levels: with a max_length of 18 shares 1.8 times smaller would be seen" in said


@pytest.mark.proof
def test_the_audit_finds_no_more_than_is_claimed() -> None:
    small = registry(
        "max_length = 4\nstep = 2\nnum_bits = 8\nnum_groups = 2\nepsilon_one_report = 1\nepsilon_permanent = 2\n"
    )
    found = audit_registry(small, trials=20_000, random=Random(1).randbytes)
    assert found.failures == []
