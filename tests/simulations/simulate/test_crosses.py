"""`hubbub simulate` of a registry with a cross: by tallies, by single reports and by real clients."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import numpy as np
import pytest

from hubbub.command.main import main
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import by_short_hash
from hubbub.protocol.tally import Tally, count
from hubbub.protocol.wire import unpack
from hubbub.simulations.fleet import FleetRun, run_member
from hubbub.simulations.people.behaviour import Behaviour
from hubbub.simulations.people.distribution import default_population
from hubbub.simulations.people.histories import Histories, InstallCrowd
from hubbub.simulations.pretend_machine import keep_in
from hubbub.simulations.simulate import run
from hubbub.simulations.simulate.clients import first_moment
from hubbub.simulations.simulate.run import Setting, simulate_clients, simulate_metric
from tests.registry_head import head

TERMS = (
    'why = "w"\nowner = "o"\nexpires = 2099-01-01\nevery = "day"\nepsilon_one_report = 4\nepsilon_permanent = 8\n'
    "max_values = 2\ngrace = 5\n"
)
TABLES = {
    "both": 'kind = "cross"\nof = ["os", "start"]',
    "os": 'kind = "choice"\nchoices = ["linux", "macos"]',
    "start": 'kind = "mean"\nlow = 0\nhigh = 10\nabsent = 0\npoints = 3',
}
SOURCE = head("crossed", 200) + "".join(f"[metrics.{name}]\n{TERMS}{keys}\n" for name, keys in TABLES.items())
REGISTRY = Registry.parse(SOURCE)
MOVING = Behaviour(change=0.1, absent=0.1)


def setting(name: str, installs: int, epochs: int = 2, own: bool = False) -> Setting:
    metric = REGISTRY[name]
    of = () if own else tuple(setting(factor.name, installs, epochs) for factor in metric.shape.factors)
    people = default_population(metric.shape)
    return Setting(metric=metric, people=people, behaviour=MOVING, installs=installs, epochs=epochs, of=of)


@pytest.mark.parametrize("way", ["tallies", "reports"])
def test_the_cells_that_are_seen_are_those_that_people_have(way: str) -> None:
    found = simulate_metric(setting("both", 20_000), 1, way)
    assert found.way == way
    assert found.decoding.values == REGISTRY["both"].shape.answers
    assert found.truth.sum() == pytest.approx(1)
    # Six standard deviations of each of nine cells: one false alarm in 10**7.
    assert (np.abs(found.decoding.estimate - found.truth) < 6 * found.decoding.std_error).all()
    assert found.card.found >= 6


def in_this_process(source: str, histories: dict[str, Histories], *, now: float, **_: object) -> dict[str, Tally]:
    """In place of a collector and a pool: the real client, from `record` to the bytes of its messages."""
    crowd, registry = InstallCrowd(histories), Registry.parse(source)
    epochs = next(iter(histories.values())).num_epochs
    start = first_moment("day", epochs, now)
    fleet = FleetRun(source=source, endpoint="http://127.0.0.1:9", start=start, make_crowd=lambda: crowd)
    messages: list[bytes] = []
    for install in range(crowd.installs):
        random = Random(install).randbytes
        run_member(registry, fleet, crowd.of_install(install), post=keep_in(messages), random=random)
    known = by_short_hash(registry.in_all_segments())
    reports = [report for body in messages for report in unpack(body, known).reports]
    return {m.name: count(m, [report for report in reports if report.metric.name == m.name]) for m in registry}


def test_real_clients_find_it_from_what_their_people_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "client_tallies", in_this_process)
    settings = [setting(name, 40) for name in REGISTRY.metrics]
    found = {result.setting.metric.name: result for result in simulate_clients(REGISTRY, settings, 1)}
    assert found["both"].tally.num_reports == found["os"].tally.num_reports == 80
    both, alone = found["both"].truth.reshape(3, 3), found["os"].truth
    assert both.sum(axis=1) == pytest.approx(alone)  # of each system as many as recorded it
    error = np.abs(found["both"].decoding.estimate - found["both"].truth)
    assert (error < 6 * found["both"].decoding.std_error + 0.05).all()  # the dithers of 40 clients are not known here


def test_real_clients_have_no_population_of_a_cross_of_its_own() -> None:
    settings = [setting("both", 40, own=True), setting("os", 40), setting("start", 40)]
    with pytest.raises(Invalid, match="both: real clients find it from os and start, got a population of its own"):
        simulate_clients(REGISTRY, settings, 1)


def test_the_command_says_whose_answers_it_follows_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Factors that are not asked for themselves can be given people; so can the cross, by its combinations."""
    toml, pairs = tmp_path / "metrics.toml", tmp_path / "pairs.csv"
    toml.write_text(SOURCE)
    pairs.write_text("linux · 0,70\nmacos · 10,30\n", encoding="utf-8")
    options = ["simulate", str(toml), "--installs", "1e5", "--metric", "both"]
    assert main([*options, "--population", "os=uniform", "--population", "start=uniform:0,1"]) == 0
    said = "  both: os: 2 values, all alike, with start: uniform from 0 to 1"
    assert said in capsys.readouterr().out
    assert main([*options, "--population", f"both=csv:{pairs}", "--json"]) == 0
    (card,) = json.loads(capsys.readouterr().out)["metrics"]
    assert {row["value"]: row["truth"] for row in card["rows"] if row["truth"]} == pytest.approx(
        {"linux · 0": 0.7, "macos · 10": 0.3}, abs=0.01
    )
    pairs.write_text("vms · 0,70\n", encoding="utf-8")
    assert main([*options, "--population", f"both=csv:{pairs}"]) == 2
    assert "pairs.csv, line 1: the value must be" in capsys.readouterr().err
