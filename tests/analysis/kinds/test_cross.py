"""Crosses decoded: cells by name, exact on clear tallies, intervals that cover, errors as the plan foretells them."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from hubbub.analysis import Options, decode
from hubbub.analysis.kinds.cross import CROSS
from hubbub.analysis.planning.plan import Plan
from hubbub.command.main import main
from hubbub.protocol.channel import AS_IT_IS, BitChannel, KaryChannel, Noise
from hubbub.protocol.kinds import Choice, Cross, Flag, Histogram, Mean
from hubbub.protocol.metric import Definition
from hubbub.protocol.shape import Factor
from hubbub.protocol.tally_files import write_tally
from tests.analysis.worlds import define, tally_of
from tests.chance import assert_binomial, power

F = Fraction
OS = Factor(name="os", shape=Choice(choices=("linux", "macos"), absent=None))
CRASHED = Factor(name="crashed", shape=Flag())
SHAPE = Cross(factors=(OS, CRASHED))
HELD = np.array([300, 100, 250, 50, 200, 100])
POPULATIONS = 250


def clear(shape: Cross, name: str = "asked") -> Definition:
    """All but without noise: counts are the truth."""
    units = F(1, 1 << 24)
    return Definition(name=name, every="week", shape=shape, noise=Noise(BitChannel(1 - units, units), AS_IT_IS))


def test_each_cell_has_a_row_by_its_name() -> None:
    found = decode(tally_of(clear(SHAPE), HELD, np.random.default_rng(1)))
    assert found.kind == "cross"
    assert found.values == SHAPE.answers
    assert set(found.roles) == {"answer"}
    assert found.estimate == pytest.approx(HELD / 1000, abs=1e-6)
    assert found.notes == ("Of crashed, an install that recorded nothing counts as no.",)


def test_a_cross_that_was_named_the_other_way_round_is_the_same_cells() -> None:
    """Two definitions of one metric, one of them after an upgrade: counts of both are put together by what a cell is,
    and a category that only one has is a row as well."""
    rng = np.random.default_rng(2)
    more = Factor(name="os", shape=Choice(choices=("macos", "linux", "bsd"), absent=None))
    turned = Cross(factors=(CRASHED, more))
    of = {"linux": (300, 100), "macos": (250, 50), "bsd": (0, 0), "absent": (200, 100)}
    other = [of[system][crashed] for crashed in (0, 1) for system in more.categories]
    found = decode([tally_of(clear(SHAPE), HELD, rng), tally_of(clear(turned), other, rng, epochs=(1,))])
    assert found.values == (*SHAPE.answers, "no · bsd", "yes · bsd")
    assert found.estimate == pytest.approx([*HELD / 1000, 0, 0], abs=1e-6)
    assert found.num_reports == 2000


def test_what_silence_counts_as_and_what_is_rounded_is_said() -> None:
    left = Factor(name="side", shape=Choice(choices=("left", "right"), absent="left"))
    start = Factor(name="start", shape=Mean(low=F(0), high=F(4), absent=F(1), points=3))
    size = Factor(name="size", shape=Histogram(edges=(F(0), F(1), F(2)), buckets_per_report=1), accumulate="sum")
    found = decode(tally_of(clear(Cross(factors=(left, start))), [10] * 6, np.random.default_rng(3)))
    assert found.values[:3] == ("left · 0", "left · 2", "left · 4")
    assert found.notes == (
        "Of side, an install that recorded nothing counts as left.",
        "Of start, an install that recorded nothing counts as 1.",
        "start is rounded by chance to one of 3 points.",
    )
    found = decode(tally_of(clear(Cross(factors=(size, OS))), [10] * 6, np.random.default_rng(3)))
    assert (found.values[0], found.notes) == ("0 to 1 · linux", ())


@pytest.mark.parametrize("way", ["k-ary", "bits"])
def test_intervals_cover_and_errors_are_those_of_samples(way: str) -> None:
    """Six cells of 250 populations: how many of 1,500 intervals hold the truth is nearly binomial, for the cells of one
    population hardly depend on each other; 90 % instead of 95 would show. The variance is that of the plan."""
    wide = Factor(name="wide", shape=Choice(choices=tuple(map(str, range(20))), absent="0"))
    shape = SHAPE if way == "k-ary" else Cross(factors=(OS, wide))
    metric = define(shape, "1", "2")
    assert isinstance(metric.noise.permanent, KaryChannel) == (way == "k-ary")
    held = np.zeros(shape.categories, dtype=int)
    held[:6] = 10 * HELD
    rng = np.random.default_rng(len(way))
    found = [decode(tally_of(metric, held, rng), options=Options(estimand="reporting")) for _ in range(POPULATIONS)]
    truth = held[:6] / held.sum()
    inside = sum(int(((d.low[:6] <= truth) & (truth <= d.high[:6])).sum()) for d in found)
    assert_binomial(inside, 6 * POPULATIONS, 0.95)
    assert power(6 * POPULATIONS, 0.95, 0.9) > 0.99
    plan = Plan(
        shape=shape, epsilon_one_report=F(1), epsilon_permanent=F(2), installs=float(held.sum()), share=truth[0]
    )
    spread = np.std([d.estimate[0] for d in found])
    # A deviation over 250 populations is known to a fraction 1 / sqrt(500); five of them are one false alarm in 10**6.
    assert spread == pytest.approx(plan.std_error(), rel=5 / np.sqrt(500))


def test_a_cell_has_far_less_error_than_two_reports_put_together() -> None:
    """The reason for a cross: one report at epsilon 2, against the product of two reports at epsilon 1 each, from which
    a cell could be estimated as well. Its variance is more than 2.5 times smaller."""
    cross = define(SHAPE, "2", "2").noise
    q, p = float(cross.q_star), float(cross.p_star)
    ours = CROSS.unit_variance(SHAPE, cross, 1 / 6, 0)
    assert ours == pytest.approx(p * (1 - p) / (q - p) ** 2 + (1 - p - q) / (q - p) / 6)
    singles = [define(factor.shape, "1", "1").noise for factor in SHAPE.factors]
    # E[u**2 v**2] for independent reports of both, less J**2; u = (y - p)/(q - p) has E[u**2 | held or not].
    squares = []
    for noise, share in zip(singles, (1 / 3, 1 / 2), strict=True):
        q, p = float(noise.q_star), float(noise.p_star)
        moment = [(x * (1 - p) ** 2 + (1 - x) * p**2) / (q - p) ** 2 for x in (q, p)]
        squares.append(share * moment[0] + (1 - share) * moment[1])
    pairs = squares[0] * squares[1] - 1 / 36
    assert pairs / ours > 2.5


@pytest.mark.parametrize(("rows", "columns", "variance"), [(2, 2, 0.496), (4, 4, 0.720), (8, 8, 0.755), (4, 4, 0.099)])
def test_the_variance_of_a_cell_is_that_of_the_published_table(rows: int, columns: int, variance: float) -> None:
    """n Var of a cell of a uniform table at the whole of two budgets, 2 (the last: 4), as far as it is printed."""
    epsilon = F(4) if variance < 0.1 else F(2)
    shape = CROSS.planned({"num_rows": rows, "num_columns": columns}, 0)
    noise = shape.best_noise(epsilon, epsilon)
    cells = rows * columns
    # Of a sample from a population: what the sampling adds is no error about those who reported.
    found = CROSS.unit_variance(shape, noise, 1 / cells, 0) + 1 / cells * (1 - 1 / cells)
    assert found == pytest.approx(variance, abs=0.003)


def test_the_command_decodes_and_plans_it(tmp_path, capsys) -> None:
    path = tmp_path / "asked.json"
    write_tally(tally_of(define(SHAPE, "4", "8"), 100 * HELD, np.random.default_rng(4)), path)
    assert main(["decode", str(path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert "linux · no" in json.dumps(rows, ensure_ascii=False)
    asked = ["plan", "--kind", "cross", "--num-rows", "3", "--num-columns", "2", "--installs", "1e5", "--epsilon", "2"]
    assert main([*asked, "--json"]) == 0
    plan = Plan(
        shape=CROSS.planned({"num_rows": 3, "num_columns": 2}, 0),
        epsilon_one_report=F(2),
        epsilon_permanent=F(4),
        installs=1e5,
    )
    assert plan.rule.tests == 6
    assert json.loads(capsys.readouterr().out)["answer"] > 0
