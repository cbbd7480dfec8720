"""Plans of two answers at once keep their promise, and say no where the answer is no."""

from __future__ import annotations

from argparse import ArgumentParser
from fractions import Fraction

import numpy as np
import pytest

from hubbub.analysis import Options, crosstab, decode
from hubbub.analysis.commands.plan import add_plan, run_plan
from hubbub.analysis.estimation.joint_intervals import Contrast
from hubbub.analysis.planning.crosstab_plan import CrosstabPlan, noise_of
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Cross
from hubbub.protocol.metric import Definition
from hubbub.protocol.shape import Factor
from hubbub.simulations import sample_tally
from tests.analysis.joint_worlds import choice, drawn, pair_of
from tests.chance import binomial_bounds, power

POPULATIONS = 120
POPULATION = Options(estimand="population")


def plan(*arguments: str) -> int:
    parser = ArgumentParser()
    add_plan(parser)
    return run_plan(parser.parse_args(arguments))


def table_with(difference: float) -> np.ndarray:
    """Two groups of the same size whose answers differ by so much, around one half."""
    return np.array([[0.5 + difference / 2, 0.5 - difference / 2], [0.5 - difference / 2, 0.5 + difference / 2]]) / 2


def assert_as_likely_as_planned(found: list[Contrast]) -> None:
    seen = sum(abs(each.difference) > 1.96 * each.std_error for each in found)
    low, high = binomial_bounds(POPULATIONS, 0.8)
    assert low <= seen <= high
    assert power(POPULATIONS, 0.8, 0.5) > 0.95  # a plan that promised twice too few would give about 0.51


def test_a_pair_shows_the_planned_difference_with_the_planned_power() -> None:
    planned = CrosstabPlan(groups=2, answers=2, epsilon=Fraction(4), difference=0.1)
    installs, rng = int(planned.ways["pair"] or 0), np.random.default_rng(1)
    found = []
    for _ in range(POPULATIONS):
        cells = rng.multinomial(installs, table_with(0.1).ravel()).reshape(2, 2)
        clearest = decode(drawn(pair_of(2, 2, 2), cells, rng), options=POPULATION).given[0].clearest
        assert clearest is not None
        found.append(clearest.contrast)
    assert_as_likely_as_planned(found)


def test_a_cross_shows_the_planned_difference_with_the_planned_power() -> None:
    planned = CrosstabPlan(groups=2, answers=2, epsilon=Fraction(2), difference=0.1)
    installs, rng = int(planned.ways["cross"] or 0), np.random.default_rng(2)
    shape = Cross(factors=(Factor(name="one", shape=choice(2)), Factor(name="other", shape=choice(2))))
    asked = Definition(name="both", every="week", shape=shape, noise=noise_of(Fraction(2), 4))
    found = []
    for _ in range(POPULATIONS):
        cells = rng.multinomial(installs, table_with(0.1).ravel())
        clearest = crosstab(sample_tally(asked, [installs], [cells], rng), options=POPULATION).given[0].clearest
        assert clearest is not None
        found.append(clearest.contrast)
    assert_as_likely_as_planned(found)


def test_a_segment_is_best_then_a_cross_then_a_pair() -> None:
    for groups, answers, epsilon in ((2, 2, 1), (3, 5, 2), (8, 8, 4)):
        ways = CrosstabPlan(groups=groups, answers=answers, epsilon=Fraction(epsilon)).ways
        assert ways["segment"] < ways["cross"] < ways["pair"]


def test_the_command_says_which_way_and_how_many(capsys) -> None:
    assert plan("--crosstab", "3x2", "--epsilon", "2", "--difference", "5%") == 0
    out = capsys.readouterr().out
    assert "segment  the group is a public fact of the build" in out
    assert "one question of 6 cells, epsilon 2" in out
    assert "two questions, counted together, epsilon 1 each" in out
    assert plan("--crosstab", "3x2", "--epsilon", "2", "--json") == 0


def test_it_says_no_when_the_answer_is_no(capsys) -> None:
    assert plan("--crosstab", "20x20", "--epsilon", "2", "--installs", "50000") == 1
    out = capsys.readouterr().out
    assert "too many cells" in out
    assert "No: 50,000 installs are too few for each of the three." in out
    assert plan("--crosstab", "20x20", "--epsilon", "2", "--installs", "1e6") == 0
    assert "So the answer is no, unless the group is a public fact of the build." in capsys.readouterr().out


def test_wrong_plans_are_said() -> None:
    wrong = {
        ("--crosstab", "2"): "--crosstab must be GROUPSxANSWERS, such as 3x2, got '2'",
        ("--crosstab", "1x2", "--epsilon", "2"): "groups must be in [2, 256], got 1",
        ("--crosstab", "2x2"): "--crosstab needs --epsilon, that of both answers together",
        ("--crosstab", "2x2", "--epsilon", "2", "--difference", "0"): "difference must be above 0 and below 1, got 0",
    }
    for arguments, message in wrong.items():
        with pytest.raises(Invalid) as error:
            plan(*arguments)
        assert message in str(error.value)
