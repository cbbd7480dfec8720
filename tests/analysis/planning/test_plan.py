"""The plan foretells: standard errors and power against exact tallies, and figures that are known from elsewhere."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import exp, inf
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from hubbub.analysis.kinds.published_rappor import rappor_at
from hubbub.analysis.kinds.string import string_shape
from hubbub.analysis.kinds.variances import tree_gain
from hubbub.analysis.planning.advice import slots_for, split_budget
from hubbub.analysis.planning.plan import Plan, epsilon_for, installs_for, power_of, share_for, unit_variance
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Flag, Range, String
from hubbub.protocol.registry import Registry
from tests.analysis.planning.planned_tallies import SHAPES, estimates, random_plan
from tests.chance import assert_binomial, power

F = Fraction
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "metrics.toml"
MANY = Choice(choices=tuple(map(str, range(1000))), absent="0")


def plan(**given) -> Plan:
    return Plan(**{"shape": MANY, "epsilon_one_report": F(2), "epsilon_permanent": F(4), **given})


# --- against simulation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHAPES)
def test_the_predicted_error_and_power_are_those_of_exact_tallies(name: str) -> None:
    """False alarm 1e-6 each. Had the plan's standard error been 20 % off, or its power 12 points, this would show."""
    tallies = 1_000
    asked = random_plan(np.random.default_rng([20261116, *name.encode()]), SHAPES[name])
    seen = estimates(asked, asked.share, tallies, [1, *name.encode()])
    squares = float(np.var(seen, ddof=1)) / asked.std_error() ** 2 * (tallies - 1)
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], tallies - 1)
    assert low < squares < high
    assert float(stats.chi2.sf(high / 1.2**2, tallies - 1)) > 0.95
    foretold = power_of(asked)
    assert foretold == pytest.approx(asked.power, abs=1e-6)
    assert_binomial(int((seen > asked.line).sum()), tallies, foretold)
    assert power(tallies, foretold, max(0.0, foretold - 0.12)) > 0.99


@pytest.mark.proof
def test_twenty_random_settings_of_ten_thousand_tallies_each(figure) -> None:
    rng = np.random.default_rng(20261116)
    worst_error = worst_power = 0.0
    for number in range(20):
        name = list(SHAPES)[number % len(SHAPES)]
        asked = random_plan(rng, SHAPES[name])
        seen = estimates(asked, asked.share, 10_000, [2, number])
        error = float(np.std(seen, ddof=1)) / asked.std_error() - 1
        points = float((seen > asked.line).mean()) - power_of(asked)
        figure(
            f"setting {number}: {name}, epsilon {float(asked.epsilon_one_report)}, {asked.reports:.0f} reports, "
            f"share {asked.share:.4%}",
            f"standard error {error:+.2%} of predicted, power {points:+.2%} of {power_of(asked):.1%}",
        )
        worst_error, worst_power = max(worst_error, abs(error)), max(worst_power, abs(points))
    figure("worst of 20 settings", f"standard error off by {worst_error:.2%}, power by {100 * worst_power:.2f} points")
    assert worst_error < 0.03
    assert worst_power < 0.03


# --- against what is known ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "epsilon", "reports"), [(0.01, 1, 826e3), (0.001, 1, 82.5e6), (0.001, 2, 16.2e6)])
def test_reports_needed_to_see_a_small_share(share: float, epsilon: int, reports: float) -> None:
    """Optimal unary encoding (Wang et al. 2017): (3.89 + 0.84)**2 4E/(E - 1)**2 / share**2 for 5 % over 1000 answers,
    of which each is tested on one side, and 80 % power."""
    found = installs_for(plan(share=share, epsilon_one_report=F(epsilon), epsilon_permanent=F(2 * epsilon)))
    assert found == pytest.approx(reports, rel=0.01)


def test_fewer_than_ten_holders_are_never_promised_to_be_seen() -> None:
    clear = plan(share=0.001, epsilon_one_report=F(16), epsilon_permanent=F(16))
    assert installs_for(clear) == pytest.approx(10_000)
    assert power_of(replace(clear, installs=9_000)) == 0


def test_fifty_thousand_reports_at_epsilon_2_show_shares_above_two_per_cent() -> None:
    assert share_for(plan(installs=50_000)) == pytest.approx(0.0182, abs=0.0001)


@pytest.mark.parametrize("unknown", ["installs", "share", "epsilon"])
def test_each_unknown_is_solved_so_that_the_power_is_reached(unknown: str) -> None:
    asked = plan(installs=200_000, share=0.012, power=0.9, consent=0.4)
    match unknown:
        case "installs":
            solved = replace(asked, installs=installs_for(asked))
        case "share":
            solved = replace(asked, share=share_for(asked))
        case _:
            one = F(round(epsilon_for(asked) * 1000), 1000)
            solved = replace(asked, epsilon_one_report=one, epsilon_permanent=max(one, F(4)))
    assert power_of(solved) == pytest.approx(0.9, abs=0.002)
    assert power_of(solved) > 0.9 - 1e-9


def test_one_cohort_of_strings_is_refused_because_decode_detects_nothing_there() -> None:
    with pytest.raises(Invalid, match="num_cohorts must be at least 2 to tell a listed string from others, got 1"):
        plan(shape=String(num_bits=64, num_hashes=1, num_cohorts=1))


def test_consent_counts_like_installs() -> None:
    """But for the next whole count, at which the line of detection is a little farther."""
    assert installs_for(plan(consent=0.25)) == pytest.approx(4 * installs_for(plan()), rel=1e-3)


def test_what_cannot_be_done_is_infinite() -> None:
    assert share_for(plan(installs=2)) == inf
    assert epsilon_for(plan(installs=3, share=0.001)) == inf


@pytest.mark.parametrize("branching", [2, 4])
def test_the_tree_gains_what_least_squares_gains(branching: int) -> None:
    shape = Range(low=F(0), high=F(1), num_leaves=branching**3, branching=branching)
    leaves = np.eye(shape.num_leaves)
    design = np.concatenate([leaves.reshape(shape.width(c), -1, shape.num_leaves).sum(axis=1) for c in range(3)])
    covariance = np.linalg.inv(design.T @ design)
    assert tree_gain(branching, 3) == pytest.approx(covariance[0, 0], rel=1e-12)


def test_one_bit_has_the_variance_of_warner() -> None:
    e = exp(1)
    noise = Flag().best_noise(F(1), F(2))
    assert unit_variance(Flag(), noise, 0.0) == pytest.approx(e / (e - 1) ** 2, rel=1e-5)


def test_rappor_at_its_own_epsilons_is_rappor_as_published() -> None:
    found = rappor_at(1.0743, 4.3945)
    assert (found.prob_f, found.prob_q) == pytest.approx((0.5, 0.75), abs=1e-3)
    assert found.unit_variance == pytest.approx(7.875, rel=0.01)


# --- advice -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("strings", "cohorts"), [(0, 16), (50, 16), (1_000, 512), (10_000, 4_096)])
def test_cells_are_enough_for_the_strings_expected(strings: int, cohorts: int) -> None:
    shape = string_shape(strings)
    assert shape.num_cohorts == cohorts
    assert shape.num_bits * shape.num_cohorts >= 20 * strings


def test_slots_last_nineteen_installs_of_twenty() -> None:
    """Against installs drawn one by one; 5 % of them may run out, and with one slot fewer more than that do."""
    rng = np.random.default_rng(5)
    slots = slots_for(0.05, 104)
    changes = rng.binomial(103, 0.05, size=20_000)
    assert (changes + 1 > slots.max_values).mean() < 0.055
    assert (changes + 1 > slots.max_values - 1).mean() > 0.055


def test_a_budget_is_spent_and_never_exceeded() -> None:
    registry = Registry.load(EXAMPLE)
    found = split_budget(registry, F(30))
    spent = sum(registry[name].max_values * permanent for name, (_, permanent) in found.items())
    assert F(29) < spent <= 30
    assert all(one <= permanent for one, permanent in found.values())
