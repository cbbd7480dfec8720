"""Plans of answers that change: the best number of them, and an epoch, a period and a change as `decode` finds them."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from hubbub.analysis import decode
from hubbub.analysis.planning.history_plans import best_history_plan, of_epoch, of_period
from hubbub.analysis.planning.plan import Plan
from hubbub.command.main import main
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Flag, String
from hubbub.protocol.metric import Definition
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally import Tally
from hubbub.simulations.people.histories import Histories
from hubbub.simulations.simulate.exact import history_tally

FOUR = Fraction(4)
FLAG = Plan(shape=Flag(), epsilon_one_report=FOUR, epsilon_permanent=FOUR, installs=20_000, share=0.3)


def test_a_year_of_a_flag_is_that_of_the_formulas() -> None:
    """n Var of a week and of 13 of them together, epsilon 4 in all: hold V + f (1 - f)(hold - 1), and V."""
    plan = best_history_plan(FLAG, 52, 13, ())
    assert plan.noise.history is not None
    assert (plan.noise.history.hold, plan.noise.history.answers) == (13, 4)
    assert 20_000 * of_epoch(plan).std_error ** 2 == pytest.approx(4.75, abs=0.005)
    assert 20_000 * of_period(plan).std_error ** 2 == pytest.approx(0.172, abs=0.0005)
    assert of_epoch(plan).change == pytest.approx(2.80159 * sqrt(2) * of_epoch(plan).std_error, rel=1e-5)


@pytest.mark.parametrize("shape", [Flag(), Choice(choices=tuple("abcdefg"))], ids=["flag", "choice"])
def test_the_number_of_answers_has_the_least_error_of_an_epoch(shape) -> None:
    plan = replace(FLAG, shape=shape, share=0.1)
    best = best_history_plan(plan, 52, None, ())
    all_of_them = [best_history_plan(plan, 52, -(-52 // answers), ()) for answers in range(1, 11)]
    assert best.std_error() == min(each.std_error() for each in all_of_them)
    history = best.noise.history
    assert history is not None
    assert 52 <= history.hold * history.answers < 52 + history.hold, "the whole life is asked about, and no more"


@pytest.mark.parametrize("choices", [3, 40])
def test_decode_finds_the_errors_that_were_planned(choices: int) -> None:
    shape = Choice(choices=tuple(f"c{i}" for i in range(choices)))
    plan = best_history_plan(replace(FLAG, shape=shape, installs=200_000, share=0.2), 12, 4, ())
    metric = Definition(name="m", every="week", shape=shape, noise=plan.noise)
    epochs, rng = range(400, 404), np.random.default_rng(choices)
    people = Histories(("c0", "c1"), np.repeat([[0], [1]], 4, axis=1), np.array([40_000, 160_000]))
    tally = history_tally(metric, people, epochs, rng)
    period, epoch = decode(tally), decode(Tally(metric, {400: tally.epochs[400]}))
    assert epoch.std_error[0] == pytest.approx(of_epoch(plan).std_error, rel=0.03)
    assert period.std_error[0] == pytest.approx(of_period(plan).std_error, rel=0.03)
    assert epoch.noise_floor == pytest.approx(of_epoch(plan).line, rel=0.05)


@pytest.mark.parametrize(
    ("changes", "life", "hold", "problem"),
    [
        ({"shape": String(num_bits=64, num_hashes=2, num_cohorts=4)}, 52, None, "num_hashes must be 1"),
        ({}, 0, None, "life must be at least 1 epoch, got 0"),
        ({}, 52, 53, r"hold must be in \[1, 52\], the epochs of a life at most, got 53"),
        ({}, 52, 0, r"hold must be in \[1, 52\]"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_words(changes, life, hold, problem) -> None:
    with pytest.raises(Invalid, match=problem):
        best_history_plan(replace(FLAG, **changes), life, hold, ())


def test_the_command_says_what_an_epoch_a_period_and_a_change_show(capsys) -> None:
    asked = ["plan", "--kind", "flag", "--history", "4", "--life", "52", "--hold", "13", "--installs", "20000"]
    assert main([*asked, "--share", "30%"]) == 0
    said = capsys.readouterr().out
    assert "at epsilon 4 for a whole history" in said
    assert "hold = 13, max_values = 4, epsilon_history = 4: an install is asked in one epoch out of 13" in said
    assert "One epoch: standard error 1.5 %" in said
    assert "13 epochs together: standard error 0.29 %" in said
    assert main([*asked, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["hold"], facts["max_values"], facts["epsilon_history"]) == (13, 4, 4.0)
    assert facts["epoch"]["std_error"] > 3 * facts["period"]["std_error"]


def test_the_planned_metric_is_one_that_a_registry_takes(capsys, tmp_path) -> None:
    assert main(["plan", "--kind", "mean", "--history", "4", "--life", "52", "--installs", "1e5", "--toml"]) == 0
    path = tmp_path / "metrics.toml"
    path.write_text(
        'app = "org.example"\nlifetime_epsilon = 50\n'
        'recipient = { name = "E", url = "https://telemetry.example.org" }\n' + capsys.readouterr().out
    )
    assert Registry.load(path)["planned"].noise.history is not None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--hold", "13", "--epsilon", "1"], "--hold needs --history"),
        (["--history", "4", "--epsilon", "1"], "--epsilon must be left out with --history"),
        (["--history", "4", "--change-rate", "1%"], "--change-rate must be left out with --history"),
        (["--history", "4", "--once"], "--once must be left out with --history"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, problem, capsys) -> None:
    assert main(["plan", "--kind", "flag", "--installs", "1000", *options]) == 2
    assert problem in capsys.readouterr().err
