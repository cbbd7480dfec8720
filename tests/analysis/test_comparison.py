"""Two epochs or releases side by side."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from hubbub.analysis import Options, compare, decode
from hubbub.analysis.render.text import change_in_words, comparison_table
from hubbub.analysis.result import Decoding
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Flag
from hubbub.protocol.tally import Counts, Tally
from tests.analysis.worlds import define, tally_of
from tests.chance import assert_binomial, power

METRIC = define(Choice(choices=("a", "b", "c")))


def side(counts, rng, **options):
    return decode(tally_of(METRIC, counts, rng), options=Options(**options))


def test_differences_of_different_installs_cover():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(500):
        found = compare(side([6_000, 3_000, 1_000, 0], rng), side([5_000, 4_000, 1_000, 0], rng))
        hits += bool(found.low[1] <= 0.1 <= found.high[1])
    assert_binomial(hits, 500, 0.95)
    assert power(500, 0.95, 0.85) > 0.99


def test_a_change_is_seen_and_no_change_is_not():
    rng = np.random.default_rng(2)
    before, after = side([600_000, 300_000, 100_000, 0], rng), side([500_000, 400_000, 100_000, 0], rng)
    found = compare(before, after)
    assert found.changed.tolist() == [True, True, False, False]
    text = comparison_table(found)
    assert "changed" in text
    assert "no change seen" in text
    assert "variances add" in text


def test_what_cannot_be_compared_is_refused_in_words():
    rng = np.random.default_rng(3)
    ours = side([10, 10, 10, 10], rng)
    with pytest.raises(Invalid, match="must have the same estimand, got 'reporting' and 'population'"):
        compare(ours, side([10, 10, 10, 10], rng, estimand="population"))
    with pytest.raises(Invalid, match="must have the same kind, got 'choice' and 'flag'"):
        compare(ours, decode(tally_of(define(Flag()), [10, 10], rng)))


@pytest.mark.parametrize(
    ("change", "ends", "sides", "words"),
    [
        (0.006, (-0.002, 0.014), (0.5, 0.506), ("+0.6 points", "-0.2 to +1.4 points")),
        (-0.000691, (-0.01, 0.009), (0.3, 0.2993), ("-0.1 points", "-1.0 to +0.9 points")),
        (0.0614, (0.0498, 0.0729), (0.0457, 0.107), ("+6.14 points", "+4.98 to +7.29 points")),
        (0.0003, (0.0001, 0.0005), (0.5, 0.5003), ("+0.03 points", "+0.01 to +0.05 points")),
        (-0.00001, (-np.inf, np.inf), (0.5, 0.5), ("0.0 points", "unknown to unknown points")),
    ],
)
def test_shares_differ_by_points_with_the_digits_of_the_sides(change, ends, sides, words) -> None:
    """It was `+0.60 %` and `-0.0691 %`: more digits the smaller the change, and percent of what?"""
    assert change_in_words(change, ends, sides, is_number=False) == words


def false_changes(installs: int, share: float, estimand: str, populations: int, epsilon: str = "8") -> tuple[int, int]:
    """Two crowds of one population, or two that hold the same, give one of twenty answers: how often a change is seen
    (each test by itself), and how often the interval holds no difference."""
    metric = define(Choice(choices=tuple(f"choice {i}" for i in range(20))), epsilon, epsilon)
    rng = np.random.default_rng([22, installs, round(1000 * share), *estimand.encode(), *epsilon.encode()])
    fixed = round(installs * share)

    @cache
    def decoded(ones: int) -> Decoding:
        """What is said of the first answer depends on its count alone."""
        counts = Counts((installs,), ((ones, *[0] * 19, installs - ones),))
        return decode(Tally(metric, {0: counts}), options=Options(estimand=estimand))

    def ones() -> int:
        held = fixed if estimand == "reporting" else int(rng.binomial(installs, share))
        (counts,) = tally_of(metric, [held, *[0] * 19, installs - held], rng).epochs.values()
        return counts.bit_counts[0][0]

    changed = held = 0
    for _ in range(populations):
        found = compare(decoded(ones()), decoded(ones()))
        changed += bool(found.p_value[0] <= 0.05)
        held += bool(found.low[0] <= 0 <= found.high[0])
    return changed, held


@pytest.mark.parametrize(("share", "estimand"), [(0.01, "reporting"), (0.05, "reporting"), (0.03, "population")])
def test_few_installs_show_no_change_where_there_is_none(share: float, estimand: str) -> None:
    """200 installs, epsilon 8: of the two who hold an answer none, one or both are counted. With a normal law at each
    side's own estimate, 12 % were said to have changed. Fewer than 5 % are allowed: such counts come in steps."""
    populations = 1_000
    changed, held = false_changes(200, share, estimand, populations)
    assert_binomial(max(changed, round(0.05 * populations)), populations, 0.05)
    assert_binomial(min(held, round(0.95 * populations)), populations, 0.95)
    assert power(populations, 0.05, 0.12) > 0.99


@pytest.mark.proof
@pytest.mark.parametrize("installs", [50, 200, 1_000, 20_000])
@pytest.mark.parametrize("share", [0.02, 0.04, 0.3])
@pytest.mark.parametrize("epsilon", ["1", "4", "8"])
@pytest.mark.parametrize("estimand", ["reporting", "population"])
def test_no_change_is_seen_where_there_is_none(installs, share, epsilon, estimand, figure) -> None:
    changed, held = false_changes(installs, share, estimand, 2_000, epsilon)
    figure(
        f"no change, {estimand}, n {installs}, share {share}, epsilon {epsilon}",
        f"said to have changed {changed / 2_000:.3f}, interval covers {held / 2_000:.3f}",
    )
    assert_binomial(max(changed, 100), 2_000, 0.05)
