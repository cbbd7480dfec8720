"""`hubbub plan`, as people call it."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path

import pytest

from hubbub.analysis.commands.plan import add_plan, run_plan
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.registry import Registry
from tests.registry_head import head

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "metrics.toml"


def run(*arguments: str) -> int:
    parser = ArgumentParser()
    add_plan(parser)
    return run_plan(parser.parse_args(arguments))


def test_the_command_says_what_is_needed(capsys) -> None:
    assert run("--kind", "choice", "--num-choices", "1000", "--share", "0.1%", "--epsilon", "2") == 0
    assert "you need 16.2 M reports" in capsys.readouterr().out
    assert run("--kind", "choice", "--num-choices", "1000", "--installs", "50000", "--epsilon", "2") == 0
    assert "you will see answers above 1.8 % of installs" in capsys.readouterr().out


def test_the_table_holds_what_single_questions_answer(capsys) -> None:
    assert run("--kind", "flag", "--table", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == 12
    for row in rows:
        asked = ("--share", str(row["share"]), "--epsilon", str(row["epsilon_one_report"]))
        assert run("--kind", "flag", *asked, "--json") == 0
        assert json.loads(capsys.readouterr().out)["answer"] == row["installs"]
    assert run("--kind", "flag", "--table", "--consent", "0.5") == 0
    assert "How many installs, of which 50 % agree," in capsys.readouterr().out


def test_the_command_compares_with_rappor_and_advises_slots(capsys) -> None:
    assert run("--installs", "1e6", "--share", "1%", "--strings", "1000", "--change-rate", "0.02") == 0
    printed = capsys.readouterr().out
    assert "num_cohorts = 512, for 1,000 strings" in printed
    assert "RAPPOR at the same epsilons" in printed
    assert "max_values = 6 (lifetime epsilon 12, between histories that change together)" in printed
    assert "--history EPSILON plans that" in printed


def test_the_command_says_no_and_what_would_change_it(capsys) -> None:
    assert run("--installs", "1000", "--share", "0.01%") == 1
    printed = capsys.readouterr().out
    assert printed.startswith("No: no epsilon up to 16")
    assert "What would change it" in printed


@pytest.mark.parametrize("kind", ["flag", "choice", "string", "mean", "histogram", "range", "set", "cross"])
def test_the_command_writes_metrics_that_load(kind: str, capsys) -> None:
    assert run("--kind", kind, "--installs", "1e6", "--share", "2%", "--toml") == 0
    registry = Registry.parse(head("planned", 1000) + capsys.readouterr().out)
    assert registry["planned"].kind == kind


def test_a_plan_of_a_set_asks_about_as_many_items_as_show_most(capsys) -> None:
    """And says how many that is."""
    forty = ("--kind", "set", "--num-items", "40", "--installs", "100000", "--epsilon", "2")
    assert run(*forty) == 0
    printed = capsys.readouterr().out
    assert "you will see answers above 3.4 % of installs" in printed
    assert "items_per_report = 1: an install is asked about 1 of the 40 items" in printed
    few = ("--kind", "set", "--installs", "60", "--epsilon", "8", "--json")
    assert run(*few) == 0
    best = json.loads(capsys.readouterr().out)["answer"]
    answers = []
    for number in range(1, 9):
        run(*few, "--items-per-report", str(number))
        answers.append(json.loads(capsys.readouterr().out)["answer"] or 1.0)
    assert best == min(answers) < max(answers)


def test_what_is_asked_once_is_planned_with_the_noise_it_will_have(capsys) -> None:
    asked = ("--kind", "choice", "--num-choices", "16", "--once", "--installs", "1e5", "--epsilon", "1")
    assert run(*asked) == 0
    assert "Noise: 4 categories of 16: the true one is among them with 0.475" in capsys.readouterr().out
    assert run(*asked, "--toml") == 0
    metric = Registry.parse(head("planned", 10) + capsys.readouterr().out)["planned"]
    assert (metric.every, metric.weight, metric.max_values) == ("once", 4, 1)


def test_the_command_draws_a_picture(tmp_path) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    path = tmp_path / "plan.svg"
    assert run("--kind", "flag", "--installs", "1e5", "--epsilon", "1", "--chart", str(path)) == 0
    drawn = path.read_text(encoding="utf-8")
    assert "smallest share seen" in drawn
    assert "epsilon 0.5" in drawn


def test_the_command_plans_a_registry(capsys) -> None:
    assert run(str(EXAMPLE), "--installs", "1e6", "--consent", "0.3", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["metric"] for row in found["metrics"]] == list(Registry.load(EXAMPLE).metrics)
    assert run(str(EXAMPLE), "--lifetime", "30") == 0
    assert "lifetime_epsilon = 30" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--epsilon", "2"), "leave out exactly one"),
        (("--installs", "9", "--share", "0.1", "--epsilon", "1", "--power", "0.5"), "none is left out"),
        (("--installs", "0", "--epsilon", "1"), r"installs must be in \[1, 1e\+12\], got 0"),
        (("--installs", "9", "--epsilon", "99"), r"epsilon_one_report must be in \[0.01, 16\], got 99"),
        (("--installs", "9", "--epsilon", "1", "--share", "2"), "share must be above 0 and below 1, got 2"),
        (("--installs", "9", "--epsilon", "3", "--permanent", "2"), "at most epsilon_permanent=2, got 3"),
        (("--installs", "9", "--epsilon", "1", "--num-cohorts", "16", "--strings", "1024"), "strings must be below"),
        (("--kind", "flag", "--installs", "9", "--epsilon", "1", "--values", "3"), "of a flag every row is tested"),
        (("--table", "--share", "0.1"), "--table is over shares and epsilons, got --share too"),
        (("--lifetime", "30"), "--lifetime needs a METRICS.TOML"),
        ((str(EXAMPLE),), "give --installs"),
        (("--installs", "9", "--epsilon", "1", "--once", "--change-rate", "0.1"), "left out with --once, got 0.1"),
        (("--installs", "1e6", "--epsilon", "1", "--change-rate", "3"), r"change-rate must be in \[0, 1\], got 3"),
    ],
)
def test_wrong_use_is_answered_in_words(arguments, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        run(*arguments)


def test_no_more_values_are_advised_than_a_kind_has(capsys) -> None:
    assert run("--kind", "flag", "--installs", "1e6", "--share", "1%", "--change-rate", "0.02") == 0
    assert "max_values = 2 (lifetime epsilon" in capsys.readouterr().out


def test_a_plan_of_a_registry_says_where_more_slots_would_give_more_points(tmp_path, capsys) -> None:
    path = tmp_path / "metrics.toml"
    terms = (
        'why = "w"\nowner = "o"\nexpires = 2099-01-01\nevery = "day"\nepsilon_one_report = 4\nepsilon_permanent = 4\n'
    )
    keys = 'kind = "mean"\nlow = 0\nhigh = 1\nabsent = 0\n'
    path.write_text(head("planned", 1000) + f"[metrics.time]\n{terms}{keys}max_values = 2\n")
    assert run(str(path), "--installs", "1e5") == 0
    (said,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning")]
    assert said.startswith(
        "warning: [metrics.time] max_values is 2 and so points 2: max_values = 5 gives as many points"
    )


@pytest.mark.parametrize("installs", ["100,000", "100_000", "1e5"])
def test_installs_may_be_grouped(installs: str, capsys) -> None:
    assert run("--kind", "flag", "--installs", "100000", "--epsilon", "1") == 0
    plain = capsys.readouterr().out
    assert run("--kind", "flag", "--installs", installs, "--epsilon", "1") == 0
    assert capsys.readouterr().out == plain


@pytest.mark.parametrize("installs", ["10,00", "many", "1,0000", ",100"])
def test_installs_that_are_no_number_are_refused_in_words(installs: str, capsys) -> None:
    with pytest.raises(SystemExit):
        run("--kind", "flag", "--installs", installs, "--epsilon", "1")
    assert (
        f"--installs: must be a whole number such as 100000, 100,000 or 1e5, got {installs!r}"
        in capsys.readouterr().err
    )


TOO_MANY = ("--kind", "string", "--strings", "20", "--values", "50000")


def test_candidates_that_cannot_be_estimated_together_are_warned_of_whatever_is_printed(tmp_path, capsys) -> None:
    """A plan of them promises more than decode will see, and a script reads no words."""
    warned = "50,000 candidates are too many for 1,024 cells (num_bits x num_cohorts)"
    one = (*TOO_MANY, "--installs", "1e5", "--epsilon", "2")
    for asked in (one, (*TOO_MANY, "--table")):
        run(*asked)
        assert f"\nwarning: {warned}" in capsys.readouterr().out
        run(*asked, "--json")
        (warning,) = json.loads(capsys.readouterr().out)["warnings"]
        assert warning.startswith(warned)
    run(*one, "--toml")
    planned = capsys.readouterr().out
    assert f"# warning: {warned}" in planned
    (tmp_path / "metrics.toml").write_text(head("planned", 1000) + planned)
    registry = (str(tmp_path / "metrics.toml"), "--installs", "1e5", "--strings", "20", "--values", "50000")
    run(*registry)
    assert f"\nwarning: [metrics.planned] {warned}" in capsys.readouterr().out
    run(*registry, "--json")
    (metric,) = json.loads(capsys.readouterr().out)["metrics"]
    assert metric["warnings"] == [warning]


def test_a_plan_of_few_candidates_warns_of_nothing(capsys) -> None:
    run("--kind", "string", "--strings", "20", "--installs", "1e5", "--epsilon", "2")
    assert "warning" not in capsys.readouterr().out
    run("--kind", "flag", "--table", "--json")
    assert json.loads(capsys.readouterr().out)["warnings"] == []
